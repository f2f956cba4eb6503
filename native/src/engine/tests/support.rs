//! An engine with a data folder of its own, and what one waits for.

use super::super::compiler::Bounds;
use super::super::process::COMPILER;
use super::super::{Engine, EngineOptions};
use crate::storage::Staging;
use node_core::content::{BlobRef, Data};
use node_core::ids::BlobId;
use node_core::{EngineReply, EngineRequest, EngineTask, NoSnapshot, RunId, Taken};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags};
use sandbox::{End, Limits, Outcome};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// No test waits longer for one answer: long enough for a machine under load.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct World {
    folder: Arc<TempDir>,
    pub(super) engine: Engine,
    staging: Staging,
    replies: mpsc::Receiver<EngineReply>,
    /// Replies that came before their test asked for them.
    early: BTreeMap<u64, EngineReply>,
}

impl World {
    pub(super) fn new(slots: u32) -> World {
        let folder = tempfile::tempdir().unwrap();
        World::on(Arc::new(folder), slots)
    }

    /// A second engine on the same folder.
    pub(super) fn beside(other: &World, slots: u32) -> World {
        World::on(other.folder.clone(), slots)
    }

    fn on(folder: Arc<TempDir>, slots: u32) -> World {
        let mut command = World::slot_command(folder.path());
        let exe = command.remove(0).into();
        World::with(folder, slots, exe, command)
    }

    /// One slot, started by a shell script whose arguments are what starts a slot.
    pub(super) fn with_launcher(script: impl FnOnce(&str) -> String) -> World {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let script = script(folder.path().to_str().unwrap());
        let mut arguments: Vec<OsString> = vec!["-c".into(), script.into(), "launcher".into()];
        arguments.extend(World::slot_command(folder.path()));
        World::with(folder, 1, "/bin/sh".into(), arguments)
    }

    /// One slot, and compilers that have these bounds.
    pub(super) fn with_bounds(bounds: Bounds) -> World {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let mut command = World::slot_command(folder.path());
        let exe = command.remove(0).into();
        World::bounded(folder, 1, (exe, command), bounds)
    }

    fn slot_command(folder: &Path) -> Vec<OsString> {
        let exe = std::env::current_exe().unwrap().into();
        let rest = ["--exact", "engine::tests::slot", "--ignored", "--nocapture", "--test-threads=1"];
        // The folder matches no test; it tells the slots of one engine from those of others.
        std::iter::once(exe).chain(rest.map(OsString::from)).chain([folder.into()]).collect()
    }

    /// Command that starts a slot of this world: a program and its arguments.
    pub(super) fn launcher(&self) -> (PathBuf, Vec<OsString>) {
        let mut command = World::slot_command(self.path());
        let exe = command.remove(0).into();
        (exe, command)
    }

    pub(super) fn with_exe(exe: &str) -> World {
        World::with(Arc::new(tempfile::tempdir().unwrap()), 1, exe.into(), Vec::new())
    }

    pub(super) fn with(folder: Arc<TempDir>, slots: u32, exe: PathBuf, arguments: Vec<OsString>) -> World {
        World::bounded(folder, slots, (exe, arguments), Bounds::default())
    }

