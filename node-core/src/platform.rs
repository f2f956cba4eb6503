//! The kind of process a node lives in.

use serde::{Deserialize, Serialize};

/// Kind of process that a node lives in; for people and for finders' needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Platform {
    Native,
    Browser,
}
