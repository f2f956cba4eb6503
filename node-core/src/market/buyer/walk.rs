//! A walk over the markets there are, for people who look at them.
//!
//! In the processor overlay it goes along the ring of markets, in the single one from range to range on
//! the ring of nodes. Each market's owner is looked up, and asked for its [`Summary`]; the ring remembers
//! owners, so that the second time is a message there and one back. *Our choice:* an owner could name
//! the next market itself; but then one that leaves others out would hide them. What an owner says of
//! its own market is believed: nobody buys by it.
//!
//! Nobody walks while nobody looks. A walk is bounded by the markets that there can be, each of which is
//! tried a few times, by time, and by what a summary holds.

use super::super::message::{Entrance, Summary, ToOwner};
use super::{BadAnswer, Bcx, Buyer, Doubt, Event, For, Timer, to_owner};
use crate::address::Contact;
use crate::circle::{Located, MemberId, Range};
use crate::goods::{Kind, Market, Scheme};
use crate::ids::NodeId;
use crate::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a look counts. Our choice: the dashboard asks again after 10 s at the latest.
const LOOKS: Duration = Duration::from_secs(15);

/// Between two walks. Our choice: what is listed or sold shows about as soon as in one's own markets.
const PAUSE: Duration = Duration::from_secs(5);

/// Longest walk over the markets of one kind. Our choice: in the single overlay 64 operators have to be
/// looked up and dialled, each in less than a second, and some fail.
const WALK: Duration = Duration::from_secs(90);

/// Until what was seen and is not seen again is forgotten. Our choice: three such walks.
const KEEP: Duration = Duration::from_secs(300);

/// For a lookup, or an answer that needs nobody else. Our choice: a dial and an answer on a slow line,
/// and a step that fails.
const STEP: Duration = Duration::from_secs(4);

/// How often an owner is tried, and the pause in between. Our choice: what a ring needs to move on.
const TRIES: u8 = 3;
const REST: Duration = Duration::from_millis(500);

/// Knowledge of markets of other nodes.
#[derive(Debug, Default)]
pub(super) struct Around {
    looked: Option<Time>,
    walk: Option<Walk>,
    /// No walk begins before.
    again: Time,
    summaries: BTreeMap<Market, (NodeId, Time, Summary)>,
    walked: BTreeMap<Kind, Walked>,
}

/// A market, as its owner said a while ago.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    pub market: Market,
    pub owner: NodeId,
    pub age: Duration,
    pub summary: &'a Summary,
}

/// The last walk over the markets of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    pub ended: Time,
    /// No market was left out: else some did not answer, or nobody knew the way. One whose owner has just
    /// died is a member again within seconds, and till then there is none.
    pub whole: bool,
    /// Messages toward the markets, lookups included.
    pub hops: u16,
}

#[derive(Debug)]
struct Walk {
    /// The lowest market that was not seen yet.
    next: Market,
    until: Time,
    tries: u8,
    whole: bool,
    hops: u16,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Rest,
    /// Where is the entrance?
    Entrance,
    /// It was asked for markets.
    Entry {
        ticket: u64,
        at: NodeId,
    },
    /// Look up the operator of the market.
    Market,
    /// Its owner was asked.
    Look {
        ticket: u64,
        market: Market,
        owner: Contact,
        /// In the single overlay: what of the ring of nodes is the owner's.
        range: Option<Range>,
    },
}

