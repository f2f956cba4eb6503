//! Sizes and durations as people write them: `256MiB`, `10m`, `1h30m`.

use node_core::money::Micro;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

/// A span of time, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

/// How much of a unit's work may be lost; none: all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Every(pub(crate) Option<Duration>);

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "0" | "none" => Ok(Every(None)),
            text => text.parse::<Span>().map(|span| Every(Some(span.0))),
        }
    }
}

/// Treatment of units whose node goes silent: they are recovered elsewhere, or the node is waited for first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLoss {
    Recover,
    Wait(Duration),
}

impl FromStr for OnLoss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().split_once(char::is_whitespace) {
            None if text.trim() == "recover" => Ok(OnLoss::Recover),
            Some(("wait", span)) => span.parse::<Span>().map(|span| OnLoss::Wait(span.0)),
            _ => Err(format!("{text:?} is neither \"recover\" nor a wait such as \"wait 10m\"")),
        }
    }
}

/// An amount of money, micro-credits. Written in credits, with at most six digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credits(pub(crate) u64);

impl FromStr for Credits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is no amount: write credits as 2 or 0.25, at most six digits behind the point")
        };
        let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(whole) || !digits(part) || part.len() > 6 {
            return Err(bad());
        }
        let micro = format!("{part:0<6}").parse::<u64>().ok();
        let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(1_000_000));
        let sum = whole.zip(micro).and_then(|(whole, micro)| whole.checked_add(micro));
        sum.filter(|amount| (1..=Micro::MAX.0).contains(amount)).map(Credits).ok_or_else(bad)
    }
}

impl fmt::Display for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Micro(self.0).fmt(f)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is no size: write bytes, or a number with KiB, MiB, GiB, TiB, kB, MB, GB or TB")
        };
        let (number, unit) = split(text.trim()).ok_or_else(bad)?;
        // A bare K, M or G means what it means to `docker`, `ulimit` and HTCondor: powers of two.
        let unit = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        scaled(number, unit).map(Size).ok_or_else(bad)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("{text:?} is no duration: write seconds, or numbers with ms, s, m, h or d as in 1h30m")
        };
        let mut rest = text.trim();
        let mut total = 0u64;
        let mut bare = false;
        while !rest.is_empty() {
            let (number, after) = split(rest).ok_or_else(bad)?;
            let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, next) = after.split_at(unit_len);
            let micros = match unit.trim() {
                "" => 1_000_000,
                "ms" => 1_000,
                "s" | "sec" => 1_000_000,
                "m" | "min" => 60_000_000,
                "h" => 3_600_000_000,
                "d" => 86_400_000_000,
                _ => return Err(bad()),
            };
            // "5 7" and "1h30" leave it open what the bare number means.
            if bare || (unit.trim().is_empty() && rest.len() != text.trim().len()) {
                return Err(bad());
            }
            bare = unit.trim().is_empty();
            total = scaled(number, micros).and_then(|us| total.checked_add(us)).ok_or_else(bad)?;
            rest = next.trim_start();
        }
        if total == 0 {
            return Err(format!("{text:?} is no duration that anything could run in"));
        }
        Ok(Span(Duration::from_micros(total)))
    }
}

/// The leading number and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.starts_with(|c: char| c.is_ascii_digit())).then_some((number, rest.trim_start()))
}

/// `number × unit`, whole, if it is in range.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit);
    }
    let scaled = number.parse::<f64>().ok()? * unit as f64;
    // Above 2^53 a fraction is not meant seriously.
    (scaled.is_finite() && (0.0..9e15).contains(&scaled)).then_some(scaled.round() as u64)
}

/// Takes what `FromStr` takes, and bare numbers.
struct Written<T>(&'static str, std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
        n.to_string().parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
        n.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
        n.to_string().parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Written("a size as \"256MiB\" or in bytes", std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Written("a duration as \"10m\" or in seconds", std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Every {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Written(
            "a duration as \"30s\" or in seconds, or \"none\"",
            std::marker::PhantomData,
        ))
    }
}

impl<'de> Deserialize<'de> for OnLoss {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Written("\"recover\" or \"wait 10m\"", std::marker::PhantomData))
    }
}

