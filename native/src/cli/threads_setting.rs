//! `[threads]` of a job file, and `--threads`: the job is a virtual computer.

use super::strict_toml::{Key, key};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Keys of the table. Its `find` is read with the rest of the job file.
pub(crate) const KEYS: &[Key] = &[key("workers"), key("find")];

/// Workers that the program is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadsSetting {
    pub(crate) workers: u32,
}

impl FromStr for ThreadsSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let workers = text.parse().map_err(|_| format!("{text:?} is no number of workers"))?;
        Ok(ThreadsSetting { workers })
    }
}
