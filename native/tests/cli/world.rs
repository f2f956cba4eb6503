//! What the stories play in: a folder for everything, and processes that end with it.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Nothing here takes this long unless it hangs: a file may wait a minute for sellers, and is given then.
const PATIENCE: Duration = Duration::from_secs(150);

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
        let target = Path::new(env!("CARGO_BIN_EXE_manyhands")).ancestors().nth(2).unwrap();
        let module = target.join("wasm/wasm32-wasip1/release").join(name).with_extension("wasm");
        assert!(module.exists(), "{} is missing; build.rs makes it", module.display());
        module
    }

    /// `manyhands …` in this world, not started yet. Nothing of the person who runs the tests counts.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manyhands"));
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
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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

    /// The same in a time zone that a story can reckon in.
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
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let lines = lines(child.stderr.take().unwrap());
        Process { child, lines, stdout: Some(stdout) }
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
                Err(e) => panic!("{words:?} was not said ({e}) but: {said:#?}"),
            }
        }
    }

    /// Its end: the code, and what it wrote to standard output.
    pub(crate) fn ends(mut self) -> (i32, String) {
        let code = code_of(&mut self.child);
        let stdout = self.stdout.take().unwrap().join().unwrap();
        (code, String::from_utf8_lossy(&stdout).into_owned())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
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
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
        Node { child, url: word("http"), id: word("node"), token: word("token"), addresses }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to end, and returns its exit code.
    pub(crate) fn end(mut self, signal: Option<&str>) -> i32 {
        match signal {
            Some(name) => {
                let pid = self.child.id().to_string();
                assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
            }
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

/// Waits for a process; one that does not end is killed, and its story with it.
fn code_of(child: &mut Child) -> i32 {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return status.code().unwrap_or(-1),
            None if Instant::now() > until => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("a process did not end within {PATIENCE:?}");
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
