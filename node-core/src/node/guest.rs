//! In place of `overlays` where nobody can depend on the node: a page is a guest of its gateway,
//! and need not load what it never runs.

use super::Node;
use super::config::Config;
use super::host::{Host, NodeEvent};
use super::route;
use crate::discovery::{Found, Purchase, Query};
use crate::ids::NodeId;
use crate::ledger::Order;
use crate::overlay::contact::{Contact, Ip};
use crate::time::Time;
use crate::work::owner;

pub(super) struct Overlays;

pub(super) enum Step {}

impl Overlays {
    pub(super) fn new(_: &Config, _: &[u8; 32]) -> Overlays {
        Overlays
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        None
    }

    pub(super) fn due(&mut self, _: Time) -> Option<Step> {
        None
    }

    pub(super) fn is_left(&self) -> bool {
        true
    }
}

impl Node {
    pub(super) fn overlay(&mut self, step: Step, _: &mut impl Host) {
        match step {}
    }

    /// A page dials nobody.
    pub(super) fn reach(&mut self, _: Contact, _: bool, _: &mut impl Host) {}

    pub(super) fn leave(&mut self) {}

    pub(super) fn refused(&mut self, _: NodeId) {}

    pub(super) fn met(&mut self, _: NodeId, _: bool, _: Option<Ip>) {}

    pub(super) fn lost(&mut self, _: NodeId) {}

    pub(super) fn find(&mut self, number: u64, _: Query, host: &mut impl Host) {
        let shortage = Some("this node is a guest and finds nobody itself; ask its gateway".into());
        host.event(NodeEvent::Found { number, places: Vec::new(), shortage });
    }

    pub(super) fn of_connected(&mut self, found: Found, _: Option<Query>) {
        self.push(route::Step::Owner, owner::Command::Found(found));
    }

    pub(super) fn hosted(&mut self, _: NodeId) {}

    pub(super) fn of_spare(&mut self, _: u32) {}

    /// A guest owns no jobs.
    pub(super) fn purchase(&mut self, _: Purchase) {}

    pub(super) fn order_of_owner(&mut self, _: u64, _: Order) {}

    pub(super) fn of_load(&mut self, _: u32, _: Vec<(NodeId, u32)>) {}
}
