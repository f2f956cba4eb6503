//! A graph as a file of edges, and its parts.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A directed graph. Nodes are numbered in the order of their names.
pub(crate) struct Graph {
    pub(crate) names: Vec<String>,
    /// Nodes that each node leads to, each once.
    targets: Vec<Vec<u32>>,
}

/// Nodes of a member: those from `first` on.
#[derive(Serialize, Deserialize)]
pub(crate) struct Part {
    /// Nodes of the whole graph.
    pub(crate) nodes: usize,
    pub(crate) first: usize,
    pub(crate) targets: Vec<Vec<u32>>,
}

impl Graph {
    /// Reads lines `FROM TO`; `#` begins a comment.
    pub(crate) fn parse(text: &str) -> Result<Graph, String> {
        let mut edges = Vec::new();
        for (number, line) in text.lines().enumerate() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                [] => {}
                [word, ..] if word.starts_with('#') => {}
                [from, to] => edges.push((from, to)),
                _ => return Err(format!("line {}: {line:?} is no edge `FROM TO`", number + 1)),
            }
        }
        let mut numbers: BTreeMap<&str, u32> =
            edges.iter().flat_map(|&(from, to)| [(from, 0), (to, 0)]).collect();
        if numbers.is_empty() {
            return Err("it has no edges".into());
        }
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        let mut targets = vec![Vec::new(); numbers.len()];
        for (from, to) in edges {
            targets[numbers[from] as usize].push(numbers[to]);
        }
        for targets in &mut targets {
            targets.sort_unstable();
            targets.dedup();
        }
        Ok(Graph { names: numbers.into_keys().map(Into::into).collect(), targets })
    }

    pub(crate) fn edges(&self) -> usize {
        self.targets.iter().map(Vec::len).sum()
    }

    /// As many parts, with about as many nodes each.
    pub(crate) fn parts(&self, count: usize) -> Vec<Part> {
        let nodes = self.names.len();
        let part = |number: usize| {
            let (first, end) = (nodes * number / count, nodes * (number + 1) / count);
            Part { nodes, first, targets: self.targets[first..end].to_vec() }
        };
        (0..count).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Graph;

    #[test]
    fn an_edge_counts_once_and_nodes_have_the_order_of_their_names() {
        let graph = Graph::parse("# a comment\nb a\n\nb c\nb a\nc c\n").unwrap();
        assert_eq!(graph.names, ["a", "b", "c"]);
        assert_eq!(graph.targets, [vec![], vec![0, 2], vec![2]]);
        assert_eq!(graph.edges(), 3);
        assert!(Graph::parse("a b c").is_err_and(|error| error.starts_with("line 1")));
        assert!(Graph::parse("# nothing\n").is_err());
    }

    #[test]
    fn each_node_is_in_one_part() {
        let text: String = (0..23).map(|node| format!("n{node} n0\n")).collect();
        let graph = Graph::parse(&text).unwrap();
        for count in [1, 4, 23, 30] {
            let parts = graph.parts(count);
            assert_eq!(parts.len(), count);
            let all: Vec<_> = parts.into_iter().flat_map(|part| part.targets).collect();
            assert_eq!(all, graph.targets);
        }
    }
}
