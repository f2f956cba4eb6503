//! Samples: now and then a buyer asks another copy of the market the same, and if that one knows a
//! better seller, asks the seller itself. Nobody is blamed on another's word.

use super::super::listing::Listing;
use super::super::message::{Alive, Answer, Outcome, Prober, Purpose, Query, ToOwner, ToSeller};
use super::{Bcx, Buyer, Doubt, Event, For, Place, Timer, to_owner, to_seller};
use crate::address::{Address, Sender};
use crate::circle::{Located, RingId};
use crate::goods::Wanted;
use crate::ids::NodeId;
use crate::money::Price;
use crate::time::Time;
use std::time::Duration;

/// A seller must have been listed so long before, to have been left out. Our choice: the answer was on
/// its way meanwhile, and clocks differ.
const SETTLED: Duration = Duration::from_secs(15);

/// A seller whose connection to the market operator broke must have had so long to notice, before its word
/// counts that it was listed all the time. Our choice: a broken connection shows within 10 s.
const NOTICED: Duration = Duration::from_secs(12);

/// Samples at once. Our choice: they are worth something only now and then.
const MOST: usize = 16;

#[derive(Debug)]
pub(super) struct Sample {
    place: Place,
    wanted: Wanted,
    asked: Time,
    /// Sellers that were named, and the cost of the dearest of them.
    named: Vec<NodeId>,
    dearest: Option<Price>,
    /// The copy that is asked.
    at: Option<NodeId>,
    /// Then the seller.
    seller: Option<Address>,
    /// The seller that was left out, as it looks.
    suspect: Suspect,
}

/// A seller says twice that it was left out, before anybody is blamed.
#[derive(Debug)]
enum Suspect {
    Nobody,
    Once,
    Twice,
}

impl Sample {
    /// Whether this one should have been named.
    fn is_better(&self, listing: &Listing) -> bool {
        !self.named.contains(&listing.id())
            && self.wanted.suits(&listing.goods)
            && self.dearest.is_none_or(|dearest| listing.goods.cost < dearest)
    }

    /// Question to the seller.
    fn probe(&self, ticket: u64) -> ToSeller {
        ToSeller::Probe { kind: self.wanted.kind, ticket, by: Prober::Buyer }
    }
}

impl Buyer {
    pub(super) fn maybe_sample(
        &mut self,
        place: Place,
        wanted: Wanted,
        named: Vec<NodeId>,
        dearest: Option<Price>,
        cx: &mut Bcx<'_>,
    ) {
        if self.samples.len() >= MOST || cx.rng.below(1000) >= self.config.samples {
            return;
        }
        let ticket = cx.rng.u64();
        let suspect = Suspect::Nobody;
        let sample = Sample { place, wanted, asked: cx.now, named, dearest, at: None, seller: None, suspect };
        self.samples.insert(ticket, sample);
        cx.set_timer(Timer::Sample(ticket), 4 * self.config.answer);
        let key = place.market.key(self.config.scheme);
        self.look_up(RingId::NODES, key, For::Sample(ticket), cx);
    }

    /// The ring of nodes says whose market it is, and who has copies.
    pub(super) fn sample_located(&mut self, ticket: u64, found: &Located, cx: &mut Bcx<'_>) {
        let Some(sample) = self.samples.get_mut(&ticket) else { return };
        let owner = sample.place.owner.id;
        let copies: Vec<_> = found.replicas.iter().take(self.config.copies).collect();
        let copy = copies.get(cx.rng.below(copies.len() as u64) as usize).map(|peer| peer.contact);
        if found.owner.id() != owner {
            self.samples.remove(&ticket);
            return cx.emit(Event::Doubted { owner, why: Doubt::Usurper });
        }
        let Some(copy) = copy else {
            self.samples.remove(&ticket);
            return;
        };
        sample.at = Some(copy.id);
        let query =
            Query { ticket, market: sample.place.market, wanted: sample.wanted, purpose: Purpose::Copy };
        to_owner(&copy, ToOwner::Query(Box::new(query)), cx);
    }

    pub(super) fn sample_answered(&mut self, from: NodeId, answer: Answer, cx: &mut Bcx<'_>) {
        let now_ms = self.wall.now(cx.now);
        let Some(sample) = self.samples.get_mut(&answer.ticket).filter(|it| it.at == Some(from)) else {
            return;
        };
        let better = match &answer.what {
            Outcome::Sale(sale) => sale.winners.iter().find_map(|signed| {
                let (at, listing) = Listing::open(signed, self.config.rule, now_ms).ok()?;
                let better = sample.is_better(&listing) && listing.sells_to(cx.me);
                (at == sample.place.market && better).then_some(listing)
            }),
            _ => None,
        };
        let Some(listing) = better else {
            self.samples.remove(&answer.ticket);
            return cx.cancel_timer(Timer::Sample(answer.ticket));
        };
        sample.at = None;
        sample.seller = Some(listing.seller);
        let probe = sample.probe(answer.ticket);
        to_seller(listing.seller, probe, cx);
    }

    /// A suspect is asked again, or nobody answers.
    pub(super) fn sample_due(&mut self, ticket: u64, cx: &mut Bcx<'_>) {
        let Some(sample) = self.samples.get_mut(&ticket) else { return };
        let suspect = std::mem::replace(&mut sample.suspect, Suspect::Twice);
        let (Suspect::Once, Some(seller)) = (suspect, sample.seller) else {
            self.samples.remove(&ticket);
            return;
        };
        let probe = sample.probe(ticket);
        cx.set_timer(Timer::Sample(ticket), self.config.answer);
        to_seller(seller, probe, cx);
    }

    /// The seller itself answers: it was there, and nobody asked it.
    pub(super) fn sample_alive(&mut self, sender: Sender, alive: Alive, cx: &mut Bcx<'_>) {
        let now_ms = self.wall.now(cx.now);
        let me = cx.me;
        let its = |sample: &&mut Sample| sample.seller.is_some_and(|seller| seller.is_of(sender, me));
        let Some(sample) = self.samples.get_mut(&alive.ticket).filter(its) else { return };
        let owner = sample.place.owner.id;
        let listing = alive
            .listing
            .filter(|signed| signed.by == sender.id)
            .and_then(|signed| Some(Listing::open(&signed, self.config.rule, now_ms).ok()?.1));
        let needed = cx.now.since(sample.asked) + SETTLED;
        let listed =
            alive.listed.is_some_and(|(at, secs)| at == owner && u64::from(secs) >= needed.as_secs());
        // A seller that was asked a moment ago was perhaps named to another buyer, which came first.
        let passed_over = !alive.probed.contains(&owner);
        let left_out = listing.filter(|it| listed && passed_over && sample.is_better(it));
        if let (Some(listing), Suspect::Nobody) = (&left_out, &sample.suspect) {
            sample.suspect = Suspect::Once;
            sample.seller = Some(listing.seller);
            return cx.set_timer(Timer::Sample(alive.ticket), NOTICED);
        }
        if matches!(sample.suspect, Suspect::Once) {
            return;
        }
        self.samples.remove(&alive.ticket);
        cx.cancel_timer(Timer::Sample(alive.ticket));
        if let Some(listing) = left_out {
            let why = Doubt::Omitted { seller: listing.id(), cost: listing.goods.cost };
            cx.emit(Event::Doubted { owner, why });
        }
    }
}
