//! Writes an instrumented function.
//!
//! Its shape, for a function with a call and a loop in a block:
//! ```wat
//! block $body
//!   block $b            ;; hoisted: it opened further down
//!     block $before_loop
//!       block $before_call
//!         block $run
//!           fuel -= cost; br_if $run (fuel >= 0)
//!           if state == rewinding: load the frame, br_table to $before_call, $before_loop …
//!           save the parameters, return
//!         end
//!         ...
//!       end             ;; $before_call
//!       call $f
//!       fuel = global; if fuel < 0 and state == unwinding: save, return
//!       ...
//!     end               ;; $before_loop
//!     loop
//!       fuel -= cost
//!       if fuel < 0: dispatch if rewinding, else save, return
//!       ...
//!     end
//!   end
//! end
//! global = fuel
//! ```
//! The fuel is in a local; the global is current in other functions that count it, in the host,
//! and while the task is suspended.
//!
//! Cold paths call nothing while locals are needed: V8 has no registers that survive a call, so
//! one that can be called in a loop costs every round, though it never is.

use super::fuel::{Charges, charges};
use super::helpers::{HEADER, Helpers};
use super::ir::{Body, Entry, Inst, Label, Local};
use super::layout::{Globals, state};
use super::operators;
use super::types::encode;
use wasm_encoder::{BlockType, Function, InstructionSink, MemArg};
use wasmparser::ValType;

/// What every function of a module is written with.
pub(super) struct Context<'a> {
    pub(super) wasm: &'a [u8],
    pub(super) globals: Globals,
    pub(super) helpers: Helpers,
    pub(super) frame_pages: u32,
    pub(super) stack_bytes: u32,
}

/// A function as it stands in the code section.
pub(super) struct Emitted {
    pub(super) code: Vec<u8>,
    pub(super) frame_size: u32,
}

/// Why a function cannot be written.
pub(super) enum Stop {
    LiveReference,
    TooLarge,
}

/// What V8 takes: <https://webassembly.github.io/spec/js-api/#limits>
const MOST_BYTES: usize = 7_654_321;
/// Places of all dispatches of a function together; loops nested in loops repeat them.
const MOST_PLACES: u64 = 1 << 20;

/// `recursive`: the function checks how deep it is called. `live`: what each point saves.
pub(super) fn emit(
    context: &Context<'_>,
    body: &Body,
    live: &[Vec<Local>],
    recursive: bool,
) -> Result<Emitted, Stop> {
    let places = body.scopes.iter().map(|scope| u64::from(scope.end_point - scope.point)).sum::<u64>();
    if places > MOST_PLACES {
        return Err(Stop::TooLarge);
    }
    let first = body.locals.len() as u32;
    let mut emitter = Emitter {
        context,
        body,
        live,
        recursive,
        charges: charges(body),
        frame: FrameLayout::of(body, live)?,
        code: Vec::new(),
        open: Vec::new(),
        depth_of: vec![0; body.labels.len()],
        fuel: first,
        scratch: [first + 1, first + 2],
    };
    for (i, inst) in body.insts.iter().enumerate() {
        emitter.inst(i, *inst);
        if emitter.code.len() > MOST_BYTES {
            return Err(Stop::TooLarge);
        }
    }
    emitter.sink().local_get(first).global_set(context.globals.fuel).end();
    let (code, frame_size) = (emitter.code, emitter.frame.size);

    let mut locals: Vec<_> = body.locals[body.params as usize..].iter().map(|ty| encode(*ty)).collect();
    locals.extend([wasm_encoder::ValType::I64, wasm_encoder::ValType::I32, wasm_encoder::ValType::I32]);
    let mut function = Function::new_with_locals_types(locals);
    function.raw(code);
    Ok(Emitted { code: function.into_raw_body(), frame_size })
}

/// Where each local lies in the function's frames. All frames of a function have one size, so
/// that it can be resumed before it is known where.
struct FrameLayout {
    size: u32,
    /// Locals with their offsets.
    slots: Vec<(Local, u32)>,
}

