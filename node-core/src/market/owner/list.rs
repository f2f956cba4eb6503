//! Listings: what is taken up, and what is refused, each with its reason.

use super::super::listing::{Guest, Listing};
use super::super::message::{Entry, Message, ToSeller, Unlisted};
use super::summary::is_less;
use super::{Ocx, Owner, Timer, fault, seconds_after};
use crate::address::{Address, Contact, Ip, Sender};
use crate::goods::Market;
use crate::ids::NodeId;
use crate::keys::Signed;

impl Owner {
    pub(super) fn list(&mut self, sender: Sender, signed: &Signed, cx: &mut Ocx<'_>) {
        let opened = Listing::open(signed, self.config.rule, self.wall.now(cx.now));
        let (market, listing) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                // A bad listing may not even be signed: its kind and number serve only the answer to its
                // sender.
                let (kind, number) = named(signed);
                // A relay does not read what it forwards.
                if sender.by.is_none() {
                    fault(sender.id, "listed what cannot be listed", cx);
                }
                let refused = ToSeller::Refused { kind, number, why: Unlisted::Bad(why) };
                return answer(sender, refused, cx);
            }
        };
        let (kind, number) = (market.kind, listing.number);
        let taken = if listing.seller.is_of(sender, cx.me) {
            self.take_up(market, &listing, cx)
        } else {
            Err(Unlisted::NotYours)
        };
        let said = match taken {
            Ok(()) => ToSeller::Listed { kind, number },
            Err(why) => ToSeller::Refused { kind, number, why },
        };
        answer(sender, said, cx);
    }

    pub(super) fn take_up(
        &mut self,
        market: Market,
        listing: &Listing,
        cx: &mut Ocx<'_>,
    ) -> Result<(), Unlisted> {
        if !self.mine.contains(&market) {
            return Err(Unlisted::NotMine);
        }
        let until = seconds_after(cx.now, self.config.purge);
        let entry = entry(listing, until);
        let book = self.books.entry(market).or_default();
        let old = book.table.get(listing.id());
        // A seller's own listing replaces an entry that others reported.
        if old.is_some_and(|old| old.proven && old.number >= listing.number) {
            return Err(Unlisted::Old);
        }
        let same = old.is_some_and(|old| old.goods(market.kind) == listing.goods)
            && book.table.address(listing.id()) == Some(listing.seller.best());
        let less = old.is_some_and(|old| is_less(market.kind, &entry, old));
        if old.is_none() && book.table.len() >= self.config.sellers {
            let dearest = book.table.dearest().filter(|last| last.cost > listing.goods.cost);
            let last = dearest.map(|last| last.seller.id).ok_or(Unlisted::Full)?;
            book.table.remove(last);
            book.changed.insert(last);
        }
        book.table.put(entry, Guest::of(&listing.seller));
        let out = book.stage.is_out();
        if !same {
            book.changed.insert(listing.id());
            cx.set_timer_by(Timer::Gather, self.config.gather);
            if less {
                self.has_less(market, listing.id(), cx.now);
            }
            // It has sold a part, most likely of what was named to somebody.
            if let Some(held) = self.held.get_mut(&(market.kind, listing.id()))
                && !held.is_empty()
            {
                held.remove(0);
            }
        }
        if out {
            self.keep_overlay(cx);
        }
        Ok(())
    }

    pub(super) fn withdraw(&mut self, sender: Sender, market: Market, number: u64, cx: &mut Ocx<'_>) {
        let seller = sender.id;
        let Some(book) = self.books.get_mut(&market).filter(|_| self.mine.contains(&market)) else { return };
        let its = book.table.address(seller).is_some_and(|address| address.is_of(sender, cx.me));
        if its && book.table.get(seller).is_some_and(|entry| entry.number <= number) {
            book.table.remove(seller);
            book.changed.insert(seller);
            cx.set_timer_by(Timer::Gather, self.config.gather);
            self.has_less(market, seller, cx.now);
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
        book.table.put(entry(listing, until), Guest::of(&listing.seller));
        if !same {
            book.changed.insert(listing.id());
            cx.set_timer_by(Timer::Gather, self.config.gather);
        }
    }
}

/// Answers a seller on the way by which its listing came.
pub(super) fn answer(to: Sender, said: ToSeller, cx: &mut Ocx<'_>) {
    cx.answer(to, Message::ToSeller(said));
}

fn entry(listing: &Listing, until: u32) -> Entry {
    let goods = &listing.goods;
    Entry {
        seller: dialled(&listing.seller),
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

/// Where to dial the seller or its relay, under the seller's id. A listing that is open has one of the two.
fn dialled(seller: &Address) -> Contact {
    seller
        .first_hop()
        .map_or(Contact { ip: Ip([0; 16]), id: seller.id, port: 0 }, |at| Contact { id: seller.id, ..at })
}

/// Kind and number that a refused listing states, for its sender alone; cycles and 0 if it cannot be read.
fn named(signed: &Signed) -> (super::Kind, u64) {
    let read = sandbox::unpack::from_slice::<Listing>(&signed.body).ok();
    read.map_or((super::Kind::Cycles, 0), |listing| (listing.goods.kind, listing.number))
}
