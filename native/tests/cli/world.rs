//! World that the stories play in: a folder for everything, and processes that end with it.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No story waits longer for one thing: long enough for a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exception is trade: a market opens 45 s after it began, and a search for sellers goes on for a
/// minute. A command may have to wait for that, too.
const TRADE: Duration = Duration::from_secs(120);

/// Between two looks. Without a pause these would take the processor from what is waited for.
const PAUSE: Duration = Duration::from_millis(100);

/// The first that `look` finds, where it has to do with markets.
#[track_caller]
pub(crate) fn until_traded<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_within(TRADE, what, look)
}

#[track_caller]
fn until_within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < patience, "after {patience:?} still not: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// Waits until it `holds`.
#[track_caller]
pub(crate) fn until_so(what: &str, mut holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, || holds().then_some(()));
}

/// The folder of the examples, for commands that run in any folder. Cargo runs the tests in the folder `native`.
pub(crate) fn examples() -> PathBuf {
    std::path::absolute("../examples").unwrap()
}

/// Follows a unit, as the API tells it, until it is `enough`. Fails when nothing of it but the number of its
/// placements changes for [`PATIENCE`], and at once when it has ended otherwise: a unit that has ended changes no
/// more.
#[track_caller]
pub(crate) fn unit_until(world: &World, job: &str, enough: impl Fn(&Value) -> bool) -> Value {
    let (mut last, mut changed) = (Value::Null, Instant::now());
    loop {
        let seen = world.run(["unit", job, "--output", "json"]).ok().json();
        if enough(&seen) {
            return seen;
        }
        let over = ["done", "failed", "cancelled"].iter().any(|state| seen["state"] == *state);
        assert!(!over, "the unit has ended, and so it stays: {seen}");
        let mut stands = seen.clone();
        stands.as_object_mut().unwrap().remove("attempts");
        if stands != last {
            (last, changed) = (stands, Instant::now());
        }
        assert!(changed.elapsed() < PATIENCE, "for {PATIENCE:?} it has stood at {seen}");
        std::thread::sleep(PAUSE);
    }
}

/// A process that ends with the thread that starts it, however that ends: a story that is killed
/// leaves nothing behind.
fn spawn(command: &mut Command) -> Child {
    let ours = std::process::id();
    let tied = move || {
        #[cfg(target_os = "linux")]
        {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have ended just before.
            let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
            if parent != i32::try_from(ours).ok() {
                return Err(std::io::Error::other("the story has ended"));
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls, allocates nothing on the way of success, and
    // takes no lock.
    unsafe { command.pre_exec(tied) };
    command.spawn().unwrap()
}

/// A machine on which nothing is set up.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        World { dir: tempfile::Builder::new().prefix("manyhands-test-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file of this content, with the folders above it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A program, from its text.
    pub(crate) fn program(&self, name: &str, wat: &str) -> PathBuf {
        self.file(name, wat::parse_str(wat).unwrap())
    }

    /// An example task, as the build made it.
    pub(crate) fn example(&self, name: &str) -> PathBuf {
        let target = Path::new(crate::BINARY).ancestors().nth(2).unwrap();
        let module = target.join("wasm/wasm32-wasip1/release").join(name).with_extension("wasm");
        assert!(module.exists(), "{} is missing; build.rs makes it", module.display());
        module
    }

    /// `manyhands …` in this world, not started yet. Nothing of the person who runs the tests counts.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(crate::BINARY);
        command.args(arguments).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MANYHANDS_") {
                command.env_remove(name);
            }
        }
        command
            .env("MANYHANDS_DATA", self.path("data"))
            .env("MANYHANDS_CONFIG", self.file("config.toml", ""));
        command.env("XDG_CONFIG_HOME", self.path("none"));
        command
    }

    /// Runs `manyhands …` to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
        self.run_with(arguments, b"")
    }

    pub(crate) fn run_with<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        stdin: &[u8],
    ) -> Ran {
        let mut command = self.command(arguments);
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut into = child.stdin.take().unwrap();
        let stdin = stdin.to_vec();
        // Programs that do not read it close it early.
        std::thread::spawn(move || drop(into.write_all(&stdin)));
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        let code = code_of(&mut child);
        let stderr = String::from_utf8_lossy(&stderr.join().unwrap()).into_owned();
        Ran { code, stdout: stdout.join().unwrap(), stderr }
    }

    /// `manyhands up …`, ready.
    pub(crate) fn up(&self, data: &str, arguments: &[&str]) -> Node {
        let mut command = self.command(["up", "--ready-json", "--until-stdin-closes"]);
        command.args(arguments).arg("--data").arg(self.path(data));
        Node::started(command)
    }

    /// [`Self::gateway`] in UTC: a time zone that a story can reckon in.
    pub(crate) fn utc_gateway(&self, slots: u32) -> Node {
        let slots = slots.to_string();
        let mut command = self.command(["up", "--ready-json", "--until-stdin-closes", "--gateway"]);
        command.args(["--http-port", "0", "--p2p-port", "0", "--slots", &slots]).env("TZ", "UTC");
        Node::started(command)
    }

    /// A gateway on the world's own data folder, on any ports.
    pub(crate) fn gateway(&self, slots: u32) -> Node {
        let slots = slots.to_string();
        self.up("data", &["--gateway", "--http-port", "0", "--p2p-port", "0", "--slots", &slots])
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// It ended with this code, and said why.
    #[track_caller]
    pub(crate) fn failed(self, code: i32, words: &[&str]) -> Ran {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {:?}", self.stderr);
        }
        self
    }
}

