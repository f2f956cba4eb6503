//! Meeting nodes: who owns one of a few agreed points of the ring is where jobs that wait and nodes that idle meet.

use super::message::{Message, ToMeeting};
use super::{Event, Fcx};
use crate::address::Contact;
use crate::circle::Point;
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// Points that are agreed on. Our choice: enough for 10,000 nodes, of which the busiest has 20 messages a second when a
/// hundred jobs come in one; with fewer the two of a job and the two of a node have one in common more often.
pub(super) const MEETINGS: u8 = 32;

/// Points at which a job is marked, and at which a node looks for one. Our choice: with one, jobs wait that idle nodes
/// do not hear of.
pub(super) const EACH: usize = 2;

/// Time for which the owner of a point is taken for that, unless it says that it is none. Our choice: one that knows no
/// better is found out after a while.
const KNOWN: Duration = Duration::from_secs(3600);

/// Time within which a node that does not own a point, though a lookup names it, is not asked again.
const REFUSED: Duration = Duration::from_secs(10);

/// Words that wait for the owner of a point. Our choice: marks of jobs that come within one lookup.
const WAITING: usize = 1024;

#[derive(Debug)]
pub(super) struct Meetings {
    of: Vec<Meeting>,
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
        Meetings { of: (0..MEETINGS).map(|_| Meeting::default()).collect() }
    }
}

/// The point of this number.
pub(super) fn point(number: u8) -> Point {
    Point::of_name(format!("meeting {number}").as_bytes())
}

impl Meetings {
    /// Two of them, drawn, that are none of these.
    pub(super) fn draw(without: &[u8], cx: &mut Fcx<'_>) -> Vec<u8> {
        let mut all: Vec<u8> = (0..MEETINGS).filter(|number| !without.contains(number)).collect();
        cx.rng.shuffle(&mut all);
        all.truncate(EACH);
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

    /// Answer to a lookup; none: nobody owns the point now, and what was to be said is lost. Jobs are marked again
    /// after a while, and nodes look again.
    pub(super) fn located(&mut self, number: u64, owner: Option<Contact>, cx: &mut Fcx<'_>) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(meeting) = self.of.get_mut(number) else { return };
        meeting.asked = false;
        let waiting = std::mem::take(&mut meeting.waiting);
        let refused = meeting.refused.filter(|(_, at)| cx.now.since(*at) < REFUSED);
        let owner = owner.filter(|contact| refused.is_none_or(|(node, _)| node != contact.id));
        meeting.at = owner.map(|contact| (contact, cx.now));
        let Some(contact) = owner else { return };
        waiting.into_iter().for_each(|said| cx.send_to(contact, Message::ToMeeting(said)));
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

    /// The node cannot be reached: another owns its points by now.
    pub(super) fn gone(&mut self, node: NodeId) {
        for meeting in &mut self.of {
            meeting.at = meeting.at.filter(|(contact, _)| contact.id != node);
        }
    }
}
