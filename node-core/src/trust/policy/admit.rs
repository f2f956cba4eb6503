//! Admission: the owners whose work is taken, and the price.

use super::Policy;
use crate::address::Ip;
use crate::ids::NodeId;
use core::net::IpAddr;

/// Work that somebody wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asking {
    pub submitter: NodeId,
    /// Where the peer that brings it is, if that is known.
    pub from: Option<Ip>,
    /// Micro-credits for 10^9 units of fuel; 0: a gift.
    pub price: u64,
    pub time_us: u64,
    pub memory_bytes: u64,
}

/// Why it is not taken, for who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error("this node refuses that peer")]
    Peer,
    #[error("this node works for some submitters only")]
    Submitter,
    #[error("this node runs a task for {most} s at most, and this one may take {asked} s")]
    Time { asked: u64, most: u64 },
    #[error("this node gives a task {most} MiB at most, and this one may use {asked} MiB")]
    Memory { asked: u64, most: u64 },
    #[error("this node takes {least} µcr for 10^9 fuel or more, and this pays {price}")]
    Price { price: u64, least: u64 },
}

impl Policy {
    /// Whether anything is done for, or asked of, a peer.
    pub fn refuses(&self, peer: NodeId, from: Option<Ip>) -> bool {
        let at = from.map(IpAddr::from);
        let is_there = |at: IpAddr| self.refused_addresses.iter().any(|range| range.contains(&at));
        self.refused_peers.contains(&peer) || at.is_some_and(is_there)
    }

    /// Whether this work is taken.
    ///
    /// # Errors
    /// [`Rejection`] says which setting keeps it out.
    pub fn admit(&self, asking: &Asking) -> Result<(), Rejection> {
        const MIB: u64 = 1 << 20;
        if self.refuses(asking.submitter, asking.from) {
            return Err(Rejection::Peer);
        }
        if !self.allowed_submitters.is_empty() && !self.allowed_submitters.contains(&asking.submitter) {
            return Err(Rejection::Submitter);
        }
        let asked = asking.time_us.div_ceil(1_000_000);
        if let Some(most) = self.max_task_seconds.filter(|most| asked > *most) {
            return Err(Rejection::Time { asked, most });
        }
        let asked = asking.memory_bytes.div_ceil(MIB);
        if let Some(most) = self.max_task_memory_mb.filter(|most| asked > *most) {
            return Err(Rejection::Memory { asked, most });
        }
        let (price, least) = (asking.price, self.min_price);
        if price < least {
            return Err(Rejection::Price { price, least });
        }
        Ok(())
    }

    /// Memory that one unit may have, of so much that there is, bytes.
    pub fn memory_of_a_task(&self, bytes: u64) -> u64 {
        self.max_task_memory_mb.map_or(bytes, |most| bytes.min(most.saturating_mul(1 << 20)))
    }

    /// Bytes a second that are passed on between others.
    pub fn relay_rate(&self) -> u64 {
        (self.relay_mb_per_s * 1e6) as u64
    }

    /// Slots that are not sold, but kept for gifts. Of less than one, gifts have their share by time.
    pub fn kept_for_gifts(&self, slots: u32) -> u32 {
        (f64::from(slots) * self.gift_share_pct / 100.0).floor() as u32
    }

    /// Which of two waits that were admitted goes first: paid work, and what pays more; but gifts as
    /// long as fewer of the `slots` than their share do any (`gifts`).
    pub fn goes_first(&self, one: u64, other: u64, gifts: u32, slots: u32) -> bool {
        let kept = (f64::from(slots) * self.gift_share_pct / 100.0).ceil() as u32;
        match (one == 0, other == 0) {
            (true, false) => gifts < kept,
            (false, true) => gifts >= kept,
            _ => one > other,
        }
    }
}
