//! A function between reading and writing: operators copied as they are, locals and control
//! flow taken apart.

use wasm_encoder::BlockType;
use wasmparser::ValType;

pub(super) type Label = u32;
pub(super) type Local = u32;

/// One step of a function. Branches name labels, not depths, because blocks that hold a resume
/// point open earlier than they did.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inst {
    /// Operators that are copied: a range of the program's bytes.
    Raw {
        start: u32,
        end: u32,
    },
    /// The same, for one that only pushes a constant.
    Push {
        start: u32,
        end: u32,
    },
    Get(Local),
    Set(Local),
    Tee(Local),
    /// What the operators since the last of these cost.
    Cost(u32),
    MemorySize,
    MemoryGrow,
    /// An operator whose topmost operand says how many bytes it moves.
    Bulk {
        start: u32,
        end: u32,
    },
    Eqz,
    Block(Label),
    Loop(Label),
    /// The start of a scope: its hoisted blocks open here, and it polls.
    Scope(u32),
    /// The same without a way in from the dispatch, and without landings.
    FastScope(u32),
    /// The start of a copy that runs only to resume: dispatches, and does not poll.
    SlowScope(u32),
    /// Goes to the label unless the task is being resumed.
    Guard(Label),
    If(Label),
    Else(Label),
    End(Label),
    Br(Label),
    BrIf(Label),
    /// Into [`Body::tables`].
    BrTable(u32),
    Unreachable,
    /// Into [`Body::calls`].
    Call(u32),
}

/// What a label opens as, and what a branch to it carries.
#[derive(Clone, Debug)]
pub(super) struct LabelInfo {
    pub(super) ty: BlockType,
    pub(super) args: Vec<ValType>,
    /// It only shows a dispatch where to go.
    pub(super) landing: bool,
    /// It ends a round of a loop, copied before the loop.
    pub(super) is_round: bool,
}

/// The function body, or a loop: what one dispatch can jump into.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    /// Its own poll.
    pub(super) point: u32,
    /// One past the last point within.
    pub(super) end_point: u32,
    /// Blocks that open at its start, in the order in which they end.
    pub(super) hoisted: Vec<Label>,
    /// Where the dispatch leads, by rising points.
    pub(super) entries: Vec<Entry>,
}

/// A place that a scope's dispatch leads to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    /// Just before a call that is made again.
    Call { landing: Label },
    /// Just before a loop, which dispatches in turn.
    Loop { scope: u32, landing: Label },
}

/// A call that needs more than its own bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct CallSite {
    pub(super) start: u32,
    pub(super) end: u32,
    /// Where it can be suspended.
    pub(super) point: Option<u32>,
    /// Whether the callee, or a host function below it, reads and changes the fuel.
    pub(super) syncs_fuel: bool,
    /// Whether the callee counts its depth.
    pub(super) sets_depth: bool,
    /// Locals that the call needs when it is made again.
    pub(super) uses: Vec<Local>,
}

/// A function that is being instrumented.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) insts: Vec<Inst>,
    pub(super) labels: Vec<LabelInfo>,
    pub(super) scopes: Vec<Scope>,
    pub(super) calls: Vec<CallSite>,
    pub(super) tables: Vec<Box<[Label]>>,
    /// Parameters first.
    pub(super) locals: Vec<ValType>,
    pub(super) params: u32,
    pub(super) results: Vec<ValType>,
    /// How many points there are. Point 0 is the function's entry.
    pub(super) points: u32,
    /// How deep this call lies, if it or what it calls recurses.
    pub(super) depth: Option<Local>,
}

impl Body {
    pub(super) fn label(&mut self, ty: BlockType, args: Vec<ValType>) -> Label {
        self.labels.push(LabelInfo { ty, args, landing: false, is_round: false });
        self.labels.len() as Label - 1
    }

    /// The same instruction with branches to `to` instead of `from`.
    pub(super) fn retarget(&mut self, inst: Inst, from: Label, to: Label) -> Inst {
        let moved = |label: Label| if label == from { to } else { label };
        match inst {
            Inst::Br(label) => Inst::Br(moved(label)),
            Inst::BrIf(label) => Inst::BrIf(moved(label)),
            Inst::BrTable(table) if self.tables[table as usize].contains(&from) => {
                let targets = self.tables[table as usize].iter().map(|label| moved(*label)).collect();
                self.tables.push(targets);
                Inst::BrTable(self.tables.len() as u32 - 1)
            }
            other => other,
        }
    }

    pub(super) fn local(&mut self, ty: ValType) -> Local {
        self.locals.push(ty);
        self.locals.len() as Local - 1
    }
}
