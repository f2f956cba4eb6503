//! Reads a function: operators to [`Inst`]s.
//!
//! Two things happen on the way. Every resume point gets a landing, a label that ends just before
//! it, and every block around a landing is hoisted: it will open at the start of its scope, so that
//! the scope's dispatch can jump to the landing. The operand stack, too, is empty wherever the
//! dispatch can come in: values that lie below a call, a loop or a hoisted block go to locals
//! before and come back after it.

use crate::instrument::callgraph::CallGraph;
use crate::instrument::canonical;
use crate::instrument::ir::{Body, Entry, Inst, Label, Local, Scope};
use crate::instrument::operators;
use crate::instrument::refusal::Refusal;
use crate::instrument::shape::{Shape, doomed, shapes};
use crate::instrument::survey::{Survey, invalid};
use crate::instrument::types::BlockTypes;
use std::collections::BTreeMap;
use wasm_encoder::BlockType;
use wasmparser::{FuncValidator, FunctionBody, Operator, ValType, ValidatorResources};

mod edges;

type Validator = FuncValidator<ValidatorResources>;

/// Reads the body of function `index`. The validator, fresh, tells the types of operands.
pub(super) fn lower(
    survey: &Survey<'_>,
    graph: &CallGraph,
    types: &mut BlockTypes,
    index: u32,
    body: &FunctionBody<'_>,
    validator: &mut Validator,
) -> Result<Body, Refusal> {
    let too_large = |what| Refusal::TooLarge { function: survey.place(index), what };
    let Some(shapes) = shapes(body, graph)? else {
        return Err(too_large("nests its blocks too deep"));
    };
    let mut lowering = Lowering {
        survey,
        graph,
        types,
        shapes,
        opened: 0,
        out: Body::default(),
        frames: Vec::new(),
        temporaries: BTreeMap::new(),
        dooms: BTreeMap::new(),
        top_is_exact: false,
        pending: 0,
        dead: None,
    };
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader).map_err(invalid)?;
    lowering.begin(index, validator)?;
    let mut reader = body.get_operators_reader().map_err(invalid)?;
    while !reader.eof() {
        let start = reader.original_position();
        let op = reader.read().map_err(invalid)?;
        let end = reader.original_position();
        let doomed = doomed(&op, &reader, graph);
        lowering.operator(&op, doomed, start as u32, end as u32, validator)?;
        validator.op(start, &op).map_err(invalid)?;
        if lowering.out.locals.len() > MOST_LOCALS {
            return Err(too_large("has too many locals and operands that live across calls"));
        }
    }
    Ok(lowering.out)
}

/// Most locals of a function that engines accept:
/// <https://webassembly.github.io/spec/js-api/#limits>
const MOST_LOCALS: usize = 50_000;

struct Lowering<'s, 'a> {
    survey: &'s Survey<'a>,
    graph: &'s CallGraph,
    types: &'s mut BlockTypes,
    shapes: Vec<Shape>,
    /// How many blocks were opened.
    opened: usize,
    out: Body,
    frames: Vec<Frame>,
    /// A local for each height and type of operands that had to leave the stack.
    temporaries: BTreeMap<(u32, ValType), Local>,
    /// By callee: where calls that do not return meet.
    dooms: BTreeMap<u32, Label>,
    /// The bits of the topmost operand are known to be the same everywhere.
    top_is_exact: bool,
    /// Cost of the operators since the last [`Inst::Cost`].
    pending: u32,
    /// Within operators that nothing reaches, and how many blocks deep.
    dead: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Block,
    Loop,
    If,
}

/// A block that is open in the program.
struct Frame {
    kind: Kind,
    /// It holds a point, so it opened at the start of its scope.
    hoisted: bool,
    label: Label,
    /// Where a hoisted `if` goes that is not taken, until it ends.
    else_label: Option<Label>,
    scope: u32,
    /// Operands below this height are not on the stack, but in locals.
    base: u32,
    /// Those that went there when this block began, lowest first.
    below: Vec<Local>,
    /// A loop's parameters.
    params: Vec<Local>,
    results: Vec<ValType>,
}

/// Operands that left the stack, lowest first.
struct Spilled {
    below: Vec<Local>,
    top: Vec<Local>,
}

