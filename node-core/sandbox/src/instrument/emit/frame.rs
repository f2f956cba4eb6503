//! Frames: what of a function is saved, where, and how it comes back.
//!
//! All points of a function save in one sequence at its end, the chain, which stores one local
//! after the other, those first that are live at the fewest points:
//! ```wat
//! block $all_stored
//!   block $first_stored
//!     block $nothing_stored
//!       ;; the function; suspends with "br" to one of the labels
//!     end
//!     ;; store the first local
//!   end
//!   ;; store the others
//! end
//! ;; complete the frame, return
//! ```
//! A point enters the chain where that takes the least code: what the rest of the chain stores
//! and is not live it sets to zero, what is live and was stored before it stores itself.

use super::{Emitter, Stop};
use crate::instrument::helpers::HEADER;
use crate::instrument::ir::{Body, Entry, Local, Scope};
use wasm_encoder::{InstructionSink, MemArg};
use wasmparser::ValType;

/// Bytes of code that store a local, and that set one to zero.
const STORE: usize = 8;
const CLEAR: usize = 4;

/// Where each local lies in the function's frames. All frames of a function have one size, so
/// that it can be resumed before it is known where.
pub(super) struct FrameLayout {
    pub(super) size: u32,
    /// Locals with their offsets.
    slots: Vec<(Local, u32)>,
    /// The locals in the order in which the chain stores them.
    chain: Vec<Local>,
    /// For each point, what it does to be saved.
    plans: Vec<Plan>,
    /// Places in the chain that points enter it at, rising.
    entries: Vec<usize>,
    /// For each scope what its dispatch loads.
    loads: Vec<Vec<Local>>,
}

/// How a point is saved.
#[derive(Clone, Debug, Default)]
struct Plan {
    store: Vec<Local>,
    clear: Vec<Local>,
    /// How much of the chain it leaves out.
    enter: usize,
}

impl FrameLayout {
    /// `stores_alone`: loops without a way in store what they save themselves.
    pub(super) fn of(body: &Body, live: &[Vec<Local>], stores_alone: bool) -> Result<FrameLayout, Stop> {
        let mut points = vec![0u32; body.locals.len()];
        for local in live.iter().flatten() {
            points[*local as usize] += 1;
        }
        let mut chain: Vec<Local> =
            (0..).zip(&points).filter(|(_, n)| **n > 0).map(|(local, _)| local).collect();
        let (mut slots, mut at) = (Vec::with_capacity(chain.len()), 0);
        for &local in &chain {
            slots.push((local, at));
            at += match body.locals[local as usize] {
                ValType::I32 | ValType::F32 => 4,
                ValType::I64 | ValType::F64 => 8,
                ValType::V128 => 16,
                ValType::Ref(_) => return Err(Stop::LiveReference),
            };
        }
        chain.sort_by_key(|local| points[*local as usize]);
        let mut place = vec![0; body.locals.len()];
        for (i, local) in chain.iter().enumerate() {
            place[*local as usize] = i;
        }
        let mut plans: Vec<Plan> = live.iter().map(|live| Plan::of(live, &chain, &place)).collect();
        if stores_alone {
            // The chain gets its values where all of a function come together: cranelift then
            // spills them in loops that have registers enough (measured: a matrix product at 1.6).
            for scope in body.scopes.iter().skip(1).filter(|scope| scope.entries.is_empty()) {
                let (point, store) = (scope.point as usize, live.get(scope.point as usize));
                if let (Some(plan), Some(store)) = (plans.get_mut(point), store) {
                    *plan = Plan { store: store.clone(), clear: Vec::new(), enter: chain.len() };
                }
            }
        }
        if let (Some(entry), Some(live)) = (plans.first_mut(), live.first()) {
            // At the entry all but parameters are zero.
            let dead = chain.iter().copied().filter(|local| *local < body.params && !live.contains(local));
            *entry = Plan { store: Vec::new(), clear: dead.collect(), enter: 0 };
        }
        let mut entries: Vec<usize> = plans.iter().map(|plan| plan.enter).collect();
        entries.sort_unstable();
        entries.dedup();
        let loads = body.scopes.iter().enumerate().map(|(i, scope)| loads(i, scope, body, live)).collect();
        Ok(FrameLayout { size: (HEADER + at).next_multiple_of(8), slots, chain, plans, entries, loads })
    }

