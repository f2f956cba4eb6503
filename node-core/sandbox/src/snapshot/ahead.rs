//! State that is placed in an engine before its task comes, and that the task's own state is
//! relative to: reading, hashing and placing it takes most of the time of going on, and later
//! changes are few.

use super::{BadSnapshot, Checked, Recorder, Root, State};
use crate::engine::{Engine, Instance};
use crate::instrument::Layout;
use crate::running::{NotStarted, Running};
use crate::task::Task;
use std::sync::Arc;

/// A task that will come, as far as it is here.
pub struct Ahead<I> {
    state: State,
    checked: Checked,
    running: Running<I>,
    layout: Arc<Layout>,
    /// Bytes of the whole snapshot.
    base_bytes: usize,
}

impl<I: Instance> Ahead<I> {
    /// Places `state`, which is whole and had so many bytes.
    pub fn new<E: Engine<Instance = I>>(
        engine: &mut E,
        module: &E::Module,
        layout: &Arc<Layout>,
        task: &Task,
        state: State,
        base_bytes: usize,
    ) -> Result<Self, NotStarted> {
        let checked = state.check().map_err(unusable)?;
        let running = state.resume(engine, module, layout, task)?;
        Ok(Ahead { state, checked, running, layout: layout.clone(), base_bytes })
    }

    /// Goes on from the state with that root: `relative`, or from what lies here itself if there is
    /// none.
    pub fn go_on(
        self,
        relative: Option<&[u8]>,
        root: &Root,
        task: &Task,
    ) -> Result<(Running<I>, Recorder), NotStarted> {
        let Ahead { state, checked, mut running, layout, base_bytes } = self;
        let placed = state.memory.len();
        let state = match relative {
            Some(bytes) => {
                let origin = state.registers.origin.clone();
                state.relative(bytes, &origin).map_err(unusable)?
            }
            None => state,
        };
        // That of what it is relative to was looked at when it was placed.
        let known = |block| checked.0.of(block);
        let is_right = state.memory.root(&state.registers, state.changes.as_ref(), known) == state.root;
        if !is_right || state.root != *root {
            return Err(unusable(BadSnapshot::Root));
        }
        *running.instance.host() = state.host(&layout, task)?;
        running.limit = task.limits.fuel;
        state.settle(&mut running, &layout, Some(placed))?;
        Ok((running, Recorder::resumed(state, checked, base_bytes)))
    }
}

fn unusable(bad: BadSnapshot) -> NotStarted {
    NotStarted::Snapshot(bad.to_string())
}
