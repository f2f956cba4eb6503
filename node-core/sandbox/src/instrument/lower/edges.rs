//! Where control leaves: branches and calls.

use super::{Lowering, Spilled, Validator, broken};
use crate::instrument::ir::{CallSite, Entry, Inst, Label, Local};
use crate::instrument::refusal::Refusal;
use crate::instrument::survey::invalid;
use std::collections::BTreeMap;
use wasm_encoder::BlockType;
use wasmparser::{BrTable, Operator, ValType};

impl Lowering<'_, '_> {
    /// Where a branch goes, and the locals that it must set first.
    fn target(&self, depth: u32) -> Result<(Label, Vec<Local>), Refusal> {
        let i = self.frames.len().checked_sub(1 + depth as usize).ok_or_else(broken)?;
        let frame = &self.frames[i];
        Ok((frame.label, frame.params.clone()))
    }

    pub(super) fn branch(&mut self, depth: u32) -> Result<(), Refusal> {
        self.flush();
        let (label, params) = self.target(depth)?;
        self.sets(&params);
        self.emit(Inst::Br(label));
        self.dead = Some(0);
        Ok(())
    }

    pub(super) fn branch_if(&mut self, depth: u32, v: &Validator) -> Result<(), Refusal> {
        self.flush();
        let (label, params) = self.target(depth)?;
        if !params.is_empty() {
            let condition = self.temporary(v.operand_stack_height() - 1, ValType::I32);
            self.emit(Inst::Set(condition));
            self.sets(&params);
            self.gets(&params);
            self.emit(Inst::Get(condition));
        }
        self.emit(Inst::BrIf(label));
        Ok(())
    }

    pub(super) fn branch_table(&mut self, table: &BrTable<'_>, v: &Validator) -> Result<(), Refusal> {
        self.flush();
        let mut depths = Vec::with_capacity(table.len() as usize + 1);
        for depth in table.targets() {
            depths.push(depth.map_err(invalid)?);
        }
        depths.push(table.default());
        // A loop takes its parameters from locals, so its targets go through a block that sets them.
        let mut through: BTreeMap<u32, (Label, Label, Vec<Local>)> = BTreeMap::new();
        let mut labels = Vec::with_capacity(depths.len());
        let height = v.operand_stack_height();
        for depth in depths {
            let (label, params) = self.target(depth)?;
            if params.is_empty() {
                labels.push(label);
            } else if let Some((through, ..)) = through.get(&depth) {
                labels.push(*through);
            } else {
                let args: Vec<ValType> =
                    params.iter().map(|local| self.out.locals[*local as usize]).collect();
                let ty = self.types.returning(&args);
                let block = self.out.label(ty, args);
                through.insert(depth, (block, label, params));
                labels.push(block);
            }
        }
        let mut operands = Vec::new();
        if let Some((_, _, params)) = through.values().next() {
            let first = height - 1 - params.len() as u32;
            let types: Vec<ValType> = params.iter().map(|local| self.out.locals[*local as usize]).collect();
            operands = types.iter().zip(first..).map(|(ty, height)| self.temporary(height, *ty)).collect();
            operands.push(self.temporary(height - 1, ValType::I32));
            self.sets(&operands);
        }
        for (block, ..) in through.values().rev() {
            self.emit(Inst::Block(*block));
        }
        self.gets(&operands);
        let table = self.out.tables.len() as u32;
        self.out.tables.push(labels.into());
        self.emit(Inst::BrTable(table));
        for (block, label, params) in through.values() {
            self.emit(Inst::End(*block));
            self.sets(params);
            self.emit(Inst::Br(*label));
        }
        self.dead = Some(0);
        Ok(())
    }

