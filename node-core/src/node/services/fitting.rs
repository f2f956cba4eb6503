//! The finder for jobs with requirements. The tree that knows what nodes can do says how many can run a job, and who.

use crate::capability::Capability;
use crate::circle::RingId;
use crate::discovery::connected::{self, Connected};
use crate::discovery::fitting::{Asks, Command, Event, Fitting, JOBS, Message};
use crate::node::Node;
use crate::node::able::Able;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::overlay::can::{self, Can};
use crate::overlay::guests::relay::Relay;
use crate::overlay::rn_tree::{self, RnTree};
use crate::protocol::Input;
use crate::requires::{Binding, Requires};
use crate::ticket::{ServiceId, Ticket};
use crate::wire::Framed;
use crate::work::owner::{self, Owner};
use crate::work::runner::{self, Runner};
use crate::{JobId, NodeId};
use std::time::Duration;

/// Share of the nodes below which a sample of 32 mostly has none.
const FEW: f64 = 0.02;

/// Nodes that run something, and the share of them that can run a job.
#[derive(Clone, Copy)]
struct Estimate {
    nodes: u32,
    share: f64,
    /// It is of all nodes, and else of a sample.
    is_whole: bool,
}

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Fitting
    }
}

impl Service for Fitting {
    const ID: ServiceId = ServiceId::Fitting;
    const NAME: &'static str = "fitting";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let fitting = || Fitting::new(Able::of(config).stated, config.binding);
        (config.may_match() && config.ring.is_some()).then(fitting)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Unreachable(peer) => node.give::<Self>(Input::Unreachable(peer)),
            Note::Me(me) => {
                node.tell::<Self>(Command::Me(Some(me)));
                let guests = node.state::<Relay>().into_iter().flat_map(Relay::guests);
                let guests: Vec<NodeId> = guests.collect();
                guests.into_iter().for_each(|guest| node.fit_guest(guest));
            }
            Note::Ring(_) => {
                let range = node.place_on_ring().map(|place| place.range);
                node.tell::<Self>(Command::Range(range));
            }
            Note::Guest => node.tell::<Self>(Command::Me(None)),
            Note::Load { slots, busy, .. } => {
                node.tell::<Self>(Command::Load { slots, busy: busy.to_vec() });
            }
            Note::Able => {
                let stated = node.stated();
                node.tell::<Self>(Command::Able(stated));
            }
            Note::Dialable { peer, .. } => node.fit_guest(peer),
            Note::Down(peer) => {
                node.give::<Self>(Input::Down(peer));
                node.fit_no_guest(peer);
            }
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        if let host::Command::FindCapable { number, needs, wanted } = command {
            node.find_capable(ServiceId::Driver.ticket(number), needs, wanted);
        }
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        node.tell::<Self>(match reply {
            Reply::Located(found) => {
                Command::Located { number, owner: found.ok().map(|found| found.owner.contact) }
            }
            Reply::Capable { found, visited } => {
                // A search in the CAN leaves zones out that lie beside its way.
                let searched = visited > 0 && visited < rn_tree::VISITS && node.has::<RnTree>();
                Command::Capable { number, found, searched }
            }
            _ => return,
        });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Lookup { number, key } => {
                node.look_up(ServiceId::Fitting.ticket(number), RingId::NODES, key, host);
            }
            Event::Search { number, job, needs, wanted } => {
                let ticket = ServiceId::Fitting.ticket(number);
                match node.config.binding {
                    binding if binding != Binding::Pull && node.has::<Can>() => {
                        let virt = job.0.first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk));
                        let push = binding == Binding::Pushed;
                        node.tell::<Can>(can::Command::Place { ticket, needs, virt, push });
                    }
                    _ => node.find_capable(ticket, needs, wanted),
                }
            }
            Event::Queue(waiting) => node.tell::<Can>(can::Command::Load { waiting }),
            Event::Claimed { job, node: at, units } => {
                // It may have been connected for the claim alone.
                node.reach_for_now(&at, host);
                (0..units).for_each(|_| node.tell::<Connected>(connected::Command::Placed { node: at.id }));
                node.tell::<Owner>(owner::Command::Claimed { job, node: at.id, units });
            }
            Event::NotMarked { job, full } => {
                let why = match full {
                    true => format!(
                        "{JOBS} other jobs wait here for nodes that have what they require, as many as may"
                    ),
                    false => "this node does not know yet where others can dial it".into(),
                };
                node.tell::<Owner>(owner::Command::Short { job, why });
            }
            Event::Room { owner, job, needs } => {
                let share = node.estimate(&needs).map_or(1.0, |it| it.share);
                node.tell::<Self>(Command::Room { owner, job, share: (share * 1e6) as u32 });
            }
            Event::MakeRoom { stay } => node.tell::<Runner>(runner::Command::MakeRoom { stay }),
            Event::Released { owner, slots } => {
                node.tell::<Runner>(runner::Command::Released { owner, slots });
            }
            Event::Reserved { owner, slots, until } => {
                host.event(NodeEvent::Reserved { owner, slots, hops: 1 });
                node.tell::<Runner>(runner::Command::RoomUsed);
                node.tell::<Runner>(runner::Command::Reserved { owner, slots, until });
            }
        }
    }
}

