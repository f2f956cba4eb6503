//! Functions that the pass adds: what instrumented functions do on their cold paths.

use super::layout::{Globals, state};
use super::types::BlockTypes;
use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, ValType as Encoded};
use wasmparser::ValType;

/// Before a frame's values: the point it is suspended at. Eight bytes keep values aligned.
pub(super) const HEADER: u32 = 8;

/// Indices of the added functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Helpers {
    /// Size, point, fuel: suspends, and completes the frame whose values lie behind the newest.
    pub(super) push: u32,
    /// Size: takes the newest frame, whose values have been read.
    pub(super) pop: u32,
    /// `memory.grow`, with the frame area out of the program's sight.
    pub(super) grow: u32,
}

impl Helpers {
    pub(super) const COUNT: u32 = 3;

    pub(super) fn after(count: u32) -> Helpers {
        Helpers { push: count, pop: count + 1, grow: count + 2 }
    }

    /// Type and body of each, in the order of their indices. `largest`: no frame has more bytes.
    pub(super) fn functions(
        &self,
        globals: &Globals,
        pages: u32,
        largest: u32,
        types: &mut BlockTypes,
    ) -> Vec<(u32, Function)> {
        use ValType::{I32, I64};
        vec![
            (types.function(&[I32, I32, I64], &[]), push(globals, largest)),
            (types.function(&[I32], &[]), pop(globals, pages, spare(largest))),
            (types.function(&[I32], &[I32]), grow(globals, pages, spare(largest))),
        ]
    }
}

/// Bytes at the end of memory where the newest frame is read after it was taken. Whole pages of a
/// snapshot, so that none has frames too.
pub(super) fn spare(largest: u32) -> u32 {
    largest.next_multiple_of(4096)
}

fn function(locals: &[Encoded], code: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
    let mut function = Function::new_with_locals_types(locals.iter().copied());
    code(&mut function.instructions());
    function
}

const WORD: MemArg = MemArg { offset: 0, align: 2, memory_index: 0 };

fn push(globals: &Globals, largest: u32) -> Function {
    const SIZE: u32 = 0;
    const POINT: u32 = 1;
    const FUEL: u32 = 2;
    function(&[], |i| {
        i.i32_const(state::UNWIND).global_set(globals.state);
        i.local_get(FUEL).global_set(globals.fuel);
        i.global_get(globals.top).local_get(POINT).i32_store(WORD);
        i.global_get(globals.top).local_get(SIZE).i32_add().global_set(globals.top);
        // There must be room for the next, whichever function it is of: values are stored unasked.
        i.memory_size(0).i32_const(16).i32_shl().global_get(globals.top).i32_sub();
        i.i32_const((largest + spare(largest)) as i32).i32_lt_u();
        i.if_(BlockType::Empty);
        i.i32_const(state::FRAMES_FULL).global_set(globals.state).unreachable().end().end();
    })
}

fn pop(globals: &Globals, pages: u32, spare: u32) -> Function {
    const SIZE: u32 = 0;
    function(&[], |i| {
        // Only a snapshot that was never taken has fewer frames than functions.
        i.global_get(globals.top).memory_size(0).i32_const(pages as i32).i32_sub();
        i.i32_const(16).i32_shl().i32_sub().local_get(SIZE).i32_lt_u();
        i.if_(BlockType::Empty).unreachable().end();
        i.global_get(globals.top).local_get(SIZE).i32_sub().global_set(globals.top);
        i.memory_size(0).i32_const(16).i32_shl().i32_const(spare as i32).i32_sub().global_set(globals.frame);
        i.global_get(globals.frame).global_get(globals.top).local_get(SIZE).memory_copy(0, 0);
        // Clear the frame's place: bytes that a later frame there does not save read as zero,
        // because snapshots are compared.
        i.global_get(globals.top).i32_const(0).local_get(SIZE).memory_fill(0).end();
    })
}

/// The frame area moves to the new end, and what it leaves behind is cleared.
fn grow(globals: &Globals, pages: u32, spare: u32) -> Function {
    const BY: u32 = 0;
    const OLD: u32 = 1;
    function(&[Encoded::I32], |i| {
        i.local_get(BY).memory_grow(0).local_tee(OLD).i32_const(-1).i32_eq();
        i.if_(BlockType::Empty).i32_const(-1).return_().end();
        i.local_get(OLD).i32_const(pages as i32).i32_sub().local_tee(OLD);
        i.local_get(BY).i32_add().i32_const(16).i32_shl().global_set(globals.top);
        // Zero already, unless the program strayed there.
        i.local_get(OLD).i32_const(16).i32_shl().i32_const(0);
        i.local_get(BY).i32_const(pages as i32).local_get(BY).i32_const(pages as i32).i32_lt_u().select();
        i.i32_const(16).i32_shl().memory_fill(0);
        // Frames will lie where the newest was kept.
        i.local_get(OLD).i32_const(pages as i32).i32_add().i32_const(16).i32_shl();
        i.i32_const(spare as i32).i32_sub().i32_const(0).i32_const(spare as i32).memory_fill(0);
        i.local_get(OLD).end();
    })
}
