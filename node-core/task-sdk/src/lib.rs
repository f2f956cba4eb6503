//! Threads of a virtual computer, for programs in Rust that are built for `wasm32-wasip1`.
//!
//! A job may be a virtual computer: its program begins threads on other nodes, sends messages between them,
//! shares variables and reports partial results. All of it goes by files under `/swarm`, which
//! `docs/task-api.md` specifies. This crate opens, reads and writes these files; it has no state on the nodes.
//!
//! - [`spawn`], [`Thread::join`]: threads of the same program;
//! - [`send`], [`recv`], [`recv_any`]: messages, in MessagePack or as bytes;
//! - [`Global`]: a variable of all threads, replaced only by a thread that has read its last value;
//! - [`report`](report()): a partial result for the submitter;
//! - [`Team`]: threads with ranks, that scatter, gather, broadcast and reduce together, in the style of MPI;
//! - [`map`](map()): a function over many items, on all workers.
//!
//! Begin with [`map`](map()) if the items do not need each other, with [`Team`] if all threads do the same in
//! steps, and with messages otherwise:
//!
//! ```no_run
//! fn main() -> task_sdk::Result<()> {
//!     let squares = task_sdk::map(0..100u64, |n| n * n)?;
//!     println!("{}", squares.iter().sum::<u64>());
//!     Ok(())
//! }
//! ```
//!
//! Programs in C include `include/manyhands.h`, which has the same calls on bytes.
//!
//! A thread may be suspended in each call that waits, and go on in it on another node. A program that does not
//! run as a thread gets [`Error::NoThread`] from each call.

mod error;
mod files;
mod globals;
mod map;
mod messages;
mod report;
mod team;
mod threads;

pub use error::{Error, Result};
pub use globals::Global;
pub use map::map;
pub use messages::{
    Received, recv, recv_any, recv_any_bytes, recv_bytes, send, send_bytes, try_recv, try_recv_any,
    try_recv_any_bytes, try_recv_bytes,
};
pub use report::{report, report_bytes};
pub use team::Team;
pub use threads::{Ended, Thread, me, spawn, workers};

/// Longest message, and longest input of a thread with its arguments, bytes.
pub const MESSAGE_MAX: usize = 256 << 10;

/// Longest value of a global, and longest partial result, bytes.
pub const VALUE_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::{MESSAGE_MAX, VALUE_MAX};

    #[test]
    fn the_header_for_c_has_the_same_bounds() {
        let header = include_str!("../include/manyhands.h");
        for (name, bound) in [("MESSAGE", MESSAGE_MAX), ("VALUE", VALUE_MAX)] {
            assert!(header.contains(&format!("#define MH_{name}_MAX {bound}\n")), "{name}");
        }
    }
}
