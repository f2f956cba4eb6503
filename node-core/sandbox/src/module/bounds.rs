//! Functions that cost a compiler far more than their bytes: refused before any engine sees them.
//!
//! Compilers hold one function at a time in memory, at up to some kilobytes a byte of it. These bounds are
//! of functions as engines get them, with what the pass added, and are the same on every node. They keep
//! honest mistakes and tabs, which have no other bound, from the worst; a node's own compiler has bounds
//! of memory and processor time besides.

use super::refusal::Refusal;
use wasmparser::{BinaryReaderError, BlockType, CompositeInnerType, FunctionBody, Operator, Parser, Payload};

/// The bounds of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Bytes. Our choice: several times the largest that compilers make (generated interpreters reach half
    /// a megabyte, twice that with the pass); a quarter of what V8 takes, 7,654,321.
    bytes: usize,
    /// Blocks in each other. Our choice: ten times what the pass takes; 100,000 nested loops are 400 MB in
    /// cranelift.
    nested: u32,
    /// Targets of all its `br_table`s together. Our choice: four times what V8 takes in one; 3 million are
    /// 2.3 GB in cranelift.
    targets: u64,
    /// Parameters and results of all its blocks together. Our choice: a thousand blocks of a thousand
    /// values; each becomes a value of its own in cranelift.
    values: u64,
}

pub(super) const BOUNDS: Bounds =
    Bounds { bytes: 2 << 20, nested: 20_000, targets: 1 << 18, values: 1 << 20 };

/// Bytes of functions that are not looked into: a block is 3 bytes, and its type has at most 2000 values,
/// so no bound is in reach.
const SMALL: usize = 1000;

/// Checks every function of a module that is valid.
pub(super) fn check(module: &[u8], bounds: &Bounds) -> Result<(), Refusal> {
    let invalid = |error: BinaryReaderError| Refusal::Invalid(error.to_string());
    let (mut types, mut function) = (Vec::new(), 0);
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(invalid)? {
            Payload::TypeSection(section) => {
                for group in section {
                    types.extend(group.map_err(invalid)?.into_types().map(
                        |ty| match ty.composite_type.inner {
                            CompositeInnerType::Func(f) => (f.params().len() + f.results().len()) as u64,
                            _ => 0,
                        },
                    ));
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let is_function = matches!(import.map_err(invalid)?.ty, wasmparser::TypeRef::Func(_));
                    function += u32::from(is_function);
                }
            }
            Payload::CodeSectionEntry(body) => {
                if let Some(what) = over(&body, &types, bounds).map_err(invalid)? {
                    return Err(Refusal::TooLarge { function, what });
                }
                function += 1;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Says in words which bound a function exceeds.
fn over(
    body: &FunctionBody<'_>,
    types: &[u64],
    bounds: &Bounds,
) -> Result<Option<String>, BinaryReaderError> {
    let bytes = body.range().len();
    if bytes > bounds.bytes {
        return Ok(Some(format!("{bytes} bytes of code; {} are taken", bounds.bytes)));
    }
    if bytes < SMALL {
        return Ok(None);
    }
    let (mut nested, mut targets, mut values) = (0u32, 0u64, 0u64);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        match operators.read()? {
            Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                nested += 1;
                values += match blockty {
                    BlockType::Empty => 0,
                    BlockType::Type(_) => 1,
                    BlockType::FuncType(index) => types.get(index as usize).copied().unwrap_or(0),
                };
            }
            // The last one ends the function.
            Operator::End => nested = nested.saturating_sub(1),
            Operator::BrTable { targets: table } => targets += u64::from(table.len()),
            _ => continue,
        }
        let (what, most) = match () {
            () if nested > bounds.nested => ("blocks in each other", u64::from(bounds.nested)),
            () if targets > bounds.targets => ("targets in its br_tables", bounds.targets),
            () if values > bounds.values => ("parameters and results of blocks", bounds.values),
            () => continue,
        };
        return Ok(Some(format!("more than {most} {what}")));
    }
    Ok(None)
}