    fn offset(&self, local: Local) -> u32 {
        match self.slots.binary_search_by_key(&local, |slot| slot.0) {
            Ok(i) => self.slots[i].1,
            // Every local that is live at a point has a slot.
            Err(_) => 0,
        }
    }
}

impl Plan {
    /// `place`: of each local in the chain.
    fn of(live: &[Local], chain: &[Local], place: &[usize]) -> Plan {
        let mut places: Vec<usize> = live.iter().map(|local| place[*local as usize]).collect();
        places.sort_unstable();
        let cost = |before: usize, enter: usize| {
            let within = places.len() - before;
            before * STORE + (chain.len() - enter - within) * CLEAR
        };
        // Entering where nothing live begins is never best, but at the end.
        let ways = places.iter().enumerate().map(|(before, enter)| (cost(before, *enter), before, *enter));
        let nowhere = (cost(places.len(), chain.len()), places.len(), chain.len());
        let (_, before, enter) = ways.fold(nowhere, |best, way| if way.0 < best.0 { way } else { best });
        let clear = (enter..chain.len()).filter(|i| places.binary_search(i).is_err());
        Plan {
            store: places[..before].iter().map(|i| chain[*i]).collect(),
            clear: clear.map(|i| chain[i]).collect(),
            enter,
        }
    }
}

impl Emitter<'_> {
    /// Opens the chain's labels, around the whole function.
    pub(super) fn open_chain(&mut self) {
        for _ in 0..self.frame.entries.len() {
            self.block(None);
        }
    }

    /// Saves the function at a point and returns; where the host or a callee may have begun to
    /// suspend, only if it did.
    pub(super) fn suspend(&mut self, point: u32, maybe: bool) {
        let Some(plan) = self.frame.plans.get(point as usize).cloned() else { return };
        let (at, state) = (self.at, self.context.globals.state);
        // Stores may happen only if the function suspends. Clearing needs no guard: nothing needs
        // the cleared locals after the point.
        let guarded = maybe && !plan.store.is_empty();
        if guarded {
            self.sink().global_get(state).if_(wasm_encoder::BlockType::Empty);
            self.open.push(None);
        }
        for local in plan.store {
            self.store(local);
        }
        for local in plan.clear {
            zero(self.body.locals[local as usize], &mut self.code);
            self.sink().local_set(local);
        }
        let outer = self.frame.entries.partition_point(|enter| *enter <= plan.enter);
        let label = self.frame.entries.len() - outer;
        let depth = |open: usize| (open - 1).saturating_sub(label) as u32;
        self.sink().i32_const(point as i32).local_set(at);
        let depth = depth(self.open.len());
        if maybe && !guarded {
            self.sink().global_get(state).br_if(depth);
        } else {
            self.sink().br(depth);
        }
        if guarded {
            self.end();
        }
    }

    /// Makes the topmost operand canonical if it is a NaN, and if that matters.
    pub(super) fn canonical(&mut self, ty: ValType) {
        let Some([single, double]) = self.body.exact else { return };
        let mut sink = self.sink();
        // Measured on a stencil: a branch that is never taken is 9 % slower in cranelift than a
        // selection, and 7 % faster in V8.
        match ty {
            ValType::F32 => {
                sink.local_tee(single).f32_const(f32::from_bits(0x7fc0_0000).into());
                sink.local_get(single).local_get(single).f32_eq().select();
            }
            ValType::F64 => {
                sink.local_tee(double).f64_const(f64::from_bits(0x7ff8_0000_0000_0000).into());
                sink.local_get(double).local_get(double).f64_eq().select();
            }
            _ => {}
        }
    }

    fn store(&mut self, local: Local) {
        let place = place(HEADER + self.frame.offset(local));
        let (ty, top) = (self.body.locals[local as usize], self.context.globals.top);
        self.sink().global_get(top).local_get(local);
        self.canonical(ty);
        let mut sink = self.sink();
        match ty {
            ValType::I32 => sink.i32_store(place),
            ValType::I64 => sink.i64_store(place),
            ValType::F32 => sink.f32_store(place),
            ValType::F64 => sink.f64_store(place),
            _ => sink.v128_store(place),
        };
    }

    /// The chain itself, and the way out.
    pub(super) fn close_chain(&mut self) {
        let (entries, chain) = (self.frame.entries.clone(), self.frame.chain.clone());
        for (i, from) in entries.iter().enumerate() {
            self.end();
            let to = entries.get(i + 1).copied().unwrap_or(chain.len());
            for local in &chain[*from..to] {
                self.store(*local);
            }
        }
        let (size, fuel, at, push) = (self.frame.size as i32, self.fuel, self.at, self.context.helpers.push);
        self.sink().i32_const(size).local_get(at).local_get(fuel).call(push);
        for ty in &self.body.results {
            zero(*ty, &mut self.code);
        }
        self.sink().local_get(fuel);
    }

    /// Takes the frame. It can be read until the next call.
    pub(super) fn pop(&mut self) {
        let (size, pop) = (self.frame.size as i32, self.context.helpers.pop);
        self.sink().i32_const(size).call(pop);
    }

    /// Loads what a scope's dispatch needs.
    pub(super) fn load(&mut self, scope: u32) {
        let (body, frame) = (self.body, self.context.globals.frame);
        for i in 0..self.frame.loads[scope as usize].len() {
            let local = self.frame.loads[scope as usize][i];
            let place = place(HEADER + self.frame.offset(local));
            let mut sink = self.sink();
            sink.global_get(frame);
            match body.locals[local as usize] {
                ValType::I32 => sink.i32_load(place),
                ValType::I64 => sink.i64_load(place),
                ValType::F32 => sink.f32_load(place),
                ValType::F64 => sink.f64_load(place),
                _ => sink.v128_load(place),
            };
            sink.local_set(local);
        }
    }
}

