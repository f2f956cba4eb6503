//! A headless Chromium, driven over its debugging pipe (DevTools protocol): no port, no
//! further program.

use crate::cli::failure::Failure;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// For the browser to start, and for a page to do what is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a page.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: mpsc::Receiver<Value>,
    next: u64,
}

/// A page, by the session in which it is spoken to.
pub(super) struct Tab {
    session: String,
}

impl Browser {
    /// Starts `$CHROMIUM`, or the first Chromium on the path, with a profile below `home`.
    pub(super) fn launch(home: &Path) -> Result<Browser, Failure> {
        let named = std::env::var("CHROMIUM").ok();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let name =
            named.as_deref().or_else(|| names.into_iter().find(|name| on_path(name))).ok_or_else(|| {
                Failure::failed("no Chromium was found; install it, or name it in the variable CHROMIUM")
            })?;
        let profile = format!("--user-data-dir={}", home.join("chromium").display());
        // The pipe is file descriptors 3 and 4; the shell puts our pipes there.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#, name])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu"])
            // As root there is no sandbox; the pages are our own.
            .args(["--no-sandbox", "--disable-quic", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", &profile])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| Failure::failed(format!("{name} cannot be started: {e}")))?;
        let (Some(commands), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::failed("the browser's pipe is missing"));
        };
        let (said, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut message = Vec::new();
            while out.read_until(0, &mut message).is_ok_and(|n| n > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && said.send(value).is_err()
                {
                    break;
                }
                message.clear();
            }
        });
        Ok(Browser { child, commands, answers, next: 1 })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens an address in a tab of its own.
    pub(super) fn open(&mut self, url: &str) -> Result<Tab, Failure> {
        let target = self.call(None, "Target.createTarget", &json!({ "url": url }))?;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.call(None, "Target.attachToTarget", &attach)?;
        Ok(Tab { session: attached["sessionId"].as_str().unwrap_or_default().to_owned() })
    }

    /// The value of an expression in the page; a promise is awaited.
    pub(super) fn evaluate(&mut self, tab: &Tab, expression: &str) -> Result<Value, Failure> {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call(Some(tab), "Runtime.evaluate", &parameters)?;
        match answer.get("exceptionDetails") {
            Some(exception) => Err(Failure::failed(format!("in the page: {exception}"))),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until an expression is true. While a page is on its way it has no value.
    pub(super) fn wait(&mut self, tab: &Tab, condition: &str) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.evaluate(tab, condition);
            if matches!(seen, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if Instant::now() > deadline {
                seen?;
                let patience = PATIENCE.as_secs();
                return Err(Failure::failed(format!("after {patience} s the page still not: {condition}")));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Opens the donate page and waits until it can be started.
    pub(super) fn open_donate_page(&mut self, url: &str) -> Result<Tab, Failure> {
        let tab = self.open("about:blank")?;
        // A person waits for this tab, plugged in or not: a tab without a battery spares none.
        let script = json!({ "source": "delete Navigator.prototype.getBattery" });
        self.call(Some(&tab), "Page.addScriptToEvaluateOnNewDocument", &script)?;
        self.call(Some(&tab), "Page.navigate", &json!({ "url": url }))?;
        self.wait(
            &tab,
            "document.readyState === 'complete' && document.querySelector('#start')?.disabled === false",
        )?;
        Ok(tab)
    }

    fn call(&mut self, tab: Option<&Tab>, method: &str, parameters: &Value) -> Result<Value, Failure> {
        let id = self.next;
        self.next += 1;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if let Some(tab) = tab {
            command["sessionId"] = json!(tab.session);
        }
        let gone = || Failure::failed(format!("the browser ended during {method}"));
        write!(self.commands, "{command}\0").and_then(|()| self.commands.flush()).map_err(|_| gone())?;
        let deadline = Instant::now() + PATIENCE * 2;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut answer = self.answers.recv_timeout(left).map_err(|_| gone())?;
            if answer["id"] == json!(id) {
                return match answer.get("error") {
                    Some(error) => Err(Failure::failed(format!("the browser refused {method}: {error}"))),
                    None => Ok(answer["result"].take()),
                };
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Politely, so that its own children end too; then surely.
        drop(write!(self.commands, "{}\0", json!({ "id": 0, "method": "Browser.close" })));
        drop(self.commands.flush());
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                drop(self.child.kill());
                drop(self.child.wait());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