/// A process under way, killed with its story.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    stdout: Option<std::thread::JoinHandle<Vec<u8>>>,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Process {
        let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let stdout = collect(child.stdout.take().unwrap());
        let lines = lines(child.stderr.take().unwrap());
        Process { child, lines, stdout: Some(stdout) }
    }

    /// [`World::gateway`], with all that it prints in this file.
    pub(crate) fn redirected(mut command: Command, into: &Path) -> Process {
        let file = std::fs::File::create(into).unwrap();
        let child = spawn(command.stdout(file.try_clone().unwrap()).stderr(file).stdin(Stdio::null()));
        let (_, lines) = mpsc::channel();
        Process { child, lines, stdout: None }
    }

    /// Waits until it says on standard error what contains this.
    #[track_caller]
    pub(crate) fn says(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => said.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    panic!("the process has ended and will not say {words:?}; it said: {said:#?}")
                }
                Err(e) => panic!("{words:?} was not said ({e}) but: {said:#?}"),
            }
        }
    }

    /// Its end: the code, and what it wrote to standard output.
    pub(crate) fn ends(mut self) -> (i32, String) {
        let code = code_of(&mut self.child);
        let stdout = self.stdout.take().map(|stdout| stdout.join().unwrap()).unwrap_or_default();
        (code, String::from_utf8_lossy(&stdout).into_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        send_signal(&self.child, name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node under way.
pub(crate) struct Node {
    child: Child,
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) addresses: Vec<String>,
}

impl Node {
    fn started(mut command: Command) -> Node {
        let mut child = spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let stderr = collect(child.stderr.take().unwrap());
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("not ready: {}", String::from_utf8_lossy(&stderr.join().unwrap()));
        };
        let word = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
        let addresses = ready["addresses"].as_array().unwrap();
        let addresses = addresses.iter().map(|a| a.as_str().unwrap().to_owned()).collect();
        // A worker has none.
        let token = ready["token_file"].as_str().map(|file| std::fs::read_to_string(file).unwrap());
        let token = token.unwrap_or_default().trim().to_owned();
        Node { child, url: word("http"), id: word("node"), token, addresses }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to end, and returns its exit code.
    pub(crate) fn end(mut self, signal: Option<&str>) -> i32 {
        match signal {
            Some(name) => send_signal(&self.child, name),
            None => drop(self.child.stdin.take()),
        }
        code_of(&mut self.child)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send_signal(child: &Child, name: &str) {
    use rustix::process::{Pid, Signal, kill_process};
    let signal = match name {
        "INT" => Signal::INT,
        "TERM" => Signal::TERM,
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        other => panic!("no story sends {other}"),
    };
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits for a process; one that does not end is killed, and its story with it.
fn code_of(child: &mut Child) -> i32 {
    let until = Instant::now() + TRADE;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code().unwrap_or(-1),
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("a process did not end within {TRADE:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let _ = from.read_to_end(&mut all);
        all
    })
}

fn lines(from: ChildStderr) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}
