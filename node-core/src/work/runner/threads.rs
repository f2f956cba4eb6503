//! Units that are threads of a virtual computer: what they say goes to their owner, and letters come back.

use super::{Event, Runner, UnitState};
use crate::engine::RunId;
use crate::ids::{NodeId, UnitId};
use crate::protocol::Cx;
use crate::work::message::ToOwner;
use sandbox::swarm::{Letter, Said};

/// Bytes in one message. Our choice: two of them are less than a frame.
const SAID: usize = 448 << 10;

impl Runner {
    /// Word of a thread. What is lost on its way is said again when the owner is back.
    pub(super) fn said(&mut self, run: RunId, said: Said, cx: &mut Cx<'_, Self>) {
        let Some(id) = self.runs.get(&run).copied() else { return };
        let Some(unit) = self.units.get(&id) else { return };
        for part in said.parts(SAID) {
            let said = ToOwner::Said { unit: id, attempt: unit.attempt, said: Box::new(part) };
            Self::to_owner(unit.owner, said, cx);
        }
    }

    pub(super) fn letters(
        &mut self,
        from: NodeId,
        (id, attempt): (UnitId, u32),
        letters: Vec<Letter>,
        cx: &mut Cx<'_, Self>,
    ) {
        let Some(unit) = self.units.get(&id).filter(|unit| unit.owner == from && unit.attempt == attempt)
        else {
            return;
        };
        if let UnitState::Running { run, .. } = unit.state {
            cx.emit(Event::Letters { run, letters });
        }
    }

    /// The owner of these threads may have lost what they said.
    pub(super) fn say_again(&self, owner: NodeId, cx: &mut Cx<'_, Self>) {
        for (run, id) in &self.runs {
            if self.units.get(id).is_some_and(|unit| unit.owner == owner) {
                self.say_again_in(*run, *id, cx);
            }
        }
    }

    pub(super) fn say_again_in(&self, run: RunId, id: UnitId, cx: &mut Cx<'_, Self>) {
        if self.jobs.get(&id.job).is_some_and(|job| job.template.threads.is_some()) {
            cx.emit(Event::Letters { run, letters: vec![Letter::All] });
        }
    }
}
