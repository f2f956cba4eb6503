//! One record: what is signed, and what of it is believed.

use super::config::RecordsConfig;
use crate::ids::{BlobId, NodeId};
use crate::keys::{Secret, Signed};
use crate::overlay::ring::Point;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const PURPOSE: &str = "manyhands 2026-11 record on the ring";

/// Longest value, bytes. Our choice: where a dozen nodes are.
pub const VALUE: usize = 1024;

/// Longest name, bytes of UTF-8. Our choice: a path that a person types.
pub const NAME: usize = 200;

/// Longest record, bytes encoded: value, name, and what stands around them.
const BODY: usize = VALUE + NAME + 100;

/// How far the reader's clock may be behind the publisher's. Our choice: clocks of donors are off by
/// minutes.
const AHEAD: Duration = Duration::from_secs(600);

/// Where a record is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A name: its first publisher's alone, as long as that one refreshes it.
    Name(String),
    /// Who keeps this content: whoever keeps, or has others keep, may say so.
    Keepers(BlobId),
}

impl Key {
    pub fn point(&self) -> Point {
        match self {
            Key::Name(name) => Point::of_name(&[b"name ", name.as_bytes()].concat()),
            Key::Keepers(id) => Point::of_name(&[b"keepers ", &id.0[..]].concat()),
        }
    }

    pub(super) fn has_one_publisher(&self) -> bool {
        matches!(self, Key::Name(_))
    }

    /// Why nobody can publish under it.
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

/// What is signed.
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

impl Record {
    pub(super) fn sign(&self, secret: &Secret) -> Signed {
        // Integers, texts and bytes: rmp cannot fail on them.
        let body = rmp_serde::to_vec(self).map(Bytes::from).unwrap_or_default();
        Signed::new(secret, PURPOSE, body)
    }

    /// The record, if its publisher signed it and it is good at this time.
    pub fn open(signed: &Signed, config: &RecordsConfig, now_ms: u64) -> Result<Record, Refused> {
        if signed.body.len() > BODY {
            return Err(Refused::Unreadable);
        }
        let body = signed.open(PURPOSE).ok_or(Refused::Forged)?;
        let record: Record = rmp_serde::from_slice(body).map_err(|_| Refused::Unreadable)?;
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
