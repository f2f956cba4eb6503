//! An end of a data channel without a node, for `manyhands bench link` (`www/link-trial.js`).

use crate::browser;
use crate::channels::Channels;
use crate::driver::Input;
use crate::socket::WebSockets;
use futures::channel::mpsc::{self, UnboundedReceiver, UnboundedSender};
use futures::{StreamExt, select_biased};
use libp2p::Transport;
use libp2p::identity::Keypair;
use libp2p::swarm;
use link::{Events, Link, LinkOptions, Piping, trial};
use node_core::NodeId;
use node_core::overlay::signalling::{Candidate, Description, Reply, Request, Role, SessionId};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;
use web_driver::slot;

/// The one session of an end.
const SESSION: SessionId = SessionId([1; 16]);

/// Words of an end for the other: how it is recognised, and where it is.
type Words = (Option<Description>, Vec<Candidate>);

/// One end.
#[wasm_bindgen]
pub struct LinkEnd {
    link: Link,
    asked: UnboundedSender<Asked>,
    inputs: UnboundedSender<Input>,
}

enum Asked {
    Open { peer: NodeId, offers: bool, leads: bool },
    Words(Words),
}

#[wasm_bindgen]
impl LinkEnd {
    /// A link with a key of its own.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Result<LinkEnd, JsError> {
        let mut secret = browser::random_bytes().map_err(|e| JsError::new(&e))?;
        let key = Keypair::ed25519_from_bytes(&mut secret)?;
        let executor = swarm::Config::with_wasm_executor();
        let (pipes, piping) = link::pipes();
        let (link, events, mut runner) =
            link::start(&key, pipes.or_transport(WebSockets), executor, LinkOptions::default())?;
        runner.listen(&Piping::listening())?;
        spawn_local(runner.run());
        let (inputs, heard) = mpsc::unbounded();
        let (asked, questions) = mpsc::unbounded();
        let channels = Channels::new(link.clone(), piping, inputs.clone());
        spawn_local(run(link.clone(), events, channels, heard, questions));
        Ok(LinkEnd { link, asked, inputs })
    }

    /// The end's id, for the other one.
    pub fn id(&self) -> String {
        self.link.id().to_string()
    }

    /// Makes the channel with that end. The one that `leads` posts figures at the end.
    pub fn open(&self, peer: &str, offers: bool, leads: bool) -> Result<(), JsError> {
        let peer = peer.parse().map_err(|_| JsError::new("this is no id"))?;
        Ok(self.asked.unbounded_send(Asked::Open { peer, offers, leads })?)
    }

    /// Takes words of the other end.
    pub fn take(&self, words: &[u8]) -> Result<(), JsError> {
        let words = slot::decode("words of an end", words).map_err(|e| JsError::new(&e))?;
        Ok(self.asked.unbounded_send(Asked::Words(words))?)
    }

    /// Takes the page's word on the channel (`rtc` in `www/messages.js`).
    pub fn channel(&self, message: JsValue) {
        drop(self.inputs.unbounded_send(Input::Channel(message)));
    }
}

async fn run(
    link: Link,
    mut events: Events,
    mut channels: Channels,
    mut heard: UnboundedReceiver<Input>,
    mut asked: UnboundedReceiver<Asked>,
) {
    let mut with = None;
    let (peer, leads) = loop {
        let reply = select_biased! {
            question = asked.next() => match question {
                Some(Asked::Open { peer, offers, leads }) => {
                    with = Some((peer, leads));
                    let role = if offers { Role::Offers } else { Role::Answers };
                    channels.request(Request::Open { session: SESSION, peer, role, mirror: None });
                    None
                }
                Some(Asked::Words((described, found))) => {
                    described.into_iter().for_each(|it| channels.request(Request::Remote(SESSION, it)));
                    channels.request(Request::Try(SESSION, found));
                    None
                }
                None => return,
            },
            input = heard.next() => match input {
                Some(Input::Channel(message)) => channels.said(&message),
                Some(Input::Opened(session)) => channels.opened(session),
                _ => None,
            },
        };
        match reply {
            Some(Reply::Described(_, it)) => say(&(Some(it), Vec::new())),
            Some(Reply::Found(_, them)) => say(&(None, them)),
            Some(Reply::Failed(_)) => return failed("the channel did not open"),
            // The other end may still have something to say of itself, which no longer counts.
            Some(Reply::Opened(_)) => match with {
                Some(with) => break with,
                None => return,
            },
            None => {}
        }
    };
    let mut next = async || events.next().await;
    let figures = async {
        trial::connected(&mut next).await?;
        browser::post(&[("type", &"connected".into())]);
        match leads {
            true => trial::lead(&link, peer, &mut next, browser::now_ms).await.map(Some),
            false => trial::follow(&link, peer, &mut next).await.map(|()| None),
        }
    };
    match figures.await {
        Ok(figures) => {
            let (mb_per_s, rtt_ms) = figures.map_or((0.0, 0.0), |it| (it.mb_per_s, it.rtt_ms));
            let figures = [("mb_per_s", &mb_per_s.into()), ("rtt_ms", &rtt_ms.into())];
            browser::post(&[&[("type", &"figures".into())], &figures[..]].concat());
        }
        Err(why) => failed(&why),
    }
    // It lasts as long as its page: what was written last has to arrive.
    while events.next().await.is_some() {}
}

fn say(words: &Words) {
    match slot::encode("words of an end", words) {
        Ok(bytes) => {
            let bytes = js_sys::Uint8Array::from(&bytes[..]);
            browser::post(&[("type", &"words".into()), ("words", &bytes)]);
        }
        Err(why) => failed(&why),
    }
}

fn failed(why: &str) {
    browser::post(&[("type", &"failed".into()), ("why", &why.into())]);
}
