//! Variables that all threads of a virtual computer share. Each change says which version it replaces: there is no
//! unsynchronised path.

use super::Bounds;
use bytes::Bytes;
use sandbox::swarm::{NAME_MAX, SwapRefused, VALUE_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Globals {
    /// Version, from 1, and value.
    values: BTreeMap<String, (u64, Bytes)>,
    /// Bytes of all names and values.
    bytes: usize,
}

impl Globals {
    /// Version and value; version 0: it was never set.
    pub(super) fn get(&self, name: &str) -> (u64, Bytes) {
        self.values.get(name).cloned().unwrap_or_default()
    }

    /// Name, version and value of each.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, u64, &[u8])> {
        self.values.iter().map(|(name, (version, value))| (name.as_str(), *version, &value[..]))
    }

    /// Replaces the value, if this is its version; the new version.
    pub(super) fn swap(
        &mut self,
        bounds: &Bounds,
        name: &str,
        version: u64,
        value: Bytes,
    ) -> Result<u64, SwapRefused> {
        let old = self.values.get(name);
        let (now, before) = old.map_or((0, 0), |(version, value)| (*version, name.len() + value.len()));
        if now != version {
            return Err(SwapRefused::Changed);
        }
        let after = self.bytes - before + name.len() + value.len();
        let is_one_too_many = old.is_none() && self.values.len() >= bounds.globals;
        let is_too_long = name.len() > NAME_MAX || value.len() > VALUE_MAX;
        if after > bounds.globals_bytes || is_one_too_many || is_too_long {
            return Err(SwapRefused::Full);
        }
        self.bytes = after;
        self.values.insert(name.to_owned(), (version + 1, value));
        Ok(version + 1)
    }
}
