//! Why a task trapped, in the same words whatever engine noticed it: results are compared
//! between nodes.

use std::fmt;

/// A trap of the WebAssembly specification, or of the machine below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trap {
    Unreachable,
    MemoryOutOfBounds,
    TableOutOfBounds,
    NullFunction,
    SignatureMismatch,
    DivideByZero,
    IntegerOverflow,
    BadConversion,
    StackOverflow,
    /// The frames of a suspended task do not fit the area for them.
    FramesFull,
    /// The engine's message, when it is none of the above.
    Other(String),
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Trap::Unreachable => {
                "reached an unreachable instruction (a panic or an abort; stderr may say more)"
            }
            Trap::MemoryOutOfBounds => "accessed memory out of bounds",
            Trap::TableOutOfBounds => "accessed a table out of bounds",
            Trap::NullFunction => "called a function pointer that points to nothing",
            Trap::SignatureMismatch => "called a function pointer with the wrong signature",
            Trap::DivideByZero => "divided an integer by zero",
            Trap::IntegerOverflow => "overflowed in an integer division",
            Trap::BadConversion => "converted a float that fits no integer",
            Trap::StackOverflow => "exhausted the call stack (too deep a recursion)",
            Trap::FramesFull => {
                "was suspended so deep in a recursion that its calls do not fit the area where they are kept"
            }
            Trap::Other(words) => words,
        })
    }
}
