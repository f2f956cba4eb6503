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
    /// An operator that is copied and only pushes a constant: a range of the program's bytes.
    Push {
        start: u32,
        end: u32,
    },
    Get(Local),
    Set(Local),
    Tee(Local),
    /// Fuel of the operators since the last `Cost`.
    Cost(u32),
    Const(i32),
    GlobalGet(u32),
    GlobalSet(u32),
    /// A call that needs nothing.
    PlainCall(u32),
    /// Makes the topmost operand, a float of this type, canonical if it is a NaN.
    Canonical(ValType),
    /// Pushes a zero.
    Zero(ValType),
    Drop,
    /// Pushes a reference to a function.
    RefFunc(u32),
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
    If(Label),
    Else(Label),
    End(Label),
    Br(Label),
    BrIf(Label),
    /// Into [`Body::tables`].
    BrTable(u32),
    Unreachable,
    /// Behind a call that was not expected to return: suspends at this point, or traps.
    Doomed(u32),
    /// Into [`Body::calls`].
    Call(u32),
}

/// Type that a label opens with, and types of the values that a branch to it carries.
#[derive(Clone, Debug)]
pub(super) struct LabelInfo {
    pub(super) ty: BlockType,
    pub(super) args: Vec<ValType>,
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
    /// It is suspended at its own point if the fuel is used up there.
    pub(super) polls: bool,
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
    /// Index of the callee, for a direct call.
    pub(super) function: Option<u32>,
    /// Index of the callee's type with the fuel, and of the table, for an indirect call that passes
    /// fuel.
    pub(super) indirect: Option<(u32, u32)>,
    /// The callee takes and returns the fuel. Otherwise a host function finds it in the global.
    pub(super) passes_fuel: bool,
    /// Every function that it can reach polls when it is entered.
    pub(super) polls: bool,
    /// Where it can be suspended.
    pub(super) point: Option<u32>,
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
    /// Parameters first, then those of [`Body::ADDED`].
    pub(super) locals: Vec<ValType>,
    pub(super) params: u32,
    pub(super) results: Vec<ValType>,
    /// How many points there are. Point 0 is the function's entry.
    pub(super) points: u32,
    /// Whether it can be suspended. If not, it has no points but for the entry, and does not poll.
    pub(super) suspends: bool,
    /// Bytes of stack that a call of it adds to the depth.
    pub(super) depth: u32,
    /// The depth that it is at, if it adds to it.
    pub(super) deep: Option<Local>,
    /// With [`super::Options::bit_exact`]: an f32 and an f64 for moments.
    pub(super) exact: Option<[Local; 2]>,
}

impl Body {
    pub(super) fn label(&mut self, ty: BlockType, args: Vec<ValType>) -> Label {
        self.labels.push(LabelInfo { ty, args });
        self.labels.len() as Label - 1
    }

    /// `inst` with branches to `to` instead of `from`.
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

    /// Locals that stand between the program's parameters and its other locals: the fuel, which is
    /// the last parameter, the point on the way to being suspended, two for moments. Locals that
    /// are used often have short numbers.
    pub(super) const ADDED: u32 = 4;

    /// The fuel comes behind the program's own parameters.
    pub(super) fn fuel(&self) -> Local {
        self.params
    }

    pub(super) fn local(&mut self, ty: ValType) -> Local {
        self.locals.push(ty);
        self.locals.len() as Local - 1
    }
}
