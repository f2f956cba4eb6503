//! Copies: a market is copied to the next successors, so that it survives its owner's death, and goes
//! to the next owner when the ring moves.
//!
//! A copy is not renewed by each listing: only what changes is told, gathered, and digests are compared
//! now and then. Who becomes the owner has the copy, or pulls it from whoever was, and gives all
//! sellers the time of one purge to list again.

use super::super::listing::Guest;
use super::super::message::{COPY, Copy, Entry, Message, ToOwner, ToSeller, Unlisted};
use super::{Book, Ocx, Owner, Timer, fault, seconds_after, to_owner, to_seller};
use crate::address::Contact;
use crate::circle::{Point, Range};
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use std::collections::BTreeMap;

/// Sellers of a market that are told that it is another's. Our choice: who is alone has few, and all list
/// again within a minute.
const SENT_AWAY: usize = 64;

impl Owner {
    pub(super) fn gained(&mut self, range: Range, from: Option<Contact>, cx: &mut Ocx<'_>) {
        let until = seconds_after(cx.now, self.config.purge);
        for market in self.markets_in(range) {
            self.mine.insert(market);
            if let Some(book) = self.books.get_mut(&market) {
                book.table.renew(until);
                book.holder = None;
                book.changed.extend(book.table.all().iter().map(|entry| entry.seller.id));
                cx.set_timer_by(Timer::Gather, self.config.gather);
            }
        }
        for kind in Kind::ALL.into_iter().filter(|kind| range.contains(kind.entrance())) {
            self.gain_door(kind, range.after == range.upto, cx.now);
        }
        if let Some(from) = from.filter(|from| from.id != cx.me) {
            to_owner(&from, ToOwner::Pull(range), cx);
        }
        self.keep_overlay(cx);
    }

    pub(super) fn lost(&mut self, range: Range, to: Option<Contact>, cx: &mut Ocx<'_>) {
        let alone = range.after == range.upto;
        for market in self.markets_in(range) {
            self.mine.remove(&market);
            if alone {
                self.send_away(market, cx);
                continue;
            }
            let Some(book) = self.books.get_mut(&market) else { continue };
            book.holder = Some((to.map_or(cx.me, |to| to.id), cx.now));
            book.changed.clear();
            if let Some(to) = to.filter(|to| to.id != cx.me && !book.table.is_empty()) {
                send_whole(market, book, &to, cx);
            }
        }
        for kind in Kind::ALL.into_iter().filter(|kind| range.contains(kind.entrance())) {
            self.lose_door(kind, to.map(|to| to.id), cx);
        }
        self.keep_overlay(cx);
    }

    /// Clears the market of a node that was alone on its ring, has found another ring, and does not know the
    /// market's operator there. Some sellers are told; the others find out when they list again.
    fn send_away(&mut self, market: Market, cx: &mut Ocx<'_>) {
        let Some(book) = self.books.get_mut(&market) else { return };
        let table = std::mem::take(&mut book.table);
        book.changed.clear();
        for entry in table.all().iter().filter(|entry| entry.proven).take(SENT_AWAY) {
            let refused =
                ToSeller::Refused { kind: market.kind, number: entry.number, why: Unlisted::NotMine };
            if let Some(address) = table.address(entry.seller.id) {
                to_seller(address, refused, cx);
            }
        }
    }

    pub(super) fn successors(&mut self, list: Vec<Contact>, cx: &mut Ocx<'_>) {
        for replica in self.share.follow(list, cx.me, self.config.copies).unwrap_or_default() {
            for (market, book) in &self.books {
                if self.mine.contains(market) && !book.table.is_empty() {
                    send_whole(*market, book, &replica, cx);
                }
            }
        }
    }

    fn markets_in(&self, range: Range) -> Vec<Market> {
        let all = Kind::ALL.into_iter().flat_map(|kind| (0..Market::COUNT).map(move |index| (kind, index)));
        let all = all.map(|(kind, index)| Market { kind, index });
        all.filter(|market| range.contains(market.key(self.config.scheme))).collect()
    }

    /// Tells the copies what has changed.
    pub(super) fn tell_copies(&mut self, cx: &mut Ocx<'_>) {
        for (market, book) in self.books.iter_mut().filter(|(market, _)| self.mine.contains(market)) {
            let changed: Vec<NodeId> = std::mem::take(&mut book.changed).into_iter().collect();
            for part in changed.chunks(COPY) {
                let entries: Vec<Entry> = part.iter().filter_map(|id| book.table.get(*id)).copied().collect();
                let gone = part.iter().filter(|id| book.table.get(**id).is_none()).copied().collect();
                let guests = guests(book, &entries);
                let copy = Copy { market: *market, whole: false, entries, gone, guests };
                for replica in self.share.replicas() {
                    to_owner(replica, ToOwner::Copy(Box::new(copy.clone())), cx);
                }
            }
        }
    }

