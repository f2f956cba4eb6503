//! One record: what is signed, and what of it is believed.

use super::config::RecordsConfig;
use crate::keys::{Secret, Signed};
use crate::record::Key;
use crate::record::NAME;
use crate::record::Refused;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PURPOSE: &str = "manyhands 2026-11 record on the ring";

/// Longest value, bytes. Our choice: where a dozen nodes are.
pub const VALUE: usize = 1024;

/// Longest record, bytes encoded: value, name, and what stands around them.
const BODY: usize = VALUE + NAME + 100;

/// How far the reader's clock may be behind the publisher's. Our choice: clocks of donors are off by
/// minutes.
const AHEAD: Duration = Duration::from_secs(600);

/// Content of a record, which the publisher signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub key: Key,
    /// Grows with each record of a publisher; a higher one takes the place of a lower one.
    pub number: u64,
    /// Milliseconds since 1970.
    pub expires_ms: u64,
    /// None: the publisher has given it up.
    pub value: Option<Bytes>,
}

impl Record {
    pub(super) fn sign(&self, secret: &Secret) -> Signed {
        // Integers, texts and bytes: rmp cannot fail on them.
        let body = rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default();
        Signed::new(secret, PURPOSE, body)
    }

    /// The record, if its publisher signed it and it is good at this time.
    ///
    /// # Errors
    /// [`Refused`] says why it is not believed, or not kept.
    pub fn open(signed: &Signed, config: &RecordsConfig, now_ms: u64) -> Result<Record, Refused> {
        if signed.body.len() > BODY {
            return Err(Refused::Unreadable);
        }
        let body = signed.open(PURPOSE).ok_or(Refused::Forged)?;
        let record: Record = sandbox::unpack::from_slice(body).map_err(|_| Refused::Unreadable)?;
        record.key.check()?;
        if record.value.as_ref().is_some_and(|value| value.len() > VALUE) {
            return Err(Refused::Unreadable);
        }
        if record.expires_ms <= now_ms {
            return Err(Refused::Expired);
        }
        if record.expires_ms - now_ms > (config.life + AHEAD).as_millis() as u64 {
            return Err(Refused::TooFar);
        }
        Ok(record)
    }
}