    fn bounded(
        folder: Arc<TempDir>,
        slots: u32,
        (exe, arguments): (PathBuf, Vec<OsString>),
        bounds: Bounds,
    ) -> World {
        let (send, replies) = mpsc::channel();
        let blob_dir = folder.path().join("blobs");
        let cache_dir = folder.path().join("cache");
        let name = |number: u32| folder.path().join(format!("partial{number}"));
        let free = |dir: &PathBuf| std::fs::create_dir(dir).is_ok();
        std::fs::create_dir_all(&blob_dir).unwrap();
        let partial = std::iter::once(folder.path().join("partial")).chain((2..).map(name)).find(free);
        let staging = Staging::new(partial.unwrap());
        let options = EngineOptions {
            exe,
            blob_dir,
            staging: staging.clone(),
            cache_dir,
            slots,
            cpu_share: 100,
            background: false,
        };
        let reply = move |reply| {
            let _ = send.send(reply);
        };
        let engine = Engine::start_as(options, arguments, bounds, Arc::new(reply));
        World { folder, engine, staging, replies, early: BTreeMap::new() }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn blob_path(&self, id: BlobId) -> PathBuf {
        let name = id.to_string();
        self.path().join("blobs").join(&name[..2]).join(name)
    }

    pub(super) fn store(&self, bytes: &[u8]) -> BlobRef {
        let id = BlobId::of(bytes);
        let path = self.blob_path(id);
        // Written once: a slot may be reading it.
        if !path.exists() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        BlobRef { id, len: bytes.len() as u64 }
    }

    /// A task that runs `_start` with this body; `more` stands beside it.
    pub(super) fn task(&self, body: &str, more: &str) -> EngineTask {
        let text = format!(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write"
                    (func $write (param i32 i32 i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "args_sizes_get"
                    (func $sizes (param i32 i32) (result i32)))
                (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
                (memory (export "memory") 1)
                {more}
                (func (export "_start") {body}))"#
        );
        self.program(&wat::parse_str(text).unwrap())
    }

    pub(super) fn program(&self, wasm: &[u8]) -> EngineTask {
        EngineTask {
            program: self.store(wasm).id,
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Data::EMPTY,
            files: Vec::new(),
            limits: Limits::default(),
            seed: 1,
            bit_exact: false,
            key: Default::default(),
            from: None,
            thread: None,
        }
    }

    /// Prints `hello`, one iov at 0.
    pub(super) fn hello(&self) -> EngineTask {
        self.task(
            "(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 100)))",
            r#"(data (i32.const 0) "\10\00\00\00\06\00\00\00") (data (i32.const 16) "hello\n")"#,
        )
    }

    pub(super) fn endless(&self) -> EngineTask {
        self.task("(loop $again (br $again))", "")
    }

    pub(super) fn run(&self, run: u64, task: EngineTask) {
        self.engine.request(EngineRequest::Run { run: RunId(run), task });
    }

    /// Has what the task goes on from got ready.
    #[track_caller]
    pub(super) fn prepare(&mut self, run: u64, task: EngineTask) {
        self.engine.request(EngineRequest::Prepare { run: RunId(run), task });
        match self.reply(run) {
            EngineReply::Prepared { .. } => {}
            other => panic!("run {run}: {other:?}"),
        }
    }

    pub(super) fn ask(&self, request: EngineRequest) {
        self.engine.request(request);
    }

    pub(super) fn kill(&self, run: u64) {
        self.engine.request(EngineRequest::Kill { run: RunId(run) });
    }

    /// The next answer, to whichever run.
    pub(super) fn any(&mut self) -> (u64, EngineReply) {
        if let Some(early) = self.early.pop_first() {
            return early;
        }
        let reply = self.next();
        (reply.run().expect("an answer to a run").0, reply)
    }

    /// The next answer; that a run goes on is none.
    pub(super) fn next(&mut self) -> EngineReply {
        loop {
            let reply = self.replies.recv_timeout(PATIENCE).expect("an answer");
            if !matches!(reply, EngineReply::Resumed { .. }) {
                return reply;
            }
        }
    }

    /// Waits until the run goes on from its snapshot.
    pub(super) fn resumed(&mut self, run: u64) {
        loop {
            let reply = self.replies.recv_timeout(PATIENCE).expect("an answer");
            let of = reply.run().expect("an answer to a run").0;
            match reply {
                EngineReply::Resumed { .. } if of == run => return,
                reply => assert!(self.early.insert(of, reply).is_none(), "a second answer"),
            }
        }
    }

    fn reply(&mut self, run: u64) -> EngineReply {
        if let Some(reply) = self.early.remove(&run) {
            return reply;
        }
        loop {
            let reply = self.next();
            let other = reply.run().expect("an answer to a run").0;
            if other == run {
                return reply;
            }
            assert!(self.early.insert(other, reply).is_none(), "a second answer");
        }
    }

    #[track_caller]
    pub(super) fn outcome(&mut self, run: u64) -> Outcome {
        match self.reply(run) {
            EngineReply::Ended { outcome, .. } => outcome,
            other => panic!("run {run}: {other:?}"),
        }
    }

    pub(super) fn ask_snapshot(&self, run: u64, stop: bool) {
        self.engine.request(EngineRequest::Snapshot { run: RunId(run), stop });
    }

    /// The next answer, which is a snapshot of this run.
    #[track_caller]
    pub(super) fn taken(&mut self, run: u64, stop: bool) -> Taken {
        match self.reply(run) {
            EngineReply::Snapshot { taken: Ok(taken), stopped, .. } if stopped == stop => taken,
            other => panic!("run {run}: {other:?}"),
        }
    }

    /// Content of a snapshot that is here.
    pub(super) fn content(&self, taken: &Taken) -> Vec<u8> {
        self.staging.peek(taken.blob.id).expect("a snapshot that waits")
    }

    /// Makes a snapshot a blob, as the node does.
    pub(super) fn store_taken(&self, taken: &Taken) -> BlobRef {
        let stored = self.store(&self.content(taken));
        assert_eq!(stored, taken.blob);
        stored
    }

    /// Files that slots were given to write.
    pub(super) fn unfinished(&self) -> usize {
        self.staging.files()
    }

    /// Waits until this is so.
    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn(&World) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "not so: {what}");
            std::thread::yield_now();
        }
    }

    /// Asks for a snapshot and waits for it.
    #[track_caller]
    pub(super) fn snapshot(&mut self, run: u64, stop: bool) -> Result<Taken, NoSnapshot> {
        self.ask_snapshot(run, stop);
        match self.reply(run) {
            EngineReply::Snapshot { taken, stopped, .. } => {
                assert_eq!(stopped, stop && !matches!(taken, Err(NoSnapshot::Immobile(_))));
                taken
            }
            other => panic!("run {run}: {other:?}"),
        }
    }

    /// Until the run has begun: only then is there something to take.
    #[track_caller]
    pub(super) fn first_snapshot(&mut self, run: u64) -> Taken {
        loop {
            match self.snapshot(run, false) {
                Ok(taken) => return taken,
                Err(NoSnapshot::NotBegun) => std::thread::yield_now(),
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn share(&self, percent: u8) {
        self.engine.share(percent);
    }

    pub(super) fn pause(&self, run: u64, paused: bool) {
        self.engine.request(EngineRequest::Pause { run: RunId(run), paused });
    }

    #[track_caller]
    pub(super) fn broken(&mut self, run: u64) -> String {
        match self.reply(run) {
            EngineReply::Broken { error, .. } => error,
            other => panic!("run {run}: {other:?}"),
        }
    }

    /// Runs a task to its end.
    #[track_caller]
    pub(super) fn end(&mut self, task: EngineTask) -> End {
        self.run(u64::MAX, task);
        self.outcome(u64::MAX).end
    }

    /// That nothing more was answered, once the engine has stopped.
    pub(super) fn silent(self) {
        self.engine.stop();
        assert!(self.early.is_empty(), "{:?}", self.early);
        assert!(self.replies.try_recv().is_err());
    }

    /// The processes of its slots.
    pub(super) fn slots(&self) -> Vec<Pid> {
        self.processes(|name| name != COMPILER.as_bytes())
    }

    /// Its processes with such a name: they have its folder on their command line.
    pub(super) fn processes(&self, with: impl Fn(&[u8]) -> bool) -> Vec<Pid> {
        let marker = self.path().as_os_str().as_bytes();
        let mut found = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let mut arguments = line.split(|byte| *byte == 0);
            if arguments.next().is_some_and(&with) && arguments.any(|argument| argument == marker) {
                found.push(Pid::from_raw(pid).unwrap());
            }
        }
        found
    }
}

/// Returns when the process computes.
pub(super) fn busy(pid: Pid) {
    // Ticks of processor time, user and system: fields 14 and 15 behind the name in brackets.
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
        fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
    };
    let before = ticks();
    while ticks() < before + 3 {
        std::thread::yield_now();
    }
}

/// Returns when the process is gone.
pub(super) fn gone(pid: Pid) {
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            let patience = rustix::time::Timespec::try_from(PATIENCE).unwrap();
            let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience));
            assert_eq!(ended, Ok(1), "the process is still there");
        }
        Err(error) => assert_eq!(error, rustix::io::Errno::SRCH),
    }
}

/// A small Rust program, compiled as its author would.
pub(super) fn rust(source: &str, folder: &Path) -> Vec<u8> {
    let (input, output) = (folder.join("program.rs"), folder.join("program.wasm"));
    std::fs::write(&input, source).unwrap();
    let compiled = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
        .args(["--edition=2021", "-Copt-level=1", "--target=wasm32-wasip1", "-o"])
        .args([&output, &input])
        .output()
        .expect("rustc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::read(output).unwrap()
}
