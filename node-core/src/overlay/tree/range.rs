//! Ranges of keys, half open.

use crate::address::Key;
use serde::{Deserialize, Serialize};

/// All keys from `lo` on that are below `hi`, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub lo: Key,
    pub hi: Option<Key>,
}

impl Range {
    pub const ALL: Range = Range { lo: Key::FIRST, hi: None };

    pub fn contains(&self, key: Key) -> bool {
        self.lo <= key && self.hi.is_none_or(|hi| key < hi)
    }

    /// Whether all of `other` lies in it.
    pub fn encloses(&self, other: &Range) -> bool {
        self.lo <= other.lo
            && match (self.hi, other.hi) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(mine), Some(theirs)) => theirs <= mine,
            }
    }
}