impl Lowering<'_, '_> {
    fn begin(&mut self, index: u32, v: &Validator) -> Result<(), Refusal> {
        let signature = self.survey.signature(index).ok_or_else(broken)?;
        self.out.params = signature.params().len() as u32;
        self.out.results = signature.results().to_vec();
        for local in 0..v.len_locals() {
            self.out.locals.push(v.get_local_type(local).ok_or_else(broken)?);
        }
        let added = [ValType::I64, ValType::I32, ValType::I32, ValType::I32];
        let fuel = self.out.fuel() as usize;
        self.out.locals.splice(fuel..fuel, added);
        let callee = self.graph.function(index);
        (self.out.suspends, self.out.depth) = (callee.suspends, callee.depth);
        if callee.depth > 0 {
            self.out.deep = Some(self.out.local(ValType::I32));
        }
        if self.survey.bit_exact {
            self.out.exact = Some([self.out.local(ValType::F32), self.out.local(ValType::F64)]);
        }
        let results = self.out.results.clone();
        let ty = self.types.returning(&results);
        let label = self.out.label(ty, results.clone());
        self.out.scopes.push(Scope::default());
        self.out.points = 1;
        self.emit(Inst::Scope(0));
        self.frames.push(Frame {
            kind: Kind::Block,
            hoisted: true,
            label,
            else_label: None,
            scope: 0,
            base: 0,
            below: Vec::new(),
            params: Vec::new(),
            results,
        });
        Ok(())
    }

    /// A local of the program.
    fn original(&self, local: Local) -> Local {
        if local < self.out.params { local } else { local + Body::ADDED }
    }

    fn operator(
        &mut self,
        op: &Operator<'_>,
        doomed: Option<u32>,
        start: u32,
        end: u32,
        v: &Validator,
    ) -> Result<(), Refusal> {
        if let Some(depth) = self.dead {
            match op {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => {
                    self.opened += 1;
                    self.dead = Some(depth + 1);
                }
                Operator::Else if depth == 0 => self.begin_else()?,
                Operator::End => match depth.checked_sub(1) {
                    None => self.end()?,
                    depth => self.dead = depth,
                },
                _ => {}
            }
            return Ok(());
        }
        self.pending = self.pending.saturating_add(operators::cost(op));
        if self.survey.bit_exact {
            self.make_exact(op, v)?;
        }
        match op {
            Operator::LocalGet { local_index } => self.emit(Inst::Get(self.original(*local_index))),
            Operator::LocalSet { local_index } => self.emit(Inst::Set(self.original(*local_index))),
            Operator::LocalTee { local_index } => self.emit(Inst::Tee(self.original(*local_index))),
            Operator::Block { blockty } => self.begin_block(*blockty, v)?,
            Operator::Loop { blockty } => self.begin_loop(*blockty, v)?,
            Operator::If { blockty } => self.begin_if(*blockty, v)?,
            Operator::Else => self.begin_else()?,
            Operator::End => self.end()?,
            Operator::Br { relative_depth } => self.branch(*relative_depth)?,
            Operator::BrIf { relative_depth } => self.branch_if(*relative_depth, v)?,
            Operator::BrTable { targets } => self.branch_table(targets, v)?,
            Operator::Return => self.branch(self.frames.len() as u32 - 1)?,
            Operator::Unreachable => {
                self.flush();
                self.emit(Inst::Unreachable);
                self.dead = Some(0);
            }
            Operator::Call { .. } | Operator::CallIndirect { .. } => match doomed {
                Some(function) => self.doomed_call(function),
                None => self.call(op, start, end, v)?,
            },
            Operator::RefFunc { function_index } => self.emit(Inst::RefFunc(*function_index)),
            Operator::MemorySize { .. } => self.emit(Inst::MemorySize),
            Operator::MemoryGrow { .. } => {
                self.flush();
                self.emit(Inst::MemoryGrow);
            }
            Operator::MemoryCopy { .. } | Operator::MemoryFill { .. } | Operator::MemoryInit { .. } => {
                self.flush();
                self.emit(Inst::Bulk { start, end });
            }
            Operator::Nop => {}
            // Linkers leave room in numbers that they filled in.
            Operator::I32Const { value } => self.emit(Inst::Const(*value)),
            Operator::GlobalGet { global_index } => self.emit(Inst::GlobalGet(*global_index)),
            Operator::GlobalSet { global_index } => self.emit(Inst::GlobalSet(*global_index)),
            op if operators::is_constant(op) => self.emit(Inst::Push { start, end }),
            _ => match self.out.insts.last_mut() {
                Some(Inst::Raw { end: last, .. }) if *last == start => *last = end,
                _ => self.emit(Inst::Raw { start, end }),
            },
        }
        Ok(())
    }

    /// Before an operator that shows the bits of floats.
    fn make_exact(&mut self, op: &Operator<'_>, v: &Validator) -> Result<(), Refusal> {
        if let Some(ty) = canonical::observed(op, self.survey)
            && !self.top_is_exact
        {
            self.emit(Inst::Canonical(ty));
        }
        if let (Operator::Call { function_index }, true) = (op, canonical::tells_floats(op, self.survey)) {
            let survey = self.survey;
            let ty = survey.signature(*function_index).ok_or_else(broken)?;
            let first = v.operand_stack_height().saturating_sub(ty.params().len() as u32);
            let arguments: Vec<Local> =
                ty.params().iter().zip(first..).map(|(ty, height)| self.temporary(height, *ty)).collect();
            self.sets(&arguments);
            for (ty, local) in ty.params().iter().zip(arguments) {
                self.emit(Inst::Get(local));
                if canonical::has_floats(&[*ty]) {
                    self.emit(Inst::Canonical(*ty));
                }
            }
        }
        self.top_is_exact = canonical::is_exact(op);
        Ok(())
    }

