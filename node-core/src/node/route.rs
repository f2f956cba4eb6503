//! Inputs of the node on their way to its services, and the line in which they wait.

use super::Node;
use super::host::{Command, Host, NodeEvent, NodeInput};
use super::notes::{Note, Reply};
use crate::address::Ip;
use crate::channel::{Carrier, Channel};
use crate::engine::{EngineReply, EngineRequest};
use crate::ids::NodeId;
use crate::overlay::circuits::ends::{self as circuits, Circuits};
use crate::overlay::neighbours::{self, Hearing, Neighbours};
use crate::overlay::signalling::{self, Signalling};
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire;
use crate::work::runner::{self, Runner};
use bytes::Bytes;

impl Node {
    pub(super) fn start(&mut self, host: &mut dyn Host) {
        host.engine(EngineRequest::Slots(self.config.slots));
        self.each_service(|node, row| (row.start)(node, host));
    }

    pub(super) fn input(&mut self, input: NodeInput, host: &mut dyn Host) {
        match input {
            NodeInput::Wake => {}
            NodeInput::WallClock(ms) => self.note(Note::Clock(ms), host),
            NodeInput::Connected { peer, ip, joined, over } => self.connected(peer, ip, (joined, over), host),
            NodeInput::DialFailed { peer } if self.connect_by_own_relay(peer) => {}
            NodeInput::DialFailed { peer } => {
                self.not_reached(peer, host);
                self.try_next_gateway(peer, host);
            }
            NodeInput::Probed { number, reached } => {
                self.note_to(ServiceId::DialBack, Note::Probed { number, reached }, host);
            }
            NodeInput::Quiet { peer } => self.note_to(ServiceId::Guest, Note::Quiet(peer), host),
            // At once, as the next connection with the peer counts at once.
            NodeInput::Disconnected { peer, .. } => {
                let ended = neighbours::Command::Disconnected(peer);
                self.run::<Neighbours>(Input::Command(ended), host);
            }
            NodeInput::Received { from, channel, bytes } => self.received(from, channel, &bytes, host),
            NodeInput::Storage(reply) => self.storage(reply, host),
            NodeInput::Engine(reply) => self.engine(reply, host),
            NodeInput::DataChannel(reply) => {
                self.tell::<Signalling>(signalling::Command::Reply(reply));
            }
            NodeInput::Circuit(reply) => self.tell::<Circuits>(circuits::Command::Reply(reply)),
            NodeInput::Command(Command::Drain) => self.note(Note::Drain, host),
            NodeInput::Command(command) => self.command(command, host),
        }
    }

    fn engine(&mut self, reply: EngineReply, host: &mut dyn Host) {
        use runner::Command;
        self.tell::<Runner>(match reply {
            EngineReply::Ended { run, outcome } => Command::Ended { run, outcome },
            EngineReply::Broken { run, error } => Command::Broken { run, error },
            EngineReply::Prepared { run } => Command::Prepared { run },
            EngineReply::Resumed { run } => Command::Resumed { run },
            EngineReply::Said { run, said } => Command::Said { run, said },
            EngineReply::Snapshot { run, taken, stopped } => Command::Snapshot { run, taken, stopped },
            EngineReply::Inspected { number, result } => {
                return self.answer(ServiceId::Owner.ticket(number), Reply::Inspected(result), host);
            }
        });
    }

    fn connected(&mut self, peer: NodeId, ip: Option<Ip>, how: (bool, Carrier), host: &mut dyn Host) {
        if let Some(reason) = self.faults.refusal(peer, self.now) {
            return self.refuse(peer, reason, host);
        }
        let dial = self.dials.as_mut().and_then(|dials| dials.end(peer)).unwrap_or_default();
        // The introduction goes first, also when other steps wait.
        let (joined, over) = how;
        let circuits = self.state::<Circuits>().filter(|_| over == Carrier::Relay);
        let via = circuits.and_then(|circuits| circuits.brings(peer));
        let connected = neighbours::Command::Connected { peer, ip, joined, over, via };
        self.run::<Neighbours>(Input::Command(connected), host);
        // A data channel that takes the place of a circuit was not asked for once more.
        let in_place = matches!(over, Carrier::DataChannel | Carrier::Relay) && !self.holds.has(peer);
        if dial.spare || in_place {
            self.tell::<Neighbours>(neighbours::Command::Spare(peer, true));
        }
        if self.peers().is_leaving(peer) {
            return;
        }
        for (channel, bytes) in dial.frames {
            host.transmit(peer, channel, bytes);
        }
    }

    /// A peer with too many faults is told so, and treated as a dial that failed.
    fn refuse(&mut self, peer: NodeId, reason: String, host: &mut dyn Host) {
        self.not_reached(peer, host);
        self.send(peer, neighbours::Message::Rejected { reason: reason.clone() }, host);
        host.disconnect(peer, &reason);
        self.try_next_gateway(peer, host);
    }

    /// A dial has failed, if one was under way. A peer that has connected meanwhile is not unreachable.
    pub(super) fn not_reached(&mut self, peer: NodeId, host: &mut dyn Host) {
        let now = self.now;
        let failed = self.dials.as_mut().is_some_and(|dials| dials.fail(peer, now));
        if failed && !self.peers().is_connected(peer) {
            self.note(Note::Unreachable(peer), host);
        }
    }

    fn received(&mut self, from: NodeId, channel: Channel, bytes: &Bytes, host: &mut dyn Host) {
        if self.faults.is_refused(from, self.now) {
            // Its connection is being closed.
            return;
        }
        let hearing = self.neighbours.machine.state_mut().hears(from, self.now);
        let (service, body) = match wire::open(bytes, channel) {
            Ok((number, body)) => (ServiceId::of(number), body),
            Err(error) => return self.unreadable(from, error, host),
        };
        match hearing {
            Hearing::Known => {}
            _ if service == Some(ServiceId::Neighbours) => {}
            // It may have said so before it heard that it cannot stay.
            Hearing::Leaving => return,
            Hearing::Stranger => return self.fault(from, "spoke before it was let in".into(), host),
        }
        // A service that this node does not have, or does not know yet, concerns others.
        let Some(row) = service.and_then(|service| self.row(service)) else { return };
        if let Err(error) = (row.receive)(self, from, body, host) {
            self.unreadable(from, error, host);
        }
    }

    /// A peer whose message cannot be decoded gets no second chance.
    fn unreadable(&mut self, from: NodeId, error: wire::WireError, host: &mut dyn Host) {
        let fault = error.to_string();
        host.disconnect(from, &fault);
        self.faults.count(from, self.now);
        host.event(NodeEvent::PeerFault { peer: from, fault });
    }

    pub(super) fn fault(&mut self, peer: NodeId, fault: String, host: &mut dyn Host) {
        if let Some(count) = self.faults.count(peer, self.now) {
            host.disconnect(peer, &format!("{count} faults, the last: it {fault}"));
        }
        host.event(NodeEvent::PeerFault { peer, fault });
    }

    /// Runs all inputs under way, and those that follow from them. `false` if some are left because
    /// the budget of this drive is spent.
    pub(super) fn drain(&mut self, host: &mut dyn Host) -> bool {
        while let Some(step) = self.steps.pop_front() {
            if !self.budget.take(step.row.name) {
                self.steps.push_front(step);
                return false;
            }
            (step.row.run)(self, step.input, host);
        }
        true
    }

    /// Puts one timer that is due in line.
    pub(super) fn fire_due(&mut self) -> bool {
        let Some(row) = self.alarms.due(self.now).and_then(|due| self.row(due)) else { return false };
        (row.fire)(self)
    }
}
