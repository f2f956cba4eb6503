//! Attempts of machine code that got out of a program, for tests: each line says how one attempt went.

use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// A task or a program that begins so is no task and no program: the process attacks its own wall, and
/// what follows is the number of its node's process and the path of a file that it must not see.
pub(in crate::engine) const ATTACK: &str = "attack the wall ";

/// As if to be read, which a slot may: a folder is none to be emptied, but that is not the first to be said.
fn open_to_empty(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::File::options().read(true).custom_flags(libc::O_TRUNC).open(path).map(drop)
}

/// `name number`, the number that of the system's error, 0 if it went well.
pub(in crate::engine) fn attack(of: &str) -> String {
    // It cannot ask whose child it is.
    let (parent, secret) = of.split_once(' ').unwrap_or(("0", of));
    let parent: i64 = parent.parse().unwrap_or_default();
    let secret = Path::new(secret);
    let beside = secret.with_file_name("new");
    let code = |result: io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    };
    let call = |result: libc::c_long| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: none of these calls reads or writes memory of this process that is not there; those that
    // would go on as another process must fail, and if they do not, the test does.
    let raw = |number: libc::c_long, a: i64, b: i64| unsafe { libc::syscall(number, a, b, 0, 0, 0, 0) };
    let thread = || std::thread::Builder::new().spawn(|| ()).map(|thread| drop(thread.join()));
    let attempts: Vec<(&str, io::Result<()>)> = vec![
        ("read-secret", std::fs::read(secret).map(drop)),
        ("list-folder", std::fs::read_dir(secret.parent().unwrap_or(secret)).map(drop)),
        ("write-file", std::fs::write(&beside, b"x")),
        ("empty-blobs", open_to_empty(&secret.with_file_name("blobs"))),
        ("renice-user", call(raw(libc::SYS_setpriority, i64::from(libc::PRIO_USER), 0))),
        ("remove-secret", std::fs::remove_file(secret)),
        ("read-environment", std::fs::read(format!("/proc/{parent}/environ")).map(drop)),
        ("tcp", TcpStream::connect("127.0.0.1:9").map(drop)),
        ("udp", UdpSocket::bind("127.0.0.1:0").map(drop)),
        ("unix", UnixStream::pair().map(drop)),
        ("send-file", call(raw(libc::SYS_sendmsg, 1, 0))),
        ("receive-elsewhere", call(raw(libc::SYS_recvmsg, 0, 0))),
        ("receive-many", call(raw(libc::SYS_recvmmsg, 1, 0))),
        ("cut-file", call(raw(libc::SYS_ftruncate, 1, 0))),
        ("list-drafts", std::fs::read_dir(secret.with_file_name("partial")).map(drop)),
        ("spawn", Command::new("/bin/true").spawn().map(drop)),
        ("thread", thread()),
        ("clone", call(raw(libc::SYS_clone, 0, 0))),
        ("clone3", call(raw(libc::SYS_clone3, 0, 0))),
        // SAFETY: the path ends with a zero, and the lists are empty.
        ("exec", call(unsafe { libc::syscall(libc::SYS_execve, c"/bin/true".as_ptr(), &null, &null) })),
        ("signal", call(raw(libc::SYS_kill, parent, 0))),
        ("ptrace", call(raw(libc::SYS_ptrace, i64::from(libc::PTRACE_SEIZE), parent))),
        ("read-memory", call(raw(libc::SYS_process_vm_readv, parent, 0))),
        ("open-process", call(raw(libc::SYS_pidfd_open, parent, 0))),
    ];
    let mut lines: Vec<String> =
        attempts.into_iter().map(|(name, result)| format!("{name} {}", code(result))).collect();
    let variables: Vec<String> =
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    lines.push(format!("variables {}", variables.join(",")));
    lines.join("\n")
}
