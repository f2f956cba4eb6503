//! A job's budget: a bound on the cost of all legs of all its units and replicas together.

use crate::money::Micro;
use serde::{Deserialize, Serialize};

/// `bound` is what was paid or may still have to be; it is never above `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    most: Micro,
    bound: Micro,
}

/// A cost above what is left of the budget; a unit waits with this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it would cost up to {needed} credits, and {left} of the budget of {most} are left")]
pub struct Unaffordable {
    pub needed: Micro,
    pub left: Micro,
    pub most: Micro,
}

impl Budget {
    pub fn new(most: Micro) -> Budget {
        Budget { most, bound: Micro::ZERO }
    }

    pub fn bound(&self) -> Micro {
        self.bound
    }

    pub fn left(&self) -> Micro {
        self.most.minus(self.bound).unwrap_or_default()
    }

    /// Binds the most that something may cost, before it is agreed to.
    ///
    /// # Errors
    /// [`Unaffordable`] if more than is left is needed; nothing is bound then.
    pub fn bind(&mut self, needed: Micro) -> Result<(), Unaffordable> {
        let bound = self.bound.plus(needed).filter(|bound| *bound <= self.most);
        self.bound = bound.ok_or(Unaffordable { needed, left: self.left(), most: self.most })?;
        Ok(())
    }

    /// Frees what was bound and not paid.
    pub fn free(&mut self, unused: Micro) {
        self.bound = self.bound.minus(unused).unwrap_or_default();
    }

    /// Another limit; not below what is bound.
    pub fn limit(&mut self, most: Micro) {
        self.most = most.max(self.bound);
    }
}

#[cfg(test)]
mod tests {
    use crate::budget::*;

    #[test]
    fn what_was_bound_and_not_used_can_be_bound_again_and_never_more() {
        let mut budget = Budget::new(Micro(10));
        assert_eq!(budget.bind(Micro(7)), Ok(()));
        let short = budget.bind(Micro(4)).unwrap_err();
        assert_eq!((short.needed, short.left, short.most), (Micro(4), Micro(3), Micro(10)));
        budget.free(Micro(5));
        assert_eq!(budget.bind(Micro(8)), Ok(()));
        assert!(budget.bind(Micro(u64::MAX)).is_err());
        budget.limit(Micro(1));
        assert_eq!((budget.left(), budget.bound()), (Micro(0), Micro(10)));
    }
}
