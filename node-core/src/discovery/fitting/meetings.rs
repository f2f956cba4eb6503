//! Meeting nodes: who owns one of a few agreed points of the ring is where jobs that wait and nodes that idle meet.

use super::message::{Message, ToMeeting};
use super::{Event, Fcx};
use crate::address::Contact;
use crate::circle::{Point, Range};
use crate::ids::NodeId;
use crate::requires::Binding;
use crate::time::Time;
use std::time::Duration;

/// Points that are agreed on. Our choice: enough for 10,000 nodes, of which the busiest has 20 messages a second when a
/// hundred jobs come in one; with fewer the two of a job and the two of a node have one in common more often.
pub(super) const MEETINGS: u8 = 32;

/// Nodes for each point that is in use. Our choice: a thousand nodes use all 32, and in a swarm of a few dozen all jobs
/// and all nodes meet.
const NODES_EACH: u32 = 32;

/// Points at which a job is marked, and at which a node looks for one. Our choice: with one, jobs wait that idle nodes
/// do not hear of.
pub(super) const EACH: u8 = 2;

/// Time for which the owner of a point is taken for that, unless it says that it is none. Our choice: one that knows no
/// better is found out after a while.
const KNOWN: Duration = Duration::from_secs(3600);

/// Time within which a node that does not own a point or is dead, though a lookup names it, is not asked again.
pub(super) const REFUSED: Duration = Duration::from_secs(10);

/// Words that wait for the owner of a point. Our choice: marks of jobs that come within one lookup.
const WAITING: usize = 1024;

#[derive(Debug)]
pub(super) struct Meetings {
    of: Vec<Meeting>,
    /// The first so many points are in use, by what this node knows of the swarm.
    in_use: u8,
}

#[derive(Debug, Default)]
struct Meeting {
    at: Option<(Contact, Time)>,
    /// The node that said last that it does not own the point.
    refused: Option<(NodeId, Time)>,
    /// A lookup is under way.
    asked: bool,
    waiting: Vec<ToMeeting>,
}

impl Default for Meetings {
    fn default() -> Meetings {
        Meetings { of: (0..MEETINGS).map(|_| Meeting::default()).collect(), in_use: EACH }
    }
}

/// The point of this number.
pub(super) fn point(number: u8) -> Point {
    Point::of_name(format!("meeting {number}").as_bytes())
}

/// Points that as many nodes use: a power of two, so that nodes that count a little differently mostly agree.
fn used_by(nodes: u64) -> u8 {
    let points = (nodes / u64::from(NODES_EACH)).next_power_of_two();
    u8::try_from(points).unwrap_or(MEETINGS).clamp(EACH, MEETINGS)
}

/// Points of which a node that had this range, if it had one, owns no more.
pub(super) fn lost(before: Option<Range>, range: Range) -> impl Iterator<Item = u8> {
    let had = move |at: Point| before.is_none_or(|before| before.contains(at));
    (0..MEETINGS).filter(move |number| {
        let at = point(*number);
        had(at) && !range.contains(at)
    })
}

impl Meetings {
    /// With early binding nobody meets.
    pub(super) fn of(binding: Binding) -> Meetings {
        let all = Meetings::default();
        if binding != Binding::Pull { Meetings { in_use: 0, ..all } } else { all }
    }

    /// The swarm has so many nodes that run something. Says whether other points are in use from now on.
    pub(super) fn count(&mut self, nodes: u32) -> bool {
        let nodes = u64::from(nodes);
        let used = used_by(nodes);
        // A swarm that is just as large does not go to and fro.
        let clearly = [nodes * 7 / 8, nodes * 9 / 8].into_iter().all(|near| used_by(near) != self.in_use);
        if used != self.in_use && clearly && self.in_use > 0 {
            self.in_use = used;
            return true;
        }
        false
    }

    /// Whether jobs and nodes use this point.
    pub(super) fn uses(&self, number: u8) -> bool {
        number < self.in_use
    }

    /// Two of those that are in use, drawn.
    pub(super) fn draw(&self, cx: &mut Fcx<'_>) -> Vec<u8> {
        let mut all: Vec<u8> = (0..self.in_use).collect();
        cx.rng.shuffle(&mut all);
        all.truncate(usize::from(EACH));
        all
    }

    /// Sends this to the owner of the point, once it is known.
    pub(super) fn send(&mut self, number: u8, said: ToMeeting, cx: &mut Fcx<'_>) {
        let Some(meeting) = self.of.get_mut(usize::from(number)) else { return };
        if let Some((contact, _)) = meeting.at.filter(|(_, since)| cx.now.since(*since) < KNOWN) {
            return cx.send_to(contact, Message::ToMeeting(said));
        }
        if meeting.waiting.len() < WAITING {
            meeting.waiting.push(said);
        }
        if !std::mem::replace(&mut meeting.asked, true) {
            cx.emit(Event::Lookup { number: u64::from(number), key: point(number) });
        }
    }

    /// Answer to a lookup. False: nobody owns the point now, or a node that does not or is dead, and what was to be said is
    /// lost.
    pub(super) fn located(&mut self, number: u8, owner: Option<Contact>, cx: &mut Fcx<'_>) -> bool {
        let Some(meeting) = self.of.get_mut(usize::from(number)) else { return true };
        meeting.asked = false;
        let waiting = std::mem::take(&mut meeting.waiting);
        let refused = meeting.refused.filter(|(_, at)| cx.now.since(*at) < REFUSED);
        let owner = owner.filter(|contact| refused.is_none_or(|(node, _)| node != contact.id));
        meeting.at = owner.map(|contact| (contact, cx.now));
        let Some(contact) = owner else { return false };
        waiting.into_iter().for_each(|said| cx.send_to(contact, Message::ToMeeting(said)));
        true
    }

    /// Owners of the points, as far as they are known.
    pub(super) fn owners(&self) -> impl Iterator<Item = (u8, Contact)> {
        let known = (0..MEETINGS).zip(&self.of);
        known.filter_map(|(number, meeting)| Some((number, meeting.at?.0)))
    }

    /// The node says that it does not own the point. Says whether it was taken for the owner.
    pub(super) fn refused(&mut self, number: u8, node: NodeId, cx: &mut Fcx<'_>) -> bool {
        let Some(meeting) = self.of.get_mut(usize::from(number)) else { return false };
        let known = meeting.at.take_if(|(contact, _)| contact.id == node).is_some();
        if known {
            meeting.refused = Some((node, cx.now));
        }
        known
    }

    /// The node cannot be reached. Points that it was taken for the owner of: others own them soon.
    pub(super) fn gone(&mut self, node: NodeId, cx: &mut Fcx<'_>) -> Vec<u8> {
        (0..MEETINGS).filter(|number| self.refused(*number, node, cx)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_swarm_meets_at_more_points_and_none_goes_to_and_fro() {
        let used = [0, 1, 63, 64, 95, 96, 200, 1000, 10_000, u64::from(u32::MAX)].map(used_by);
        assert_eq!(used, [2, 2, 2, 2, 2, 4, 8, 32, 32, 32]);
        let mut meetings = Meetings::default();
        assert!(!meetings.count(100), "it is hardly more than 96");
        assert!(meetings.count(120) && meetings.uses(3) && !meetings.uses(4));
        assert!(!meetings.count(100) && !meetings.count(90));
        assert!(meetings.count(60) && !meetings.uses(2));
    }
}
