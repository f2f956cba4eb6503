//! Which runners produced a unit's state: a result is as trusted as its least trusted runner.

use crate::ids::NodeId;
use crate::platform::Platform;
use serde::{Deserialize, Serialize};

/// Spans that are told apart. Our choice: more moves than a person follows; 4 KiB a unit.
pub(crate) const SPANS_MAX: usize = 64;

/// Fuel that one runner used of what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub runner: NodeId,
    pub platform: Platform,
    pub from: u64,
    pub to: u64,
}

/// The way of a unit from its first instruction to where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journey {
    /// In order.
    pub spans: Vec<Span>,
    /// There were more than are told apart, or than the owner knows: the spans do not name all.
    pub merged: bool,
    /// Checkpoints that were recorded.
    pub checkpoints: u32,
    /// Fuel that was used in vain, as far as it is known.
    pub lost_fuel: u64,
}

impl Journey {
    /// Drops the work beyond `fuel`: the unit went on from there.
    pub fn cut(&mut self, fuel: u64) {
        self.spans.retain(|span| span.from < fuel);
        if let Some(last) = self.spans.last_mut() {
            last.to = last.to.min(fuel);
        }
    }

    /// `runner` has brought it to `to`, having taken it over at `began`.
    pub fn ran(&mut self, runner: NodeId, platform: Platform, began: u64, to: u64) {
        self.cut(began);
        if self.spans.last().map_or(0, |last| last.to) < began {
            // An owner that lost its records does not know who brought it there.
            self.merged = true;
        }
        match self.spans.last_mut() {
            Some(last) if last.runner == runner && last.to == began => last.to = to.max(began),
            Some(_) if to <= began => {}
            _ => self.spans.push(Span { runner, platform, from: began, to: to.max(began) }),
        }
        while self.spans.len() > SPANS_MAX {
            let second = self.spans.remove(1);
            self.spans[0].to = second.to;
            self.merged = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::progress::journey::*;

    fn node(n: u8) -> NodeId {
        NodeId([n; 32])
    }

    fn told(journey: &Journey) -> Vec<(u8, u64, u64)> {
        journey.spans.iter().map(|span| (span.runner.0[0], span.from, span.to)).collect()
    }

    #[test]
    fn what_was_computed_in_vain_belongs_to_nobody() {
        let mut journey = Journey::default();
        journey.ran(node(1), Platform::Native, 0, 50);
        journey.ran(node(1), Platform::Native, 0, 100);
        journey.ran(node(2), Platform::Browser, 100, 180);
        assert_eq!(told(&journey), [(1, 0, 100), (2, 100, 180)]);
        // The newest could not be used: another goes on from an older one, within a span.
        journey.ran(node(3), Platform::Native, 70, 90);
        assert_eq!(told(&journey), [(1, 0, 70), (3, 70, 90)]);
        journey.ran(node(4), Platform::Native, 0, 30);
        assert_eq!(told(&journey), [(4, 0, 30)]);
    }

    #[test]
    fn a_long_journey_stays_short_and_says_so() {
        let mut journey = Journey::default();
        for n in 0..200 {
            journey.ran(node(n), Platform::Native, u64::from(n) * 10, u64::from(n) * 10 + 10);
        }
        assert_eq!((journey.spans.len(), journey.merged), (SPANS_MAX, true));
        assert!(journey.spans.windows(2).all(|pair| pair[0].to == pair[1].from), "without gaps");
        assert_eq!(journey.spans.last().map(|span| span.to), Some(2000));
    }
}
