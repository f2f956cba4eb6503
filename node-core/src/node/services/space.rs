//! Space of this node that is for sale, for files and for checkpoints.

use crate::files::keeper::{self, Keeper as KeptFiles};
use crate::files::owner::Owner as Files;
use crate::goods::{Goods, Kind};
use crate::ids::NodeId;
use crate::market::seller::{self, Seller};
use crate::node::Node;
use crate::work::keeper::{Command, Keeper};

#[derive(Default)]
pub(in crate::node) struct Space {
    /// Bytes that the market was told of, for files and for checkpoints.
    for_sale: u64,
    checkpoints_listed: u64,
    /// Room for checkpoints, sold or not.
    for_checkpoints: u64,
}

impl Node {
    /// Offers the free space for sale, in a swarm that has a market for it.
    pub(super) fn sell_space(&mut self, bytes: u64) {
        let Some(space) = self.beside_mut::<Files>() else { return };
        if std::mem::replace(&mut space.for_sale, bytes) != bytes {
            self.offer_space(Kind::Files, bytes);
        }
    }

    /// Offers free space for checkpoints for sale, at the cost of space for files. Only a member sells it: a
    /// runner has to dial its keepers.
    pub(super) fn sell_checkpoints(&mut self, bytes: u64) {
        if let Some(space) = self.beside_mut::<Files>() {
            space.for_checkpoints = bytes;
            self.space_of_standing();
        }
    }

    /// A guest sells no room for checkpoints.
    pub(super) fn space_of_standing(&mut self) {
        let member = self.contact().is_some();
        let Some(space) = self.beside_mut::<Files>() else { return };
        let bytes = if member { space.for_checkpoints } else { 0 };
        if std::mem::replace(&mut space.checkpoints_listed, bytes) != bytes {
            self.offer_space(Kind::Checkpoints, bytes);
        }
    }

    fn offer_space(&mut self, kind: Kind, capacity: u64) {
        let Some(config) = &self.config.files else { return };
        let minutes = u16::try_from(config.term.as_secs() / 60).unwrap_or(u16::MAX);
        let (cost, engine) = (config.cost, self.config.platform);
        let goods = Goods { kind, capacity, units: 1, minutes, cost, engine, memory_mib: 0 };
        self.tell::<Seller>(seller::Command::Offer(goods));
    }

    pub(super) fn space_sold(&mut self, kind: Kind, buyer: NodeId, bytes: u64) {
        let Some(term) = self.config.files.as_ref().map(|config| config.term) else { return };
        let Some(space) = self.beside_mut::<Files>() else { return };
        // The seller has taken it off already.
        match kind {
            Kind::Cycles => {}
            Kind::Files => {
                space.for_sale = space.for_sale.saturating_sub(bytes);
                self.tell::<KeptFiles>(keeper::Command::Sold { buyer, bytes, term });
            }
            Kind::Checkpoints => {
                space.for_checkpoints = space.for_checkpoints.saturating_sub(bytes);
                space.checkpoints_listed = space.checkpoints_listed.saturating_sub(bytes);
                self.tell::<Keeper>(Command::Sold { buyer, bytes });
            }
        }
    }
}
