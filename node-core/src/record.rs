//! Keys of records on the ring, and why a record is refused.

use crate::circle::Point;
use crate::ids::{BlobId, NodeId};
use serde::{Deserialize, Serialize};

/// Longest name, bytes of UTF-8. Our choice: a path that a person types.
pub const NAME: usize = 200;

/// Where a record is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A name: its first publisher's alone, as long as that one refreshes it.
    Name(String),
    /// Keepers of this content: any node that keeps it, or has others keep it, may publish here.
    Keepers(BlobId),
}

impl Key {
    pub fn point(&self) -> Point {
        match self {
            Key::Name(name) => Point::of_name(&[b"name ", name.as_bytes()].concat()),
            Key::Keepers(id) => Point::of_name(&[b"keepers ", &id.0[..]].concat()),
        }
    }

    pub fn has_one_publisher(&self) -> bool {
        matches!(self, Key::Name(_))
    }

    /// Whether records can be published under it.
    ///
    /// # Errors
    /// [`Refused::BadName`] if it is a name that no record has.
    pub fn check(&self) -> Result<(), Refused> {
        match self {
            Key::Name(name) if name.is_empty() || name.len() > NAME => Err(Refused::BadName),
            Key::Name(name) if name.trim() != name || name.chars().any(char::is_control) => {
                Err(Refused::BadName)
            }
            _ => Ok(()),
        }
    }
}

/// Why a record is not taken, or not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    #[error("it is not signed by the publisher that it names")]
    Forged,
    #[error("it is not a record, or longer than one may be")]
    Unreadable,
    #[error("a name has 1 to {NAME} bytes, no control characters, and no blanks at its ends")]
    BadName,
    #[error("it has expired; perhaps a clock is wrong")]
    Expired,
    #[error("it reaches too far into the future; perhaps a clock is wrong")]
    TooFar,
    #[error("a record with a higher number than {0} is known")]
    Old(u64),
    #[error("another record of the same number is known")]
    Twice,
    #[error("{} has published it; a name is its first publisher's as long as that one refreshes it", .0.short())]
    Taken(NodeId),
    #[error("as many publish under this key as may")]
    Crowded,
    #[error("this publisher has as many records there as one may have")]
    TooMany,
    #[error("the node that keeps such records is full")]
    Full,
    #[error("that node does not keep such records")]
    NotMine,
    #[error("nobody who keeps such records answered; it is tried again")]
    NoAnswer,
}
