//! Resume points: where a function is suspended, and how it gets there again.

use super::{Context, Emitter, frame};
use crate::instrument::ir::Entry;
use crate::instrument::layout::{Globals, state};
use wasm_encoder::BlockType;

/// A bound for numbers that depths are added up from, so that sums do not wrap.
const DEEPEST: u32 = 1 << 30;

impl Emitter<'_> {
    pub(super) fn scope(&mut self, scope: u32) {
        for label in self.body.scopes[scope as usize].hoisted.iter().rev() {
            self.block(Some(*label));
        }
        if scope == 0 {
            self.entry();
        } else {
            self.poll(scope);
        }
    }

    fn entry(&mut self) {
        let Context { globals, stack_bytes, .. } = *self.context;
        let fuel = self.fuel;
        let cost = self.charges.polls[0];
        if !self.body.suspends {
            self.charge(cost);
            return;
        }
        let polls = self.body.scopes[0].polls;
        self.block(None);
        let run = self.open.len() - 1;
        self.sink().local_get(fuel).i64_const(cost).i64_sub().local_tee(fuel);
        self.sink().i64_const(0).i64_ge_s().br_if(0);
        self.sink().global_get(globals.state).i32_const(state::REWIND).i32_eq().if_(BlockType::Empty);
        self.open.push(None);
        self.pop();
        self.dispatch(0, polls.then_some(run));
        self.end();
        if polls {
            self.suspend(0, false);
        }
        self.end();
        if let Some(deep) = self.body.deep {
            let (more, most) = (self.body.depth.min(DEEPEST), stack_bytes.min(DEEPEST));
            let mut sink = self.sink();
            sink.global_get(globals.depth).i32_const(more as i32).i32_add().local_tee(deep);
            sink.i32_const(most as i32).i32_gt_u().if_(BlockType::Empty);
            sink.local_get(fuel).global_set(globals.fuel);
            sink.i32_const(state::TOO_DEEP).global_set(globals.state).unreachable().end();
            sink.local_get(deep).global_set(globals.depth);
        }
    }

    /// Where the function returns: the fuel goes on top of its results.
    pub(super) fn exit(&mut self) {
        let (fuel, depth) = (self.fuel, self.context.globals.depth);
        // From what it was at the entry: what callees left in the global would have to be waited for.
        if let Some(deep) = self.body.deep {
            let less = self.body.depth.min(DEEPEST) as i32;
            self.sink().local_get(deep).i32_const(less).i32_sub().global_set(depth);
        }
        self.sink().local_get(fuel);
    }

    fn poll(&mut self, scope: u32) {
        let (fuel, state) = (self.fuel, self.context.globals.state);
        let cost = self.charges.polls[scope as usize];
        let own = &self.body.scopes[scope as usize];
        let dispatches = !own.entries.is_empty();
        if own.polls || dispatches {
            // Compared before it is paid from: engines then need one register for it, in place, and
            // not a second for what it was.
            let needed = if own.polls { cost } else { 0 };
            self.sink().local_get(fuel).i64_const(needed).i64_lt_s().if_(BlockType::Empty);
            self.open.push(None);
            if dispatches {
                self.sink().global_get(state).i32_const(state::REWIND).i32_eq().if_(BlockType::Empty);
                self.open.push(None);
                self.dispatch(scope, None);
                self.end();
            }
            if own.polls {
                self.charge(cost);
                self.suspend(own.point, false);
            }
            self.end();
        }
        self.charge(cost);
    }

    /// Jumps to where the frame was suspended, if that lies in this scope. Loops that were
    /// suspended themselves, and the entry, begin to run again in a stub of this scope, so that
    /// small loops have no way in from here.
    fn dispatch(&mut self, scope: u32, run: Option<usize>) {
        let own = &self.body.scopes[scope as usize];
        let taken = self.context.globals.frame;
        let first = own.point + u32::from(run.is_none());
        let polls = |entry: &Entry| matches!(entry, Entry::Loop { scope, .. } if self.body.scopes[*scope as usize].polls);
        let stubs = usize::from(run.is_some()) + own.entries.iter().filter(|entry| polls(entry)).count();
        self.load(scope);
        self.block(None);
        for _ in 0..stubs {
            self.block(None);
        }
        // The stub that comes first ends first, so it is the innermost.
        let mut stub = 0..stubs as u32;
        let mut depths = Vec::new();
        if run.is_some() {
            depths.extend(stub.next());
        }
        for entry in &own.entries {
            match *entry {
                Entry::Call { landing } => depths.push(self.depth(landing)),
                Entry::Loop { scope, landing } => {
                    let inner = &self.body.scopes[scope as usize];
                    // Nothing is ever suspended at a loop that does not poll.
                    depths.push(if inner.polls { stub.next().unwrap_or(stubs as u32) } else { stubs as u32 });
                    let within = inner.end_point - inner.point - 1;
                    let landing = self.depth(landing);
                    depths.extend((0..within).map(|_| landing));
                }
            }
        }
        let default = stubs as u32;
        self.sink().global_get(taken).i32_load(frame::POINT);
        if first > 0 {
            self.sink().i32_const(first as i32).i32_sub();
        }
        self.sink().br_table(depths, default);
        if let Some(run) = run {
            self.end();
            let depth = (self.open.len() - 1 - run) as u32;
            self.resumed(0);
            self.sink().br(depth);
        }
        for entry in &own.entries {
            if let Entry::Loop { scope, landing } = *entry
                && self.body.scopes[scope as usize].polls
            {
                self.end();
                // Its poll has charged for this round already, and will again.
                let cost = self.charges.polls[scope as usize];
                self.resumed(cost);
                let depth = self.depth(landing);
                self.sink().br(depth);
            }
        }
        self.end();
        // No frame of this function says so.
        self.sink().unreachable();
    }

    /// Resuming ends here.
    fn resumed(&mut self, more: i64) {
        let (Globals { state, refuel, .. }, fuel) = (self.context.globals, self.fuel);
        self.sink().i32_const(state::RUN).global_set(state).global_get(refuel);
        if more != 0 {
            self.sink().i64_const(more).i64_add();
        }
        self.sink().local_set(fuel);
    }

    pub(super) fn call(&mut self, call: u32) {
        let site = &self.body.calls[call as usize];
        let globals = self.context.globals;
        let (fuel, index) = (self.fuel, self.scratch[0]);
        if let Some((ty, table)) = site.indirect {
            self.sink().local_set(index).local_get(fuel).local_get(index).call_indirect(table, ty);
        } else {
            self.sink().local_get(fuel);
            if !site.passes_fuel {
                self.sink().global_set(globals.fuel);
            }
            match site.function {
                Some(function) => {
                    self.sink().call(function);
                }
                None => self.raw(site.start, site.end),
            }
            if !site.passes_fuel {
                self.sink().global_get(globals.fuel);
            }
        }
        let Some(point) = site.point else {
            self.sink().local_set(fuel);
            return;
        };
        self.sink().local_tee(fuel).i64_const(0).i64_lt_s().if_(BlockType::Empty);
        self.open.push(None);
        self.suspend(point, true);
        self.end();
    }

    /// Behind a call that was not expected to return.
    pub(super) fn doomed(&mut self, point: u32) {
        self.suspend(point, true);
        self.sink().unreachable();
    }
}