    pub(super) fn call(
        &mut self,
        op: &Operator<'_>,
        start: u32,
        end: u32,
        v: &Validator,
    ) -> Result<(), Refusal> {
        let callee = self.graph.callee(op).ok_or_else(broken)?;
        let indirect = match op {
            Operator::CallIndirect { type_index, table_index } if callee.counts => {
                let ty = self.survey.types.get(*type_index as usize).ok_or_else(broken)?;
                Some((self.types.counting(ty), *table_index))
            }
            _ => None,
        };
        let function = if let Operator::Call { function_index } = op { Some(*function_index) } else { None };
        let mut site = CallSite {
            start,
            end,
            function,
            indirect,
            passes_fuel: callee.counts,
            polls: callee.polls,
            ..CallSite::default()
        };
        if !callee.suspends {
            if !callee.counts {
                self.pending = self.pending.saturating_add(callee.cost);
            }
            if callee.counts || callee.calls_host {
                self.emit_call(site);
            } else if let Operator::Call { function_index } = op {
                self.emit(Inst::PlainCall(*function_index));
            } else {
                self.emit(Inst::Raw { start, end });
            }
            return Ok(());
        }
        let ty = match op {
            Operator::Call { function_index } => self.survey.signature(*function_index),
            Operator::CallIndirect { type_index, .. } => self.survey.types.get(*type_index as usize),
            _ => None,
        };
        let ty = ty.ok_or_else(broken)?.clone();
        let indirect = matches!(op, Operator::CallIndirect { .. });
        let args = ty.params().len() + usize::from(indirect);
        let frame = self.frame()?;
        let (base, scope) = (frame.base, frame.scope);
        let height = v.operand_stack_height();

        // Arguments that are only pushed can be pushed after the landing.
        let pushed = self.out.insts.len().checked_sub(args).map(|at| &self.out.insts[at..]);
        let simple = pushed.is_some_and(|p| {
            p.iter().all(|inst| matches!(inst, Inst::Get(_) | Inst::Const(_) | Inst::Push { .. }))
        });
        let (below, arguments) = if simple {
            let arguments = self.out.insts.split_off(self.out.insts.len() - args);
            let mut below = Vec::new();
            for height_below in (base..height - args as u32).rev() {
                let depth = (height - 1 - height_below) as usize;
                let ty = v.get_operand_type(depth).flatten().ok_or_else(broken)?;
                let local = self.temporary(height_below, ty);
                self.emit(Inst::Set(local));
                below.push(local);
            }
            below.reverse();
            (below, arguments)
        } else {
            let Spilled { below, top } = self.spill(args, v)?;
            (below, top.into_iter().map(Inst::Get).collect())
        };
        // A function of the program remembers its own; a host function is asked again, and an
        // indirect call must find the same function.
        let needed = if callee.waits { &arguments[..] } else { &arguments[args - usize::from(indirect)..] };
        site.uses = needed
            .iter()
            .filter_map(|inst| if let Inst::Get(local) = inst { Some(*local) } else { None })
            .collect();
        site.point = Some(self.point(scope));
        self.out.insts.extend(arguments);
        self.emit_call(site);
        let first = height - args as u32;
        self.unspill(&below, first, ty.results());
        Ok(())
    }

    fn emit_call(&mut self, site: CallSite) {
        self.emit(Inst::Call(self.out.calls.len() as u32));
        self.out.calls.push(site);
    }

    /// A point that the scope's dispatch leads to: here.
    fn point(&mut self, scope: u32) -> u32 {
        let landing = self.landing(scope);
        let point = self.out.points;
        self.out.points += 1;
        if let Some(scope) = self.out.scopes.get_mut(scope as usize) {
            scope.entries.push(Entry::Call { landing });
        }
        point
    }

    /// A call that does not return. No local is needed behind it, so all such calls of a function
    /// are resumed in one place.
    pub(super) fn doomed_call(&mut self, function: u32) {
        self.flush();
        self.emit_call(CallSite { function: Some(function), passes_fuel: true, ..CallSite::default() });
        let label = match self.dooms.get(&function) {
            Some(label) => *label,
            None => self.out.label(BlockType::Empty, Vec::new()),
        };
        self.dooms.insert(function, label);
        self.emit(Inst::Br(label));
        self.dead = Some(0);
    }

    /// Where such calls are made again, and where they end.
    pub(super) fn meet_doom(&mut self) -> Result<(), Refusal> {
        for (function, label) in std::mem::take(&mut self.dooms) {
            let point = self.point(0);
            let ty = self.survey.signature(function).ok_or_else(broken)?;
            // It remembers its own arguments.
            self.out.insts.extend(ty.params().iter().map(|ty| Inst::Zero(*ty)));
            self.emit_call(CallSite { function: Some(function), passes_fuel: true, ..CallSite::default() });
            self.out.insts.extend(ty.results().iter().map(|_| Inst::Drop));
            self.close(label, 0);
            self.emit(Inst::Doomed(point));
        }
        Ok(())
    }
}
