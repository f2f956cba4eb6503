//! Searches in the swarm, when the nodes at hand are not enough: one question to whichever finder the
//! configuration names, and what is done with the places that it finds.

use super::Node;
use super::host::Host;
use super::notes::Reply;
use super::table::Find;
use crate::discovery::connected::{self, Connected};
use crate::finding::{Found, Needs, Query, Queue};
use crate::ticket::{ServiceId, Ticket};
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// After a search for more that found nothing, the owner's next looks ask only the nodes at hand for
/// so long. Our choice: short beside a person's patience; an owner of short units looks 100 times a
/// second.
const MORE_AGAIN: Duration = Duration::from_millis(500);

/// Searches in the swarm for services of this node.
#[derive(Default)]
pub(super) struct Searches {
    asked: BTreeMap<Ticket, Search>,
    /// When the swarm is searched again for more than the nodes at hand give.
    more_at: Time,
}

struct Search {
    query: Query,
    /// Reason for the submitter if nothing is found: why the nodes at hand take nothing.
    shortage: Option<String>,
    /// It is for more than the nodes at hand gave, and who asked was answered already.
    for_more: bool,
}

impl Node {
    /// Answers with the places at hand. Asks the swarm if there are none, or for the rest.
    pub(super) fn answer_or_search(&mut self, found: Found, missing: Option<Query>, host: &mut dyn Host) {
        let Some((query, find)) = missing.zip(self.finder()) else {
            return self.answer(found.ticket, Reply::Found(found), host);
        };
        if found.places.is_empty() {
            return self.search(query, found.shortage, false, find);
        }
        let already = self.searches.asked.values().any(|search| search.for_more);
        if !already && self.now >= self.searches.more_at {
            let ticket = self.config.finder.ticket(query.ticket.number);
            self.search(Query { ticket, ..query }, None, true, find);
        }
        self.answer(found.ticket, Reply::Found(found), host);
    }

    /// The finder that the configuration names, if this node has it.
    fn finder(&self) -> Option<Find> {
        self.row(self.config.finder)?.find
    }

    fn search(&mut self, query: Query, shortage: Option<String>, for_more: bool, find: Find) {
        self.searches.asked.insert(query.ticket, Search { query: query.clone(), shortage, for_more });
        find(self, query);
    }

    /// Looks for places in the swarm without a job behind it.
    pub(super) fn find_for_driver(&mut self, number: u64, units: u32, needs: Needs, host: &mut dyn Host) {
        let ticket = ServiceId::Driver.ticket(number);
        match self.finder() {
            Some(find) => {
                let (queue, without) = (Queue::No, Default::default());
                find(self, Query { ticket, units, needs, queue, swarm: true, without });
            }
            None => {
                let shortage = Some("this node has no finder for the swarm; ask its gateway".into());
                let found = Found { ticket, places: Vec::new(), shortage };
                self.answer(ticket, Reply::Found(found), host);
            }
        }
    }

    /// Dials the nodes that were found, and offers them to who asked as soon as they are connected.
    pub(super) fn found(&mut self, found: Found, host: &mut dyn Host) {
        if found.ticket.of == ServiceId::Driver {
            return self.answer(found.ticket, Reply::Found(found), host);
        }
        let Some(Search { query, shortage, for_more }) = self.searches.asked.remove(&found.ticket) else {
            return;
        };
        if for_more {
            let pause = if found.places.is_empty() { MORE_AGAIN } else { Duration::ZERO };
            self.searches.more_at = self.now + pause;
        } else if found.places.is_empty() && query.queue == Queue::No {
            // No slot is free anywhere that is known.
            let query = Query { queue: Queue::One, swarm: false, ..query };
            return self.tell::<Connected>(connected::Command::Find(query));
        }
        let shortage = shortage.filter(|_| found.places.is_empty());
        for place in &found.places {
            // A host tells of its guests if it relays what others and they write.
            self.reach_for_now(&place.node.with_channels(true), host);
            let promise = connected::Promise { slots: place.units, memory_bytes: query.needs.memory_bytes };
            let here = self.peers().knows(place.node.id);
            self.tell::<Connected>(connected::Command::Promised { node: place.node.id, promise, here });
        }
        if !for_more {
            // The places become offers; who asked is told why there are not more.
            let found = Found { places: Vec::new(), shortage, ..found };
            self.answer(found.ticket, Reply::Found(found), host);
        }
    }
}
