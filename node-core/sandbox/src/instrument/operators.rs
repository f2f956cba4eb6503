//! Operators by name: which are refused, and what the others cost.
//!
//! The cost model: an operator costs 1, what the processor takes much longer for costs more, what
//! compiles to nothing costs 0. Operators whose work depends on an operand are charged by it.
//! A call of a function that is not instrumented costs what the most expensive way through it
//! does. The model is part of what a snapshot and a bill mean: change it and raise
//! [`super::INSTRUMENT_VERSION`].

use wasmparser::Operator;

/// Fuel of a call, beside what the callee charges for itself.
pub(super) const CALL: u32 = 5;
/// Additional fuel of an indirect call, for the check of the callee's type.
pub(super) const INDIRECT: u32 = 5;
/// Bytes that a bulk operation moves for one unit, as a power of two.
pub(super) const BULK_SHIFT: i64 = 4;
/// Fuel of each page that memory grows by: the page must be cleared.
pub(super) const PAGE: i64 = 4096;

pub(super) fn cost(op: &Operator<'_>) -> u32 {
    use Operator::*;
    match op {
        Nop | Block { .. } | Loop { .. } | Else | End => 0,
        I32DivS | I32DivU | I32RemS | I32RemU | I64DivS | I64DivU | I64RemS | I64RemU => 10,
        F32Div | F64Div | F32Sqrt | F64Sqrt | F32x4Div | F64x2Div | F32x4Sqrt | F64x2Sqrt => 8,
        Call { .. } => CALL,
        CallIndirect { .. } => CALL + INDIRECT,
        MemoryGrow { .. } => 100,
        MemoryCopy { .. } | MemoryFill { .. } | MemoryInit { .. } => 8,
        _ => 1,
    }
}

/// Whether the operator only pushes a constant.
pub(super) fn is_constant(op: &Operator<'_>) -> bool {
    use Operator::*;
    matches!(op, I32Const { .. } | I64Const { .. } | F32Const { .. } | F64Const { .. } | V128Const { .. })
}

/// Advice on what to do instead; `None` unless a suspended task cannot be moved with the operator.
pub(super) fn refused(op: &Operator<'_>) -> Option<&'static str> {
    use Operator::*;
    match op {
        DataDrop { .. } | ElemDrop { .. } => {
            Some("a dropped segment would be back in the next node; do without the drop")
        }
        TableSet { .. } | TableGrow { .. } | TableFill { .. } | TableCopy { .. } | TableInit { .. } => {
            Some("tables are not moved; fill them with active element segments only")
        }
        _ => match proposal(op).0 {
            "mvp"
            | "sign_extension"
            | "saturating_float_to_int"
            | "bulk_memory"
            | "reference_types"
            | "simd" => None,
            "tail_call" => Some("build with -mno-tail-call"),
            "threads" | "shared_everything_threads" => {
                Some("build without threads (in Rust: wasm32-wasip1, not wasm32-wasip1-threads)")
            }
            "exceptions" | "legacy_exceptions" => {
                Some("build without exceptions (-fno-exceptions, or panic=abort)")
            }
            "relaxed_simd" => Some("its results differ between machines; build with -mno-relaxed-simd"),
            "gc" | "function_references" => {
                Some("use a compiler that targets WASI preview 1 with linear memory")
            }
            "wide_arithmetic" => Some("build with -mno-wide-arithmetic"),
            _ => Some("build for WebAssembly 2.0"),
        },
    }
}

/// The operator as the text format writes it.
pub(super) fn name(op: &Operator<'_>) -> String {
    let visit = proposal(op).1;
    let plain = visit.strip_prefix("visit_").unwrap_or(visit);
    for prefix in ["i32", "i64", "f32", "f64", "v128", "memory", "table", "data", "elem", "ref", "atomic"] {
        if let Some(rest) = plain.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_')) {
            return match rest.strip_prefix("atomic_") {
                Some(rest) => format!("{prefix}.atomic.{}", rest.replace("rmw_", "rmw.")),
                None => format!("{prefix}.{rest}"),
            };
        }
    }
    for lanes in ["i8x16", "i16x8", "i32x4", "i64x2", "f32x4", "f64x2"] {
        if let Some(rest) = plain.strip_prefix(lanes).and_then(|rest| rest.strip_prefix('_')) {
            return format!("{lanes}.{rest}");
        }
    }
    plain.into()
}

macro_rules! proposals {
    ($( @$proposal:ident $op:ident $({ $($arg:ident: $argty:ty),* })? => $visit:ident ($($ann:tt)*))*) => {
        /// The proposal that brought an operator, and the name of its visitor.
        fn proposal(op: &Operator<'_>) -> (&'static str, &'static str) {
            match op {
                $( Operator::$op { .. } => (stringify!($proposal), stringify!($visit)), )*
                _ => ("unknown", "an unknown instruction"),
            }
        }
    };
}
wasmparser::for_each_operator!(proposals);
