//! The finder that asks the tree.

use crate::address::Dialable;
use crate::discovery::connected::Connected;
use crate::discovery::nearest::{BranchView, Command, Event, Load, Message, Nearest};
use crate::ids::NodeId;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::Note;
use crate::node::table::{Find, Service};
use crate::overlay::guests::relay::Relay;
use crate::protocol::Input;
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::runner::{self, Runner};

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Nearest
    }
}

impl Service for Nearest {
    const ID: ServiceId = ServiceId::Nearest;
    const NAME: &'static str = "nearest";
    type Beside = ();
    const FIND: Option<Find> = Some(|node, query| node.tell::<Self>(Command::Find(query)));

    fn open(config: &Config) -> Option<Self> {
        Some(Nearest::new(config.nearest.clone()))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Dialable { peer, dialable: Dialable::No } => node.count_guest(peer),
            Note::Dialable { peer, .. } => node.tell::<Self>(Command::Guest { guest: peer, load: None }),
            Note::Offers(nodes) => nodes.iter().for_each(|peer| node.count_guest(*peer)),
            Note::Me(me) => node.tell::<Self>(Command::Me(me)),
            // A node that has become a member has none, and asks the one that it had as long as it is not in the tree.
            Note::Relay(Some(by)) => node.tell::<Self>(Command::Host(by)),
            Note::Load { slots, busy, room } => {
                let kept = Some((node.me, room)).filter(|_| room > 0);
                let load = node.load(slots, busy.iter().copied().chain(kept).collect());
                node.tell::<Self>(Command::Load(load));
            }
            // The units that it declined before count no longer.
            Note::Room(peer) if node.state::<Self>().is_some_and(|nearest| nearest.has_shunned(peer)) => {
                node.tell::<Self>(Command::Welcome { node: peer });
            }
            Note::Reserve { node: peer, slots } => node.tell::<Self>(Command::Reserve { node: peer, slots }),
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        match event {
            Event::Reserved { for_owner, slots, until, hops } => {
                host.event(NodeEvent::Reserved { owner: for_owner.id, slots, hops });
                node.tell::<Runner>(runner::Command::Reserved { owner: for_owner.id, slots, until });
            }
            Event::Released { owner, slots } => {
                node.tell::<Runner>(runner::Command::Released { owner, slots });
            }
            Event::Found(found) => node.found(found, host),
            Event::Changed => host.event(NodeEvent::NodesChanged),
        }
    }
}

impl Node {
    /// Free slots here and in the branches that this node knows; none of a page.
    pub fn branch(&self) -> Option<BranchView> {
        self.state::<Nearest>().map(Nearest::view)
    }

    fn load(&self, slots: u32, busy: Vec<(NodeId, u32)>) -> Load {
        let config = &self.config;
        Load {
            slots,
            busy,
            power: config.power,
            memory_bytes: config.memory_bytes,
            platform: config.platform,
        }
    }

    /// Counts the slots of a guest in this node's branch, if this node is its relay: others that are connected to it, as
    /// its second gateway is, would count them again.
    pub(in crate::node) fn count_guest(&mut self, node: NodeId) {
        let Some(hello) = self.peers().get(node) else { return };
        if hello.dialable != Dialable::No || node == self.me {
            return;
        }
        if !self.state::<Relay>().is_some_and(|relay| relay.speaks_for(node)) {
            return self.tell::<Nearest>(Command::Guest { guest: node, load: None });
        }
        let platform = hello.platform;
        let offer = self.state::<Connected>().and_then(|finder| finder.offer_of(node));
        let load = offer.map(|offer| Load {
            slots: offer.slots,
            busy: vec![(self.me, offer.slots.saturating_sub(offer.free))],
            power: self.config.power,
            memory_bytes: offer.memory_bytes,
            platform,
        });
        self.tell::<Nearest>(Command::Guest { guest: node, load });
    }
}
