//! Which operators show the bits of a float, for [`super::Options::bit_exact`].
//!
//! Arithmetic leaves the sign and payload of a NaN open, and engines differ. As long as a NaN is
//! only calculated with, nobody can tell; so it is made canonical just where its bits become
//! something else: in memory, in an integer, a vector, a sign, a global, in a frame, in the host.

use super::operators;
use super::survey::Survey;
use wasmparser::{Operator, ValType};

/// The type of the operator's topmost operand, if it shows that operand's bits.
pub(super) fn observed(op: &Operator<'_>, survey: &Survey<'_>) -> Option<ValType> {
    use Operator::*;
    match op {
        F32Store { .. } | I32ReinterpretF32 | F32Copysign | F32x4Splat | F32x4ReplaceLane { .. } => {
            Some(ValType::F32)
        }
        F64Store { .. } | I64ReinterpretF64 | F64Copysign | F64x2Splat | F64x2ReplaceLane { .. } => {
            Some(ValType::F64)
        }
        GlobalSet { global_index } => {
            let ty = survey.globals.get(*global_index as usize)?.content_type;
            matches!(ty, ValType::F32 | ValType::F64).then_some(ty)
        }
        _ => None,
    }
}

/// Whether it shows the host floats.
pub(super) fn tells_floats(op: &Operator<'_>, survey: &Survey<'_>) -> bool {
    let Operator::Call { function_index } = op else { return false };
    let ty = survey.signature(*function_index).filter(|_| *function_index < survey.imported());
    ty.is_some_and(|ty| has_floats(ty.params()))
}

pub(super) fn observes(op: &Operator<'_>, survey: &Survey<'_>) -> bool {
    observed(op, survey).is_some() || tells_floats(op, survey)
}

pub(super) fn has_floats(types: &[ValType]) -> bool {
    types.iter().any(|ty| matches!(ty, ValType::F32 | ValType::F64))
}

/// Whether the bits of what the operator pushes are the program's choice, or no NaN's.
pub(super) fn is_exact(op: &Operator<'_>) -> bool {
    use Operator::*;
    matches!(
        op,
        F32Load { .. }
            | F64Load { .. }
            | F32Const { .. }
            | F64Const { .. }
            | F32ReinterpretI32
            | F64ReinterpretI64
            | F32ConvertI32S
            | F32ConvertI32U
            | F32ConvertI64S
            | F32ConvertI64U
            | F64ConvertI32S
            | F64ConvertI32U
            | F64ConvertI64S
            | F64ConvertI64U
            | F32x4ExtractLane { .. }
            | F64x2ExtractLane { .. }
    )
}

/// Advice on what to do instead; `None` unless the operator makes NaNs that nothing here can find.
pub(super) fn refused(op: &Operator<'_>) -> Option<&'static str> {
    let name = operators::name(op);
    let operation = name.strip_prefix("f32x4.").or_else(|| name.strip_prefix("f64x2."))?;
    let makes_nans = ["add", "sub", "mul", "div", "sqrt", "min", "max", "ceil", "floor", "trunc", "nearest"]
        .contains(&operation)
        || operation.starts_with("demote")
        || operation.starts_with("promote");
    makes_nans.then_some("with bit_exact, vectors cannot calculate with floats; build with -mno-simd128")
}