impl<'de> Deserialize<'de> for Credits {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(Written("credits as 0.25 or \"0.25\"", std::marker::PhantomData))
    }
}

/// As the API takes it: bytes.
impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

/// As the API takes it: seconds.
impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.as_secs_f64().serialize(s)
    }
}

/// As the API takes it: seconds, 0 for none.
impl Serialize for Every {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.unwrap_or_default().as_secs_f64().serialize(s)
    }
}

/// As the API takes it, with seconds.
impl Serialize for OnLoss {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            OnLoss::Recover => s.serialize_unit_variant("OnLoss", 0, "recover"),
            OnLoss::Wait(time) => s.serialize_newtype_variant("OnLoss", 1, "wait", &time.as_secs_f64()),
        }
    }
}

/// As the API takes it: micro-credits.
impl Serialize for Credits {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

/// Processor seconds and ages, for people.
pub(crate) fn seconds(s: f64) -> String {
    match s {
        s if s < 0.0 => "0 s".into(),
        s if s < 0.0995 => format!("{:.0} ms", s * 1e3),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<u64> {
        text.parse::<Size>().ok().map(|s| s.0)
    }

    fn span(text: &str) -> Option<f64> {
        text.parse::<Span>().ok().map(|s| s.0.as_secs_f64())
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(bytes("4096"), Some(4096));
        assert_eq!(bytes("256MiB"), Some(256 << 20));
        assert_eq!(bytes("256 mib"), Some(256 << 20));
        assert_eq!(bytes("64k"), Some(64 << 10));
        assert_eq!(bytes("1.5GB"), Some(1_500_000_000));
        for bad in ["", "MiB", "5 apples", "-1", "1e3", "99999999999999999999", "18446744073709551615k"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn credits_are_exact() {
        let micro = |text: &str| text.parse::<Credits>().ok().map(|credits| credits.0);
        assert_eq!(micro("2"), Some(2_000_000));
        assert_eq!(micro("0.25"), Some(250_000));
        assert_eq!(micro("0.000001"), Some(1));
        assert_eq!(Credits(1_250_000).to_string(), "1.250000");
        for bad in ["", "0", "-1", "0.0000001", "1e3", ".5", "5.", "9007199255", "99999999999999999999"] {
            assert_eq!(micro(bad), None, "{bad}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        assert_eq!(span("90"), Some(90.0));
        assert_eq!(span("10m"), Some(600.0));
        assert_eq!(span("1h30m"), Some(5400.0));
        assert_eq!(span("1h 30 min"), Some(5400.0));
        assert_eq!(span("250ms"), Some(0.25));
        assert_eq!(span("1.5s"), Some(1.5));
        for bad in ["", "m", "10 fortnights", "1h30", "5 7", "-3s", "0", "0s"] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }

    #[test]
    fn amounts_of_time_stay_short() {
        let shown: Vec<_> = [0.004, 1.25, 75.0, 600.0, 9000.0, 400_000.0].map(seconds).into();
        assert_eq!(shown, ["4 ms", "1.2 s", "75 s", "10 min", "2.5 h", "4.6 d"]);
    }

    #[test]
    fn checkpoints_and_losses_are_written_in_words() {
        assert_eq!("30s".parse(), Ok(Every(Some(Duration::from_secs(30)))));
        assert_eq!(("none".parse(), "0".parse()), (Ok(Every(None)), Ok(Every(None))));
        assert!("often".parse::<Every>().is_err());
        assert_eq!("recover".parse(), Ok(OnLoss::Recover));
        assert_eq!("wait 10m".parse(), Ok(OnLoss::Wait(Duration::from_secs(600))));
        for bad in ["", "wait", "wait long", "recover 5m", "give up"] {
            assert!(bad.parse::<OnLoss>().is_err(), "{bad}");
        }
    }
}
