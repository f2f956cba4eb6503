//! Content and program of other gateways' units. They are placed when their content is here, so that runners find
//! it, and when their program has been looked into, as the program of a job that comes over the wire is.

use super::{Delegated, Part};
use crate::content::BlobRef;
use crate::time::Time;
use crate::work::spec::UnitSpec;
use std::collections::BTreeSet;
use std::time::Duration;

/// Until content that could not be had is asked for again. Our choice: as runners do.
const MISSING: Duration = Duration::from_secs(3);

/// A program that was refused is looked into again after this time: the check itself may have failed, for
/// lack of memory, say. Our choice: the verdict on a bad program is known by then and costs nothing.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Checked {
    #[default]
    Not,
    Asked,
    Fit,
    /// Refused then.
    Unfit(Time),
}

/// Content of one job's units, and the verdict on its program.
#[derive(Debug, Default)]
pub(super) struct Content {
    program: Checked,
    /// How often content has been asked for under tickets that are not known yet.
    asking: u32,
    /// Tickets of content that has not come.
    asked: BTreeSet<u64>,
    /// Tickets of content that is kept here until the job is over.
    tickets: BTreeSet<u64>,
    /// Blobs that could not be had, and when to ask for them again.
    missing: Option<(BTreeSet<BlobRef>, Time)>,
}

impl Content {
    /// Whether the units may be placed.
    pub(super) fn is_here(&self) -> bool {
        self.has_all() && self.program == Checked::Fit
    }

    /// Whether what the units need is here.
    fn has_all(&self) -> bool {
        self.asking == 0 && self.asked.is_empty() && self.missing.is_none()
    }

    /// Content is asked for; the ticket follows.
    pub(super) fn ask(&mut self) {
        self.asking += 1;
    }

    /// It was asked for under this ticket.
    pub(super) fn asked(&mut self, ticket: u64) {
        self.asking = self.asking.saturating_sub(1);
        self.asked.insert(ticket);
    }

    /// Content has come, or could not be had: `missing`. `false` if nobody waits for it.
    pub(super) fn came(&mut self, ticket: u64, missing: Option<BTreeSet<BlobRef>>, now: Time) -> bool {
        if !self.asked.remove(&ticket) {
            return false;
        }
        match missing {
            None => drop(self.tickets.insert(ticket)),
            Some(blobs) => self.missing.get_or_insert((BTreeSet::new(), now)).0.extend(blobs),
        }
        true
    }

    /// Blobs that are to be asked for again now.
    pub(super) fn missing(&mut self, now: Time) -> Option<BTreeSet<BlobRef>> {
        let late = self.missing.take_if(|(_, since)| now.since(*since) >= MISSING);
        late.map(|(blobs, _)| blobs)
    }

    /// Tickets of all that has come or was asked for.
    pub(super) fn tickets(&self) -> impl Iterator<Item = u64> + '_ {
        self.tickets.iter().chain(&self.asked).copied()
    }

    /// Whether the program is to be looked into now; it is then.
    pub(super) fn looks_into(&mut self, now: Time) -> bool {
        let is_due = match self.program {
            Checked::Not => true,
            Checked::Asked | Checked::Fit => false,
            Checked::Unfit(at) => now.since(at) >= AGAIN,
        };
        let looks = is_due && self.has_all();
        if looks {
            self.program = Checked::Asked;
        }
        looks
    }

    /// Whether the program was refused.
    pub(super) fn is_unfit(&self) -> bool {
        matches!(self.program, Checked::Unfit(_))
    }

    /// The verdict on the program.
    pub(super) fn looked_into(&mut self, fit: bool, now: Time) {
        self.program = if fit { Checked::Fit } else { Checked::Unfit(now) };
    }

    /// One of the units has run.
    pub(super) fn runs(&mut self) {
        self.program = Checked::Fit;
    }
}

/// Blobs without which a unit cannot be run.
pub(super) fn content_of(part: &Part, delegated: &Delegated) -> BTreeSet<BlobRef> {
    let own = delegated.spec.iter().flat_map(UnitSpec::blobs);
    part.template.blobs().into_iter().chain(own).collect()
}
