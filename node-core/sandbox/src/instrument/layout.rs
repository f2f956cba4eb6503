//! Layout of an instrumented module, as the host finds it: names, numbers, and places of frames.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wasmparser::ValType;

/// All that the pass exports begins like this, and nothing of the program may.
pub(super) const PREFIX: &str = "manyhands.";

pub const STATE: &str = "manyhands.state";
pub const FUEL: &str = "manyhands.fuel";
pub const REFUEL: &str = "manyhands.refuel";
pub const TOP: &str = "manyhands.top";
pub const DEPTH: &str = "manyhands.depth";

/// The values of the global [`STATE`].
pub mod state {
    /// The program runs.
    pub const RUN: i32 = 0;
    /// It is being suspended: functions save themselves and return.
    pub const UNWIND: i32 = 1;
    /// It is being resumed: functions are called again and go to where they were.
    pub const REWIND: i32 = 2;
    /// After a trap: it called itself too deep.
    pub const TOO_DEEP: i32 = 3;
    /// After a trap: the frame area cannot hold a task that is suspended this deep.
    pub const FRAMES_FULL: i32 = 4;
}

/// How to drive an instrumented module, and what to save of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The name that its memory is exported under.
    pub memory: String,
    /// Pages at the end of memory that the program does not see. Frames of a suspended task lie
    /// there from the start on, up to the address in the global [`TOP`]; what lies beyond it is not part
    /// of the task.
    pub frame_pages: u32,
    /// The program's mutable globals, all of which are part of a snapshot.
    pub globals: Vec<GlobalSlot>,
    /// The export of the start function, if the module has one: to be run, like any other
    /// function, before the first.
    pub start: Option<String>,
}

/// A mutable global of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GlobalSlot {
    pub index: u32,
    #[serde(serialize_with = "put_type", deserialize_with = "get_type")]
    pub ty: ValType,
    /// The name that the global is exported under.
    pub export: String,
    /// Exported functions that return and take the global's bits as one i64, or two for a
    /// vector, low half first. JavaScript cannot read these types otherwise without loss.
    pub bits: Option<Accessors>,
}

/// The names of two exported functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accessors {
    pub get: String,
    pub set: String,
}

impl GlobalSlot {
    /// Its type as in a module's binary form: the types that a snapshot can hold, and no other.
    pub fn code(ty: ValType) -> Option<u8> {
        Some(match ty {
            ValType::I32 => 0x7f,
            ValType::I64 => 0x7e,
            ValType::F32 => 0x7d,
            ValType::F64 => 0x7c,
            ValType::V128 => 0x7b,
            ValType::Ref(_) => return None,
        })
    }
}

fn put_type<S: Serializer>(ty: &ValType, serializer: S) -> Result<S::Ok, S::Error> {
    let code = GlobalSlot::code(*ty).ok_or(serde::ser::Error::custom("a reference cannot be moved"))?;
    serializer.serialize_u8(code)
}

fn get_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ValType, D::Error> {
    let code = u8::deserialize(deserializer)?;
    let all = [ValType::I32, ValType::I64, ValType::F32, ValType::F64, ValType::V128];
    let found = all.into_iter().find(|ty| GlobalSlot::code(*ty) == Some(code));
    found.ok_or(serde::de::Error::custom("no type of a global that can be moved"))
}

/// Indices of the globals that the pass adds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Globals {
    pub(super) state: u32,
    pub(super) fuel: u32,
    pub(super) refuel: u32,
    /// The address where the frames end.
    pub(super) top: u32,
    pub(super) depth: u32,
    /// The address of the frame that was taken last.
    pub(super) frame: u32,
}

impl Globals {
    pub(super) const COUNT: u32 = 6;

    pub(super) fn after(count: u32) -> Globals {
        Globals {
            state: count,
            fuel: count + 1,
            refuel: count + 2,
            top: count + 3,
            depth: count + 4,
            frame: count + 5,
        }
    }
}
