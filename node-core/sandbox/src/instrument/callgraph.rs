//! Which functions are instrumented, which recurse, and what calling the others costs.
//!
//! A function is instrumented if it has a loop, does work that depends on an operand, is part of
//! a cycle of the call graph, waits for the host, is too much work to go unpolled, or calls a
//! function that is. An indirect call counts as one of every function of its type that a table
//! can hold. Callees are judged before callers, so one pass over the components is enough.

use super::operators;
use super::refusal::Refusal;
use super::survey::{Survey, invalid};
use std::collections::BTreeSet;
use wasmparser::{FunctionBody, Operator};

/// Work that a function may do unpolled.
/// Our choice: some microseconds, and few functions are longer without a loop.
const MOST_UNPOLLED: u64 = 400;

/// What callers must know of a function, or of all that an indirect call may reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Callee {
    /// It can be suspended.
    pub(super) instrumented: bool,
    /// It is part of a cycle.
    pub(super) recursive: bool,
    /// It is, or it calls what is.
    pub(super) counts_depth: bool,
    /// It may call the host.
    pub(super) calls_host: bool,
    /// If not instrumented: the most it can cost, beside the call itself.
    pub(super) cost: u32,
}

/// Every function and every type of indirect call.
pub(super) struct CallGraph {
    nodes: Vec<Callee>,
    functions: usize,
    same_type: Vec<u32>,
}

impl CallGraph {
    pub(super) fn of(survey: &Survey<'_>, blocking: &[(String, String)]) -> Result<CallGraph, Refusal> {
        let functions = survey.functions.len();
        let mut graph = CallGraph {
            nodes: vec![Callee::default(); functions + survey.types.len()],
            functions,
            same_type: survey.same_type.clone(),
        };
        let mut facts = Vec::with_capacity(graph.nodes.len());
        for (module, name) in &survey.imports {
            let blocks = blocking.iter().any(|(m, n)| m == module && n == name);
            facts.push(Facts { inherent: blocks, host: true, edges: Vec::new() });
        }
        for body in &survey.bodies {
            facts.push(Facts::of(body, &graph)?);
        }
        facts.resize_with(graph.nodes.len(), Facts::default);
        for &function in &survey.address_taken {
            let Some(ty) = survey.functions.get(function as usize) else { continue };
            let node = graph.indirect_node(*ty);
            facts[node].edges.push(function as usize);
        }
        for component in components(&facts) {
            graph.judge(&component, &facts, survey)?;
        }
        Ok(graph)
    }

    pub(super) fn function(&self, index: u32) -> Callee {
        self.nodes.get(index as usize).copied().unwrap_or_default()
    }

    pub(super) fn indirect(&self, ty: u32) -> Callee {
        self.nodes.get(self.indirect_node(ty)).copied().unwrap_or_default()
    }

    /// What an operator calls.
    pub(super) fn callee(&self, op: &Operator<'_>) -> Option<Callee> {
        match op {
            Operator::Call { function_index } => Some(self.function(*function_index)),
            Operator::CallIndirect { type_index, .. } => Some(self.indirect(*type_index)),
            _ => None,
        }
    }

    fn indirect_node(&self, ty: u32) -> usize {
        self.functions + self.same_type.get(ty as usize).map_or(0, |ty| *ty as usize)
    }

    /// Of functions that call each other, all callees outside being judged.
    fn judge(&mut self, component: &[usize], facts: &[Facts], survey: &Survey<'_>) -> Result<(), Refusal> {
        let own = |node: &usize| component.contains(node);
        let recursive = match component {
            [one] => facts[*one].edges.contains(one),
            _ => true,
        };
        let mut all =
            Callee { recursive, instrumented: recursive, counts_depth: recursive, ..Callee::default() };
        for &node in component {
            all.instrumented |= facts[node].inherent;
            all.calls_host |= facts[node].host;
            // In a cycle every edge is either inside or leads to what was judged.
            for callee in facts[node].edges.iter().filter(|edge| recursive || !own(edge)) {
                let callee = &self.nodes[*callee];
                all.instrumented |= callee.instrumented;
                all.counts_depth |= callee.counts_depth;
                all.calls_host |= callee.calls_host;
                all.cost = all.cost.max(callee.cost);
            }
        }
        if let ([node], false) = (component, all.instrumented) {
            let body = node.checked_sub(survey.imports.len()).and_then(|i| survey.bodies.get(i));
            if let Some(body) = body.filter(|_| *node < self.functions) {
                let cost = worst_path(body, self)?;
                all.instrumented = cost > MOST_UNPOLLED;
                all.cost = cost.min(MOST_UNPOLLED) as u32;
            }
        }
        for &node in component {
            self.nodes[node] = all;
        }
        Ok(())
    }
}

