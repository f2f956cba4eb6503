//! Every function of WASI preview 1: its name, its signature, what it does here.

use super::errno::Done;
use super::{Host, fd_calls, moment, path_calls, poll, process, strings};
use crate::memory::GuestMemory;

/// The import module that all of them live in.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// The two value types that preview 1 uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    I32,
    I64,
}

/// One function that tasks can import. Call it with [`Host::call`].
pub struct Function {
    pub name: &'static str,
    pub params: &'static [Param],
    /// Whether it returns an i32, the error number. Only `proc_exit` does not.
    pub returns: bool,
    /// Whether a task can be suspended in it.
    pub waits: bool,
    pub(super) run: fn(&mut Host, &[u64], &mut dyn GuestMemory) -> Done,
}

/// The function of this name.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|f| f.name == name)
}

macro_rules! param {
    (u32) => {
        Param::I32
    };
    (u64) => {
        Param::I64
    };
}

macro_rules! functions {
    ($($module:ident :: $name:ident ( $($arg:ident : $ty:ident),* );)*) => {
        /// All of preview 1, in the order of its specification.
        pub static FUNCTIONS: &[Function] = &[$(
            Function {
                name: stringify!($name),
                params: &[$(param!($ty)),*],
                waits: matches!(stringify!($name).as_bytes(), b"fd_read" | b"fd_write"),
                returns: !matches!(stringify!($name).as_bytes(), b"proc_exit"),
                run: |host, args, memory| {
                    // An engine that passes too few gives zeros: no worse than a task that does.
                    #[allow(unused_mut, unused_variables)]
                    let mut args = args.iter().copied();
                    $(let $arg = args.next().unwrap_or(0) as $ty;)*
                    $module::$name(host, memory, $($arg),*)
                },
            },
        )*];
    };
}

functions! {
    strings::args_get(argv: u32, buf: u32);
    strings::args_sizes_get(count: u32, size: u32);
    strings::environ_get(environ: u32, buf: u32);
    strings::environ_sizes_get(count: u32, size: u32);
    moment::clock_res_get(id: u32, resolution: u32);
    moment::clock_time_get(id: u32, precision: u64, time: u32);
    fd_calls::fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
    fd_calls::fd_allocate(fd: u32, offset: u64, len: u64);
    fd_calls::fd_close(fd: u32);
    fd_calls::fd_datasync(fd: u32);
    fd_calls::fd_fdstat_get(fd: u32, stat: u32);
    fd_calls::fd_fdstat_set_flags(fd: u32, flags: u32);
    fd_calls::fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
    fd_calls::fd_filestat_get(fd: u32, stat: u32);
    fd_calls::fd_filestat_set_size(fd: u32, size: u64);
    fd_calls::fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
    fd_calls::fd_pread(fd: u32, iovs: u32, count: u32, offset: u64, read: u32);
    fd_calls::fd_prestat_get(fd: u32, prestat: u32);
    fd_calls::fd_prestat_dir_name(fd: u32, path: u32, len: u32);
    fd_calls::fd_pwrite(fd: u32, iovs: u32, count: u32, offset: u64, written: u32);
    fd_calls::fd_read(fd: u32, iovs: u32, count: u32, read: u32);
    fd_calls::fd_readdir(fd: u32, buf: u32, len: u32, cookie: u64, used: u32);
    fd_calls::fd_renumber(from: u32, to: u32);
    fd_calls::fd_seek(fd: u32, offset: u64, whence: u32, position: u32);
    fd_calls::fd_sync(fd: u32);
    fd_calls::fd_tell(fd: u32, position: u32);
    fd_calls::fd_write(fd: u32, iovs: u32, count: u32, written: u32);
    path_calls::path_create_directory(fd: u32, path: u32, len: u32);
    path_calls::path_filestat_get(fd: u32, flags: u32, path: u32, len: u32, stat: u32);
    path_calls::path_filestat_set_times(
        fd: u32, flags: u32, path: u32, len: u32, atim: u64, mtim: u64, times: u32
    );
    path_calls::path_link(
        old_fd: u32, flags: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32
    );
    path_calls::path_open(
        fd: u32, lookup: u32, path: u32, len: u32, oflags: u32, base: u64, inheriting: u64, flags: u32,
        opened: u32
    );
    path_calls::path_readlink(fd: u32, path: u32, len: u32, buf: u32, buf_len: u32, used: u32);
    path_calls::path_remove_directory(fd: u32, path: u32, len: u32);
    path_calls::path_rename(fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
    path_calls::path_symlink(old: u32, old_len: u32, fd: u32, new: u32, new_len: u32);
    path_calls::path_unlink_file(fd: u32, path: u32, len: u32);
    poll::poll_oneoff(subscriptions: u32, events: u32, count: u32, occurred: u32);
    process::proc_exit(code: u32);
    process::proc_raise(signal: u32);
    process::sched_yield();
    process::random_get(buf: u32, len: u32);
    process::sock_accept(fd: u32, flags: u32, accepted: u32);
    process::sock_recv(fd: u32, iovs: u32, count: u32, flags: u32, read: u32, out_flags: u32);
    process::sock_send(fd: u32, iovs: u32, count: u32, flags: u32, written: u32);
    process::sock_shutdown(fd: u32, how: u32);
}
