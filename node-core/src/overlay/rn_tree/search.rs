//! Searches for capable nodes: a walk through the subtree of who asks, then through those of its ancestors, past each
//! subtree that has nobody, until enough are found (the paper's extended search). It goes from node to node, so that a
//! visit is one message; the origin hears of its end.

use super::message::{BRANCHES_MAX, Message, Over, WANTED_MAX, Walk};
use super::{Event, Rcx, RnTree, Timer};
use crate::address::Address;
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use crate::ticket::Ticket;
use std::time::Duration;

/// Searches of one node at once. Our choice: further ones find nothing, and their jobs wait for the next look.
pub(super) const SEARCHES: usize = 256;

/// Nodes that a search comes to at most. Our choice: several times what 16 capable nodes take in the hardest of the
/// paper's workloads.
pub const VISITS: u16 = 256;

/// Time after which a search is taken for lost with a node. Our choice: the most visits, at 100 ms each.
const PATIENCE: Duration = Duration::from_secs(25);

/// A search of this node.
#[derive(Debug)]
pub(super) struct Search {
    ticket: Ticket,
    needs: Capability,
    wanted: u16,
    /// It was begun again already.
    again: bool,
}

impl RnTree {
    pub(super) fn find(&mut self, ticket: Ticket, needs: Capability, wanted: u16, cx: &mut Rcx<'_>) {
        let search = Search { ticket, needs, wanted: wanted.clamp(1, WANTED_MAX), again: false };
        self.begin(search, cx);
    }

    fn begin(&mut self, search: Search, cx: &mut Rcx<'_>) {
        let Some(place) = self.place.filter(|_| self.searches.len() < SEARCHES) else {
            return cx.emit(Event::Found { ticket: search.ticket, found: Vec::new(), visited: 0 });
        };
        // Drawn, so that nobody who was not asked ends it.
        let id = cx.rng.below(u64::MAX);
        let walk = Walk {
            id,
            origin: place.contact,
            needs: search.needs,
            wanted: search.wanted,
            visited: 0,
            found: Vec::new(),
            branches: Vec::new(),
            above: self.parent.contact.map(|parent| (parent, cx.me)),
            behind: None,
        };
        self.searches.insert(id, search);
        cx.set_timer(Timer::Search(id), PATIENCE);
        self.visit(walk, cx);
    }

    pub(super) fn walk(&mut self, from: NodeId, walk: Walk, cx: &mut Rcx<'_>) {
        if !walk.is_valid() {
            return cx.fault(from, "hands on a search that no node begins".into());
        }
        self.visit(walk, cx);
    }

    /// The search has come to this node.
    fn visit(&mut self, mut walk: Walk, cx: &mut Rcx<'_>) {
        walk.visited = walk.visited.saturating_add(1);
        let behind = walk.behind.take();
        if behind.is_some() {
            walk.above = self.parent.contact.map(|parent| (parent, cx.me));
        }
        if let Some(place) = self.place {
            let own = self.own.map(|capability| Candidate { at: place.contact.into(), capability });
            let guests = self.guests.iter().map(|(guest, capability)| Candidate {
                at: Address::guest(*guest, place.contact),
                capability: *capability,
            });
            let all = own.into_iter().chain(guests).filter(|one| one.capability.covers(&walk.needs));
            walk.found.extend(all.take(usize::from(walk.wanted).saturating_sub(walk.found.len())));
        }
        let fitting = self.children.values().filter(|child| child.summary.may_cover(&walk.needs));
        let mut branches: Vec<_> = fitting.map(|child| child.contact).collect();
        branches.retain(|child| Some(child.id) != behind);
        cx.rng.shuffle(&mut branches);
        walk.branches.append(&mut branches);
        walk.branches.truncate(BRANCHES_MAX);
        let enough = walk.found.len() >= usize::from(walk.wanted) || walk.visited >= VISITS;
        if enough {
            return self.end(walk, cx);
        }
        if let Some(next) = walk.branches.pop() {
            return cx.send_to(next, Message::Walk(Box::new(walk)));
        }
        match walk.above.take() {
            Some((above, behind)) => {
                walk.behind = Some(behind);
                cx.send_to(above, Message::Walk(Box::new(walk)));
            }
            None => self.end(walk, cx),
        }
    }

    fn end(&mut self, walk: Walk, cx: &mut Rcx<'_>) {
        let over = Over { id: walk.id, found: walk.found, visited: walk.visited };
        match walk.origin.id == cx.me {
            true => self.over(over, cx),
            false => cx.send_to(walk.origin, Message::Over(Box::new(over))),
        }
    }

    pub(super) fn over(&mut self, over: Over, cx: &mut Rcx<'_>) {
        let Some(search) = self.searches.remove(&over.id) else { return };
        cx.cancel_timer(Timer::Search(over.id));
        let mut found = over.found;
        found.retain(|one| one.capability.covers(&search.needs));
        found.truncate(usize::from(search.wanted));
        cx.emit(Event::Found { ticket: search.ticket, found, visited: over.visited });
    }

    /// A search has not come back: it is begun again, once.
    pub(super) fn search_lost(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(search) = self.searches.remove(&id) else { return };
        match search.again {
            true => cx.emit(Event::Found { ticket: search.ticket, found: Vec::new(), visited: 0 }),
            false => self.begin(Search { again: true, ..search }, cx),
        }
    }
}
