//! Money: integer micro-credits, prices, and the one rounding.
//!
//! A cost is kept exact ([`Exact`]) until it is paid; then it is rounded *up*, once for all legs of a
//! settlement together. Up, because the buyer decides how work is cut into units: rounded down, work in pieces
//! of less than a micro-credit would be free. So the seller's cost is always covered (paper `market`,
//! lemma 1 b), at most one micro-credit a settlement is paid above the exact sum, and since escrow is rounded
//! in the same way it always suffices.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An amount in micro-credits, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Micro(pub u64);

impl Micro {
    pub const ZERO: Micro = Micro(0);

    /// More there never is: nine thousand million credits. Our choice: what the numbers of a web
    /// page hold exactly, and no sum of amounts that exist overflows.
    pub const MAX: Micro = Micro((1 << 53) - 1);

    /// `None` above [`Micro::MAX`].
    pub fn plus(self, other: Micro) -> Option<Micro> {
        self.0.checked_add(other.0).map(Micro).filter(|sum| *sum <= Micro::MAX)
    }

    /// `None` below zero.
    pub fn minus(self, other: Micro) -> Option<Micro> {
        self.0.checked_sub(other.0).map(Micro)
    }

    /// `None` above [`Micro::MAX`].
    pub fn sum(amounts: impl IntoIterator<Item = Micro>) -> Option<Micro> {
        amounts.into_iter().try_fold(Micro::ZERO, Micro::plus)
    }
}

/// In credits.
impl fmt::Display for Micro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Micro-credits for [`Price::PER`] of what is sold: of fuel where cycles are, of byte-seconds
/// where space is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Price(pub u64);

impl Price {
    pub const PER: u64 = 1_000_000_000;

    /// Higher ones are refused: nobody could pay them, and one more is still a number.
    pub const MAX: Price = Price(Micro::MAX.0 - 1);

    /// Exact cost of this quantity.
    pub fn of(self, quantity: u64) -> Exact {
        Exact(u128::from(self.0) * u128::from(quantity))
    }

    /// The highest price at which this quantity costs no more than `budget`, rounding included.
    pub fn within(budget: Micro, quantity: u64) -> Price {
        let exact = u128::from(budget.0) * u128::from(Price::PER);
        let price = exact.checked_div(quantity.into()).unwrap_or(u128::MAX);
        Price(u64::try_from(price).unwrap_or(u64::MAX)).min(Price::MAX)
    }
}

/// A sum before it is rounded, in 10^-9 micro-credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exact(u128);

impl Exact {
    pub const ZERO: Exact = Exact(0);

    pub fn plus(self, other: Exact) -> Option<Exact> {
        self.0.checked_add(other.0).map(Exact)
    }

    /// The amount to pay; `None` above [`Micro::MAX`].
    pub fn round_up(self) -> Option<Micro> {
        let amount = u64::try_from(self.0.div_ceil(Price::PER.into())).ok().map(Micro);
        amount.filter(|amount| *amount <= Micro::MAX)
    }
}

/// Payment for each of these parts. Their sum is rounded once: a part gets what the rounded sum grows by with
/// it. `None` above [`Micro::MAX`].
pub fn shares(parts: impl IntoIterator<Item = Exact>) -> Option<Vec<Micro>> {
    let (mut exact, mut paid) = (Exact::ZERO, Micro::ZERO);
    let share = |part| {
        exact = exact.plus(part)?;
        let due = exact.round_up()?;
        let share = due.minus(paid)?;
        paid = due;
        Some(share)
    };
    parts.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use crate::money::*;
    use crate::protocol::Rng;

    /// Below 2^bits, each length alike.
    fn any_size(rng: &mut Rng, bits: u64) -> u64 {
        let bits = rng.below(bits);
        rng.below(1 << bits)
    }

    #[test]
    fn amounts_end_at_zero_and_at_what_a_page_can_count() {
        assert_eq!(Micro(3).minus(Micro(4)), None);
        assert_eq!(Micro::MAX.plus(Micro(1)), None);
        assert_eq!(Micro(u64::MAX).plus(Micro(1)), None);
        assert_eq!(Price(u64::MAX).of(u64::MAX).round_up(), None);
        assert_eq!(Price(u64::MAX).of(u64::MAX).plus(Price(u64::MAX).of(u64::MAX)), None);
        assert_eq!(Micro(1_250_000).to_string(), "1.250000");
    }

    #[test]
    fn work_in_pieces_is_never_free() {
        assert_eq!(Price(1).of(1).round_up(), Some(Micro(1)));
        assert_eq!(Price(1).of(Price::PER).round_up(), Some(Micro(1)));
        assert_eq!(Price(1).of(Price::PER + 1).round_up(), Some(Micro(2)));
        assert_eq!(Price(5).of(0).round_up(), Some(Micro::ZERO));
    }

    #[test]
    fn the_highest_price_within_a_budget_is_affordable_and_the_next_is_not() {
        let mut rng = Rng::from_seed([1; 32]);
        for _ in 0..10_000 {
            let budget = Micro(any_size(&mut rng, 53));
            let quantity = 1 + any_size(&mut rng, 50);
            let price = Price::within(budget, quantity);
            assert!(price.of(quantity).round_up().is_some_and(|cost| cost <= budget));
            let next = Price(price.0 + 1).of(quantity).round_up();
            assert!(price == Price::MAX || next.is_none_or(|cost| cost > budget), "{budget:?} {quantity}");
        }
        assert_eq!(Price::within(Micro(1), 0), Price::MAX);
    }

    #[test]
    fn shares_are_rounded_once_and_together() {
        // Three thirds of a micro-credit are one, not three.
        let third = Price(1).of(333_333_333);
        assert_eq!(shares([third, third, third]), Some(vec![Micro(1), Micro(0), Micro(0)]));
        let mut rng = Rng::from_seed([2; 32]);
        for _ in 0..1000 {
            let parts: Vec<Exact> = (0..rng.below(9)).map(|_| Exact(rng.u64().into())).collect();
            let all = parts.iter().try_fold(Exact::ZERO, |sum, part| sum.plus(*part));
            let paid = shares(parts).and_then(Micro::sum);
            assert_eq!(paid, all.and_then(Exact::round_up));
        }
    }
}
