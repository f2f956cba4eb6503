//! Values with bounds: what does not fit is an error where it stands in the file.

use crate::rng::Rng;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// An integer within bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Int<const LOW: u64, const HIGH: u64>(pub u64);

impl<'de, const LOW: u64, const HIGH: u64> Deserialize<'de> for Int<LOW, HIGH> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(d)?;
        match u64::try_from(number) {
            Ok(number) if (LOW..=HIGH).contains(&number) => Ok(Int(number)),
            _ => Err(de::Error::custom(format!("{number} is not between {LOW} and {HIGH}"))),
        }
    }
}

/// A part of the whole, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share(pub f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Number(share) = Number::deserialize(d)?;
        match (0.0..=1.0).contains(&share) {
            true => Ok(Share(share)),
            false => Err(de::Error::custom(format!("{share} is not a share, between 0 and 1"))),
        }
    }
}

/// A time in the unit that the key ends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Time(pub f64);

/// A month in milliseconds; nobody simulates longer, whatever the unit.
const LONGEST: f64 = 2.6e9;

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Number(time) = Number::deserialize(d)?;
        match (0.0..=LONGEST).contains(&time) {
            true => Ok(Time(time)),
            false => Err(de::Error::custom(format!("{time} is not a time, from 0 to {LONGEST}"))),
        }
    }
}

impl Time {
    pub fn millis_as_micros(&self) -> u64 {
        (self.0 * 1e3).round() as u64
    }

    pub fn seconds_as_micros(&self) -> u64 {
        (self.0 * 1e6).round() as u64
    }

    pub fn minutes_as_micros(&self) -> u64 {
        (self.0 * 60e6).round() as u64
    }
}

/// One number, or a pair to draw between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub low: Time,
    pub high: Time,
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Range;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a pair of them")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Range, E> {
                self.visit_f64(v as f64)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Range, E> {
                let time = Time::deserialize(de::value::F64Deserializer::new(v))?;
                Ok(Range { low: time, high: time })
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Range, A::Error> {
                let mut next = || seq.next_element::<Time>();
                match (next()?, next()?, next()?) {
                    (Some(low), Some(high), None) if low <= high => Ok(Range { low, high }),
                    (Some(Time(low)), Some(Time(high)), None) => {
                        Err(de::Error::custom(format!("{low} is above {high}")))
                    }
                    _ => Err(de::Error::custom("a range has two ends")),
                }
            }
        }
        d.deserialize_any(Either)
    }
}

impl Range {
    pub fn seconds_as_micros(self) -> (u64, u64) {
        (self.low.seconds_as_micros(), self.high.seconds_as_micros())
    }

    /// An integer of it.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        rng.between(self.low.0 as u64, self.high.0 as u64)
    }

    /// Microseconds of it, in seconds.
    pub fn draw_seconds(&self, rng: &mut Rng) -> u64 {
        rng.between(self.low.seconds_as_micros(), self.high.seconds_as_micros())
    }
}

/// How many tasks a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Tasks(u32),
    /// One for each node.
    All,
}

impl Asked {
    pub fn of(self, nodes: usize) -> u32 {
        match self {
            Asked::Tasks(tasks) => tasks,
            Asked::All => nodes as u32,
        }
    }
}

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Asked;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tasks, or \"all\"")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Asked, E> {
                u32::try_from(v)
                    .map(Asked::Tasks)
                    .map_err(|_| E::custom(format!("{v} is not a number of tasks, 0 to {}", u32::MAX)))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Asked, E> {
                match v {
                    "all" => Ok(Asked::All),
                    _ => Err(E::invalid_value(de::Unexpected::Str(v), &self)),
                }
            }
        }
        d.deserialize_any(Either)
    }
}

/// A float that may be written without a point.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Number, E> {
                Ok(Number(v))
            }
        }
        d.deserialize_any(Either)
    }
}
