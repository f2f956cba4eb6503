//! The inside of a process that checks or compiles one program.

use super::super::slot::cache::write_code;
use super::super::slot::wasm::{Compiler, WasmerEngine};
use super::super::wall;
use super::super::wire::{self, GREETING, Known, NotCompiled};
use super::{Order, Said, Work};
use node_core::ids::BlobId;
use rustix::process::Resource;
use sandbox::instrument::Tuning;
use sandbox::module::{PAGE, inspect, prepare};
use sandbox::{Engine, Limits};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Bytes of machine code that are kept of one program: as many as the whole cache.
const MOST_CODE: u64 = 1 << 30;

/// The name of the thread that compiles. The compiler's own threads inherit it.
const THREAD: &str = "compile";

/// Ends with the process.
pub(in crate::engine) fn main(order: Order) -> ! {
    let Order { program, work, memory, cpu_s } = order;
    let path = |bytes: &[u8]| Path::new(OsStr::from_bytes(bytes)).to_owned();
    let opened = File::open(path(&program)).map(|program| (program, work));
    let opened = opened.and_then(|(program, work)| match work {
        Work::Check => Ok((program, None)),
        Work::Compile { known, out } => {
            let out = File::options().write(true).truncate(true).open(path(&out))?;
            Ok((program, Some((known, out))))
        }
    });
    wall::bound(Resource::Data, memory);
    wall::bound(Resource::Fsize, MOST_CODE);
    // The second bound, which cannot be caught, is for a process that does not end at the first.
    let limit = rustix::process::Rlimit { current: Some(cpu_s), maximum: Some(cpu_s.saturating_add(5)) };
    let _ = rustix::process::setrlimit(Resource::Cpu, limit);
    wall::close(&[], wall::Files::None);
    greet();
    let said = match opened {
        Ok((program, out)) => in_thread(move || match out {
            None => check(program),
            Some((known, out)) => compile(program, known, out),
        }),
        Err(error) => broken(format!("the program or its output cannot be opened: {error}")),
    };
    say(&said);
    std::process::exit(0)
}

fn broken(why: String) -> Said {
    Said::Not(NotCompiled::Broken(why))
}

fn refused(why: impl ToString) -> Said {
    Said::Not(NotCompiled::Refused(why.to_string()))
}

/// A panic is the program's doing: the same one panics everywhere.
fn in_thread(work: impl FnOnce() -> Said + Send + 'static) -> Said {
    // The node that waits for this may go away.
    let watch = || {
        let mut end = [0; 1];
        // Nothing more is ever said to this process.
        let _ = io::stdin().read(&mut end);
        std::process::exit(0)
    };
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    let watched = thread("watch").spawn(watch);
    let worker = watched.and_then(|_| {
        thread(THREAD).spawn(move || {
            catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words");
                refused(format!("breaks the compiler ({said}); please report this with the program"))
            })
        })
    });
    match worker.map(std::thread::JoinHandle::join) {
        Ok(Ok(said)) => said,
        Ok(Err(_)) => broken("the compiler's thread is gone".into()),
        Err(error) => broken(format!("a compiler's thread could not be started: {error}")),
    }
}

fn read(mut program: File) -> Result<Vec<u8>, Said> {
    let mut bytes = Vec::new();
    program
        .read_to_end(&mut bytes)
        .map_err(|error| broken(format!("the program cannot be read: {error}")))?;
    Ok(bytes)
}

fn check(program: File) -> Said {
    // A check needs no other threads. `compile` cannot forbid them: the compiler starts one for each
    // processor, and only once it has read the program.
    wall::no_more_threads();
    match read(program).map(|bytes| inspect(&bytes)) {
        Ok(Ok(program)) => Said::Fit { memory_bytes: program.memory_bytes },
        Ok(Err(refusal)) => refused(refusal),
        Err(said) => said,
    }
}

fn compile(program: File, known: Known, out: File) -> Said {
    let bytes = match read(program) {
        Ok(bytes) => bytes,
        Err(said) => return said,
    };
    #[cfg(all(test, target_os = "linux"))]
    if let Some(secret) = bytes.strip_prefix(wall::attack::ATTACK.as_bytes()) {
        return refused(wall::attack::attack(&String::from_utf8_lossy(secret)));
    }
    if BlobId::of(&bytes) != known.program {
        return broken(format!(
            "blob {} is damaged on this node's disk: its file does not hold what its name says; delete it and \
             check the disk",
            known.program
        ));
    }
    write(&bytes, known, out).unwrap_or_else(|said| said)
}

/// Compiles a program and writes it as it lies in the cache.
fn write(bytes: &[u8], known: Known, out: impl Write) -> Result<Said, Said> {
    let limits = Limits { memory_bytes: known.pages.saturating_mul(PAGE), ..Limits::default() };
    let prepared = prepare(bytes, &limits, Tuning::Wasmer, known.form).map_err(refused)?;
    let compiled = WasmerEngine::new(Compiler::Cranelift).compile(&prepared).map_err(refused)?;
    let mut out = BufWriter::new(out);
    let written = write_code(&mut out, &compiled).and_then(|()| out.flush());
    written.map_err(|error| {
        broken(format!("the compiled program cannot be written: {error}; free some space"))
    })?;
    Ok(Said::Compiled)
}

fn greet() {
    put(GREETING.to_vec());
    say(&Said::Begun);
}

fn say(said: &Said) {
    let mut frame = Vec::new();
    if wire::put(&mut frame, said).is_ok() {
        put(frame);
    }
}

/// A node that is gone needs to hear nothing.
fn put(bytes: Vec<u8>) {
    let mut left = &bytes[..];
    while !left.is_empty() {
        match rustix::io::write(io::stdout(), left) {
            Ok(written) => left = &left[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(0),
        }
    }
}
