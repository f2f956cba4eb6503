//! Space at a keeper that is bought for a time: what it costs, by what the keeper has proved. Files
//! and checkpoints are paid alike.

use crate::contract::{Goods, Order, Sale, Term};
use crate::goods::Market;
use crate::goods::Offer;
use crate::ids::NodeId;
use crate::money::Micro;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// So many bytes for so long. It is paid for from when it was first there until the keeper proved it
/// last, and never for longer than was bought: who loses it is not paid for what nobody saw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    pub term: Term,
    bytes: u64,
    /// Milliseconds since 1970: from then on, and until then; 0: it was never there.
    since_ms: u64,
    proved_ms: u64,
    /// For content that grows and shrinks: byte-seconds until `proved_ms`, and bytes there since.
    #[serde(default)]
    kept: Option<(u64, u64)>,
}

impl Space {
    pub fn of(offer: &Offer, bytes: u64, time: Duration) -> Space {
        let most = bytes.saturating_mul(time.as_secs());
        let term = Term::of(offer, Goods::Space { most });
        Space { term, bytes, since_ms: 0, proved_ms: 0, kept: None }
    }

    /// The most that it can cost, fees included: what the bank holds for it.
    pub fn held(&self) -> Option<Micro> {
        self.term.most(0)
    }

    pub fn hold(&self, sale: Sale, payer: NodeId) -> Order {
        Order::Hold { sale, payer, fuel: 0, terms: vec![self.term.clone()] }
    }

    /// It is there, as its keeper says; that is no proof yet.
    pub fn begins(&mut self, now_ms: u64) {
        if self.since_ms == 0 {
            (self.since_ms, self.proved_ms) = (now_ms, now_ms);
        }
    }

    /// The keeper has shown that it is there.
    pub fn proved(&mut self, now_ms: u64) {
        self.begins(now_ms);
        self.proved_ms = self.proved_ms.max(now_ms);
    }

    /// The keeper has shown that from now on it has `bytes` of content that grows and shrinks.
    pub fn holds(&mut self, bytes: u64, now_ms: u64) {
        let (sum, size) = self.kept.unwrap_or_default();
        let until = if self.since_ms == 0 { now_ms } else { self.proved_ms };
        let exact = u128::from(size) * u128::from(now_ms.saturating_sub(until)) / 1000;
        let sum = sum.saturating_add(u64::try_from(exact).unwrap_or(u64::MAX));
        // Less is paid as the least that a market sells. Our choice, as for files.
        self.kept = Some((sum, bytes.max(Market::LEAST).min(self.bytes)));
        self.proved(now_ms);
    }

    /// Goes on where the same keeper's earlier space ends, so that no time is paid for twice or not
    /// at all.
    pub fn follows(&mut self, earlier: &Space) {
        (self.since_ms, self.proved_ms) = (earlier.proved_ms, earlier.proved_ms);
    }

    /// Byte-seconds that are to be paid.
    pub fn used(&self) -> u64 {
        let Goods::Space { most } = self.term.goods else { return 0 };
        if let Some((sum, _)) = self.kept {
            return sum.min(most);
        }
        let ms = self.proved_ms.saturating_sub(self.since_ms);
        let exact = u128::from(self.bytes) * u128::from(ms) / 1000;
        u64::try_from(exact).unwrap_or(u64::MAX).min(most)
    }

    /// Cost of `used` byte-seconds, fees included.
    pub fn cost(&self, used: u64) -> Micro {
        self.term.cost(0, used).unwrap_or_default()
    }
}