/// What a function does by itself.
#[derive(Default)]
struct Facts {
    /// Reason enough to instrument it.
    inherent: bool,
    host: bool,
    edges: Vec<usize>,
}

impl Facts {
    fn of(body: &FunctionBody<'_>, graph: &CallGraph) -> Result<Facts, Refusal> {
        let mut edges = BTreeSet::new();
        let mut inherent = false;
        for op in body.get_operators_reader().map_err(invalid)? {
            match op.map_err(invalid)? {
                Operator::Loop { .. }
                | Operator::MemoryGrow { .. }
                | Operator::MemoryCopy { .. }
                | Operator::MemoryFill { .. }
                | Operator::MemoryInit { .. } => inherent = true,
                Operator::Call { function_index } => {
                    edges.insert(function_index as usize);
                }
                Operator::CallIndirect { type_index, .. } => {
                    edges.insert(graph.indirect_node(type_index));
                }
                _ => {}
            }
        }
        Ok(Facts { inherent, host: false, edges: edges.into_iter().collect() })
    }
}

/// The most that a body without loops can cost.
fn worst_path(body: &FunctionBody<'_>, graph: &CallGraph) -> Result<u64, Refusal> {
    /// A block: what its `else` begins with, and the most that has arrived at its end.
    struct Open {
        at_if: Option<u64>,
        at_end: Option<u64>,
    }
    let mut blocks = vec![Open { at_if: None, at_end: None }];
    // None where no way leads.
    let mut now = Some(0u64);
    let arrive = |blocks: &mut Vec<Open>, depth: u32, now: Option<u64>| {
        let block = blocks.len().checked_sub(1 + depth as usize).and_then(|i| blocks.get_mut(i));
        if let Some(block) = block {
            block.at_end = block.at_end.max(now);
        }
    };
    for op in body.get_operators_reader().map_err(invalid)? {
        let op = op.map_err(invalid)?;
        let callee = graph.callee(&op).map_or(0, |callee| callee.cost);
        now = now.map(|now| now + u64::from(operators::cost(&op)) + u64::from(callee));
        match &op {
            Operator::Block { .. } => blocks.push(Open { at_if: None, at_end: None }),
            Operator::If { .. } => blocks.push(Open { at_if: now, at_end: None }),
            Operator::Else => {
                if let Some(block) = blocks.last_mut() {
                    block.at_end = block.at_end.max(now);
                    now = block.at_if.take();
                }
            }
            Operator::End => {
                if let Some(block) = blocks.pop() {
                    now = now.max(block.at_end).max(block.at_if);
                }
            }
            Operator::Br { relative_depth } => {
                arrive(&mut blocks, *relative_depth, now);
                now = None;
            }
            Operator::BrIf { relative_depth } => arrive(&mut blocks, *relative_depth, now),
            Operator::BrTable { targets } => {
                for target in targets.targets() {
                    arrive(&mut blocks, target.map_err(invalid)?, now);
                }
                arrive(&mut blocks, targets.default(), now);
                now = None;
            }
            Operator::Return => {
                let outermost = (blocks.len() as u32).saturating_sub(1);
                arrive(&mut blocks, outermost, now);
                now = None;
            }
            Operator::Unreachable => now = None,
            _ => {}
        }
    }
    Ok(now.unwrap_or(0))
}

/// Strongly connected components, callees before callers (Tarjan 1972, without recursion: a
/// program decides how deep it would go).
fn components(facts: &[Facts]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut index = vec![UNSEEN; facts.len()];
    let mut low = vec![0; facts.len()];
    let mut on_stack = vec![false; facts.len()];
    let (mut stack, mut found, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..facts.len() {
        if index[root] != UNSEEN {
            continue;
        }
        // A node, and how many of its edges were followed.
        let mut work = vec![(root, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                (index[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            } else {
                low[node] = low[node].min(low[facts[node].edges[edge - 1]]);
            }
            let mut rest = facts[node].edges.iter().enumerate().skip(edge);
            let unseen = rest.find_map(|(i, &to)| {
                if index[to] == UNSEEN {
                    return Some((i, to));
                }
                if on_stack[to] {
                    low[node] = low[node].min(index[to]);
                }
                None
            });
            if let Some((i, to)) = unseen {
                work.push((node, i + 1));
                work.push((to, 0));
                continue;
            }
            if low[node] == index[node] {
                let at = stack.iter().rposition(|&n| n == node).unwrap_or(0);
                let component = stack.split_off(at);
                for &node in &component {
                    on_stack[node] = false;
                }
                found.push(component);
            }
        }
    }
    found
}
