//! Content that an owner did not send in time is asked for again.
//!
//! The owner is the source, so its silence is no reason to hand its units back: nothing says that
//! another runner would fare better, and a decline would keep this node from further work.

use super::{Event, Runner, Ticket, Timer};
use crate::content::{BlobRef, FetchError, NotFetched};
use crate::ids::NodeId;
use crate::protocol::Cx;

impl Runner {
    /// Outcome of a ticket; `None` if its owner is to be asked again.
    pub(super) fn settled(what: &Ticket, result: Result<(), NotFetched>) -> Option<Result<(), NotFetched>> {
        match (what, result) {
            (Ticket::Job(_) | Ticket::Unit(_), Err(NotFetched { why: FetchError::NoAnswer(_), .. })) => None,
            (_, result) => Some(result),
        }
    }

    pub(super) fn ask_later(&mut self, ticket: u64, cx: &mut Cx<'_, Self>) {
        self.unanswered.insert(ticket);
        cx.set_timer_by(Timer::Fetch, self.config.timing.retry);
    }

    /// Asks connected owners again for what they did not send. What is of others waits until they
    /// are back.
    pub(super) fn fetch_again(&mut self, cx: &mut Cx<'_, Self>) {
        let unanswered = std::mem::take(&mut self.unanswered);
        for ticket in unanswered {
            // Units that have gone have taken their tickets along.
            let Some((owner, blobs)) = self.wanted_under(ticket) else { continue };
            if self.owners.get(&owner).is_some_and(|owner_state| owner_state.connected) {
                cx.emit(Event::Fetch { ticket, blobs, from: owner });
            } else {
                self.unanswered.insert(ticket);
            }
        }
    }

    /// Returns the owner that sends the content of a ticket, and that content.
    fn wanted_under(&self, ticket: u64) -> Option<(NodeId, Vec<BlobRef>)> {
        match self.tickets.get(&ticket)? {
            Ticket::Unit(id) => {
                let unit = self.units.get(id)?;
                Some((unit.owner, unit.spec.as_ref().map(|spec| spec.blobs())?))
            }
            Ticket::Job(id) => {
                let owners = self.units_of(*id).filter_map(|unit| self.units.get(&unit));
                let connected = |owner: &NodeId| self.owners.get(owner).is_some_and(|l| l.connected);
                let owner = owners.map(|unit| unit.owner).max_by_key(connected)?;
                let job = self.jobs.get(id)?;
                Some((owner, job.template.blobs()))
            }
            _ => None,
        }
    }
}
