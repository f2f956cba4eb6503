//! Why a program cannot be made suspendable, in words that say where and what to do.

use std::fmt;

/// Why a program cannot be made suspendable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("not a valid WebAssembly module: {0}; the file may be damaged or cut off, build it again")]
    Invalid(String),
    #[error("{function} uses {instruction}, which a task that can move may not; {advice}")]
    Instruction { instruction: String, function: Place, advice: &'static str },
    #[error("has {what}, which a task that can move may not; {advice}")]
    Construct { what: String, advice: &'static str },
    #[error(
        "{function} holds a reference (funcref or externref) across a call or a loop, where it may be \
         suspended, and references cannot be moved; keep references in tables, or pass indices instead"
    )]
    LiveReference { function: Place },
    #[error("{function} {what}; build with less inlining (-Os), or split it")]
    TooLarge { function: Place, what: &'static str },
    #[error(
        "becomes a module that no engine takes, once it can be suspended: {0}; build it with fewer types, \
         functions and globals"
    )]
    OverLimits(String),
    #[error("exports {0:?}, a name that begins like those of the host; rename it")]
    ReservedExport(String),
    #[error(
        "its memory of {pages} pages leaves no room for {frame_pages} pages more, where a suspended task \
         keeps its calls; lower its memory or the size of the frame area"
    )]
    NoRoom { pages: u64, frame_pages: u32 },
}

/// A function of the program, as people can find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub index: u32,
    /// From the name section.
    pub name: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "function {} ({name:?})", self.index),
            None => write!(f, "function {}", self.index),
        }
    }
}
