//! The wall around a process of the engine: slots, and the processes that check and compile programs.
//!
//! Machine code that others wrote runs in a slot, and a compiler reads what others wrote: should either
//! get out of WebAssembly, it meets this wall. A process builds it around itself, in two steps, before it
//! has read anything of a program. It gets no environment but `LD_LIBRARY_PATH`, if the node has it, and
//! what the C library is told; this is all that it may do afterwards:
//!
//! | what | how far |
//! |---|---|
//! | read files | a slot: the blobs' folder and the compiled programs' folder; a compiler: none, its program and its output were opened before |
//! | write files | a slot: files that its node gives it open, one for each snapshot, 5 GiB at most; a compiler: its output, 1 GiB at most |
//! | make or remove files, change rights | not at all |
//! | talk | to its node, over what it was started with: two pipes, or a pipe and a socket; its words on stderr |
//! | receive open files | a slot, over that socket; none sends any |
//! | network and other sockets | none of any kind |
//! | start processes, run other programs | not at all |
//! | threads | a slot, and a process that checks: those that it began with; one that compiles may start more |
//! | look at or touch other processes | not at all: no signals but to itself, no `ptrace`, no `process_vm_*` |
//! | memory | map, protect and return its own; a compiler has 2 GiB |
//! | time | clocks, sleeping; a compiler has a minute and 10 s for each MiB of its program |
//! | priority | lower its own |
//! | descriptors | 64 |
//! | privileges | none are gained (`no_new_privs`), no core is written, nobody reads its memory (not dumpable) |
//!
//! Linux does this with seccomp and Landlock. Whatever else a process asks of the kernel fails with
//! `EPERM`. Where a system lacks either, [`missing`] says so, and tasks run all the same: WebAssembly and
//! its host are the first wall, this is the second.

#[cfg(all(test, target_os = "linux"))]
pub(super) mod attack;
#[cfg(target_os = "linux")]
mod linux;

use rustix::process::{Resource, Rlimit, setrlimit};
use std::path::Path;

/// Open files at once. Our choice: several times what any of them holds.
const DESCRIPTORS: u64 = 64;

/// The first step, before anything is read. Where a system does not let us, the process goes on.
pub(super) fn limit() {
    // The kernel knows which process to end first when memory runs out.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    bound(Resource::Core, 0);
    bound(Resource::Nofile, DESCRIPTORS);
    #[cfg(target_os = "linux")]
    linux::limit();
}

/// Sets both bounds of a resource, or leaves them where the system does not let us.
pub(super) fn bound(resource: Resource, most: u64) {
    let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
}

/// The second step: from here on only files beneath `readable` are opened, and only to be read. To be
/// called before the process has other threads.
pub(super) fn close(readable: &[&Path], files: Files) {
    #[cfg(target_os = "linux")]
    linux::close(readable, files);
    #[cfg(not(target_os = "linux"))]
    let _ = (readable, files);
}

/// Whether a process gets open files of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// A slot does, over the socket on which it speaks.
    Given,
    None,
}

/// After the second step: the process has the threads that it will ever have.
pub(super) fn no_more_threads() {
    #[cfg(target_os = "linux")]
    linux::no_more_threads();
}

/// The parts of the wall that this system cannot build, as a sentence; `None` if it stands whole.
pub(super) fn missing() -> Option<String> {
    #[cfg(target_os = "linux")]
    let lacks = linux::missing();
    #[cfg(not(target_os = "linux"))]
    let lacks = Some("seccomp and Landlock, which Linux has");
    lacks.map(|lacks| {
        format!(
            "this system lacks {lacks}: tasks are kept apart by WebAssembly alone; run the node as a user of \
             its own"
        )
    })
}
