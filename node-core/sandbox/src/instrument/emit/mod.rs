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
//!       fuel = call $f (fuel)
//!       if fuel < 0 and state == unwinding: save, return
//!       ...
//!     end               ;; $before_loop
//!     loop
//!       if fuel < cost: dispatch if rewinding, else fuel -= cost, save, return
//!       fuel -= cost
//!       ...
//!     end
//!   end
//! end
//! ```
//! The fuel is the last parameter and the last result; the global is current in the host, and
//! while the task is suspended.
//!
//! Cold paths call nothing while locals are needed: V8 has no registers that survive a call, so
//! one that can be called in a loop costs every round, though it never is.

use super::Tuning;
use super::adapters::Adapters;
use super::fuel::{Charges, charges};
use super::helpers::Helpers;
use super::ir::{Body, Inst, Label, Local};
use super::layout::Globals;
use super::operators;
use super::types::encode;
use frame::FrameLayout;
use wasm_encoder::{BlockType, Function, InstructionSink};

mod frame;
mod points;

/// Module-wide data that every function is written with.
pub(super) struct Context<'a> {
    pub(super) wasm: &'a [u8],
    pub(super) globals: Globals,
    pub(super) helpers: Helpers,
    pub(super) frame_pages: u32,
    pub(super) stack_bytes: u32,
    pub(super) adapters: &'a Adapters,
    pub(super) tuning: Tuning,
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

/// Largest function body that V8 accepts, bytes:
/// <https://webassembly.github.io/spec/js-api/#limits>
const MOST_BYTES: usize = 7_654_321;
/// Places of all dispatches of a function together; loops nested in loops repeat them.
const MOST_PLACES: u64 = 1 << 20;

/// `live`: what each point saves.
pub(super) fn emit(context: &Context<'_>, body: &Body, live: &[Vec<Local>]) -> Result<Emitted, Stop> {
    let places = body.scopes.iter().map(|scope| u64::from(scope.end_point - scope.point)).sum::<u64>();
    if places > MOST_PLACES {
        return Err(Stop::TooLarge);
    }
    let fuel = body.fuel();
    let mut emitter = Emitter {
        context,
        body,
        charges: charges(body),
        frame: FrameLayout::of(body, live, context.tuning == Tuning::Wasmer)?,
        code: Vec::new(),
        open: Vec::new(),
        depth_of: vec![0; body.labels.len()],
        fuel,
        at: fuel + 1,
        scratch: [fuel + 2, fuel + 3],
    };
    if body.suspends {
        emitter.open_chain();
    }
    for (i, inst) in body.insts.iter().enumerate() {
        emitter.inst(i, *inst);
        if emitter.code.len() > MOST_BYTES {
            return Err(Stop::TooLarge);
        }
    }
    emitter.exit();
    if body.suspends {
        emitter.sink().return_();
        emitter.close_chain();
    }
    emitter.sink().end();
    let (code, frame_size) = (emitter.code, emitter.frame.size);

    let declared = body.locals.get(body.fuel() as usize + 1..).unwrap_or_default();
    let mut function = Function::new_with_locals_types(declared.iter().map(|ty| encode(*ty)));
    function.raw(code);
    Ok(Emitted { code: function.into_raw_body(), frame_size })
}

struct Emitter<'a> {
    context: &'a Context<'a>,
    body: &'a Body,
    charges: Charges,
    frame: FrameLayout,
    code: Vec<u8>,
    /// Labels that are open; those that the body does not name are `None`.
    open: Vec<Option<Label>>,
    /// How many were open when a label opened.
    depth_of: Vec<usize>,
    fuel: Local,
    /// The point at which the function is suspended, on the way to its end.
    at: Local,
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
            Inst::Const(value) => {
                self.sink().i32_const(value);
            }
            Inst::GlobalGet(global) => {
                self.sink().global_get(global);
            }
            Inst::GlobalSet(global) => {
                self.sink().global_set(global);
            }
            Inst::PlainCall(function) => {
                self.sink().call(function);
            }
            Inst::Canonical(ty) => self.canonical(ty),
            Inst::Zero(ty) => frame::zero(ty, &mut self.code),
            Inst::Drop => {
                self.sink().drop();
            }
            Inst::RefFunc(function) => {
                let taken = self.context.adapters.taken(function);
                self.sink().ref_func(taken);
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
            Inst::Doomed(point) => self.doomed(point),
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
}
