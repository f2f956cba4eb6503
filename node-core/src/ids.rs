//! Names of things. All are plain bytes, ordered, and travel as MessagePack `bin`.

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal, $prefix:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// The first eight hexadecimal digits behind a letter: enough for a person.
            pub fn short(&self) -> String {
                let mut s = String::from($prefix);
                for b in &self.0[..4] {
                    s.push_str(&format!("{b:02x}"));
                }
                s
            }
        }

        /// By the bytes. Ids are uniform, so that the first word decides; comparing it here spares
        /// the call that comparing arrays is.
        impl Ord for $name {
            #[inline]
            fn cmp(&self, other: &Self) -> Ordering {
                match first_word(&self.0).cmp(&first_word(&other.0)) {
                    Ordering::Equal => self.0.cmp(&other.0),
                    unequal => unequal,
                }
            }
        }

        impl PartialOrd for $name {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.short())
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(s: &str) -> Result<Self, BadId> {
                let bad = || BadId { what: $what, digits: 2 * $len, text: s.chars().take(80).collect() };
                let digits = s.as_bytes();
                if digits.len() != 2 * $len {
                    return Err(bad());
                }
                let mut out = [0; $len];
                for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
                    let hex = |c: u8| (c as char).to_digit(16).map(|d| d as u8).ok_or_else(bad);
                    *byte = hex(pair[0])? << 4 | hex(pair[1])?;
                }
                Ok($name(out))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_bytes(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Bin;
                impl Visitor<'_> for Bin {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "{} bytes", $len)
                    }
                    fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<$name, E> {
                        v.try_into().map($name).map_err(|_| E::invalid_length(v.len(), &self))
                    }
                }
                d.deserialize_bytes(Bin)
            }
        }
    };
}

id!(
    /// A node: its ed25519 public key.
    NodeId, 32, "n-", "a node's id"
);
id!(
    /// A job, named by its submitter so that a repeated submission is the same job.
    JobId, 16, "j-", "a job's id"
);
id!(
    /// Content: the blake3 hash of a blob's bytes.
    BlobId, 32, "b-", "a content id"
);

fn first_word<const N: usize>(bytes: &[u8; N]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

impl BlobId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        BlobId(*blake3::hash(bytes).as_bytes())
    }
}

/// A unit: the smallest piece that is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId {
    pub job: JobId,
    pub index: u32,
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

/// A text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}: give all of its {digits} hexadecimal digits")]
pub struct BadId {
    /// As people call it.
    what: &'static str,
    digits: usize,
    text: String,
}
