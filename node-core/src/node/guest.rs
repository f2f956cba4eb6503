//! In place of `overlays` where nobody can depend on the node: a page is a guest of its gateway,
//! and need not load what it never runs.

use super::Node;
use super::config::Config;
use super::host::{Host, NodeEvent};
use super::route;
use super::stall::Stall;
use crate::address::{Contact, Dialable, Ip};
use crate::circle::{Point, RingId};
use crate::contract::Order;
use crate::finding::{Found, Purchase, Query};
use crate::goods::Kind;
use crate::ids::NodeId;
use crate::market::seller::{self, Seller};
use crate::overlay::elsewhere::Elsewhere;
use crate::overlay::swarm::Swarm;
use crate::protocol::{Effect, Input, InputOf};
use crate::time::Time;
use crate::work::owner;

pub(super) struct Overlays(Option<Box<Stall>>);

pub(super) enum Step {
    Seller(InputOf<Seller>),
}

impl Step {
    pub(super) fn machine(&self) -> &'static str {
        let Step::Seller(_) = self;
        "seller"
    }
}

impl Overlays {
    pub(super) fn new(config: &Config, seed: &[u8; 32]) -> Overlays {
        Overlays(config.market.as_ref().map(|part| Box::new(Stall::new(part, seed))))
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.0.as_ref()?.seller.deadline()
    }

    pub(super) fn due(&mut self, now: Time) -> Option<Step> {
        Some(Step::Seller(Input::Timer(self.0.as_mut()?.seller.due(now)?)))
    }

    pub(super) fn is_left(&self) -> bool {
        true
    }

    pub(super) fn stall(&self) -> Option<&Stall> {
        self.0.as_deref()
    }

    pub(super) fn stall_mut(&mut self) -> Option<&mut Stall> {
        self.0.as_deref_mut()
    }
}

impl Node {
    pub(super) fn overlay(&mut self, step: Step, host: &mut impl Host) {
        match step {
            Step::Seller(input) => self.seller_input(input, host),
        }
    }

    pub(super) fn market_clock(&mut self, ms: u64) {
        self.tell_seller(seller::Command::WallClock(ms));
    }

    /// A page dials nobody.
    pub(super) fn reach(&mut self, _: Contact, _: bool, _: &mut impl Host) {}

    /// Its driver finds the way to another gateway.
    pub(super) fn sent_elsewhere(&mut self, _: NodeId, _: &[Elsewhere], _: &mut impl Host) {}

    pub(super) fn try_next_gateway(&mut self, _: NodeId, _: &mut impl Host) {}

    /// Its host tells its seller how markets are found.
    pub(super) fn settings_learnt(&mut self, _: &Swarm) {}

    pub(super) fn end(&mut self) {}

    pub(super) fn refused(&mut self, _: NodeId) {}

    pub(super) fn reserve_at(&mut self, _: NodeId, _: u32) {}

    pub(super) fn welcome(&mut self, _: NodeId) {}

    pub(super) fn met(&mut self, _: NodeId, _: (bool, bool), _: (Option<Ip>, Option<Ip>), _: Dialable) {}

    pub(super) fn dialable(&mut self, _: NodeId, _: Dialable) {}

    pub(super) fn probed(&mut self, _: u64, _: bool) {}

    /// A page is never dialled.
    pub(super) fn contact(&self) -> Option<Contact> {
        None
    }

    pub(super) fn lost(&mut self, peer: NodeId) {
        self.host_lost(peer);
    }

    pub(super) fn find(&mut self, query: Query, host: &mut impl Host) {
        let shortage = Some("this node is a guest and finds nobody itself; ask its gateway".into());
        host.event(NodeEvent::Found { number: query.ticket.number, places: Vec::new(), shortage });
    }

    pub(super) fn of_connected(&mut self, found: Found, _: Option<Query>) {
        self.push(route::Step::Owner, owner::Command::Found(found));
    }

    pub(super) fn hosted(&mut self, _: NodeId) {}

    /// A guest is on no ring.
    pub(super) fn locate_owner(&mut self, _: u64, _: Point) {}

    /// A guest owns no jobs.
    pub(super) fn purchase(&mut self, _: Purchase) {}

    pub(super) fn order_of_owner(&mut self, _: u64, _: Order) {}

    pub(super) fn of_load(&mut self, _: u32, _: Vec<(NodeId, u32)>) {}

    /// Without a host nothing is said, and nothing looked up.
    pub(super) fn follow_seller(&mut self, effects: Vec<Effect<Seller>>, host: &mut impl Host) {
        for effect in effects {
            if let Effect::Emit(event) = effect {
                self.of_seller(event, host);
            }
        }
    }

    pub(super) fn seller_looks_up(&mut self, _: u64, _: RingId, _: Point) {}

    /// A page keeps nothing for others.
    pub(super) fn space_sold(&mut self, _: Kind, _: NodeId, _: u64) {}
}
