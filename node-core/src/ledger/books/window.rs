//! Which orders of a node were carried out, and with what outcome: each number once.
//!
//! As many numbers as an order may be behind the newest one are remembered; what is older is
//! refused, carried out or not. So a table of fixed size keeps out every repetition for ever.

use crate::contract::{Order, Outcome, Refusal};
use crate::ledger::WINDOW;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Window {
    /// The first order of the account. What was sent before there was one is never carried out.
    lowest: u64,
    highest: u64,
    noted: BTreeMap<u64, (u64, Outcome)>,
}

/// Tells orders apart that have one number.
pub(super) fn check(order: &Order) -> u64 {
    let bytes = super::rows::encode(order);
    let hash = blake3::hash(&bytes);
    hash.as_bytes().first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

impl Window {
    pub(super) const EMPTY: Window = Window { lowest: 0, highest: 0, noted: BTreeMap::new() };

    /// Whether no order came.
    pub(super) fn is_unused(&self) -> bool {
        (self.lowest, self.highest) == (0, 0) && self.noted.is_empty()
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Outcome that answers the order without carrying it out; `None`: the order is new.
    pub(super) fn find(&self, number: u64, check: u64) -> Option<Outcome> {
        match self.noted.get(&number) {
            Some((same, outcome)) if *same == check => return Some(*outcome),
            Some(_) => return Some(Err(Refusal::NumberTaken)),
            None => {}
        }
        if number <= self.lowest || number.saturating_add(WINDOW) <= self.highest {
            return Some(Err(Refusal::TooLate));
        }
        // A new life leaves a window out; nobody needs to go further.
        (number > self.highest.saturating_add(2 * WINDOW)).then_some(Err(Refusal::TooEarly))
    }

    /// Gives the numbers that are forgotten for it.
    pub(super) fn note(&mut self, number: u64, check: u64, outcome: Outcome) -> Vec<u64> {
        if self.lowest == 0 {
            self.lowest = number;
        }
        self.noted.insert(number, (check, outcome));
        self.highest = self.highest.max(number);
        let mut gone = Vec::new();
        while let Some(oldest) =
            self.noted.first_entry().filter(|first| *first.key() + WINDOW <= self.highest)
        {
            gone.push(oldest.remove_entry().0);
        }
        gone
    }

    pub(super) fn get(&self, number: u64) -> Option<(u64, Outcome)> {
        self.noted.get(&number).copied()
    }

    /// The first and the highest number, as they are written down.
    pub(super) fn ends(&self) -> (u64, u64) {
        (self.lowest, self.highest)
    }

    pub(super) fn restore((lowest, highest): (u64, u64)) -> Window {
        Window { lowest, highest, noted: BTreeMap::new() }
    }

    pub(super) fn restore_outcome(&mut self, number: u64, noted: (u64, Outcome)) {
        self.noted.insert(number, noted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once_in_any_order_and_an_old_one_never() {
        let mut window = Window::default();
        for number in [1, 3, 700, 2] {
            assert_eq!(window.find(number, 9), None);
            window.note(number, 9, Ok(()));
            assert_eq!(window.find(number, 9), Some(Ok(())));
            assert_eq!(window.find(number, 8), Some(Err(Refusal::NumberTaken)));
        }
        assert_eq!(window.find(0, 9), Some(Err(Refusal::TooLate)));
        assert_eq!(window.find(700 + 2 * WINDOW + 1, 9), Some(Err(Refusal::TooEarly)));
        let mut late = Window::default();
        late.note(5, 9, Ok(()));
        assert_eq!(late.find(4, 9), Some(Err(Refusal::TooLate)), "it was sent before the account was opened");
        let forgotten = window.note(2 + WINDOW, 9, Err(Refusal::Over));
        assert_eq!(forgotten, [1, 2]);
        assert_eq!(window.find(2, 9), Some(Err(Refusal::TooLate)));
        assert_eq!(window.find(3, 9), Some(Ok(())));
        assert_eq!(window.find(2 + WINDOW, 9), Some(Err(Refusal::Over)));
        assert!(window.noted.len() as u64 <= WINDOW);
    }
}