impl FrameLayout {
    fn of(body: &Body, live: &[Vec<Local>]) -> Result<FrameLayout, Stop> {
        let mut saved: Vec<Local> = live.iter().flatten().copied().collect();
        saved.sort_unstable();
        saved.dedup();
        let (mut slots, mut at) = (Vec::with_capacity(saved.len()), 0);
        for local in saved {
            slots.push((local, at));
            at += match body.locals[local as usize] {
                ValType::I32 | ValType::F32 => 4,
                ValType::I64 | ValType::F64 => 8,
                ValType::V128 => 16,
                ValType::Ref(_) => return Err(Stop::LiveReference),
            };
        }
        Ok(FrameLayout { size: (HEADER + at).next_multiple_of(8), slots })
    }

    fn offset(&self, local: Local) -> u32 {
        match self.slots.binary_search_by_key(&local, |slot| slot.0) {
            Ok(i) => self.slots[i].1,
            // Every local that is live at a point has a slot.
            Err(_) => 0,
        }
    }
}

struct Emitter<'a> {
    context: &'a Context<'a>,
    body: &'a Body,
    live: &'a [Vec<Local>],
    recursive: bool,
    charges: Charges,
    frame: FrameLayout,
    code: Vec<u8>,
    /// Labels that are open; those that the body does not name are `None`.
    open: Vec<Option<Label>>,
    /// How many were open when a label opened.
    depth_of: Vec<usize>,
    fuel: Local,
    scratch: [Local; 2],
}

