//! Places in the tree, which each node computes from its own part of the ring (paper `match`, section 3.1: "only based
//! on local information"). The paper does not say how; this is our rule.
//!
//! A node stands at the *rounded point* of its arc: the one that is divisible by the highest power of two. Its parent
//! owns that point without its lowest digit in base 4 that is not 0. The parent's arc has that rounder point in it, so
//! rounded points become rounder all the way up, and there are no cycles; a node that joins or leaves changes the
//! parents of the two nodes whose arcs change, and of their children. With 1,000 nodes the tree is 7 levels high and a
//! node has 14 children at most, with 10,000 it is 10 levels and 19 children. Digits in base 2 make it higher, those
//! in base 16 make wider nodes.

use crate::circle::Point;

/// The rounded point of the arc behind `before`, up to `at`. The root's is 0, and so is that of a node which is alone.
pub(super) fn rounded(before: Point, at: Point) -> Point {
    // Its arc has 0 in it.
    if at.0 <= before.0 {
        return Point(0);
    }
    // The first bit in which the ends of the arc differ is 1 at its end.
    let low = (before.0 ^ at.0).ilog2();
    Point(at.0 >> low << low)
}

/// The point whose owner is the parent of a node at this rounded point; none of the root.
pub(super) fn above(rounded: Point) -> Option<Point> {
    if rounded.0 == 0 {
        return None;
    }
    let digit = rounded.0.trailing_zeros() / 2;
    Some(Point(rounded.0 & !(3 << (2 * digit))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Rng;

    struct Shape {
        height: f64,
        depth: f64,
        children: f64,
        leaves: f64,
    }

    /// A ring of so many random members.
    fn shape(rng: &mut Rng, nodes: usize) -> Shape {
        let mut points: Vec<u128> = (0..nodes)
            .map(|_| u128::from(rng.below(u64::MAX)) << 64 | u128::from(rng.below(u64::MAX)))
            .collect();
        points.sort_unstable();
        let before = |at: usize| Point(points[(at + nodes - 1) % nodes]);
        let owner = |key: Point| points.partition_point(|point| *point < key.0) % nodes;
        let parents: Vec<Option<usize>> =
            (0..nodes).map(|at| above(rounded(before(at), Point(points[at]))).map(owner)).collect();
        let depths: Vec<usize> = (0..nodes)
            .map(|at| {
                let way = std::iter::successors(Some(at), |at| parents[*at]).take(200);
                let depth = way.count() - 1;
                assert!(depth < 199, "a cycle");
                depth
            })
            .collect();
        assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1, "one root");
        let mut children = vec![0; nodes];
        parents.iter().flatten().for_each(|parent| children[*parent] += 1);
        let leaves = children.iter().filter(|count| **count == 0).count();
        Shape {
            height: depths.iter().copied().max().unwrap_or(0) as f64,
            depth: depths.iter().sum::<usize>() as f64 / nodes as f64,
            children: children.iter().copied().max().unwrap_or(0) as f64,
            leaves: leaves as f64 / nodes as f64,
        }
    }

    #[test]
    fn the_tree_is_low_and_its_nodes_have_few_children() {
        let mut rng = Rng::from_seed([7; 32]);
        for (nodes, rings, height, depth, children) in
            [(1000, 10, 7.0, 4.0, 14.0), (10_000, 3, 9.7, 5.2, 19.0)]
        {
            let all: Vec<Shape> = (0..rings).map(|_| shape(&mut rng, nodes)).collect();
            let mean = |of: fn(&Shape) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
            let near = |value: f64, to: f64| (value - to).abs() <= 0.25 * to;
            let (h, d, c) = (mean(|s| s.height), mean(|s| s.depth), mean(|s| s.children));
            assert!(near(h, height) && near(d, depth) && near(c, children), "{nodes}: {h} {d} {c}");
            assert!(near(mean(|s| s.leaves), 0.58));
        }
    }

    #[test]
    fn small_rings_are_trees_too() {
        let mut rng = Rng::from_seed([8; 32]);
        for nodes in 1..40 {
            shape(&mut rng, nodes);
        }
        assert_eq!(rounded(Point(5), Point(5)), Point(0), "alone");
        assert_eq!(rounded(Point(5), Point(9)), Point(8));
        assert_eq!(rounded(Point(8), Point(9)), Point(9));
        assert_eq!(
            [above(Point(0)), above(Point(9)), above(Point(8))],
            [None, Some(Point(8)), Some(Point(0))]
        );
    }
}
