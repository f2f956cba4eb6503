//! Records on the ring, among the other machines.

use super::Node;
use super::alarms::Part;
use super::config::RecordsPart;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use crate::circle::RingId;
use crate::files;
use crate::ids::NodeId;
use crate::node::message::Message;
use crate::overlay::ring;
use crate::overlay::ring::MemberView;
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::record::{Key, Refused};
use crate::records::{Command, Event, Records};
use crate::ticket::{ServiceId, Ticket};
use bytes::Bytes;

/// Whether it is said by a node that says that the ring names it.
fn copies_come(input: &InputOf<Records>) -> bool {
    use crate::records::Message::{Compare, Copies};
    matches!(input, Input::Message { message: Copies(_) | Compare { .. }, .. })
}

pub(super) fn start(part: &RecordsPart, seed: &[u8; 32]) -> Box<Machine<Records>> {
    let records = Records::new(part.config.clone(), part.secret.clone());
    Box::new(Machine::new(records, Rng::fork(seed, "records")))
}

impl Node {
    /// Records that lie on this node; none if its swarm has none.
    pub fn records(&self) -> Option<&Records> {
        self.overlays.records.as_ref().map(|records| records.state())
    }

    fn records_step(&mut self, input: InputOf<Records>) {
        if self.overlays.records.is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Records(input)));
        }
    }

    pub(super) fn records_command(&mut self, command: Command) {
        self.records_step(Input::Command(command));
    }

    pub(super) fn records_clock(&mut self, ms: u64) {
        self.records_command(Command::WallClock(ms));
    }

    pub(super) fn records_peer(&mut self, peer: NodeId, up: bool) {
        self.records_step(if up { Input::Up(peer) } else { Input::Down(peer) });
    }

    pub(super) fn publish(&mut self, number: u64, key: Key, value: Option<Bytes>, host: &mut impl Host) {
        if self.overlays.records.is_none() {
            let refused = Some(Refused::NoAnswer);
            return host.event(NodeEvent::Published { number, refused });
        }
        self.records_command(Command::Publish { ticket: ServiceId::Driver.ticket(number), key, value });
    }

    pub(super) fn read_record(&mut self, number: u64, key: Key, host: &mut impl Host) {
        if self.overlays.records.is_none() {
            let found = Err(Refused::NoAnswer);
            return host.event(NodeEvent::RecordRead { number, found });
        }
        self.records_command(Command::Read { number, key });
    }

    pub(super) fn records_input(&mut self, input: InputOf<Records>, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let before = copies_come(&input).then(|| self.before_on_the_ring());
        let Some(records) = &mut self.overlays.records else { return };
        if let Some(before) = before {
            // The answer is nothing.
            drop(records.step(me, now, Input::Command(Command::Predecessors(before))));
        }
        let effects = records.step(me, now, input);
        self.alarms.set(Part::Overlays, self.overlays.deadline());
        self.follow(ServiceId::Records, effects, Message::Records, Node::of_records, host);
    }

    /// The members before this node, the nearest first; nobody while it has no place on the ring.
    fn before_on_the_ring(&self) -> Vec<NodeId> {
        let mine = |member: &MemberView<'_>| member.id().ring == RingId::NODES && member.joined();
        let member = self.ring().and_then(|ring| ring.members().find(mine));
        member.map_or(Vec::new(), |member| member.line().iter().map(|peer| peer.contact.id).collect())
    }

    fn of_records(&mut self, event: Event, host: &mut impl Host) {
        match event {
            Event::Lookup { number, .. } if self.overlays.circle.is_none() => {
                self.records_command(Command::Located { number, found: None });
            }
            Event::Lookup { number, key } => {
                self.look_up(ServiceId::Records.ticket(number), RingId::NODES, key);
            }
            Event::Published { ticket: Ticket { of, number }, refused } => match of {
                ServiceId::Files => self.tell_files(files::owner::Command::Published { number, refused }),
                _ => host.event(NodeEvent::Published { number, refused }),
            },
            Event::Lost { key, refused } => host.event(NodeEvent::Unpublished { key, refused }),
            Event::Read { number, found } => host.event(NodeEvent::RecordRead { number, found }),
        }
    }

    /// Passes changes of this node's place on the ring to its records.
    pub(super) fn records_told(&mut self, event: &ring::Event) {
        use ring::Event;
        self.records_command(match event {
            Event::Gained { member, range, from } if member.ring == RingId::NODES => {
                Command::Gained { range: *range, from: *from }
            }
            Event::Lost { member, range, to } if member.ring == RingId::NODES => {
                Command::Lost { range: *range, to: *to }
            }
            Event::Successors { member, list } if member.ring == RingId::NODES => {
                Command::Successors(list.iter().map(|peer| peer.contact).collect())
            }
            _ => return,
        });
    }
}