impl Emitter<'_> {
    fn sink(&mut self) -> InstructionSink<'_> {
        InstructionSink::new(&mut self.code)
    }

    fn opened(&mut self, label: Option<Label>) {
        if let Some(label) = label {
            self.depth_of[label as usize] = self.open.len();
        }
        self.open.push(label);
    }

    fn block(&mut self, label: Option<Label>) {
        let ty = label.map_or(BlockType::Empty, |label| self.body.labels[label as usize].ty);
        self.sink().block(ty);
        self.opened(label);
    }

    fn end(&mut self) {
        self.sink().end();
        self.open.pop();
    }

    /// The relative depth of a label.
    fn depth(&self, label: Label) -> u32 {
        (self.open.len() - 1).saturating_sub(self.depth_of[label as usize]) as u32
    }

    fn raw(&mut self, start: u32, end: u32) {
        self.code.extend_from_slice(&self.context.wasm[start as usize..end as usize]);
    }

    fn inst(&mut self, i: usize, inst: Inst) {
        match inst {
            Inst::Raw { start, end } | Inst::Push { start, end } => self.raw(start, end),
            Inst::Get(local) => {
                self.sink().local_get(local);
            }
            Inst::Set(local) => {
                self.sink().local_set(local);
            }
            Inst::Tee(local) => {
                self.sink().local_tee(local);
            }
            Inst::Cost(_) => {}
            Inst::MemorySize => {
                let pages = self.context.frame_pages as i32;
                self.sink().memory_size(0).i32_const(pages).i32_sub();
            }
            Inst::MemoryGrow => self.memory_grow(),
            Inst::Bulk { start, end } => {
                let (fuel, size) = (self.fuel, self.scratch[0]);
                self.sink().local_tee(size).local_get(fuel).local_get(size).i64_extend_i32_u();
                self.sink().i64_const(operators::BULK_SHIFT).i64_shr_u().i64_sub().local_set(fuel);
                self.raw(start, end);
            }
            Inst::Eqz => {
                self.sink().i32_eqz();
            }
            Inst::Block(label) => self.block(Some(label)),
            Inst::Loop(label) => {
                let ty = self.body.labels[label as usize].ty;
                self.sink().loop_(ty);
                self.opened(Some(label));
            }
            Inst::Scope(scope) => self.scope(scope),
            Inst::FastScope(scope) => self.fast_scope(scope),
            Inst::SlowScope(scope) => self.slow_scope(scope),
            Inst::Guard(label) => {
                let (state, fuel, depth) = (self.context.globals.state, self.fuel, self.depth(label));
                self.sink().local_get(fuel).i64_const(0).i64_ge_s().br_if(depth);
                self.sink().global_get(state).i32_const(state::REWIND).i32_ne().br_if(depth);
            }
            Inst::If(label) => {
                let ty = self.body.labels[label as usize].ty;
                self.sink().if_(ty);
                self.opened(Some(label));
            }
            Inst::Else(_) => {
                self.sink().else_();
            }
            Inst::End(_) => {
                if let Some(charge) = self.charges.skipped.get(&i).copied() {
                    self.sink().else_();
                    self.charge(charge);
                }
                self.end();
            }
            Inst::Br(label) => {
                let depth = self.depth(label);
                self.sink().br(depth);
            }
            Inst::BrIf(label) => self.branch_if(i, label),
            Inst::BrTable(table) => {
                let depths: Vec<u32> =
                    self.body.tables[table as usize].iter().map(|label| self.depth(*label)).collect();
                if let Some((default, depths)) = depths.split_last() {
                    self.sink().br_table(depths.iter().copied(), *default);
                }
            }
            Inst::Unreachable => {
                self.sink().unreachable();
            }
            Inst::Call(call) => self.call(call),
        }
        if let Some(charge) = self.charges.after.get(&i).copied() {
            self.charge(charge);
        }
    }

    fn charge(&mut self, amount: i64) {
        let fuel = self.fuel;
        let mut sink = self.sink();
        sink.local_get(fuel);
        if amount >= 0 {
            sink.i64_const(amount).i64_sub();
        } else {
            sink.i64_const(-amount).i64_add();
        }
        sink.local_set(fuel);
    }

    fn branch_if(&mut self, i: usize, label: Label) {
        let Some(charge) = self.charges.taken.get(&i).copied() else {
            let depth = self.depth(label);
            self.sink().br_if(depth);
            return;
        };
        if self.body.labels[label as usize].args.is_empty() {
            self.sink().if_(BlockType::Empty);
            self.open.push(None);
            self.charge(charge);
            let depth = self.depth(label);
            self.sink().br(depth);
            self.end();
            return;
        }
        // The values that the branch carries cannot be reached from within an `if`. Charged
        // before, and given back if it is not taken.
        let condition = self.scratch[0];
        self.sink().local_set(condition);
        self.charge(charge);
        let depth = self.depth(label);
        self.sink().local_get(condition).br_if(depth);
        self.charge(-charge);
    }

    /// The program's memory ends where the frame area begins.
    fn memory_grow(&mut self) {
        let (fuel, [by, result]) = (self.fuel, self.scratch);
        let grow = self.context.helpers.grow;
        let mut sink = self.sink();
        sink.local_tee(by).call(grow).local_tee(result);
        sink.local_get(fuel);
        sink.local_get(by).i64_extend_i32_u().i64_const(operators::PAGE).i64_mul();
        sink.i64_const(0).local_get(result).i32_const(-1).i32_ne().select();
        sink.i64_sub().local_set(fuel);
    }

    fn scope(&mut self, scope: u32) {
        for label in self.body.scopes[scope as usize].hoisted.iter().rev() {
            self.block(Some(*label));
        }
        if scope == 0 {
            self.entry();
        } else {
            self.poll(scope, true);
        }
    }

    fn fast_scope(&mut self, scope: u32) {
        let body = self.body;
        for label in body.scopes[scope as usize].hoisted.iter().rev() {
            if !body.labels[*label as usize].landing {
                self.block(Some(*label));
            }
        }
        self.poll(scope, false);
    }

    fn slow_scope(&mut self, scope: u32) {
        // Where the dispatch stands, so that what it jumps over is within.
        for label in self.body.scopes[scope as usize].hoisted.iter().rev() {
            self.block(Some(*label));
        }
        self.dispatch(scope, None);
    }

    fn entry(&mut self) {
        let Context { globals, stack_bytes, .. } = *self.context;
        let fuel = self.fuel;
        self.block(None);
        let run = self.open.len() - 1;
        let cost = self.charges.polls[0];
        self.sink().global_get(globals.fuel).i64_const(cost).i64_sub().local_tee(fuel);
        self.sink().i64_const(0).i64_ge_s().br_if(0);
        self.sink().global_get(globals.state).i32_const(state::REWIND).i32_eq().if_(BlockType::Empty);
        self.open.push(None);
        self.restore();
        self.dispatch(0, Some(run));
        self.end();
        self.suspend(0);
        self.end();
        if let Some(depth) = self.body.depth {
            self.sink().global_get(globals.depth).local_set(depth);
            if self.recursive {
                self.sink().local_get(depth).i32_const(stack_bytes as i32).i32_gt_u();
                self.sink().if_(BlockType::Empty);
                self.sink().i32_const(state::TOO_DEEP).global_set(globals.state).unreachable().end();
            }
        }
    }

    fn poll(&mut self, scope: u32, dispatches: bool) {
        let fuel = self.fuel;
        let cost = self.charges.polls[scope as usize];
        let own = &self.body.scopes[scope as usize];
        self.sink().local_get(fuel).i64_const(cost).i64_sub().local_tee(fuel);
        self.sink().i64_const(0).i64_lt_s().if_(BlockType::Empty);
        self.open.push(None);
        if dispatches && !own.entries.is_empty() {
            let state = self.context.globals.state;
            self.sink().global_get(state).i32_const(state::REWIND).i32_eq().if_(BlockType::Empty);
            self.open.push(None);
            self.dispatch(scope, None);
            self.end();
        }
        self.suspend(own.point);
        self.end();
    }

    /// Suspends here: saves, begins to unwind, returns.
    fn suspend(&mut self, point: u32) {
        self.save(point);
        let (size, fuel, suspend) = (self.frame.size as i32, self.fuel, self.context.helpers.suspend);
        self.sink().i32_const(size).i32_const(point as i32).local_get(fuel).call(suspend);
        self.return_nothing();
    }

    /// Stores what is live.
    fn save(&mut self, point: u32) {
        let (body, live, top) = (self.body, self.live, self.context.globals.top);
        for local in &live[point as usize] {
            let place = place(HEADER + self.frame.offset(*local));
            let mut sink = self.sink();
            sink.global_get(top).local_get(*local);
            match body.locals[*local as usize] {
                ValType::I32 => sink.i32_store(place),
                ValType::I64 => sink.i64_store(place),
                ValType::F32 => sink.f32_store(place),
                ValType::F64 => sink.f64_store(place),
                _ => sink.v128_store(place),
            };
        }
    }

    fn return_nothing(&mut self) {
        for ty in &self.body.results {
            zero(*ty, &mut self.code);
        }
        self.sink().return_();
    }

    /// Loads whatever any point of this function saves, and takes the frame.
    fn restore(&mut self) {
        let (body, size, address) = (self.body, self.frame.size as i32, self.scratch[0]);
        let (top, pop) = (self.context.globals.top, self.context.helpers.pop);
        self.sink().global_get(top).i32_const(size).i32_sub().local_set(address);
        for i in 0..self.frame.slots.len() {
            let (local, offset) = self.frame.slots[i];
            let place = place(HEADER + offset);
            let mut sink = self.sink();
            sink.local_get(address);
            match body.locals[local as usize] {
                ValType::I32 => sink.i32_load(place),
                ValType::I64 => sink.i64_load(place),
                ValType::F32 => sink.f32_load(place),
                ValType::F64 => sink.f64_load(place),
                _ => sink.v128_load(place),
            };
            sink.local_set(local);
        }
        self.sink().i32_const(size).call(pop);
    }

    /// Jumps to where the frame was suspended, if that lies in this scope. Loops that were
    /// suspended themselves, and the entry, begin to run again in a stub of this scope, so that
    /// small loops have no way in from here.
    fn dispatch(&mut self, scope: u32, run: Option<usize>) {
        let own = &self.body.scopes[scope as usize];
        let resume = self.context.globals.resume;
        let first = own.point + u32::from(run.is_none());
        let stubs = usize::from(run.is_some())
            + own.entries.iter().filter(|entry| matches!(entry, Entry::Loop { .. })).count();
        self.block(None);
        let bad = self.open.len() - 1;
        for _ in 0..stubs {
            self.block(None);
        }
        // The stub that comes first ends first, so it is the innermost.
        let mut stub = 0..stubs as u32;
        let mut depths = Vec::new();
        if run.is_some() {
            depths.extend(stub.next());
        }
        for entry in &own.entries {
            match *entry {
                Entry::Call { landing } => depths.push(self.depth(landing)),
                Entry::Loop { scope, landing } => {
                    let inner = &self.body.scopes[scope as usize];
                    depths.extend(stub.next());
                    let within = inner.end_point - inner.point - 1;
                    let landing = self.depth(landing);
                    depths.extend((0..within).map(|_| landing));
                }
            }
        }
        let default = (self.open.len() - 1 - bad) as u32;
        self.sink().global_get(resume);
        if first > 0 {
            self.sink().i32_const(first as i32).i32_sub();
        }
        self.sink().br_table(depths, default);
        if let Some(run) = run {
            self.end();
            let depth = (self.open.len() - 1 - run) as u32;
            self.resumed(0);
            self.sink().br(depth);
        }
        for entry in &own.entries {
            if let Entry::Loop { scope, landing } = *entry {
                self.end();
                // Its poll has charged for this round already, and will again.
                let cost = self.charges.polls[scope as usize];
                self.resumed(cost);
                let depth = self.depth(landing);
                self.sink().br(depth);
            }
        }
        self.end();
        // No frame of this function says so.
        self.sink().unreachable();
    }

    /// Resuming ends here.
    fn resumed(&mut self, more: i64) {
        let (Globals { state, refuel, .. }, fuel) = (self.context.globals, self.fuel);
        self.sink().i32_const(state::RUN).global_set(state).global_get(refuel);
        if more != 0 {
            self.sink().i64_const(more).i64_add();
        }
        self.sink().local_set(fuel);
    }

    fn call(&mut self, call: u32) {
        let site = &self.body.calls[call as usize];
        let Context { globals, helpers, .. } = *self.context;
        let (fuel, size) = (self.fuel, self.frame.size as i32);
        if site.syncs_fuel {
            self.sink().local_get(fuel).global_set(globals.fuel);
        }
        if let (true, Some(depth)) = (site.sets_depth, self.body.depth) {
            let weight = self.weight();
            self.sink().local_get(depth).i32_const(weight).i32_add().global_set(globals.depth);
        }
        self.raw(site.start, site.end);
        if site.syncs_fuel {
            self.sink().global_get(globals.fuel).local_set(fuel);
        }
        if let Some(point) = site.point {
            self.sink().local_get(fuel).i64_const(0).i64_lt_s().if_(BlockType::Empty);
            self.sink().global_get(globals.state).if_(BlockType::Empty);
            self.save(point);
            self.sink().i32_const(size).i32_const(point as i32).call(helpers.push);
            self.return_nothing();
            self.sink().end().end();
        }
    }

    /// What a call of this function takes of the engine's stack, as far as can be told without
    /// the engine. Only that all engines count the same matters.
    fn weight(&self) -> i32 {
        64 + 8 * self.body.locals.len() as i32
    }
}

fn place(offset: u32) -> MemArg {
    MemArg { offset: offset.into(), align: 2, memory_index: 0 }
}

fn zero(ty: ValType, code: &mut Vec<u8>) {
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
