//! Questions under way: what a machine asked of others by number, such as a lookup on the ring, and what each
//! answer is for.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Questions at once where a machine says no other number. Our choice: a large job's first wave of purchases.
const MOST: usize = 4096;

/// At most one question for each purpose, and at most so many in all.
#[derive(Debug)]
pub struct UnderWay<W> {
    most: usize,
    last: u64,
    purposes: BTreeMap<u64, W>,
    numbers: BTreeMap<W, u64>,
}

impl<W: Copy + Ord> Default for UnderWay<W> {
    fn default() -> UnderWay<W> {
        UnderWay::new(MOST)
    }
}

impl<W: Copy + Ord> UnderWay<W> {
    /// `most`, 1 or more: the oldest question gives way to one too many, and its answer finds nobody. Machines
    /// that count on each answer have no more purposes than that.
    pub fn new(most: usize) -> UnderWay<W> {
        UnderWay { most: most.max(1), last: 0, purposes: BTreeMap::new(), numbers: BTreeMap::new() }
    }

    /// The number of a new question. An earlier one for the same purpose is forgotten.
    pub fn ask(&mut self, purpose: W) -> u64 {
        if let Some(earlier) = self.numbers.remove(&purpose) {
            self.purposes.remove(&earlier);
        }
        while self.purposes.len() >= self.most
            && let Some((_, oldest)) = self.purposes.pop_first()
        {
            self.numbers.remove(&oldest);
        }
        self.last += 1;
        self.purposes.insert(self.last, purpose);
        self.numbers.insert(purpose, self.last);
        self.last
    }

    /// Ends a question: what it was for, if an answer is still waited for.
    pub fn answered(&mut self, number: u64) -> Option<W> {
        let purpose = self.purposes.remove(&number)?;
        self.numbers.remove(&purpose);
        Some(purpose)
    }

    /// Waits no more for an answer for this purpose.
    pub fn forget(&mut self, purpose: W) {
        if let Some(number) = self.numbers.remove(&purpose) {
            self.purposes.remove(&number);
        }
    }

    /// Waits on only for what is still wanted.
    pub fn retain(&mut self, wanted: impl Fn(&W) -> bool) {
        self.purposes.retain(|_, purpose| wanted(purpose));
        self.numbers.retain(|purpose, _| wanted(purpose));
    }

    /// Waits on only for the newest `most` of these purposes.
    pub fn keep_newest(&mut self, of: RangeInclusive<W>, most: usize) {
        let mut numbers: Vec<(u64, W)> = self.numbers.range(of).map(|(of, number)| (*number, *of)).collect();
        numbers.sort_unstable();
        let over = numbers.len().saturating_sub(most);
        numbers.into_iter().take(over).for_each(|(_, purpose)| self.forget(purpose));
    }

    pub fn has(&self, purpose: W) -> bool {
        self.numbers.contains_key(&purpose)
    }

    pub fn len(&self) -> usize {
        self.purposes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.purposes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Rng;

    /// Beside a plain list of questions, over random steps.
    #[test]
    fn each_answer_finds_what_it_is_for_once_and_nothing_piles_up() {
        for seed in 0..100 {
            let mut rng = Rng::from_seed([seed; 32]);
            let most = 1 + rng.below(6) as usize;
            let mut under_way = UnderWay::new(most);
            let mut list: Vec<(u64, u64)> = Vec::new();
            let mut last = 0;
            for _ in 0..300 {
                let purpose = rng.below(8);
                match rng.below(6) {
                    0 | 1 => {
                        let number = under_way.ask(purpose);
                        assert!(number > last, "a number is given once");
                        last = number;
                        list.retain(|(_, other)| *other != purpose);
                        list.push((number, purpose));
                        if list.len() > most {
                            list.remove(0);
                        }
                    }
                    2 => {
                        let number = rng.below(last + 2);
                        let at = list.iter().position(|(of, _)| *of == number);
                        assert_eq!(under_way.answered(number), at.map(|at| list.remove(at).1), "seed {seed}");
                    }
                    3 => {
                        under_way.forget(purpose);
                        list.retain(|(_, other)| *other != purpose);
                    }
                    4 => {
                        let (range, newest) = (0..=rng.below(8), rng.below(3) as usize);
                        under_way.keep_newest(range.clone(), newest);
                        let inside = list.iter().filter(|(_, other)| range.contains(other)).count();
                        let mut over = inside.saturating_sub(newest);
                        list.retain(|(_, other)| {
                            let goes = over > 0 && range.contains(other);
                            over -= usize::from(goes);
                            !goes
                        });
                    }
                    _ => {
                        let odd = rng.below(20) == 0;
                        under_way.retain(|purpose| !odd || purpose % 2 == 0);
                        list.retain(|(_, purpose)| !odd || purpose % 2 == 0);
                    }
                }
                assert_eq!(under_way.len(), list.len(), "seed {seed}");
                assert_eq!(under_way.is_empty(), list.is_empty());
                assert_eq!(under_way.has(purpose), list.iter().any(|(_, other)| *other == purpose));
                assert_eq!(under_way.purposes.len(), under_way.numbers.len());
            }
        }
    }
}
