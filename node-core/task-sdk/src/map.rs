//! A function over many items, on all workers.

use crate::{Error, Result, Team, workers};
use serde::{Serialize, de::DeserializeOwned};
use std::cell::Cell;

/// Calls a function with each item, in threads on all workers, and returns the results in the order of the items.
///
/// Items are shared out one at a time to the thread that is free, so that a fast one does more. Only thread 0 goes on
/// after the call, and only it takes items; the others run the program up to the call, work in it, and end in it with
/// exit code 0. Their arguments are those of the program. If the job may have one thread only, it does the work. Use [`Team::map`] to map more than once.
///
/// # Errors
/// [`Error::Team`] at a second call, [`Error::Argument`] if an argument of the program has a space in it, and those of
/// [`Team::map`].
pub fn map<T, R>(items: impl IntoIterator<Item = T>, work: impl FnMut(T) -> R) -> Result<Vec<R>>
where
    T: Serialize + DeserializeOwned,
    R: Serialize + DeserializeOwned,
{
    thread_local! {
        static CALLED: Cell<bool> = const { Cell::new(false) };
    }
    if CALLED.replace(true) {
        return Err(Error::Team("`map` can be called once: the other threads end in it; use `Team::map`"));
    }
    // Thread 0 only waits, and needs no worker while it does.
    let size = workers()?.saturating_add(1);
    let mut team = Team::up_to(size, std::env::args().skip(1))?;
    match team.map(items, work)? {
        Some(results) => Ok(results),
        None => std::process::exit(0),
    }
}

impl Team {
    /// Calls a function with each item of rank 0, in the other members, and returns the results in the order of the
    /// items; `None` in all but rank 0. Items are shared out one at a time to the member that is free, so that a fast
    /// one does more. In a team of one member rank 0 does the work. Items that other ranks bring are left out.
    ///
    /// # Errors
    /// [`Error::OutOfStep`], and [`Error::Team`] if a message that is none of this call comes in between. A member that
    /// fails is waited for until the job fails: the end of a thread is not seen by a read from any.
    pub fn map<T, R>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut work: impl FnMut(T) -> R,
    ) -> Result<Option<Vec<R>>>
    where
        T: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        self.step();
        if self.size() == 1 {
            return Ok(Some(items.into_iter().map(work).collect()));
        }
        if !self.is_first() {
            while let Some((place, item)) = self.recv::<Option<(u64, T)>>(0)? {
                self.send(0, &(place, work(item)))?;
            }
            return Ok(None);
        }
        let mut shares = Shares::new(items.into_iter());
        for rank in 1..self.size() {
            self.send(rank, &shares.next())?;
        }
        while shares.open > 0 {
            let (rank, (place, result)) = self.recv_any()?;
            if !shares.done(place, result) {
                return Err(Error::Team("a member has sent the result of an item that it was not given"));
            }
            self.send(rank, &shares.next())?;
        }
        Ok(Some(shares.results.into_iter().flatten().collect()))
    }
}

/// Items that are shared out, and results that have come.
struct Shares<I, R> {
    items: I,
    /// One for each item that was shared out.
    results: Vec<Option<R>>,
    /// Items whose results have not come yet.
    open: usize,
}

impl<T, I: Iterator<Item = T>, R> Shares<I, R> {
    fn new(items: I) -> Shares<I, R> {
        Shares { items, results: Vec::new(), open: 0 }
    }

    /// The next item and its place; none: all were shared out.
    fn next(&mut self) -> Option<(u64, T)> {
        let item = self.items.next()?;
        self.results.push(None);
        self.open += 1;
        Some((self.results.len() as u64 - 1, item))
    }

    /// Takes a result; false: nobody was asked for it.
    fn done(&mut self, place: u64, result: R) -> bool {
        let place = usize::try_from(place).ok().and_then(|place| self.results.get_mut(place));
        let Some(empty @ None) = place else { return false };
        *empty = Some(result);
        self.open -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Shares, map};
    use crate::Error;

    #[test]
    fn results_have_the_order_of_items_in_whatever_order_they_come() {
        let mut shares = Shares::new("abc".chars());
        let taken: Vec<_> = std::iter::from_fn(|| shares.next()).collect();
        assert_eq!(taken, [(0, 'a'), (1, 'b'), (2, 'c')]);
        assert!([(1, "B"), (2, "C"), (0, "A")].into_iter().all(|(place, result)| shares.done(place, result)));
        assert_eq!((shares.open, shares.results), (0, vec![Some("A"), Some("B"), Some("C")]));
    }

    #[test]
    fn a_result_counts_once() {
        let mut shares = Shares::new([1, 2].into_iter());
        shares.next();
        assert!(!shares.done(1, 'x'), "nobody has it");
        assert!(shares.done(0, 'x'));
        assert!(!shares.done(0, 'y'));
        assert_eq!((shares.open, shares.next()), (0, Some((1, 2))));
    }

    #[test]
    fn the_second_call_is_told() {
        let first = map([1], |n: u8| n).unwrap_err();
        assert!(matches!(first, Error::NoThread));
        assert!(matches!(map([1], |n: u8| n).unwrap_err(), Error::Team(_)));
    }
}
