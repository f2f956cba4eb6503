//! Searches for capable nodes: from the owner of the needs' point through the zones that have points with all that is
//! needed, until enough are found. Each node knows what its neighbours can do, so a visit looks at all of them.

use super::Ccx;
use super::member::Member;
use super::message::{Errand, Message, Walk};
use super::zone::{Coords, Zone};
use crate::address::{Address, Contact};
use crate::capability::{Candidate, Capability};
use crate::ids::NodeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Capable nodes that one search looks for at most. Our choice: the marks of a scarce job are at 16.
pub const FOUND_MAX: u16 = 64;

/// Nodes that a search comes to at most. Our choice: each looks at 20 neighbours, so 1,000 nodes are seen.
pub const VISITS: u16 = 128;

/// Nodes that a search keeps for later: the most promising ones.
const AHEAD: usize = 64;

/// A search for nodes that cover some needs, handed from node to node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    needs: Capability,
    wanted: u16,
    found: Vec<Candidate>,
    /// Nodes that it came to, by the first bytes of their ids.
    visited: Vec<u32>,
    /// Nodes to come to, and resources of which all points of their zones have what is needed.
    ahead: Vec<(u8, Contact)>,
}

impl Finding {
    pub(super) fn new(needs: Capability, wanted: u16) -> Finding {
        Finding { needs, wanted, found: Vec::new(), visited: Vec::new(), ahead: Vec::new() }
    }

    /// Whether a correct node could have sent it.
    pub fn is_valid(&self) -> bool {
        (1..=FOUND_MAX).contains(&self.wanted)
            && self.found.len() < usize::from(self.wanted)
            && self.visited.len() < usize::from(VISITS)
            && self.ahead.len() <= AHEAD
    }

    fn add(&mut self, one: Candidate) {
        let room = self.found.len() < usize::from(self.wanted);
        if room
            && one.capability.covers(&self.needs)
            && self.found.iter().all(|known| known.at.id != one.at.id)
        {
            self.found.push(one);
        }
    }
}

fn brief(id: NodeId) -> u32 {
    id.0.first_chunk().map_or(0, |four| u32::from_le_bytes(*four))
}

impl Member {
    /// A search has come to this node.
    pub(super) fn search(
        &mut self,
        id: u64,
        origin: Contact,
        (to, hops): (Coords, u16),
        mut finding: Finding,
        guests: &BTreeMap<NodeId, Capability>,
        cx: &mut Ccx<'_>,
    ) {
        finding.visited.push(brief(cx.me));
        if let Some(capability) = self.capability {
            finding.add(Candidate { at: self.contact.into(), capability });
        }
        for (guest, capability) in guests {
            finding.add(Candidate { at: Address::guest(*guest, self.contact), capability: *capability });
        }
        // Drawn, so that searches for the same do not all find the same nodes.
        let mut near: Vec<NodeId> = self.neighbours.keys().copied().collect();
        cx.rng.shuffle(&mut near);
        for one in
            near.iter().filter_map(|id| self.neighbours.get(id)).filter(|one| one.direct && !one.disputed)
        {
            let contact = one.record.contact;
            if let Some(capability) = one.record.capability {
                finding.add(Candidate { at: contact.into(), capability });
            }
            let reaching = one.record.zones.iter().filter(|zone| zone.reaches(to));
            let Some(surely) = reaching.map(|zone: &Zone| zone.surely(to)).max() else { continue };
            let is_new = !finding.visited.contains(&brief(contact.id))
                && finding.ahead.iter().all(|(_, known)| known.id != contact.id);
            if is_new {
                finding.ahead.push((surely as u8, contact));
            }
        }
        // Most promising last: there, neighbours have more of all that is needed.
        finding.ahead.sort_by_key(|(surely, _)| *surely);
        let surplus = finding.ahead.len().saturating_sub(AHEAD);
        finding.ahead.drain(..surplus);
        let visited = finding.visited.len() as u16;
        let enough = finding.found.len() >= usize::from(finding.wanted) || visited >= VISITS;
        match finding.ahead.pop().filter(|_| !enough) {
            Some((_, next)) => {
                let (space, arrived) = (Some(self.space), true);
                let walk = Walk { id, origin, space, to, hops, arrived, errand: Errand::Find(finding) };
                cx.send_to(next, Message::Walk(Box::new(walk)));
            }
            None => self.end(id, origin, hops, visited, finding.found, cx),
        }
    }
}