    fn emit(&mut self, inst: Inst) {
        self.out.insts.push(inst);
    }

    /// Before whatever is not run whenever what stands before it is.
    fn flush(&mut self) {
        if self.pending > 0 {
            self.out.insts.push(Inst::Cost(self.pending));
            self.pending = 0;
        }
    }

    fn frame(&mut self) -> Result<&mut Frame, Refusal> {
        self.frames.last_mut().ok_or_else(broken)
    }

    fn next_shape(&mut self) -> Shape {
        self.opened += 1;
        self.shapes.get(self.opened - 1).copied().unwrap_or_default()
    }

    /// Parameters and results of a block.
    fn block_type(&self, ty: wasmparser::BlockType) -> Result<(Vec<ValType>, Vec<ValType>), Refusal> {
        Ok(match ty {
            wasmparser::BlockType::Empty => (Vec::new(), Vec::new()),
            wasmparser::BlockType::Type(ty) => (Vec::new(), vec![ty]),
            wasmparser::BlockType::FuncType(index) => {
                let ty = self.survey.types.get(index as usize).ok_or_else(broken)?;
                (ty.params().to_vec(), ty.results().to_vec())
            }
        })
    }

    fn temporary(&mut self, height: u32, ty: ValType) -> Local {
        if let Some(local) = self.temporaries.get(&(height, ty)) {
            return *local;
        }
        let local = self.out.local(ty);
        self.temporaries.insert((height, ty), local);
        local
    }

    /// Takes everything off the stack; `keep` operands at the top are told apart.
    fn spill(&mut self, keep: usize, v: &Validator) -> Result<Spilled, Refusal> {
        let base = self.frame()?.base;
        let height = v.operand_stack_height();
        let count = height.saturating_sub(base) as usize;
        let mut locals = vec![0; count];
        for depth in 0..count {
            let ty = v.get_operand_type(depth).flatten().ok_or_else(broken)?;
            let local = self.temporary(height - 1 - depth as u32, ty);
            self.emit(Inst::Set(local));
            locals[count - 1 - depth] = local;
        }
        let top = locals.split_off(count.checked_sub(keep).ok_or_else(broken)?);
        Ok(Spilled { below: locals, top })
    }

    /// Takes everything off the stack but `keep` operands at the top.
    fn spill_below(&mut self, keep: usize, v: &Validator) -> Result<Vec<Local>, Refusal> {
        let base = self.frame()?.base;
        if v.operand_stack_height().saturating_sub(base) as usize == keep {
            return Ok(Vec::new());
        }
        let Spilled { below, top } = self.spill(keep, v)?;
        self.gets(&top);
        Ok(below)
    }

    /// Puts back what lay below operands of these types, which begin at this height.
    fn unspill(&mut self, below: &[Local], height: u32, top: &[ValType]) {
        if below.is_empty() {
            return;
        }
        let locals: Vec<Local> =
            top.iter().zip(height..).map(|(ty, height)| self.temporary(height, *ty)).collect();
        self.sets(&locals);
        self.gets(below);
        self.gets(&locals);
    }

    fn gets(&mut self, locals: &[Local]) {
        self.out.insts.extend(locals.iter().map(|local| Inst::Get(*local)));
    }

    fn sets(&mut self, locals: &[Local]) {
        self.out.insts.extend(locals.iter().rev().map(|local| Inst::Set(*local)));
    }

    /// Ends a label that opened at the start of the scope.
    fn close(&mut self, label: Label, scope: u32) {
        self.flush();
        self.emit(Inst::End(label));
        if let Some(scope) = self.out.scopes.get_mut(scope as usize) {
            scope.hoisted.push(label);
        }
    }

    fn landing(&mut self, scope: u32) -> Label {
        let label = self.out.label(BlockType::Empty, Vec::new());
        self.close(label, scope);
        label
    }

    fn begin_block(&mut self, ty: wasmparser::BlockType, v: &Validator) -> Result<(), Refusal> {
        let shape = self.next_shape();
        let (params, results) = self.block_type(ty)?;
        let mut below = Vec::new();
        let label = if shape.has_points {
            below = self.spill_below(params.len(), v)?;
            let ty = self.types.returning(&results);
            self.out.label(ty, results.clone())
        } else {
            self.flush();
            let label = self.out.label(BlockTypes::original(ty), results.clone());
            self.emit(Inst::Block(label));
            label
        };
        let scope = self.frame()?.scope;
        self.frames.push(Frame {
            kind: Kind::Block,
            hoisted: shape.has_points,
            label,
            else_label: None,
            scope,
            base: v.operand_stack_height() - params.len() as u32,
            below,
            params: Vec::new(),
            results,
        });
        Ok(())
    }

