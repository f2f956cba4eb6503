//! Functions that others see another way than they are.
//!
//! A function that counts takes and returns fuel, but the host knows nothing of that: what is
//! exported is a wrapper, with the fuel in the global. An indirect call that may reach such a
//! function passes fuel to all it may reach, so tables hold thunks instead of functions that do
//! not count.

use super::callgraph::{CallGraph, Callee};
use super::canonical::has_floats;
use super::layout::Globals;
use super::survey::Survey;
use super::types::{BlockTypes, encode};
use std::collections::{BTreeMap, BTreeSet};
use wasm_encoder::Function;
use wasmparser::{FuncType, ValType};

/// Which functions have an adapter, and its index.
#[derive(Default)]
pub(super) struct Adapters {
    wrappers: BTreeMap<u32, u32>,
    thunks: BTreeMap<u32, u32>,
}

impl Adapters {
    /// `first`: the index of the first adapter.
    pub(super) fn of(survey: &Survey<'_>, graph: &CallGraph, first: u32) -> Adapters {
        let exported: BTreeSet<u32> = survey.exported.iter().copied().chain(survey.start).collect();
        let wrapped = exported.into_iter().filter(|function| {
            let tells = |function| survey.signature(function).is_some_and(|ty| has_floats(ty.results()));
            graph.function(*function).counts || survey.bit_exact && tells(*function)
        });
        let wrappers: BTreeMap<u32, u32> = wrapped.zip(first..).collect();
        let first = first + wrappers.len() as u32;
        let plain = survey.address_taken.iter().copied().filter(|function| {
            let ty = survey.functions.get(*function as usize);
            !graph.function(*function).counts && ty.is_some_and(|ty| graph.indirect(*ty).counts)
        });
        Adapters { wrappers, thunks: plain.zip(first..).collect() }
    }

    /// Index of the function that is exported in place of `function`: its wrapper, if it has one.
    pub(super) fn exported(&self, function: u32) -> u32 {
        self.wrappers.get(&function).copied().unwrap_or(function)
    }

    /// Index of the function that tables and references hold in place of `function`: its thunk, if
    /// it has one.
    pub(super) fn taken(&self, function: u32) -> u32 {
        self.thunks.get(&function).copied().unwrap_or(function)
    }

    pub(super) fn thunks(&self) -> impl Iterator<Item = u32> {
        self.thunks.values().copied()
    }

    /// Type and body of each, in the order of their indices.
    pub(super) fn functions(
        &self,
        survey: &Survey<'_>,
        graph: &CallGraph,
        globals: &Globals,
        types: &mut BlockTypes,
    ) -> Vec<(u32, Function)> {
        let mut functions = Vec::with_capacity(self.wrappers.len() + self.thunks.len());
        for &function in self.wrappers.keys() {
            let Some(ty) = survey.signature(function) else { continue };
            let index = types.function(ty.params(), ty.results());
            let counts = graph.function(function).counts;
            let exact = survey.bit_exact && has_floats(ty.results());
            functions.push((index, wrapper(function, ty, counts, exact, globals)));
        }
        for &function in self.thunks.keys() {
            let Some(ty) = survey.signature(function) else { continue };
            let params = ty.params().len() as u32;
            functions.push((types.counting(ty), thunk(function, params, graph.function(function), globals)));
        }
        functions
    }
}

/// `exact`: NaNs among its results become canonical.
fn wrapper(function: u32, ty: &FuncType, counts: bool, exact: bool, globals: &Globals) -> Function {
    let (first, results) = (ty.params().len() as u32, ty.results());
    let kept = if exact { results } else { &[] };
    let mut wrapper = Function::new_with_locals_types(kept.iter().map(|ty| encode(*ty)));
    let mut sink = wrapper.instructions();
    for param in 0..first {
        sink.local_get(param);
    }
    if counts {
        sink.global_get(globals.fuel).call(function).global_set(globals.fuel);
    } else {
        sink.call(function);
    }
    for local in (first..).take(kept.len()).collect::<Vec<_>>().into_iter().rev() {
        sink.local_set(local);
    }
    for (ty, local) in kept.iter().zip(first..) {
        match ty {
            ValType::F32 => {
                sink.local_get(local).f32_const(f32::from_bits(0x7fc0_0000).into());
                sink.local_get(local).local_get(local).f32_eq().select();
            }
            ValType::F64 => {
                sink.local_get(local).f64_const(f64::from_bits(0x7ff8_0000_0000_0000).into());
                sink.local_get(local).local_get(local).f64_eq().select();
            }
            _ => {
                sink.local_get(local);
            }
        }
    }
    sink.end();
    wrapper
}

fn thunk(function: u32, params: u32, callee: Callee, globals: &Globals) -> Function {
    let mut thunk = Function::new([]);
    let mut sink = thunk.instructions();
    for param in 0..params {
        sink.local_get(param);
    }
    // While resuming, only a host function that waits is called here, and it costs nothing.
    sink.local_get(params).i64_const(callee.cost.into()).i64_sub();
    if callee.calls_host {
        sink.global_set(globals.fuel).call(function).global_get(globals.fuel).end();
    } else {
        sink.local_set(params).call(function).local_get(params).end();
    }
    thunk
}
