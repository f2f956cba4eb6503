//! Listings: what is taken up, and what is refused, each with its reason.

use super::super::commodity::Market;
use super::super::listing::Listing;
use super::super::message::{Entry, Message, ToSeller, Unlisted};
use super::{Ocx, Owner, Timer, fault, seconds_after};
use crate::ids::NodeId;
use crate::keys::Signed;

impl Owner {
    pub(super) fn list(&mut self, from: NodeId, signed: &Signed, cx: &mut Ocx<'_>) {
        let opened = Listing::open(signed, self.config.rule, self.wall.now(cx.now));
        let (market, listing) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                // What is not even signed has no number that could be trusted.
                let (kind, number) = named(signed);
                fault(from, "listed what cannot be listed", cx);
                let refused = ToSeller::Refused { kind, number, why: Unlisted::Bad(why) };
                return cx.send(from, Message::ToSeller(refused));
            }
        };
        let (kind, number) = (market.kind, listing.number);
        let taken =
            if listing.id() != from { Err(Unlisted::NotYours) } else { self.take_up(market, &listing, cx) };
        let answer = match taken {
            Ok(()) => ToSeller::Listed { kind, number },
            Err(why) => ToSeller::Refused { kind, number, why },
        };
        cx.send(from, Message::ToSeller(answer));
    }

    fn take_up(&mut self, market: Market, listing: &Listing, cx: &mut Ocx<'_>) -> Result<(), Unlisted> {
        if !self.mine.contains(&market) {
            return Err(Unlisted::NotMine);
        }
        let until = seconds_after(cx.now, self.config.purge);
        let entry = entry(listing, until);
        let book = self.books.entry(market).or_default();
        let old = book.table.get(listing.id());
        // What others said about a seller gives way to its own word.
        if old.is_some_and(|old| old.proven && old.number >= listing.number) {
            return Err(Unlisted::Old);
        }
        let same = old.is_some_and(|old| old.goods(market.kind) == listing.goods);
        if old.is_none() && book.table.len() >= self.config.sellers {
            let dearest = book.table.dearest().filter(|last| last.cost > listing.goods.cost);
            let last = dearest.map(|last| last.seller.id).ok_or(Unlisted::Full)?;
            book.table.remove(last);
            book.changed.insert(last);
        }
        book.table.put(entry);
        if !same {
            book.changed.insert(listing.id());
            cx.set_timer_by(Timer::Gather, self.config.gather);
            // It has sold a part, most likely of what was named to somebody.
            if let Some(held) = self.held.get_mut(&(market.kind, listing.id()))
                && !held.is_empty()
            {
                held.remove(0);
            }
        }
        if book.stage.is_out() {
            self.keep_overlay(cx);
        }
        Ok(())
    }

    pub(super) fn withdraw(&mut self, from: NodeId, market: Market, number: u64, cx: &mut Ocx<'_>) {
        let Some(book) = self.books.get_mut(&market).filter(|_| self.mine.contains(&market)) else { return };
        if book.table.get(from).is_some_and(|entry| entry.number <= number) {
            book.table.remove(from);
            book.changed.insert(from);
            cx.set_timer_by(Timer::Gather, self.config.gather);
        }
    }

    /// A seller is not there, or sells nothing.
    pub(super) fn strike(&mut self, market: Market, seller: NodeId, cx: &mut Ocx<'_>) {
        let Some(book) = self.books.get_mut(&market).filter(|_| self.mine.contains(&market)) else { return };
        if book.table.remove(seller).is_some() {
            book.changed.insert(seller);
            cx.set_timer_by(Timer::Gather, self.config.gather);
        }
    }

    /// A seller that was probed has signed anew.
    pub(super) fn renew(&mut self, market: Market, listing: &Listing, cx: &mut Ocx<'_>) {
        let until = seconds_after(cx.now, self.config.purge);
        let Some(book) = self.books.get_mut(&market).filter(|_| self.mine.contains(&market)) else { return };
        let Some(old) = book.table.get(listing.id()) else { return };
        if old.proven && old.number > listing.number {
            return;
        }
        let same = old.goods(market.kind) == listing.goods;
        book.table.put(entry(listing, until));
        if !same {
            book.changed.insert(listing.id());
            cx.set_timer_by(Timer::Gather, self.config.gather);
        }
    }
}

fn entry(listing: &Listing, until: u32) -> Entry {
    let goods = &listing.goods;
    Entry {
        seller: listing.seller,
        units: goods.units,
        minutes: goods.minutes,
        engine: goods.engine,
        proven: true,
        memory_mib: goods.memory_mib,
        until,
        capacity: goods.capacity,
        cost: goods.cost,
        number: listing.number,
    }
}

/// What a listing that is refused was about, for its sender alone.
fn named(signed: &Signed) -> (super::Kind, u64) {
    let read = rmp_serde::from_slice::<Listing>(&signed.body).ok();
    read.map_or((super::Kind::Cycles, 0), |listing| (listing.goods.kind, listing.number))
}
