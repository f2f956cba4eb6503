//! Small loops run several times for one poll.
//!
//! A loop without calls that can be suspended and without loops inside becomes
//! ```wat
//! block $out
//!   loop $l
//!     ;; poll, pays for all copies
//!     block $next  ;; a copy: "br $l" is now "br $next"
//!       ...
//!       br $out
//!     end
//!     ;; more copies, the last as it was
//!   end
//! end
//! ```

use super::ir::{Body, Inst, Label};
use wasm_encoder::BlockType;

/// Loops of more operators stay as they are, and copies together have about twice as many. Both
/// numbers come from a prototype's measurements in cranelift and V8.
const LARGEST: u32 = 60;
const MOST_COPIES: u32 = 8;

pub(super) fn unroll(body: &mut Body) {
    let old = std::mem::take(&mut body.insts);
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    while let Some(inst) = old.get(at) {
        let small = match (inst, old.get(at + 1)) {
            (Inst::Loop(label), Some(Inst::Scope(scope) | Inst::FastScope(scope))) => {
                small(body, &old, at + 2, *label, *scope)
            }
            _ => None,
        };
        let Some((label, end, copies)) = small else {
            new.push(*inst);
            at += 1;
            continue;
        };
        let inside = &old[at + 2..end];
        let ty = body.labels[label as usize].ty;
        let out = body.label(ty, Vec::new());
        let next = body.label(BlockType::Empty, Vec::new());
        new.extend([Inst::Block(out), *inst, old[at + 1]]);
        for _ in 1..copies {
            new.push(Inst::Block(next));
            new.extend(inside.iter().map(|inst| body.retarget(*inst, label, next)));
            new.extend([Inst::Br(out), Inst::End(next)]);
        }
        new.extend(inside);
        new.extend([Inst::End(label), Inst::End(out)]);
        at = end + 1;
    }
    body.insts = new;
}

/// Whether the loop whose inside begins at `from` is worth it: its label, where it ends, and how
/// many copies it becomes.
fn small(body: &Body, insts: &[Inst], from: usize, label: Label, scope: u32) -> Option<(Label, usize, u32)> {
    if !body.scopes.get(scope as usize)?.entries.is_empty() {
        return None;
    }
    let (mut operators, mut again) = (0, false);
    for (i, inst) in insts.iter().enumerate().skip(from) {
        match inst {
            Inst::End(end) if *end == label => {
                let copies = (2 * LARGEST / operators.max(1)).clamp(2, MOST_COPIES);
                return again.then_some((label, i, copies));
            }
            Inst::Cost(cost) => operators += cost,
            Inst::Br(to) | Inst::BrIf(to) => again |= *to == label,
            Inst::BrTable(table) => again |= body.tables[*table as usize].contains(&label),
            Inst::Call(_) | Inst::MemoryGrow | Inst::Bulk { .. } => return None,
            _ => {}
        }
        if operators > LARGEST {
            return None;
        }
    }
    None
}
