//! Threads: beginning one of the same program, and waiting for its end.

use crate::files::{self, Mode, errno};
use crate::{Error, MESSAGE_MAX, Result};
use serde::{Deserialize, Serialize};
use std::io::Read;

/// Number of a thread. 0 is the thread that the job begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Thread(pub u32);

/// End of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// In one line: `exit 0`, or `failed` and the reason.
    pub how: String,
    /// Its standard output.
    pub output: Vec<u8>,
}

impl Ended {
    /// Whether the thread ended with exit code 0.
    pub fn is_success(&self) -> bool {
        self.how == "exit 0"
    }
}

/// This thread.
///
/// # Errors
/// [`Error::NoThread`] in a program that does not run as one, as all calls of this crate.
pub fn me() -> Result<Thread> {
    files::number("self", &files::text("self")?).map(Thread)
}

/// Number of workers that the job asked for.
///
/// # Errors
/// [`Error::NoThread`].
pub fn workers() -> Result<u32> {
    files::number("workers", &files::text("workers")?)
}

/// Begins a thread of this program with these arguments and this standard input. They may have
/// [`MESSAGE_MAX`] bytes together, with a byte between arguments.
///
/// # Errors
/// [`Error::Argument`], [`Error::TooLong`] or [`Error::ThreadQuota`]: no thread was begun.
pub fn spawn<A: AsRef<str>>(arguments: impl IntoIterator<Item = A>, input: &[u8]) -> Result<Thread> {
    let order = order(arguments, input)?;
    files::with("spawn", Mode::Both, |file| {
        files::write(file, &order).map_err(|error| match error.raw_os_error() {
            Some(errno::QUOTA) => Error::ThreadQuota,
            Some(errno::TOO_BIG | errno::MESSAGE_SIZE) => too_long(order.len()),
            _ => files::failed("spawn", error),
        })?;
        let number = files::read(file, |line| String::from_utf8_lossy(line).into_owned());
        files::number("spawn", &number.map_err(|error| files::failed("spawn", error))?).map(Thread)
    })
}

/// The write that begins a thread: a line of arguments, then the input.
fn order<A: AsRef<str>>(arguments: impl IntoIterator<Item = A>, input: &[u8]) -> Result<Vec<u8>> {
    let mut order = Vec::new();
    for argument in arguments {
        let argument = argument.as_ref();
        if argument.is_empty() || argument.contains([' ', '\n', '\0']) {
            return Err(Error::Argument(argument.into()));
        }
        if !order.is_empty() {
            order.push(b' ');
        }
        order.extend_from_slice(argument.as_bytes());
    }
    order.push(b'\n');
    order.extend_from_slice(input);
    if order.len() <= MESSAGE_MAX { Ok(order) } else { Err(too_long(order.len())) }
}

fn too_long(bytes: usize) -> Error {
    Error::TooLong { what: "the arguments and input of a thread", bytes, most: MESSAGE_MAX }
}

impl Thread {
    /// Waits until the thread has ended, and gives its output. More than one thread may do so, and more than once.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::Format`] only. A thread that failed is no error: see [`Ended::how`].
    pub fn join(self) -> Result<Ended> {
        let path = format!("end/{}", self.0);
        let mut all = Vec::new();
        let read = files::open(&path, Mode::Read)?.read_to_end(&mut all);
        read.map_err(|error| files::failed(&path, error))?;
        ended(&all).ok_or(Error::Format { path: format!("/swarm/{path}") })
    }

    /// Whether the thread has ended.
    ///
    /// # Errors
    /// [`Error::File`] only.
    pub fn has_ended(self) -> Result<bool> {
        let path = format!("end/{}", self.0);
        match files::open(&path, Mode::Try)?.read(&mut [0]) {
            Ok(_) => Ok(true),
            Err(error) if files::is(&error, errno::AGAIN) => Ok(false),
            Err(error) => Err(files::failed(&path, error)),
        }
    }
}

fn ended(text: &[u8]) -> Option<Ended> {
    let (how, output) = files::split_line(text)?;
    Some(Ended { how: how.into(), output: output.into() })
}

#[cfg(test)]
mod tests {
    use super::{ended, me, order, spawn};
    use crate::{Error, MESSAGE_MAX};

    #[test]
    fn arguments_are_words_of_the_first_line() {
        assert_eq!(order(["--seed", "1"], b"in\nput").ok(), Some(b"--seed 1\nin\nput".to_vec()));
        assert_eq!(order([""; 0], b"").ok(), Some(b"\n".to_vec()));
        for bad in ["", "a b", "a\nb", "a\0"] {
            assert!(matches!(order([bad], b""), Err(Error::Argument(told)) if told == bad), "{bad:?}");
        }
    }

    #[test]
    fn arguments_and_input_have_a_bound_together() {
        assert!(order(["ab"], &vec![0; MESSAGE_MAX - 3]).is_ok());
        assert!(matches!(order(["ab"], &vec![0; MESSAGE_MAX - 2]), Err(Error::TooLong { .. })));
    }

    #[test]
    fn an_end_is_a_line_and_the_output() {
        let end = ended(b"exit 0\nall\nof it").expect("it has a line");
        assert!(end.is_success() && end.output == b"all\nof it");
        assert!(!ended(b"exit 01\n").expect("it has a line").is_success());
        assert_eq!(ended(b""), None);
    }

    #[test]
    fn a_program_that_is_no_thread_is_told_how_to_become_one() {
        let refused = [me().unwrap_err(), spawn(["a"], b"").unwrap_err()];
        for error in refused {
            assert!(error.to_string().contains("`manyhands run --local-threads PROGRAM`"), "{error}");
        }
    }
}
