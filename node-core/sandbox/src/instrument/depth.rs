//! Which functions count how deep they are called.
//!
//! Native stacks differ from engine to engine, so the depth is counted in the program. It is
//! enough that one function of every cycle does, and charges for all that can lie between it and
//! the next one that counts.

use std::collections::BTreeMap;

/// Which of the functions of a cycle (a strongly connected component) count, and by how much.
/// Nodes from `functions` on stand for indirect calls and are no functions; only functions have
/// edges to them.
pub(super) fn counting<'e>(
    component: &[usize],
    edges: impl Fn(usize) -> &'e [usize],
    functions: usize,
    weight: impl Fn(usize) -> u32,
) -> Vec<(usize, u32)> {
    // Every cycle has an edge that leads back to where a walk in depth came from.
    let mut nodes: BTreeMap<usize, Node> = component.iter().map(|node| (*node, Node::default())).collect();
    // A node, how many of its edges were followed.
    let Some(&root) = component.iter().find(|node| **node < functions) else { return Vec::new() };
    let mut work = vec![(root, 0)];
    let mut finished = Vec::with_capacity(component.len());
    while let Some((node, edge)) = work.pop() {
        if edge == 0 {
            nodes.entry(node).or_default().state = State::Open;
        }
        let Some(&to) = edges(node).get(edge) else {
            nodes.entry(node).or_default().state = State::Done;
            finished.push(node);
            continue;
        };
        work.push((node, edge + 1));
        match nodes.get(&to).map(|node| node.state) {
            Some(State::New) => work.push((to, 0)),
            Some(State::Open) => {
                let counts = if to < functions { to } else { node };
                nodes.entry(counts).or_default().counts = true;
            }
            // Done, or of another component.
            _ => {}
        }
    }
    // The weight of a node includes the heaviest way below it, up to the next node that counts.
    // Nodes that do not count have no back edges between them, so their callees come before them.
    let (counting, others): (Vec<_>, Vec<_>) = finished.into_iter().partition(|node| nodes[node].counts);
    for node in others.into_iter().chain(counting) {
        let below = edges(node).iter().filter_map(|to| nodes.get(to)).filter(|to| !to.counts);
        let below = below.map(|to| to.weight).max().unwrap_or(0);
        nodes.entry(node).or_default().weight = weight(node).saturating_add(below);
    }
    nodes.iter().filter(|(_, node)| node.counts).map(|(index, node)| (*index, node.weight)).collect()
}

#[derive(Default)]
struct Node {
    state: State,
    counts: bool,
    /// Its own and the heaviest way below it.
    weight: u32,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Open,
    Done,
}
