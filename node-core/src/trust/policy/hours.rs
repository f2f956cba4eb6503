//! Hours of the day and days of the week.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Minutes of a day.
pub(super) const DAY: u16 = 24 * 60;

/// Monday to Sunday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

impl Day {
    pub const ALL: [Day; 7] =
        [Day::Monday, Day::Tuesday, Day::Wednesday, Day::Thursday, Day::Friday, Day::Saturday, Day::Sunday];

    pub fn next(self) -> Day {
        Day::ALL[(self as usize + 1) % 7]
    }

    fn before(self) -> Day {
        Day::ALL[(self as usize + 6) % 7]
    }
}

/// When something may be done on one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hours {
    All,
    None,
    /// From the one minute of the day up to the other; if that is the earlier, over midnight into the
    /// next day.
    Between(u16, u16),
}

/// Error of a text that names no hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} are no hours: write \"none\", \"all\", or a time from 0:00 to 24:00 and another, as in \"22:00-6:30\""
)]
pub struct BadHours(String);

impl Hours {
    /// BOINC's pair: hours with fractions, equal ones for the whole day. None unless both are from 0
    /// to 24.
    pub fn of(start: f64, end: f64) -> Option<Hours> {
        let minute = |hour: f64| (0.0..=24.0).contains(&hour).then(|| (hour * 60.0).round() as u16);
        let (start, end) = (minute(start)?, minute(end)?);
        Some(if start % DAY == end % DAY { Hours::All } else { Hours::Between(start % DAY, end) })
    }

    /// Whether they have begun on their day, and not ended on that.
    fn today(self, minute: u16) -> bool {
        match self {
            Hours::All => true,
            Hours::None => false,
            Hours::Between(start, end) if start < end => (start..end).contains(&minute),
            Hours::Between(start, _) => minute >= start,
        }
    }

    /// Whether they reach over midnight to this minute of the next day.
    fn tomorrow(self, minute: u16) -> bool {
        matches!(self, Hours::Between(start, end) if start >= end && minute < end)
    }
}

impl FromStr for Hours {
    type Err = BadHours;

    fn from_str(text: &str) -> Result<Hours, BadHours> {
        let minute = |text: &str| -> Option<u16> {
            let (hour, minute) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (minute < 60).then_some(hour.checked_mul(60)? + minute).filter(|minute| *minute <= DAY)
        };
        let between = |text: &str| {
            let (start, end) = text.split_once('-')?;
            let (start, end) = (minute(start)? % DAY, minute(end)?);
            Some(if start == end % DAY { Hours::All } else { Hours::Between(start, end) })
        };
        match text.trim() {
            "all" => Ok(Hours::All),
            "none" => Ok(Hours::None),
            text => between(text).ok_or_else(|| BadHours(text.chars().take(40).collect())),
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hours::All => f.write_str("all"),
            Hours::None => f.write_str("none"),
            Hours::Between(start, end) => {
                write!(f, "{}:{:02}-{}:{:02}", start / 60, start % 60, end / 60, end % 60)
            }
        }
    }
}

impl Serialize for Hours {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hours {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hours, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hours of single days, in place of those of every day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Week(pub BTreeMap<Day, Hours>);

impl Week {
    /// The hours of a day, `usual` unless it has its own.
    pub fn hours(&self, day: Day, usual: Hours) -> Hours {
        self.0.get(&day).copied().unwrap_or(usual)
    }

    /// Whether a minute of a day is in hours; those that began on the day before count.
    pub fn allows(&self, day: Day, minute: u16, usual: Hours) -> bool {
        self.hours(day, usual).today(minute) || self.hours(day.before(), usual).tomorrow(minute)
    }

    /// Minutes until the next hours begin; none if they never do.
    pub fn wait(&self, day: Day, minute: u16, usual: Hours) -> Option<u32> {
        let (mut day, mut minute) = (day, minute);
        for passed in 0..=7 * u32::from(DAY) {
            if self.allows(day, minute, usual) {
                return Some(passed);
            }
            minute += 1;
            if minute >= DAY {
                (day, minute) = (day.next(), 0);
            }
        }
        None
    }
}
