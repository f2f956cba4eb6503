//! Properties of each function: whether it can be suspended, whether it counts fuel, whether it
//! counts how deep it is called, and the cost of a call of it.
//!
//! - A function is *suspendable* if it has a loop, is part of a cycle of the call graph, waits for
//!   the host, is too much work to go unpolled, or calls a suspendable one.
//! - Another function *counts* if its work depends on an operand, if it has ways much cheaper than
//!   its most expensive one, or if it calls a function that counts. Its work is charged as it is
//!   done, but nothing in it is ever suspended.
//! - All other functions are *free*: their callers pay for the most expensive way.
//!
//! An indirect call counts as one of every function of its type that a table can hold. Callees are
//! judged before callers, so one pass over the components is enough.

use super::Options;
use super::canonical;
use super::depth;
use super::operators;
use super::refusal::Refusal;
use super::survey::{Survey, invalid};
use std::collections::{BTreeMap, BTreeSet};
use wasmparser::{FuncType, FunctionBody, Operator, ValType};

/// Work that a function may do unpolled.
/// Our choice: a microsecond; a function may call many that do.
const MOST_UNPOLLED: u64 = 1000;
/// Largest cost of a function that its callers pay for, so that no call is charged more than this
/// too much. Our choice.
const MOST_FREE: u64 = 60;

/// Properties that callers must know of a function, or of all that an indirect call may reach.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Callee {
    /// It takes the fuel as its last parameter, and returns it as its last result.
    pub(super) counts: bool,
    /// It can be suspended. Among the module's own functions, only those that count can be.
    pub(super) suspends: bool,
    /// It polls when it is entered, whatever way it then takes.
    pub(super) polls: bool,
    /// It is a host function that may wait, or an indirect call may reach one.
    pub(super) waits: bool,
    /// Bytes of stack that it adds to the depth. Every cycle has a function that adds some.
    pub(super) depth: u32,
    /// It may call the host.
    pub(super) calls_host: bool,
    /// If not suspendable: the most it can cost, beside the call itself.
    pub(super) cost: u32,
}

/// Every function and every type of indirect call.
pub(super) struct CallGraph {
    nodes: Vec<Callee>,
    functions: usize,
    same_type: Vec<u32>,
}

impl CallGraph {
    pub(super) fn of(survey: &Survey<'_>, options: &Options) -> Result<CallGraph, Refusal> {
        let functions = survey.functions.len();
        let mut graph = CallGraph {
            nodes: vec![Callee::default(); functions + survey.types.len()],
            functions,
            same_type: survey.same_type.clone(),
        };
        let mut facts = Vec::with_capacity(graph.nodes.len());
        for (module, name) in &survey.imports {
            let waits = options.blocking.iter().any(|(m, n)| m == module && n == name);
            facts.push(Facts { suspends: waits, waits, host: true, ..Facts::default() });
        }
        for body in &survey.bodies {
            facts.push(Facts::of(body, &graph, survey)?);
        }
        facts.resize_with(graph.nodes.len(), Facts::default);
        for &function in &survey.address_taken {
            let Some(ty) = survey.functions.get(function as usize) else { continue };
            let node = graph.indirect_node(*ty);
            facts[node].edges.push(function as usize);
        }
        graph.unite_lookalikes(&mut facts, survey);
        for component in components(&facts) {
            graph.judge(&component, &facts, survey)?;
        }
        graph.count_in_tables(&facts, survey);
        graph.poll_at_entries(&facts, survey);
        Ok(graph)
    }

    pub(super) fn function(&self, index: u32) -> Callee {
        self.nodes.get(index as usize).copied().unwrap_or_default()
    }

    pub(super) fn indirect(&self, ty: u32) -> Callee {
        self.nodes.get(self.indirect_node(ty)).copied().unwrap_or_default()
    }

    /// Properties of the function that an operator calls; `None` if the operator is no call.
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

    /// Free functions count too if all their callers do and indirect calls pass them fuel: without
    /// a thunk between, engines can put them in their callers' place.
    fn count_in_tables(&mut self, facts: &[Facts], survey: &Survey<'_>) {
        let mut has_free_callers: BTreeSet<usize> = BTreeSet::new();
        for (node, facts) in facts.iter().enumerate().take(self.functions) {
            if !self.nodes[node].counts {
                has_free_callers.extend(&facts.edges);
            }
        }
        for &function in survey.address_taken.iter().filter(|function| **function >= survey.imported()) {
            let Some(ty) = survey.functions.get(function as usize) else { continue };
            if self.indirect(*ty).counts && !has_free_callers.contains(&(function as usize)) {
                self.nodes[function as usize].counts = true;
            }
        }
    }

    /// A function that calls nothing and does little outside its loops need not poll when it is
    /// entered: whoever calls it often does.
    fn poll_at_entries(&mut self, facts: &[Facts], survey: &Survey<'_>) {
        for (node, facts) in facts.iter().enumerate().take(self.functions).skip(survey.imports.len()) {
            let small = facts.edges.is_empty() && facts.work <= MOST_UNPOLLED;
            self.nodes[node].polls = self.nodes[node].suspends && !small;
        }
        for (node, facts) in facts.iter().enumerate().skip(self.functions) {
            let polls = facts.edges.iter().all(|callee| self.nodes[*callee].polls);
            self.nodes[node].polls = polls && !facts.edges.is_empty();
        }
    }