    pub(super) fn compare(&mut self, cx: &mut Ocx<'_>) {
        cx.set_timer(Timer::Compare, self.config.compare);
        for (market, book) in self.books.iter().filter(|(market, _)| self.mine.contains(market)) {
            let (count, digest) = (book.table.len() as u32, book.table.digest());
            for replica in self.share.replicas() {
                to_owner(replica, ToOwner::Compare { market: *market, count, digest }, cx);
            }
        }
    }

    pub(super) fn compared(
        &mut self,
        from: NodeId,
        market: Market,
        count: u32,
        digest: u64,
        cx: &mut Ocx<'_>,
    ) {
        if !market.is_valid()
            || self.mine.contains(&market)
            || count == 0 && !self.books.contains_key(&market)
        {
            return;
        }
        let book = self.books.entry(market).or_default();
        book.holder = Some((from, cx.now));
        if (book.table.len() as u32, book.table.digest()) != (count, digest) {
            let key = market.key(self.config.scheme);
            let only = Range { after: Point(key.0.wrapping_sub(1)), upto: key };
            cx.send(from, Message::ToOwner(ToOwner::Pull(only)));
        }
    }

    pub(super) fn pull(&mut self, from: NodeId, range: Range, cx: &mut Ocx<'_>) {
        self.pull_again(cx);
        if self.pulls.asks(from, range, cx.now) {
            self.give(from, range, cx);
        }
    }

    /// Sends the markets now to a node that pulled again too soon, as after a restart.
    pub(super) fn pull_again(&mut self, cx: &mut Ocx<'_>) {
        for (to, range) in self.pulls.due(cx.now) {
            self.give(to, range, cx);
        }
    }

    fn give(&self, from: NodeId, range: Range, cx: &mut Ocx<'_>) {
        for (market, book) in &self.books {
            if range.contains(market.key(self.config.scheme)) && !book.table.is_empty() {
                whole(*market, book).for_each(|copy| {
                    cx.send(from, Message::ToOwner(ToOwner::Copy(Box::new(copy))));
                });
            }
        }
    }

    /// A part of a market, from its owner or from who was.
    pub(super) fn copy(&mut self, from: NodeId, copy: Copy, cx: &mut Ocx<'_>) {
        let Copy { market, whole, entries, gone, guests } = copy;
        let fits = |entry: &Entry| entry.goods(market.kind).market() == Some(market);
        let sane = market.is_valid() && entries.len() <= COPY && gone.len() <= COPY && guests.len() <= COPY;
        if !sane || !entries.iter().all(|entry| fits(entry) && entry.units > 0) {
            return fault(from, "sent a copy of no market", cx);
        }
        let mine = self.mine.contains(&market);
        let until = seconds_after(cx.now, self.config.purge);
        let (most, gather) = (self.config.sellers, self.config.gather);
        let guests: BTreeMap<NodeId, Guest> = guests.into_iter().collect();
        let book = self.books.entry(market).or_default();
        if !mine {
            book.holder = Some((from, cx.now));
            if whole {
                book.table.clear();
            }
            for id in gone {
                book.table.remove(id);
            }
        }
        for entry in entries {
            let entry = Entry { until, proven: false, ..entry };
            let old = book.table.get(entry.seller.id);
            // A listing that the operator has received itself is newer than another node's copy.
            let newer = old.is_none_or(|old| !mine || !old.proven && old.number < entry.number);
            if newer && (old.is_some() || book.table.len() < most) {
                book.table.put(entry, guests.get(&entry.seller.id).copied());
                if mine {
                    book.changed.insert(entry.seller.id);
                    cx.set_timer_by(Timer::Gather, gather);
                }
            }
        }
        if mine {
            self.keep_overlay(cx);
        }
    }
}

/// In as many messages as it takes.
fn whole(market: Market, book: &Book) -> impl Iterator<Item = Copy> + '_ {
    book.table.all().chunks(COPY).enumerate().map(move |(at, part)| Copy {
        market,
        whole: at == 0,
        entries: part.to_vec(),
        gone: Vec::new(),
        guests: guests(book, part),
    })
}

fn guests(book: &Book, of: &[Entry]) -> Vec<(NodeId, Guest)> {
    let guest = |entry: &Entry| Some((entry.seller.id, book.table.guest(entry.seller.id)?));
    of.iter().filter_map(guest).collect()
}

fn send_whole(market: Market, book: &Book, to: &Contact, cx: &mut Ocx<'_>) {
    whole(market, book).for_each(|copy| to_owner(to, ToOwner::Copy(Box::new(copy)), cx));
}
