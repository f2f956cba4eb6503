//! A market in short, for who looks around.
//!
//! It costs one pass over the market, once a second at most, however many look; what sellers say is not
//! asked anew.

use super::super::message::{Entry, SHOWN, Summary, ToBuyer};
use super::{Book, Ocx, Owner, fault, to_buyer};
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::time::Time;
use std::time::Duration;

/// So long the same is told. Our choice: nobody sees the difference, and a stranger who asks all the time
/// costs the owner messages alone.
const FRESH: Duration = Duration::from_secs(1);

impl Owner {
    pub(super) fn look(&mut self, from: NodeId, ticket: u64, market: Market, cx: &mut Ocx<'_>) {
        if !market.is_valid() {
            return fault(from, "looks for a market that there is not", cx);
        }
        let summary = self.mine.contains(&market).then(|| Box::new(self.summary(market, cx.now)));
        to_buyer(from, ToBuyer::Summary { ticket, summary, next: self.next_of_mine(market) }, cx);
    }

    fn summary(&mut self, market: Market, now: Time) -> Summary {
        let Some(book) = self.books.get_mut(&market) else { return Summary::default() };
        if let Some((at, summary)) = book.summary.as_deref()
            && now.since(*at) < FRESH
        {
            return summary.clone();
        }
        let summary = book.in_short(market.kind, now);
        book.summary = Some(Box::new((now, summary.clone())));
        summary
    }

    /// A seller has less than before. If it was named a moment ago it was most likely bought, at that
    /// price; what its buyer paid in the end only the bank knows.
    pub(super) fn has_less(&mut self, market: Market, seller: NodeId, now: Time) {
        let named = self.held.get(&(market.kind, seller)).and_then(|held| held.first());
        if let (Some(named), Some(book)) = (named, self.books.get_mut(&market)) {
            book.last = Some((named.price, now));
        }
    }
}

impl Book {
    fn in_short(&self, kind: Kind, now: Time) -> Summary {
        let all = self.table.all();
        let order = |entry: &&Entry| (entry.cost, entry.seller.id);
        let mut cheapest: Vec<&Entry> = all.iter().collect();
        if cheapest.len() > SHOWN {
            cheapest.select_nth_unstable_by_key(SHOWN, order);
            cheapest.truncate(SHOWN);
        }
        cheapest.sort_unstable_by_key(order);
        Summary {
            sellers: all.len() as u32,
            units: all.iter().map(|entry| u32::from(entry.units)).fold(0, u32::saturating_add),
            dearest: all.iter().map(|entry| entry.cost).max().unwrap_or_default(),
            last: self.last.map(|(price, at)| (price, now.since(at).as_secs() as u32)),
            offers: cheapest.iter().map(|entry| (entry.seller.id, entry.goods(kind))).collect(),
        }
    }
}

/// Whether there is less of it than there was.
pub(super) fn is_less(kind: Kind, new: &Entry, old: &Entry) -> bool {
    if kind.divides() { new.capacity < old.capacity } else { new.units < old.units }
}