    /// A type with the fuel added may be one that the program has. Where an indirect call could
    /// take functions of the one for the other, both get it, and stay apart.
    fn unite_lookalikes(&self, facts: &mut [Facts], survey: &Survey<'_>) {
        let mut used: Vec<bool> = facts.iter().map(|facts| !facts.edges.is_empty()).collect();
        for &callee in facts.iter().flat_map(|facts| &facts.edges) {
            used[callee] = true;
        }
        let mut index = BTreeMap::new();
        for (i, ty) in survey.types.iter().enumerate() {
            index.entry(ty).or_insert(i as u32);
        }
        for (ty, &i) in &index {
            let Some(&other) = index.get(&counting_type(ty)) else { continue };
            let (a, b) = (self.indirect_node(i), self.indirect_node(other));
            if used[a] && used[b] {
                facts[a].edges.push(b);
                facts[b].edges.push(a);
            }
        }
    }

    /// Judges functions that call each other, after all callees outside the component.
    fn judge(&mut self, component: &[usize], facts: &[Facts], survey: &Survey<'_>) -> Result<(), Refusal> {
        let recursive = match component {
            [one] => facts[*one].edges.contains(one),
            _ => true,
        };
        let mut all = Callee { suspends: recursive, ..Callee::default() };
        for &node in component {
            all.suspends |= facts[node].suspends;
            all.counts |= facts[node].counts;
            all.waits |= facts[node].waits;
            all.calls_host |= facts[node].host;
            // In a cycle every edge is either inside or leads to what was judged.
            for callee in &facts[node].edges {
                let callee = &self.nodes[*callee];
                all.suspends |= callee.suspends;
                all.counts |= callee.counts;
                // Only an indirect call passes its arguments on.
                all.waits |= callee.waits && node >= self.functions;
                all.calls_host |= callee.calls_host;
                all.cost = all.cost.max(callee.cost);
            }
        }
        if let ([node], false) = (component, all.suspends) {
            let body = node.checked_sub(survey.imports.len()).and_then(|i| survey.bodies.get(i));
            if let Some(body) = body.filter(|_| *node < self.functions) {
                let cost = worst_path(body, self)?;
                all.suspends = cost > MOST_UNPOLLED;
                all.counts |= cost > MOST_FREE;
                all.cost = cost.min(MOST_UNPOLLED) as u32;
            }
        }
        // A host function keeps its type.
        all.counts = (all.counts || all.suspends) && component[0] >= survey.imports.len();
        for &node in component {
            self.nodes[node] = all;
        }
        if recursive {
            let weights = |node: usize| self.weight(node, survey);
            for (node, depth) in
                depth::counting(component, |node| &facts[node].edges, self.functions, weights)
            {
                self.nodes[node].depth = depth;
            }
        }
        Ok(())
    }

    /// Estimate of the engine's stack that a call of a function takes, bytes, as far as it can be
    /// made without the engine. Only that all engines count the same matters.
    fn weight(&self, node: usize, survey: &Survey<'_>) -> u32 {
        let body = node.checked_sub(survey.imports.len()).and_then(|i| survey.bodies.get(i));
        let Some(body) = body.filter(|_| node < self.functions) else { return 0 };
        let params = survey.signature(node as u32).map_or(0, |ty| ty.params().len() as u32);
        let declared = body.get_locals_reader().into_iter().flatten().flatten();
        let locals = declared.fold(params, |sum, (count, _)| sum.saturating_add(count));
        locals.saturating_mul(8).saturating_add(80)
    }
}

/// The type of a function that takes and returns fuel.
pub(super) fn counting_type(ty: &FuncType) -> FuncType {
    let with_fuel = |types: &[ValType]| types.iter().copied().chain([ValType::I64]).collect::<Vec<_>>();
    FuncType::new(with_fuel(ty.params()), with_fuel(ty.results()))
}

/// Facts about a function's own body.
#[derive(Default)]
struct Facts {
    /// Reason enough to suspend it.
    suspends: bool,
    /// Reason enough to count in it.
    counts: bool,
    waits: bool,
    host: bool,
    edges: Vec<usize>,
    /// Fuel of all its operators together.
    work: u64,
}

impl Facts {
    fn of(body: &FunctionBody<'_>, graph: &CallGraph, survey: &Survey<'_>) -> Result<Facts, Refusal> {
        let mut edges = BTreeSet::new();
        let mut facts = Facts::default();
        for op in body.get_operators_reader().map_err(invalid)? {
            let op = op.map_err(invalid)?;
            // With `bit_exact`, a function that observes floats is rewritten, so it counts.
            facts.work += u64::from(operators::cost(&op));
            facts.counts |= survey.bit_exact && canonical::observes(&op, survey);
            match op {
                Operator::Loop { .. } => facts.suspends = true,
                Operator::MemoryGrow { .. }
                | Operator::MemoryCopy { .. }
                | Operator::MemoryFill { .. }
                | Operator::MemoryInit { .. } => facts.counts = true,
                Operator::Call { function_index } => {
                    edges.insert(function_index as usize);
                }
                Operator::CallIndirect { type_index, .. } => {
                    edges.insert(graph.indirect_node(type_index));
                }
                _ => {}
            }
        }
        facts.edges = edges.into_iter().collect();
        Ok(facts)
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

/// Strongly connected components, callees before callers (paper `tarjan`, without recursion: a
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