impl Buyer {
    /// Markets that were seen, in order.
    pub fn seen(&self, now: Time) -> impl Iterator<Item = Seen<'_>> {
        self.around.summaries.iter().map(move |(market, (owner, at, summary))| Seen {
            market: *market,
            owner: *owner,
            age: now.since(*at),
            summary,
        })
    }

    pub fn walked(&self, kind: Kind) -> Option<Walked> {
        self.around.walked.get(&kind).copied()
    }

    /// Somebody looks.
    pub(super) fn look(&mut self, cx: &mut Bcx<'_>) {
        self.around.looked = Some(cx.now);
        if self.around.walk.is_none() {
            cx.set_timer_by(Timer::Walk, self.around.again.since(cx.now));
        }
    }

    /// A walk has waited or rested long enough, or the next one is due.
    pub(super) fn walk_on(&mut self, cx: &mut Bcx<'_>) {
        match self.around.walk.as_ref().map(|walk| &walk.step) {
            None => self.set_out(Kind::ALL[0], cx),
            Some(Step::Rest) => self.go_on(cx),
            Some(_) => self.walk_failed(cx),
        }
    }

    fn set_out(&mut self, kind: Kind, cx: &mut Bcx<'_>) {
        self.around.summaries.retain(|_, (_, at, _)| cx.now.since(*at) < KEEP);
        let (next, until) = (Market { kind, index: 0 }, cx.now + WALK);
        self.around.walk = Some(Walk { next, until, tries: 0, whole: true, hops: 0, step: Step::Rest });
        self.go_on(cx);
    }

    /// To the next market.
    fn go_on(&mut self, cx: &mut Bcx<'_>) {
        let Some(walk) = &self.around.walk else { return };
        if self.around.looked.is_none_or(|at| cx.now.since(at) > LOOKS) {
            self.around.walk = None;
            self.around.again = cx.now + PAUSE;
            return;
        }
        let (next, until) = (walk.next, walk.until);
        if until <= cx.now {
            return self.arrive(false, cx);
        }
        let (inside, ring, key) = self.way(next, cx);
        self.walk_steps(if inside { Step::Market } else { Step::Entrance }, cx);
        self.look_up(ring, key, For::Walk, cx);
    }

    fn walk_steps(&mut self, step: Step, cx: &mut Bcx<'_>) {
        let wait = if matches!(step, Step::Rest) { REST } else { STEP };
        cx.set_timer(Timer::Walk, wait);
        if let Some(walk) = &mut self.around.walk {
            walk.step = step;
        }
    }

    pub(super) fn walk_located(&mut self, found: Option<&Located>, cx: &mut Bcx<'_>) {
        let Some(walk) = &mut self.around.walk else { return };
        let kind = walk.next.kind;
        let Some(found) = found else { return self.walk_failed(cx) };
        walk.hops = walk.hops.saturating_add(found.hops.into());
        let owner = found.owner.contact;
        match walk.step {
            Step::Entrance => {
                let ticket = cx.rng.u64();
                walk.hops = walk.hops.saturating_add((owner.id != cx.me).into());
                self.walk_steps(Step::Entry { ticket, at: owner.id }, cx);
                to_owner(&owner, ToOwner::Enter { kind, ticket }, cx);
            }
            Step::Market if self.config.scheme == Scheme::Single => {
                let (market, range) = (walk.next, Some(found.range()));
                self.look_into(market, owner, range, cx);
            }
            Step::Market => {
                let wraps = found.wraps(walk.next.member().point);
                let market = Market::of_member(MemberId { ring: kind.ring(), point: found.owner.point });
                match market.filter(|market| *market >= walk.next) {
                    // The ring goes over its top: nothing is above.
                    _ if wraps => self.at_the_top(kind, cx),
                    Some(market) => {
                        self.nothing_upto(market);
                        self.look_into(market, owner, None, cx);
                    }
                    None => self.pass_over(cx),
                }
            }
            _ => {}
        }
    }

    /// The entrance has answered; whether it was this walk that had asked.
    pub(super) fn walk_entered(
        &mut self,
        from: NodeId,
        ticket: u64,
        at: &[Contact],
        entrance: Entrance,
        cx: &mut Bcx<'_>,
    ) -> bool {
        let Some(walk) = &self.around.walk else { return false };
        if !matches!(walk.step, Step::Entry { ticket: t, at } if t == ticket && at == from) {
            return false;
        }
        let kind = walk.next.kind;
        match (at.is_empty(), entrance) {
            (false, _) => {
                self.enter(kind, at);
                self.go_on(cx);
            }
            (true, Entrance::Open) => self.at_the_top(kind, cx),
            (true, Entrance::Listening) => self.arrive(false, cx),
            (true, Entrance::Elsewhere) => self.walk_failed(cx),
        }
        true
    }

    fn look_into(&mut self, market: Market, owner: Contact, range: Option<Range>, cx: &mut Bcx<'_>) {
        let ticket = cx.rng.u64();
        if let Some(walk) = &mut self.around.walk {
            walk.next = market;
            walk.hops = walk.hops.saturating_add((owner.id != cx.me).into());
        }
        self.walk_steps(Step::Look { ticket, market, owner, range }, cx);
        to_owner(&owner, ToOwner::Look { ticket, market }, cx);
    }

    pub(super) fn summed_up(
        &mut self,
        from: NodeId,
        ticket: u64,
        summary: Option<Box<Summary>>,
        next: Option<Market>,
        cx: &mut Bcx<'_>,
    ) {
        let Some(Walk { step: Step::Look { ticket: asked, market, owner, range }, .. }) = self.around.walk
        else {
            return;
        };
        if asked != ticket || owner.id != from {
            return;
        }
        // The ring has moved.
        let Some(summary) = summary else { return self.walk_failed(cx) };
        if !summary.is_sound(market, self.config.sellers) {
            cx.emit(Event::Doubted { owner: from, why: Doubt::Wrong(BadAnswer::Market) });
            return self.pass_over(cx);
        }
        match summary.sellers {
            0 => drop(self.around.summaries.remove(&market)),
            _ => drop(self.around.summaries.insert(market, (from, cx.now, *summary))),
        }
        // In the single overlay one node owns several in a row, and says which have sellers.
        let scheme = self.config.scheme;
        let its = |market: &Market| range.is_some_and(|range| range.contains(market.key(scheme)));
        let next =
            next.filter(|next| next.is_valid() && next.kind == market.kind && *next > market && its(next));
        if let Some(next) = next {
            self.seen_upto(market, next);
            return self.look_into(next, owner, range, cx);
        }
        match std::iter::successors(market.next(), |market| market.next()).find(|market| !its(market)) {
            Some(next) => {
                self.seen_upto(market, next);
                self.go_on(cx);
            }
            None => self.at_the_top(market.kind, cx),
        }
    }

    /// This market was seen, and in none from there to the next anything is for sale.
    fn seen_upto(&mut self, market: Market, next: Market) {
        if let Some(walk) = &mut self.around.walk {
            (walk.next, walk.tries) = (Market { index: market.index + 1, ..market }, 0);
        }
        self.nothing_upto(next);
    }

    fn nothing_upto(&mut self, next: Market) {
        let Some(walk) = &mut self.around.walk else { return };
        let between = std::mem::replace(&mut walk.next, next)..next;
        self.around.summaries.retain(|market, _| !between.contains(market));
    }

    /// Nothing of this kind is above.
    fn at_the_top(&mut self, kind: Kind, cx: &mut Bcx<'_>) {
        let asked = self.around.walk.as_ref().map(|walk| match walk.step {
            Step::Look { market, .. } => market.index + 1,
            _ => walk.next.index,
        });
        let from = Market { kind, index: asked.unwrap_or(0) };
        self.around.summaries.retain(|market, _| market.kind != kind || *market < from);
        self.arrive(true, cx);
    }

    /// In vain: the same again after a while, or without it.
    fn walk_failed(&mut self, cx: &mut Bcx<'_>) {
        self.lookups.forget(For::Walk);
        let Some(walk) = &mut self.around.walk else { return };
        if matches!(walk.step, Step::Market) {
            // The ways in that are known lead nowhere: who was a member may be none any more.
            self.entries.remove(&walk.next.kind);
        }
        walk.tries += 1;
        match walk.step {
            Step::Look { .. } if walk.tries >= TRIES => self.pass_over(cx),
            // All of the kind is behind it.
            Step::Entrance | Step::Entry { .. } if walk.tries >= TRIES => self.arrive(false, cx),
            // A lookup: the ring mends.
            _ => self.walk_steps(Step::Rest, cx),
        }
    }

    /// Goes on without a market that does not answer, and without all others of its owner.
    fn pass_over(&mut self, cx: &mut Bcx<'_>) {
        let Some(walk) = &mut self.around.walk else { return };
        (walk.whole, walk.tries) = (false, 0);
        let scheme = self.config.scheme;
        let its = |market: &Market| match walk.step {
            Step::Look { range: Some(range), .. } => range.contains(market.key(scheme)),
            _ => false,
        };
        match std::iter::successors(walk.next.next(), |market| market.next()).find(|market| !its(market)) {
            Some(next) => {
                walk.next = next;
                self.go_on(cx);
            }
            None => self.arrive(false, cx),
        }
    }

    pub(super) fn looked_in_vain(&mut self, peer: NodeId, cx: &mut Bcx<'_>) {
        let asked = self.around.walk.as_ref().is_some_and(|walk| match walk.step {
            Step::Look { owner, .. } => owner.id == peer,
            Step::Entry { at, .. } => at == peer,
            _ => false,
        });
        if asked {
            self.walk_failed(cx);
        }
    }

    /// The walk over one kind has ended: on to the next.
    fn arrive(&mut self, reached: bool, cx: &mut Bcx<'_>) {
        cx.cancel_timer(Timer::Walk);
        self.lookups.forget(For::Walk);
        let Some(walk) = self.around.walk.take() else { return };
        let kind = walk.next.kind;
        let walked = Walked { ended: cx.now, whole: reached && walk.whole, hops: walk.hops };
        self.around.walked.insert(kind, walked);
        cx.emit(Event::Looked);
        match Kind::ALL.into_iter().find(|next| *next > kind) {
            Some(next) => self.set_out(next, cx),
            None => {
                self.around.again = cx.now + PAUSE;
                if self.around.looked.is_some_and(|at| cx.now.since(at) <= LOOKS) {
                    cx.set_timer(Timer::Walk, PAUSE);
                }
            }
        }
    }
}
