//! Data channels of tabs in `bench link`: pages of a gateway, in which `www/link-trial.js` has an end of a link.
//! This process carries the words of both ends, as a gateway does.

use super::browser::{Browser, Tab};
use super::home;
use super::link::{Measured, Side, millis};
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use link::trial::{self, Figures};
use node_core::NodeId;
use node_core::overlay::signalling::{Candidate, Description, Reply, Request, Role, SessionId};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SESSION: SessionId = SessionId([1; 16]);
/// Between two looks at what the ends say.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Ends that are not connected by then will not be.
const PATIENCE: Duration = Duration::from_secs(20);

/// Words of an end for the other, as a tab has them (`web/node/src/link_end.rs`).
type Words = (Option<Description>, Vec<Candidate>);

/// Two tabs. The fields are ended in this order.
pub(super) struct Tabs {
    browser: Browser,
    both: [Tab; 2],
    _swarm: LocalSwarm,
    _home: TempDir,
}

impl Tabs {
    pub(super) fn open() -> Result<Tabs, Failure> {
        let home = home()?;
        let swarm = LocalSwarm::start(home.path(), 0, 0, 1)?;
        let mut browser = Browser::launch(home.path())?;
        let mut open = || -> Result<Tab, Failure> {
            let tab = browser.open(&format!("{}/run", swarm.gateway.url.trim_end_matches('/')))?;
            browser.wait(&tab, "document.readyState === 'complete' && location.pathname === '/run'")?;
            Ok(tab)
        };
        let both = [open()?, open()?];
        Ok(Tabs { browser, both, _swarm: swarm, _home: home })
    }

    pub(super) fn between(&mut self) -> Result<Measured, Failure> {
        let [a, b] = [self.end(0)?, self.end(1)?];
        let began = Instant::now();
        self.tell(0, "open", &json!([b, true, true]))?;
        self.tell(1, "open", &json!([a, false, false]))?;
        loop {
            let [(of_a, a), (of_b, b)] = [self.said(0)?, self.said(1)?];
            self.tell(1, "take", &json!([of_a]))?;
            self.tell(0, "take", &json!([of_b]))?;
            if a && b {
                break;
            }
            wait(began)?;
        }
        let connect_ms = millis(began);
        let figures = self.browser.evaluate(&self.both[0], "end.figures")?;
        let figure = |name: &str| figures[name].as_f64().unwrap_or(f64::NAN);
        let figures = Figures { mb_per_s: figure("mb_per_s"), rtt_ms: figure("rtt_ms") };
        Ok(Measured { figures, connect_ms })
    }

    pub(super) async fn with_native(&mut self, mut side: Side) -> Result<Measured, Failure> {
        let Some(channels) = &side.channels else {
            return Err(Failure::failed("this node has no data channels"));
        };
        let id = self.end(0)?;
        let peer: NodeId = id.parse().map_err(|_| Failure::failed("a tab's end has no id"))?;
        let began = Instant::now();
        channels.request(Request::Open { session: SESSION, peer, role: Role::Offers, mirror: None });
        self.tell(0, "open", &json!([side.link.id().to_string(), false, false]))?;
        loop {
            while let Ok(reply) = side.replies.try_recv() {
                let words: Words = match reply {
                    Reply::Described(_, it) => (Some(it), Vec::new()),
                    Reply::Found(_, them) => (None, them),
                    Reply::Opened(_) => continue,
                    Reply::Failed(_) => return Err(Failure::failed("the channel to the tab did not open")),
                };
                let bytes = rmp_serde::to_vec(&words).map_err(|e| Failure::failed(e.to_string()))?;
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                self.tell(0, "take", &json!([[digits]]))?;
            }
            let (said, connected) = self.said(0)?;
            for digits in said.as_array().into_iter().flatten().filter_map(Value::as_str) {
                let (described, found) = read(digits)?;
                described.into_iter().for_each(|it| channels.request(Request::Remote(SESSION, it)));
                channels.request(Request::Try(SESSION, found));
            }
            if connected {
                break;
            }
            wait(began)?;
            // The link takes in what has come.
            tokio::task::yield_now().await;
        }
        trial::connected(async || side.events.recv().await).await.map_err(Failure::failed)?;
        let connect_ms = millis(began);
        let leads = trial::lead(&side.link, peer, async || side.events.recv().await, || millis(began));
        Ok(Measured { figures: leads.await.map_err(Failure::failed)?, connect_ms })
    }

    /// A new end in a tab, in place of the last one; its id.
    fn end(&mut self, tab: usize) -> Result<String, Failure> {
        let script = "import('/link-trial.js').then(({ End }) => { globalThis.end?.close(); globalThis.end = new End(); return end.id })";
        let id = self.browser.evaluate(&self.both[tab], script)?;
        Ok(id.as_str().unwrap_or_default().to_owned())
    }

    fn tell(&mut self, tab: usize, what: &str, arguments: &Value) -> Result<Value, Failure> {
        self.browser.evaluate(&self.both[tab], &format!("end.{what}(...{arguments})"))
    }

    /// Words of a tab's end since the last call, and whether it is connected.
    fn said(&mut self, tab: usize) -> Result<(Value, bool), Failure> {
        let mut said = self.tell(tab, "said", &json!([]))?;
        Ok((said["words"].take(), said["connected"] == json!(true)))
    }
}

fn wait(began: Instant) -> Result<(), Failure> {
    if began.elapsed() > PATIENCE {
        return Err(Failure::failed(format!("no data channel opened within {} s", PATIENCE.as_secs())));
    }
    std::thread::sleep(LOOK_AGAIN);
    Ok(())
}

fn read(digits: &str) -> Result<Words, Failure> {
    let unreadable = || Failure::failed("a tab's end said what cannot be read");
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    rmp_serde::from_slice(&bytes.ok_or_else(unreadable)?).map_err(|_| unreadable())
}
