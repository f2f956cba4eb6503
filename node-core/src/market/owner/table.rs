//! The sellers of one market.

use super::super::listing::Guest;
use super::super::message::Entry;
use super::super::pricing::Bid;
use crate::address::{Address, Contact};
use crate::goods::Kind;
use crate::goods::Rule;
use crate::goods::Wanted;
use crate::ids::NodeId;
use crate::money::Price;
use std::collections::BTreeMap;

/// Memory for what is known of a guest, with the tree that it is in, bytes.
const GUEST: usize = 96;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// In the order of their ids: 88 bytes each.
    all: Vec<Entry>,
    /// Those that are guests; the others cost nothing here.
    guests: BTreeMap<NodeId, Guest>,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn all(&self) -> &[Entry] {
        &self.all
    }

    fn place(&self, seller: NodeId) -> Result<usize, usize> {
        self.all.binary_search_by_key(&seller, |entry| entry.seller.id)
    }

    pub(super) fn get(&self, seller: NodeId) -> Option<&Entry> {
        self.all.get(self.place(seller).ok()?)
    }

    /// By way of whom a seller is reached that is a guest.
    pub(super) fn guest(&self, seller: NodeId) -> Option<Guest> {
        self.guests.get(&seller).copied()
    }

    /// How a seller is reached.
    pub(super) fn address(&self, seller: NodeId) -> Option<Address> {
        let at = self.get(seller)?.seller;
        Some(match self.guest(seller) {
            None => at.into(),
            Some(Guest { relay, channels }) => {
                Address::guest(seller, Contact { id: relay, ..at }).with_channels(channels)
            }
        })
    }

    /// Puts a seller. A guest's `entry.seller` has the relay's IP address and port under the seller's id.
    pub(super) fn put(&mut self, entry: Entry, guest: Option<Guest>) {
        match guest {
            Some(guest) => self.guests.insert(entry.seller.id, guest),
            None => self.guests.remove(&entry.seller.id),
        };
        match self.place(entry.seller.id) {
            Ok(at) => self.all[at] = entry,
            Err(at) => {
                if self.all.len() == self.all.capacity() {
                    self.all.reserve_exact(8 + self.all.len() / 16);
                }
                self.all.insert(at, entry);
            }
        }
    }

    pub(super) fn remove(&mut self, seller: NodeId) -> Option<Entry> {
        let at = self.place(seller).ok()?;
        self.guests.remove(&seller);
        let gone = self.all.remove(at);
        if self.all.len() < self.all.capacity() / 2 {
            self.all.shrink_to(self.all.len() + 8);
        }
        Some(gone)
    }

    pub(super) fn clear(&mut self) {
        *self = Table::default();
    }

    /// Removes and names those whose time is over.
    pub(super) fn purge(&mut self, now: u32) -> Vec<NodeId> {
        let over: Vec<NodeId> =
            self.all.iter().filter(|entry| entry.until <= now).map(|entry| entry.seller.id).collect();
        if !over.is_empty() {
            self.all.retain(|entry| entry.until > now);
            self.guests.retain(|seller, _| over.binary_search(seller).is_err());
        }
        over
    }

    pub(super) fn renew(&mut self, until: u32) {
        self.all.iter_mut().for_each(|entry| entry.until = until);
    }

    /// Seller that gives way to a cheaper one; `None` if the table is empty.
    pub(super) fn dearest(&self) -> Option<&Entry> {
        self.all.iter().max_by_key(|entry| entry.cost)
    }

    /// The bids that decide about what is wanted: of the cheapest, as many as could sell and one
    /// more, a bid for each unit; and of the dearest one. `free` says how many units of a seller are
    /// not named to others.
    pub(super) fn bids(
        &self,
        kind: Kind,
        wanted: &Wanted,
        rule: Rule,
        free: impl Fn(&Entry) -> u16,
    ) -> Vec<Bid> {
        let able = |entry: &&Entry| {
            wanted.suits(&entry.goods(kind)) && rule.check(entry.cost).is_ok() && free(entry) > 0
        };
        let rank = |entry: &Entry| {
            let word = entry.seller.id.0.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            (entry.cost, word ^ wanted.tie)
        };
        let mut all: Vec<((Price, u64), &Entry)> =
            self.all.iter().filter(able).map(|entry| (rank(entry), entry)).collect();
        let order = |one: &((Price, u64), &Entry)| (one.0, one.1.seller.id);
        let dearest = all.iter().max_by_key(|one| one.0).map(|(_, entry)| **entry);
        let most = usize::from(wanted.units) + 1;
        if all.len() > most {
            all.select_nth_unstable_by_key(most, order);
            all.truncate(most);
        }
        all.sort_unstable_by_key(order);
        let mut left = wanted.units;
        let mut bids = Vec::with_capacity(2 * most + 1);
        for (_, entry) in &all {
            let units = free(entry).min(left.max(1));
            left = left.saturating_sub(units);
            bids.extend((0..units).map(|_| Bid { seller: entry.seller.id, cost: entry.cost }));
        }
        if let Some(last) = dearest.filter(|last| bids.iter().all(|bid| bid.seller != last.seller.id)) {
            bids.push(Bid { seller: last.seller.id, cost: last.cost });
        }
        bids
    }

    /// Equal for equal tables; no protection against who seeks two with the same.
    pub(super) fn digest(&self) -> u64 {
        let of = |entry: &Entry| {
            let word = entry.seller.id.0.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
            let size =
                u64::from(entry.units) << 48 | u64::from(entry.minutes) << 32 | u64::from(entry.memory_mib);
            [entry.capacity, entry.cost.0, size].into_iter().fold(word, |hash: u64, part| {
                (hash.rotate_left(7) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            })
        };
        let word = |id: &NodeId| id.0.first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
        let guest = |(id, guest): (&NodeId, &Guest)| {
            (word(id).rotate_left(13) ^ word(&guest.relay) ^ u64::from(guest.channels))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        let guests = self.guests.iter().fold(0, |all, one| all ^ guest(one));
        self.all.iter().fold(guests, |all, entry| all ^ of(entry))
    }

    pub(super) fn memory(&self) -> usize {
        self.all.capacity() * size_of::<Entry>() + self.guests.len() * GUEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Ip;
    use crate::money::Micro;
    use crate::platform::Platform;
    use crate::protocol::Rng;

    fn some_entry(rng: &mut Rng) -> Entry {
        let mut id = [0; 32];
        id[..8].copy_from_slice(&rng.u64().to_be_bytes());
        Entry {
            seller: Contact { ip: Ip([0; 16]), id: NodeId(id), port: 1 },
            units: 1 + rng.below(4) as u16,
            minutes: rng.below(100) as u16,
            engine: if rng.below(2) == 0 { Platform::Native } else { Platform::Browser },
            proven: true,
            memory_mib: 512,
            until: rng.below(100) as u32,
            capacity: 1 << 30,
            cost: Price(rng.below(50)),
            number: rng.below(9),
        }
    }

    fn some_wanted(rng: &mut Rng) -> Wanted {
        Wanted {
            kind: Kind::Cycles,
            capacity: 1 << 30,
            minutes: rng.below(60) as u16,
            memory_mib: 512,
            engine: None,
            units: 1 + rng.below(12) as u16,
            quantity: 10_000_000_000,
            most: Micro(1000 + rng.below(600)),
            tie: rng.u64(),
        }
    }

    /// The few bids that are looked at decide as all bids together would.
    #[test]
    fn the_rule_gives_the_same_for_the_bids_that_matter_as_for_all() {
        let mut rng = Rng::from_seed([3; 32]);
        for round in 0..3000 {
            let mut table = Table::default();
            (0..rng.below(40)).for_each(|_| table.put(some_entry(&mut rng), None));
            let wanted = some_wanted(&mut rng);
            let held = rng.below(3) as u16;
            let free = |entry: &Entry| entry.units.saturating_sub(held);
            for rule in [Rule::ReverseVickrey, Rule::MaxMin] {
                let able = table.all().iter().filter(|entry| wanted.suits(&entry.goods(Kind::Cycles)));
                let all: Vec<Bid> = able
                    .flat_map(|entry| {
                        (0..free(entry)).map(|_| Bid { seller: entry.seller.id, cost: entry.cost })
                    })
                    .collect();
                let few = table.bids(Kind::Cycles, &wanted, rule, free);
                let (ask, delta) = (wanted.ask(), Micro(1000));
                let (right, is) = (rule.deals(&ask, delta, &all), rule.deals(&ask, delta, &few));
                assert_eq!(is, right, "round {round}, {rule:?}");
                assert!(few.len() <= 2 * usize::from(wanted.units) + 2);
            }
        }
    }

    #[test]
    fn a_seller_is_once_in_a_table_and_goes_when_its_time_is_over() {
        let mut rng = Rng::from_seed([4; 32]);
        let mut table = Table::default();
        let entries: Vec<Entry> = (0..500).map(|_| some_entry(&mut rng)).collect();
        entries.iter().for_each(|entry| table.put(*entry, None));
        let digest = table.digest();
        entries.iter().rev().for_each(|entry| table.put(*entry, None));
        assert_eq!((table.len(), table.digest()), (500, digest));
        let over = table.purge(50);
        assert_eq!(over.len(), entries.iter().filter(|entry| entry.until <= 50).count());
        assert!(table.all().iter().all(|entry| entry.until > 50));
        assert_ne!(table.digest(), digest);
        let first = table.all()[0].seller.id;
        assert!(table.remove(first).is_some() && table.remove(first).is_none() && table.get(first).is_none());
    }

    #[test]
    fn ten_thousand_sellers_take_less_than_a_megabyte() {
        let mut rng = Rng::from_seed([5; 32]);
        let mut table = Table::default();
        let mut most = 0;
        for _ in 0..10_000 {
            table.put(some_entry(&mut rng), None);
            most = most.max(table.memory());
        }
        assert_eq!(size_of::<Entry>(), 88);
        assert!(most < 1_000_000, "{most}");
    }
}