    fn begin_loop(&mut self, ty: wasmparser::BlockType, v: &Validator) -> Result<(), Refusal> {
        self.next_shape();
        let (params, results) = self.block_type(ty)?;
        let base = v.operand_stack_height() - params.len() as u32;
        // The loop's parameters get new locals: a branch that is not taken may leave values in
        // them.
        let locals: Vec<Local> = params.iter().map(|ty| self.out.local(*ty)).collect();
        self.sets(&locals);
        let mut below = Vec::new();
        let outer = self.frame()?;
        let (parent, outer_base) = (outer.scope, outer.base);
        for height in (outer_base..base).rev() {
            let depth = (v.operand_stack_height() - 1 - height) as usize;
            let ty = v.get_operand_type(depth).flatten().ok_or_else(broken)?;
            let local = self.temporary(height, ty);
            self.emit(Inst::Set(local));
            below.insert(0, local);
        }
        let landing = self.landing(parent);
        let ty = self.types.returning(&results);
        let label = self.out.label(ty, Vec::new());
        let scope = self.out.scopes.len() as u32;
        self.out.scopes.push(Scope { point: self.out.points, ..Scope::default() });
        self.out.points += 1;
        if let Some(parent) = self.out.scopes.get_mut(parent as usize) {
            parent.entries.push(Entry::Loop { scope, landing });
        }
        self.emit(Inst::Loop(label));
        self.emit(Inst::Scope(scope));
        self.gets(&locals);
        self.frames.push(Frame {
            kind: Kind::Loop,
            hoisted: true,
            label,
            else_label: None,
            scope,
            base,
            below,
            params: locals,
            results,
        });
        Ok(())
    }

    fn begin_if(&mut self, ty: wasmparser::BlockType, v: &Validator) -> Result<(), Refusal> {
        let shape = self.next_shape();
        let (params, results) = self.block_type(ty)?;
        let scope = self.frame()?.scope;
        let (mut below, mut else_label) = (Vec::new(), None);
        let label;
        if shape.has_points {
            below = self.spill_below(params.len() + 1, v)?;
            let ty = self.types.returning(&results);
            label = self.out.label(ty, results.clone());
            if shape.has_else || !params.is_empty() {
                let ty = self.types.returning(&params);
                else_label = Some(self.out.label(ty, params.clone()));
            }
            self.flush();
            self.emit(Inst::Eqz);
            self.emit(Inst::BrIf(else_label.unwrap_or(label)));
        } else {
            self.flush();
            label = self.out.label(BlockTypes::original(ty), results.clone());
            self.emit(Inst::If(label));
        }
        self.frames.push(Frame {
            kind: Kind::If,
            hoisted: shape.has_points,
            label,
            else_label,
            scope,
            base: v.operand_stack_height() - 1 - params.len() as u32,
            below,
            params: Vec::new(),
            results,
        });
        Ok(())
    }

    fn begin_else(&mut self) -> Result<(), Refusal> {
        self.flush();
        let reached = self.dead.take().is_none();
        let frame = self.frame()?;
        let (label, scope) = (frame.label, frame.scope);
        if !frame.hoisted {
            self.emit(Inst::Else(label));
        } else if let Some(else_label) = frame.else_label.take() {
            if reached {
                self.emit(Inst::Br(label));
            }
            self.close(else_label, scope);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refusal> {
        self.flush();
        let reached = self.dead.take().is_none();
        let frame = self.frames.pop().ok_or_else(broken)?;
        if self.frames.is_empty() && !self.dooms.is_empty() {
            if reached {
                self.emit(Inst::Br(frame.label));
            }
            self.meet_doom()?;
        }
        if frame.kind == Kind::Loop {
            let end_point = self.out.points;
            if let Some(scope) = self.out.scopes.get_mut(frame.scope as usize) {
                scope.end_point = end_point;
            }
            self.emit(Inst::End(frame.label));
        } else if !frame.hoisted {
            self.emit(Inst::End(frame.label));
        } else {
            if let Some(else_label) = frame.else_label {
                if reached {
                    self.emit(Inst::Br(frame.label));
                }
                self.close(else_label, frame.scope);
            }
            self.close(frame.label, frame.scope);
        }
        if self.frames.is_empty() {
            self.out.scopes[0].end_point = self.out.points;
        }
        self.unspill(&frame.below, frame.base, &frame.results);
        Ok(())
    }
}

/// After validation this cannot happen, but nothing that a program contains is a reason to panic.
fn broken() -> Refusal {
    Refusal::Invalid("its operands do not fit its operators".into())
}
