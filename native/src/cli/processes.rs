//! A swarm of processes on this machine, for the demo and the benchmarks.

use super::client::{Client, Endpoint};
use super::failure::Failure;
use crate::paths::{DataFolder, write_private};
use crate::text::printable;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// For a node to start. Our choice: a machine that is busy building something else.
const START: Duration = Duration::from_secs(60);
/// For a node to end when it is told to; its own patience and a little.
pub(super) const END: Duration = Duration::from_secs(8);

/// Policy of the nodes that a command starts: its person waits for them, plugged in or not.
const WILLING: &[u8] = b"run_on_batteries = true\nbattery_charge_min_pct = 0\n";

/// A gateway and its workers, each a process of its own; ended when dropped.
pub(super) struct LocalSwarm {
    // In the order of their end.
    pub(super) workers: Vec<LocalNode>,
    pub(super) gateway: LocalNode,
}

impl LocalSwarm {
    /// Starts a gateway that only organises, so that all work visibly travels, and `workers`
    /// with this many slots each. Everything they keep lies below `home`.
    pub(super) fn start(
        home: &Path,
        http_port: u16,
        workers: usize,
        slots: u32,
    ) -> Result<LocalSwarm, Failure> {
        LocalSwarm::start_with(home, http_port, (workers, slots), &[])
    }

    /// [`LocalSwarm::start`] with workers that have an API too, so that each can be asked for its figures.
    pub(super) fn start_open(home: &Path, workers: usize, slots: u32) -> Result<LocalSwarm, Failure> {
        let ports = ["--gateway", "--http-port", "0", "--p2p-port", "0", "--ws-port", "0"];
        LocalSwarm::start_with(home, 0, (workers, slots), &ports)
    }

    fn start_with(
        home: &Path,
        http_port: u16,
        (workers, slots): (usize, u32),
        more: &[&str],
    ) -> Result<LocalSwarm, Failure> {
        let port = http_port.to_string();
        let ports = ["--http-port", &port, "--p2p-port", "0", "--ws-port", "0"];
        let gateway = [&["--gateway", "--slots", "0"][..], &ports].concat();
        let gateway = LocalNode::start(home, "gateway", &gateway)?;
        let slots = slots.to_string();
        let worker = |at: usize| {
            let arguments = [&["--join", &gateway.url, "--slots", &slots, "--fail-fast"][..], more].concat();
            LocalNode::start(home, &format!("worker-{at}"), &arguments)
        };
        let workers = (1..=workers).map(worker).collect::<Result<_, _>>()?;
        Ok(LocalSwarm { gateway, workers })
    }

    pub(super) fn client(&self) -> Client {
        self.gateway.client()
    }

    pub(super) fn dashboard(&self) -> String {
        format!("{}/dashboard#token={}", self.gateway.url, self.gateway.token)
    }

    /// A swarm whose workers are all gone would be waited for until the end of time.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.workers.first() {
            Some(first) if self.workers.iter().all(LocalNode::is_gone) => {
                Err(Failure::failed(format!("all workers have ended\n{}", first.last_words())))
            }
            _ => Ok(()),
        }
    }
}

/// One process. It ends when its standard input closes, and so with us, however
/// we end.
pub(super) struct LocalNode {
    name: String,
    child: std::cell::RefCell<Child>,
    pub(super) url: String,
    pub(super) token: String,
    log: PathBuf,
}

impl LocalNode {
    fn start(home: &Path, name: &str, arguments: &[&str]) -> Result<LocalNode, Failure> {
        let failed = |what: String| Failure::failed(format!("the process of {name} {what}"));
        let exe = std::env::current_exe().map_err(|e| failed(format!("cannot be started: {e}")))?;
        let log = home.join(format!("{name}.log"));
        let stderr = std::fs::File::create(&log).map_err(|e| failed(format!("cannot write its log: {e}")))?;
        let folder = DataFolder::choose(Some(home.join(name)))?;
        folder.create()?;
        write_private(&folder.policy(), WILLING, true)?;
        let mut command = Command::new(exe);
        command
            .args(["up", "--ready-json", "--until-stdin-closes", "--name", name])
            .args(arguments)
            .arg("--data")
            .arg(folder.dir())
            // Nothing of the person's own swarm counts here.
            .args(["--config", NO_CONFIG])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("MANYHANDS_UP_") {
                command.env_remove(variable);
            }
        }
        let mut child = command.spawn().map_err(|e| failed(format!("cannot be started: {e}")))?;
        let ready = child.stdout.take().map(first_line);
        let child = std::cell::RefCell::new(child);
        let mut node = LocalNode { name: name.into(), child, url: String::new(), token: String::new(), log };
        let line = ready.and_then(|ready| ready.recv_timeout(START).ok()).filter(|line| !line.is_empty());
        let said = line.and_then(|line| serde_json::from_str::<Ready>(&line).ok());
        match said {
            Some(ready) => {
                node.url = ready.http.unwrap_or_default();
                if let Some(file) = ready.token_file {
                    node.token = crate::token::read(&file)?;
                }
                Ok(node)
            }
            None => Err(failed(format!("did not start\n{}", node.last_words()))),
        }
    }

    /// A client of this node's own API, if it has one.
    pub(super) fn client(&self) -> Client {
        Client::new(Endpoint { url: self.url.clone(), token: Some(self.token.clone()) })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    fn is_gone(&self) -> bool {
        !matches!(self.child.borrow_mut().try_wait(), Ok(None))
    }

    /// The end of its log.
    fn last_words(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> =
            log.lines().rev().take(5).map(|line| format!("  {}: {}", self.name, printable(line))).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // This tells it to end.
        drop(child.stdin.take());
        let deadline = Instant::now() + END;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A settings file that says nothing.
const NO_CONFIG: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// Message that a node prints when it is ready.
#[derive(serde::Deserialize)]
struct Ready {
    http: Option<String>,
    token_file: Option<PathBuf>,
}

/// The first line of what a process prints; empty if it ends before.
fn first_line(out: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (said, hears) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let mut out = BufReader::new(out);
        let _ = out.read_line(&mut line);
        let _ = said.send(line);
        // It may print more and must not be stopped by a full pipe.
        let _ = std::io::copy(&mut out, &mut std::io::sink());
    });
    hears
}
