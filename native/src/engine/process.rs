//! One slot's process, and how it is spoken to: a pipe to it, and a socket from it. Files that it may write go
//! to it over that socket; it can send none. A compiler has a pipe in its place.

use super::wire::{self, Frames, Pipe, ToSlot};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

/// Read at once, so that one slot with much to tell does not keep others waiting.
const READ: usize = 4 << 20;

/// The name of a process that checks or compiles a program.
pub(super) const COMPILER: &str = "manyhands-compiler";

/// Without it a program that was linked to libraries elsewhere does not start.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// The command that starts such a process.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    pub(crate) exe: PathBuf,
    /// Arguments that make `exe` a process of the engine.
    pub(crate) arguments: Vec<OsString>,
}

impl Launcher {
    /// `exe` is this program, of this version.
    pub(crate) fn of(exe: PathBuf) -> Launcher {
        Launcher { exe, arguments: vec!["engine-slot".into()] }
    }

    /// This program itself.
    #[cfg(not(test))]
    pub(crate) fn itself() -> Launcher {
        // By its name where the system does not tell its file.
        Launcher::of(crate::assemble::own_executable().unwrap_or_else(|_| "manyhands".into()))
    }

    #[cfg(test)]
    pub(crate) fn itself() -> Launcher {
        super::tests::launcher()
    }
}

pub(super) struct Process {
    child: Child,
    /// None once it was told to leave.
    stdin: Option<ChildStdin>,
    stdout: OwnedFd,
    frames: Frames,
    /// Bytes that the pipe did not take yet.
    backlog: Vec<u8>,
}

impl Process {
    /// Starts a process and says what it is to be.
    pub(super) fn spawn(launcher: &Launcher, first: &ToSlot) -> Result<Process, String> {
        let Launcher { exe, arguments } = launcher;
        let failed = |error: io::Error| {
            format!("a slot could not be started from {}: {error}; restart the node", exe.display())
        };
        let compiles = matches!(first, ToSlot::Compile(_));
        let ends = match compiles {
            true => io::pipe().map(|(ours, its)| (ours.into(), its.into())),
            false => UnixStream::pair().map(|(ours, its)| (ours.into(), its.into())),
        };
        let (stdout, its_stdout): (OwnedFd, OwnedFd) = ends.map_err(failed)?;
        let mut command = Command::new(exe);
        command.args(arguments);
        // For people who look at the processes of their machine.
        command.arg0(if compiles { COMPILER } else { "manyhands-slot" });
        // Tokens and passwords are often in there.
        command.env_clear();
        command.envs(std::env::var_os(LIBRARIES).map(|folders| (LIBRARIES, folders)));
        let mut child = command
            // Snapshots are buffers as large as a task, used once: glibc takes them in large pages.
            .env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
            .stdin(Stdio::piped())
            .stdout(its_stdout)
            // Interrupting the node from a terminal must leave it time to hand its work back.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // This process holds no end of its.
        drop(command);
        let stdin = child.stdin.take();
        let mut process = Process { child, stdin, stdout, frames: Frames::default(), backlog: Vec::new() };
        let ready = process.stdin.as_ref().map_or(Ok(()), |stdin| rustix::io::ioctl_fionbio(stdin, true));
        let ready = ready.and_then(|()| rustix::io::ioctl_fionbio(&process.stdout, true));
        if let Err(error) = ready {
            process.kill();
            drop(process.child.wait());
            return Err(failed(error.into()));
        }
        wire::put(&mut process.backlog, first)?;
        Ok(process)
    }

    pub(super) fn stdout(&self) -> &OwnedFd {
        &self.stdout
    }

    /// Gives a slot a file to write.
    pub(super) fn give(&self, file: &File) -> Result<(), Errno> {
        let files = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(Errno::NOBUFS);
        }
        sendmsg(&self.stdout, &[IoSlice::new(&[0])], &mut control, SendFlags::DONTWAIT).map(drop)
    }

    /// The pipe to it, if something waits to be written there.
    pub(super) fn stdin_if_waiting(&self) -> Option<&ChildStdin> {
        self.stdin.as_ref().filter(|_| !self.backlog.is_empty())
    }

    /// Puts a frame behind what waits already.
    pub(super) fn queue(&mut self, frame: &[u8]) {
        self.backlog.extend_from_slice(frame);
    }

    /// Writes what the pipe takes. A slot that is gone shows when it is read from.
    pub(super) fn write(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        let mut written = 0;
        while written < self.backlog.len() {
            match rustix::io::write(stdin, &self.backlog[written..]) {
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => written = self.backlog.len(),
            }
        }
        self.backlog.drain(..written);
    }

    /// Reads what it said into `messages`. `Ok(false)`: it will say nothing more.
    pub(super) fn read<M: DeserializeOwned>(&mut self, messages: &mut Vec<M>) -> Result<bool, String> {
        let pipe = match self.frames.fill(&self.stdout, READ) {
            // A slot that ends without having taken its next file: what it said before was read.
            Err(Errno::CONNRESET) => Pipe::Closed,
            pipe => pipe.map_err(|error| format!("cannot be read from: {error}"))?,
        };
        while let Some(message) = self.frames.next()? {
            messages.push(message);
        }
        Ok(pipe != Pipe::Closed)
    }

    /// Lets it go when it has done everything; it is not written to again.
    pub(super) fn dismiss(&mut self) {
        self.stdin = None;
    }

    pub(super) fn kill(&mut self) {
        // It may be gone already.
        drop(self.child.kill());
    }

    /// Gives all its threads the lowest priority. Where a system does not let us, it is as it was.
    pub(super) fn lower(&self) {
        // It has a group of its own, with its number.
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::setpriority_pgrp(Some(group), 19);
    }

    /// Makes sure that it is gone, and says how it went.
    pub(super) fn end(self) -> String {
        self.status().map_or_else(|error| format!("could not be waited for: {error}"), words)
    }

    /// Its status as the system says it.
    pub(super) fn status(mut self) -> std::io::Result<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Ok(status);
        }
        self.kill();
        self.child.wait()
    }
}

pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(9)) => "was killed (signal 9), perhaps because the system ran out of memory".into(),
        (_, Some(signal)) => format!("was ended by signal {signal}"),
        (Some(code), _) => format!("exited with code {code}"),
        _ => "ended".into(),
    }
}