impl Node {
    /// Its part in fitting jobs to nodes; none if its swarm has none.
    pub fn fitting(&self) -> Option<&Fitting> {
        self.state()
    }

    /// Looks for jobs with requirements for a guest, if this node is its relay; else for it no more.
    pub(in crate::node) fn fit_guest(&mut self, guest: NodeId) {
        if !self.has::<Fitting>() || guest == self.me {
            return;
        }
        let is_guest = self.peers().get(guest).is_some_and(|hello| hello.dialable.contact().is_none());
        let slots = self.state::<Relay>().and_then(|relay| relay.slots_of(guest)).filter(|_| is_guest);
        let Some(slots) = slots else { return self.fit_no_guest(guest) };
        let capability = Some(slots.stated.capability);
        self.tell::<RnTree>(rn_tree::Command::Guest { guest, capability });
        self.tell::<Can>(can::Command::Guest { guest, capability });
        self.tell::<Fitting>(Command::Guest { guest, slots: Some(Box::new(slots)) });
    }

    fn fit_no_guest(&mut self, guest: NodeId) {
        self.tell::<RnTree>(rn_tree::Command::Guest { guest, capability: None });
        self.tell::<Can>(can::Command::Guest { guest, capability: None });
        self.tell::<Fitting>(Command::Guest { guest, slots: None });
    }

    /// Looks for so many nodes that cover these needs, by the way in which the swarm does.
    fn find_capable(&mut self, ticket: Ticket, needs: Capability, wanted: u16) {
        self.tell::<RnTree>(rn_tree::Command::Find { ticket, needs, wanted });
        self.tell::<Can>(can::Command::Find { ticket, needs, wanted });
    }

    /// Nodes of the swarm that run something, and the share of them that covers these needs, as far as is known.
    fn estimate(&self, needs: &Capability) -> Option<Estimate> {
        if let Some(whole) = self.state::<RnTree>().and_then(RnTree::whole) {
            return Some(Estimate { nodes: whole.nodes(), share: whole.share(needs), is_whole: true });
        }
        let can = self.state::<Can>()?;
        Some(Estimate { nodes: can.nodes(), share: can.share(needs)?, is_whole: can.knows_all() })
    }

    /// Has units of a job wait for nodes that cover its needs.
    pub(super) fn want(
        &mut self,
        job: JobId,
        (requires, memory_bytes): (Box<Requires>, u64),
        (units, age): (u32, Duration),
        (submitter, weight): (NodeId, u16),
    ) {
        if !self.has::<Fitting>() {
            let why = "this swarm has no finder for jobs with requirements".into();
            return self.tell::<Owner>(owner::Command::Short { job, why });
        }
        if units == 0 {
            return self.tell::<Fitting>(Command::Enough { job });
        }
        let needs = requires.needs(memory_bytes);
        let estimate = self.estimate(&needs);
        // Until something is known, as many can as there are. Of a sample that has none, few can.
        let share = estimate.map_or(1.0, |it| if it.is_whole { it.share } else { it.share.max(FEW) });
        if let Some(Estimate { nodes, is_whole, .. }) = estimate {
            let why = match (share * f64::from(nodes)).round() as u32 {
                _ if share <= FEW && !is_whole => {
                    format!(
                        "few of about {nodes} nodes have what it requires, or none; ask for less, or wait"
                    )
                }
                _ if share == 0.0 => {
                    format!(
                        "none of the {nodes} nodes of the swarm has what it requires; ask for less, or wait"
                    )
                }
                can => format!(
                    "about {} of {nodes} nodes have what it requires; the next with a free slot takes it",
                    can.max(1)
                ),
            };
            self.tell::<Owner>(owner::Command::Short { job, why });
        }
        let nodes = estimate.map_or(0, |it| it.nodes);
        let asks = Asks { needs, requires, submitter, weight, age, nodes, share: (share * 1e6) as u32 };
        self.tell::<Fitting>(Command::Want { job, asks, units });
    }
}
