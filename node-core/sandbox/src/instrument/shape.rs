//! A first look at a function: which blocks hold a resume point, and must open early.

use super::callgraph::CallGraph;
use super::refusal::Refusal;
use super::survey::invalid;
use wasmparser::{FunctionBody, Operator, OperatorsReader};

/// Blocks may nest so deep. Our choice: ten times what compilers produce, and no nesting makes
/// the pass slow.
const MOST_NESTED: usize = 2000;

/// A `block`, `loop` or `if`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// Whether a loop or a call that can be suspended lies within.
    pub(super) has_points: bool,
    pub(super) has_else: bool,
}

/// Every block of a function in the order in which they open; unreachable ones too, so that
/// whoever reads the function again can count along.
pub(super) fn shapes(body: &FunctionBody<'_>, graph: &CallGraph) -> Result<Option<Vec<Shape>>, Refusal> {
    let mut shapes: Vec<Shape> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    // How many blocks deep the operators are that nothing reaches.
    let mut dead: Option<usize> = None;
    let mut reader = body.get_operators_reader().map_err(invalid)?;
    while !reader.eof() {
        let op = reader.read().map_err(invalid)?;
        match &op {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                if matches!(op, Operator::Loop { .. }) && dead.is_none() {
                    mark(&mut shapes, &open);
                }
                if open.len() >= MOST_NESTED {
                    return Ok(None);
                }
                open.push(shapes.len());
                shapes.push(Shape::default());
                dead = dead.map(|depth| depth + 1);
            }
            Operator::Else => {
                if let Some(shape) = open.last().and_then(|&i| shapes.get_mut(i)) {
                    shape.has_else = true;
                }
                dead = dead.filter(|depth| *depth > 0);
            }
            Operator::End => {
                open.pop();
                dead = dead.and_then(|depth| depth.checked_sub(1));
            }
            Operator::Br { .. } | Operator::BrTable { .. } | Operator::Return | Operator::Unreachable => {
                dead = dead.or(Some(0));
            }
            Operator::Call { .. } | Operator::CallIndirect { .. }
                if dead.is_none()
                    && graph.callee(&op).is_some_and(|callee| callee.suspends)
                    && doomed(&op, &reader, graph).is_none() =>
            {
                mark(&mut shapes, &open);
            }
            _ => {}
        }
    }
    Ok(Some(shapes))
}

/// The function that an operator calls and that never returns, as far as the program knows: such
/// calls share a resume point at the function's end.
pub(super) fn doomed(op: &Operator<'_>, after: &OperatorsReader<'_>, graph: &CallGraph) -> Option<u32> {
    let Operator::Call { function_index } = op else { return None };
    let callee = graph.function(*function_index);
    let next = after.clone().read();
    // A host function that waits must be asked again with the same arguments.
    let doomed = callee.suspends && !callee.waits && matches!(next, Ok(Operator::Unreachable));
    doomed.then_some(*function_index)
}

/// Every open block holds a point. Stops at the first that is known to: so do all around it.
fn mark(shapes: &mut [Shape], open: &[usize]) {
    for &i in open.iter().rev() {
        match shapes.get_mut(i) {
            Some(shape) if !shape.has_points => shape.has_points = true,
            _ => break,
        }
    }
}
