//! The tree of a team: a binomial one, so that n members need log2 n steps.

/// Rank that a member gives its value to; none: it is rank 0.
pub(super) fn above(rank: usize) -> Option<usize> {
    (rank > 0).then(|| rank & (rank - 1))
}

/// Ranks that a member has values of, in rising order. Each has those of all ranks up to the next.
pub(super) fn below(rank: usize, size: usize) -> impl Iterator<Item = usize> {
    let steps = (0..usize::BITS - 1).map(|bit| 1 << bit);
    steps.take_while(move |step| rank & step == 0 && rank + step < size).map(move |step| rank + step)
}

#[cfg(test)]
mod tests {
    use super::{above, below};

    /// Values of all ranks from this one on, joined as `Team::reduce` does.
    fn joined(rank: usize, size: usize) -> Vec<usize> {
        let of_others = below(rank, size).flat_map(|other| joined(other, size));
        std::iter::once(rank).chain(of_others).collect()
    }

    #[test]
    fn a_value_of_each_rank_is_joined_once_and_in_order() {
        for size in 1..70 {
            assert_eq!(joined(0, size), (0..size).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_rank_is_below_the_one_above_it() {
        for size in 1..70 {
            for rank in 1..size {
                let above = above(rank).expect("it is not the first");
                assert_eq!(below(above, size).filter(|other| *other == rank).count(), 1, "{rank} of {size}");
            }
        }
        assert_eq!(above(0), None);
    }

    #[test]
    fn no_member_has_more_others_than_the_logarithm_of_all() {
        assert_eq!(below(0, 16).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(below(8, 16).collect::<Vec<_>>(), [9, 10, 12]);
        assert_eq!(below(4, 7).collect::<Vec<_>>(), [5, 6]);
        assert_eq!(below(7, 8).count(), 0);
    }
}
