//! Records on the ring, among the other machines.

use super::Node;
use super::alarms::Part;
use super::config::RecordsPart;
use super::host::{Host, NodeEvent};
use super::overlays;
use super::route;
use crate::ids::NodeId;
use crate::overlay::ring::{self, Located, Mode, RingId};
use crate::protocol::{Effect, Input, InputOf, Machine, Rng};
use crate::records::{Command, Event, Key, Records, Refused};
use crate::wire::Message;
use bytes::Bytes;

/// Lookups of records, among those of markets and of the driver.
const OF_RECORDS: u64 = 1 << 61;

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
        self.records_command(Command::Publish { number, key, value });
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
        let Some(records) = &mut self.overlays.records else { return };
        let effects = records.step(me, now, input);
        self.alarms.set(Part::Overlays, self.overlays.deadline());
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(to, Message::Records(message), host),
                Effect::Emit(event) => self.of_records(event, host),
            }
        }
    }

    fn of_records(&mut self, event: Event, host: &mut impl Host) {
        match event {
            Event::Reach(contact) => self.reach(contact, true, host),
            Event::Lookup { number, .. } if self.overlays.circle.is_none() => {
                self.records_command(Command::Located { number, found: None });
            }
            Event::Lookup { number, key } => {
                let (number, mode) = (OF_RECORDS | number, Mode::Recursive);
                self.ring_command(ring::Command::Lookup { number, ring: RingId::NODES, key, mode });
            }
            Event::Published { number, refused } if self.file_published(number, refused) => {}
            Event::Published { number, refused } => host.event(NodeEvent::Published { number, refused }),
            Event::Lost { key, refused } => host.event(NodeEvent::Unpublished { key, refused }),
            Event::Read { number, found } => host.event(NodeEvent::RecordRead { number, found }),
            Event::Fault { peer, fault } => self.fault(peer, fault, host),
        }
    }

    /// What the ring says of this node's place, for its records.
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

    /// A lookup has ended. Whether it was one of a record's.
    pub(super) fn record_located(&mut self, number: u64, found: Option<&Located>) -> bool {
        let its = number >> 61 == OF_RECORDS >> 61;
        if its {
            let (number, found) = (number & !OF_RECORDS, found.cloned());
            self.records_command(Command::Located { number, found });
        }
        its
    }
}
