//! Keeps ways back into a loop out of the loop.
//!
//! A task that was suspended within a loop, in a call or in an inner loop, must get there again. A
//! dispatch at the loop's start could lead there, but then every round meets ways in from it, and
//! engines keep values where those ways need them. So the loop gets a slow copy of its inside, run
//! at most once, before it: the copy has the dispatch and leads on to the loop, which has none.
//! ```wat
//! block $out
//!   block $fast
//!     ;; br $fast unless resuming
//!     block $next     ;; the copy: "br $l" is now "br $next"
//!       ;; dispatch
//!       ...
//!       br $out
//!     end
//!   end
//!   loop $l           ;; without landings
//!     ...
//!   end
//! end
//! ```
//! Only loops without such loops inside: to copy those around them costs more than it gains.
//!
//! Both copies save the same locals and have paid the same at each point, so it does not matter
//! in which one a task is suspended.

use super::ir::{Body, Inst, Label};
use wasm_encoder::BlockType;

/// Loops with more instructions keep their dispatch, because of the size.
const LARGEST: usize = 250;

pub(super) fn peel(body: &mut Body) {
    let old = std::mem::take(&mut body.insts);
    let mut peeling = Peeling { body, new: Vec::with_capacity(old.len()) };
    peeling.copy(&old, false, None);
    body.insts = peeling.new;
}

struct Peeling<'b> {
    body: &'b mut Body,
    new: Vec<Inst>,
}

impl Peeling<'_> {
    /// `fast`: without landings. `moved`: a label whose branches go to another.
    fn copy(&mut self, insts: &[Inst], fast: bool, moved: Option<(Label, Label)>) {
        let mut at = 0;
        while let Some(&inst) = insts.get(at) {
            at += 1;
            match inst {
                Inst::Loop(label) => {
                    let end = at
                        + insts[at..]
                            .iter()
                            .position(|i| matches!(i, Inst::End(l) if *l == label))
                            .unwrap_or(0);
                    let Some(Inst::Scope(scope)) = insts.get(at) else { continue };
                    self.copy_loop(&insts[at + 1..end], label, *scope, fast, moved);
                    at = end + 1;
                }
                Inst::End(label) if fast && self.body.labels[label as usize].landing => {}
                inst => {
                    let inst = moved.map_or(inst, |(from, to)| self.body.retarget(inst, from, to));
                    self.new.push(inst);
                }
            }
        }
    }

    fn copy_loop(
        &mut self,
        inside: &[Inst],
        label: Label,
        scope: u32,
        fast: bool,
        moved: Option<(Label, Label)>,
    ) {
        let has_entries = !self.body.scopes[scope as usize].entries.is_empty();
        let has_inner = inside.iter().any(|inst| match inst {
            Inst::Scope(scope) => !self.body.scopes[*scope as usize].entries.is_empty(),
            _ => false,
        });
        if fast || !has_entries || has_inner || inside.len() > LARGEST {
            let start = if fast { Inst::FastScope(scope) } else { Inst::Scope(scope) };
            self.new.extend([Inst::Loop(label), start]);
            self.copy(inside, fast, moved);
            self.new.push(Inst::End(label));
            return;
        }
        let ty = self.body.labels[label as usize].ty;
        let out = self.body.label(ty, Vec::new());
        let fast = self.body.label(BlockType::Empty, Vec::new());
        let next = self.body.label(BlockType::Empty, Vec::new());
        self.body.labels[next as usize].is_round = true;
        self.new.extend([Inst::Block(out), Inst::Block(fast), Inst::Guard(fast)]);
        self.new.extend([Inst::Block(next), Inst::SlowScope(scope)]);
        let from = self.new.len();
        self.copy(inside, false, Some((label, next)));
        // A loop around this one that was moved, too.
        if let Some((label, to)) = moved {
            for i in from..self.new.len() {
                self.new[i] = self.body.retarget(self.new[i], label, to);
            }
        }
        self.new.extend([Inst::Br(out), Inst::End(next), Inst::End(fast)]);
        self.new.extend([Inst::Loop(label), Inst::FastScope(scope)]);
        self.copy(inside, true, moved);
        self.new.extend([Inst::End(label), Inst::End(out)]);
    }
}
