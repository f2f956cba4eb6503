//! Functions that the pass adds: what instrumented functions do on their cold paths.

use super::layout::{Globals, state};
use super::types::BlockTypes;
use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, ValType as Encoded};
use wasmparser::ValType;

/// Before a frame's values: the point it is suspended at. Eight bytes keep values aligned, and an
/// address behind them is never 0.
pub(super) const HEADER: u32 = 8;

/// Indices of the added functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helpers {
    /// Size, point, fuel: begins to suspend, and returns where the frame's values go.
    pub(super) suspend: u32,
    /// Size, point: the same after a call, or 0 if it was not suspended.
    pub(super) unwinding: u32,
    /// Size: takes the newest frame, and returns where its values are.
    pub(super) pop: u32,
    /// Ends resuming, and returns the new fuel.
    pub(super) resumed: u32,
    pub(super) too_deep: u32,
    /// `memory.grow`, with the frame area out of the program's sight.
    pub(super) grow: u32,
    push: u32,
}

impl Helpers {
    pub(super) fn after(count: u32) -> Helpers {
        Helpers {
            push: count,
            suspend: count + 1,
            unwinding: count + 2,
            pop: count + 3,
            resumed: count + 4,
            too_deep: count + 5,
            grow: count + 6,
        }
    }

    /// Type and body of each, in the order of their indices.
    pub(super) fn functions(&self, globals: &Globals, pages: u32, types: &mut BlockTypes) -> Vec<(u32, Function)> {
        use ValType::{I32, I64};
        vec![
            (types.function(&[I32, I32], &[I32]), push(globals, pages)),
            (types.function(&[I32, I32, I64], &[I32]), self.suspend(globals)),
            (types.function(&[I32, I32], &[I32]), self.unwinding(globals)),
            (types.function(&[I32], &[I32]), pop(globals, pages)),
            (types.function(&[], &[I64]), resumed(globals)),
            (types.function(&[], &[]), too_deep(globals)),
            (types.function(&[I32], &[I32]), grow(pages)),
        ]
    }

    fn suspend(&self, globals: &Globals) -> Function {
        function(&[], |i| {
            i.i32_const(state::UNWIND).global_set(globals.state);
            i.local_get(2).global_set(globals.fuel);
            i.local_get(0).local_get(1).call(self.push).end();
        })
    }

    fn unwinding(&self, globals: &Globals) -> Function {
        function(&[], |i| {
            i.global_get(globals.state).i32_const(state::UNWIND).i32_eq();
            i.if_(BlockType::Result(Encoded::I32));
            i.local_get(0).local_get(1).call(self.push);
            i.else_().i32_const(0).end().end();
        })
    }
}

fn function(locals: &[Encoded], code: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
    let mut function = Function::new_with_locals_types(locals.iter().copied());
    code(&mut function.instructions());
    function
}

/// Leaves the address on the stack that the next frame goes to.
fn top(i: &mut InstructionSink<'_>, globals: &Globals, pages: u32) {
    i.memory_size(0).i32_const(pages as i32).i32_sub().i32_const(16).i32_shl();
    i.global_get(globals.frames).i32_add();
}

fn push(globals: &Globals, pages: u32) -> Function {
    const SIZE: u32 = 0;
    const POINT: u32 = 1;
    const AT: u32 = 2;
    let word = MemArg { offset: 0, align: 2, memory_index: 0 };
    function(&[Encoded::I32], |i| {
        i.global_get(globals.frames).local_get(SIZE).i32_add().i32_const((pages << 16) as i32).i32_gt_u();
        i.if_(BlockType::Empty);
        i.i32_const(state::FRAMES_FULL).global_set(globals.state).unreachable().end();
        top(i, globals, pages);
        i.local_tee(AT);
        // What is not saved reads as zero, whatever lay there: snapshots are compared.
        i.i32_const(0).local_get(SIZE).memory_fill(0);
        i.local_get(AT).local_get(POINT).i32_store(word);
        i.global_get(globals.frames).local_get(SIZE).i32_add().global_set(globals.frames);
        i.local_get(AT).i32_const(HEADER as i32).i32_add().end();
    })
}

fn pop(globals: &Globals, pages: u32) -> Function {
    const SIZE: u32 = 0;
    const AT: u32 = 1;
    let word = MemArg { offset: 0, align: 2, memory_index: 0 };
    function(&[Encoded::I32], |i| {
        // Only a snapshot that was never taken has fewer frames than functions.
        i.global_get(globals.frames).local_get(SIZE).i32_lt_u();
        i.if_(BlockType::Empty).unreachable().end();
        i.global_get(globals.frames).local_get(SIZE).i32_sub().global_set(globals.frames);
        top(i, globals, pages);
        i.local_tee(AT).i32_load(word).global_set(globals.resume);
        i.local_get(AT).i32_const(HEADER as i32).i32_add().end();
    })
}

fn resumed(globals: &Globals) -> Function {
    function(&[], |i| {
        i.i32_const(state::RUN).global_set(globals.state).global_get(globals.refuel).end();
    })
}

fn too_deep(globals: &Globals) -> Function {
    function(&[], |i| {
        i.i32_const(state::TOO_DEEP).global_set(globals.state).unreachable().end();
    })
}

/// The frame area moves to the new end, and what it leaves behind is cleared.
fn grow(pages: u32) -> Function {
    const BY: u32 = 0;
    const OLD: u32 = 1;
    function(&[Encoded::I32], |i| {
        i.local_get(BY).memory_grow(0).local_tee(OLD).i32_const(-1).i32_eq();
        i.if_(BlockType::Empty).i32_const(-1).return_().end();
        i.local_get(OLD).i32_const(pages as i32).i32_sub().local_tee(OLD);
        i.i32_const(16).i32_shl().i32_const(0);
        i.local_get(BY).i32_const(pages as i32).local_get(BY).i32_const(pages as i32).i32_lt_u().select();
        i.i32_const(16).i32_shl().memory_fill(0);
        i.local_get(OLD).end();
    })
}