/// Locals that a scope's dispatch loads: those live at the points that it leads to, except those
/// live at its own point, which were loaded on the way here. Nothing is loaded earlier: on its way
/// to an inner loop it would pass, for the engine, through every round of the outer one.
fn loads(number: usize, scope: &Scope, body: &Body, live: &[Vec<Local>]) -> Vec<Local> {
    let at = |point: u32| live.get(point as usize).into_iter().flatten().copied();
    let mut loads: Vec<Local> = if number == 0 { at(0).collect() } else { Vec::new() };
    let mut point = scope.point + 1;
    for entry in &scope.entries {
        loads.extend(at(point));
        point = match entry {
            Entry::Call { .. } => point + 1,
            Entry::Loop { scope, .. } => body.scopes[*scope as usize].end_point,
        };
    }
    loads.sort_unstable();
    loads.dedup();
    if number > 0 {
        let own: Vec<Local> = at(scope.point).collect();
        loads.retain(|local| own.binary_search(local).is_err());
    }
    loads
}

/// Where a frame begins: the point.
pub(super) const POINT: MemArg = MemArg { offset: 0, align: 2, memory_index: 0 };

fn place(offset: u32) -> MemArg {
    MemArg { offset: offset.into(), align: 2, memory_index: 0 }
}

pub(super) fn zero(ty: ValType, code: &mut Vec<u8>) {
    let mut sink = InstructionSink::new(code);
    match ty {
        ValType::I32 => sink.i32_const(0),
        ValType::I64 => sink.i64_const(0),
        ValType::F32 => sink.f32_const(0.0.into()),
        ValType::F64 => sink.f64_const(0.0.into()),
        ValType::V128 => sink.v128_const(0),
        ValType::Ref(ty) if ty.is_extern_ref() => sink.ref_null(wasm_encoder::HeapType::EXTERN),
        ValType::Ref(_) => sink.ref_null(wasm_encoder::HeapType::FUNC),
    };
}
