//! Finding keepers: in the market, and where that has none, among the peers that are known.

use super::super::message::ToKeeper;
use super::{Event, File, Holder, Ocx, Owner, State, Timer, to_keeper};
use crate::address::Contact;
use crate::contract::{Sale, Space};
use crate::goods::Market;
use crate::goods::Offer;
use crate::ids::{BlobId, NodeId};
use crate::money::{Micro, Price};
use crate::platform::Platform;
use std::time::Duration;

/// Peers asked for a gift at once, and how long. Our choice: a few ways there and back.
const ASKED: usize = 32;
const GIFTS: Duration = Duration::from_secs(3);

/// A search for space for one file.
#[derive(Debug)]
pub(super) struct Ask {
    file: BlobId,
    /// Being bought.
    taking: u32,
    /// Why the market did not give enough.
    shortage: String,
    /// Peers asked for a gift, and those of them with room for a copy.
    asked: usize,
    roomy: usize,
    gifts: Vec<(NodeId, u64)>,
}

impl File {
    /// Bytes that are bought for it.
    pub(super) fn space(&self) -> u64 {
        self.bytes().max(Market::LEAST)
    }

    /// Bytes of manifest and chunks.
    fn bytes(&self) -> u64 {
        self.record.content.len.saturating_add(self.record.manifest.len)
    }

    /// How many more nodes are to keep it. Keepers whose time is nearly over do not count.
    pub(super) fn lacks(&self, now_ms: u64, term: Duration) -> usize {
        let quarter = term.as_millis() as u64 / 4;
        let lasting = |holder: &&Holder| holder.until_ms > now_ms.saturating_add(quarter);
        usize::from(self.record.copies).saturating_sub(self.holders.values().filter(lasting).count())
    }

    /// Whether the node keeps it and will for a while.
    fn has(&self, node: NodeId, now_ms: u64, term: Duration) -> bool {
        let quarter = term.as_millis() as u64 / 4;
        self.holders.get(&node).is_some_and(|holder| holder.until_ms > now_ms.saturating_add(quarter))
    }
}

impl Owner {
    /// Looks for as many keepers as are missing.
    pub(super) fn place(&mut self, id: BlobId, cx: &mut Ocx<'_>) {
        let (now_ms, term) = (self.wall.now(cx.now), self.config.term);
        let Some(file) = self.files.get_mut(&id) else { return };
        let lacks = file.lacks(now_ms, term);
        if lacks == 0 || file.looking {
            return;
        }
        file.looking = true;
        file.look_at = cx.now + self.config.again;
        // Some of those that are named may have it already. Not more: the price is that of the next one.
        let has = file.holders.keys().filter(|node| file.has(**node, now_ms, term)).count();
        let units = u16::try_from(lacks + has).unwrap_or(u16::MAX);
        let bytes = file.space();
        let number = self.number();
        let (shortage, gifts) = (String::new(), Vec::new());
        let ask = Ask { file: id, taking: 0, shortage, asked: 0, roomy: 0, gifts };
        self.asks.insert(number, ask);
        let why = match (self.cannot_buy(id), self.budget(id, now_ms)) {
            (Some(why), _) => why,
            (None, Some((term, left))) if left.0 >= lacks as u64 => {
                let (most, tie) = (Micro(left.0 / lacks as u64), cx.rng.u64());
                return cx.emit(Event::Buy { number, bytes, units, term, most, tie });
            }
            _ => "nothing is left of what it may cost",
        };
        self.offered(number, Vec::new(), why.into(), cx);
    }

    pub(super) fn offered(&mut self, number: u64, offers: Vec<Offer>, shortage: String, cx: &mut Ocx<'_>) {
        let now_ms = self.wall.now(cx.now);
        let Some(ask) = self.asks.get_mut(&number) else { return };
        ask.shortage = shortage;
        let id = ask.file;
        let Some((rest, left)) = self.budget(id, now_ms) else { return drop(self.asks.remove(&number)) };
        let term = self.config.term;
        let Some(file) = self.files.get(&id) else { return };
        let (lacks, bytes) = (file.lacks(now_ms, term), file.space());
        let most = Micro(left.0.checked_div(lacks as u64).unwrap_or_default());
        let able = |offer: &Offer| {
            let seller = &offer.seller;
            seller.id != cx.me && seller.contact().is_some() && !file.has(seller.id, now_ms, term)
        };
        let mut sellers: Vec<NodeId> = Vec::new();
        let mut chosen: Vec<(Offer, Space)> = Vec::new();
        for offer in offers.into_iter().filter(able) {
            let space = Space::of(&offer, bytes, rest);
            let fits = space.held().is_some_and(|held| held <= most);
            if fits && !sellers.contains(&offer.seller.id) && chosen.len() < lacks {
                sellers.push(offer.seller.id);
                chosen.push((offer, space));
            }
        }
        if chosen.is_empty() {
            return self.ask_for_gifts(number, cx);
        }
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.taking = chosen.len() as u32;
        }
        for (offer, space) in chosen {
            self.begin_deal(id, number, offer, space, cx);
        }
        self.write(id, cx);
    }

    /// Ends one purchase of a search. Space that could not be bought may be given.
    pub(super) fn one_less(&mut self, number: u64, why: Option<String>, cx: &mut Ocx<'_>) {
        let Some(ask) = self.asks.get_mut(&number) else { return };
        ask.taking = ask.taking.saturating_sub(1);
        if let Some(why) = why {
            ask.shortage = why;
        }
        if ask.taking == 0 {
            self.ask_for_gifts(number, cx);
        }
    }

    fn ask_for_gifts(&mut self, number: u64, cx: &mut Ocx<'_>) {
        let (now_ms, term) = (self.wall.now(cx.now), self.config.term);
        let Some(ask) = self.asks.get(&number) else { return };
        let Some(file) = self.files.get(&ask.file) else { return drop(self.asks.remove(&number)) };
        if file.lacks(now_ms, term) == 0 {
            return self.end_ask(number, cx);
        }
        let known = cx.peers.all().filter_map(|(id, _, _)| can_keep(id, cx));
        let mut peers: Vec<Contact> = known.collect();
        peers.retain(|peer| !file.has(peer.id, now_ms, term));
        // Any of them: all alike, not always the same.
        for _ in ASKED..peers.len() {
            let at = cx.rng.below(peers.len() as u64) as usize;
            peers.swap_remove(at);
        }
        for peer in &peers {
            to_keeper(peer, ToKeeper::Ask { ticket: number }, cx);
        }
        if let Some(ask) = self.asks.get_mut(&number) {
            ask.asked = peers.len();
        }
        let wait = if peers.is_empty() { Duration::ZERO } else { GIFTS };
        cx.set_timer(Timer::Gifts(number), wait);
    }

    pub(super) fn room(&mut self, from: NodeId, ticket: u64, bytes: u64, seconds: u32, cx: &Ocx<'_>) {
        let Some(ask) = self.asks.get_mut(&ticket) else { return };
        let knows = can_keep(from, cx).is_some();
        if knows && seconds > 0 && ask.gifts.iter().all(|(node, _)| *node != from) {
            ask.gifts.push((from, bytes));
        }
    }

    pub(super) fn gifts_are_in(&mut self, number: u64, cx: &mut Ocx<'_>) {
        let (now_ms, term) = (self.wall.now(cx.now), self.config.term);
        let Some(ask) = self.asks.get_mut(&number) else { return };
        let (id, mut gifts) = (ask.file, std::mem::take(&mut ask.gifts));
        let Some(file) = self.files.get(&id) else { return drop(self.asks.remove(&number)) };
        let (bytes, lacks) = (file.bytes(), file.lacks(now_ms, term));
        let until_ms = now_ms.saturating_add(term.as_millis() as u64);
        gifts.retain(|(_, room)| *room >= bytes);
        ask.roomy = gifts.len();
        // Where most is free; ties by the id, which nobody chooses for this.
        gifts.sort_by_key(|(node, room)| (std::cmp::Reverse(*room), *node));
        for (node, _) in gifts.into_iter().take(lacks) {
            if let Some(contact) = can_keep(node, cx) {
                self.engage(id, contact, None, until_ms, cx);
            }
        }
        self.end_ask(number, cx);
    }

    fn end_ask(&mut self, number: u64, cx: &mut Ocx<'_>) {
        let Some(ask) = self.asks.remove(&number) else { return };
        let (now_ms, term) = (self.wall.now(cx.now), self.config.term);
        let Some(file) = self.files.get_mut(&ask.file) else { return };
        file.looking = false;
        file.look_at = cx.now + self.config.again;
        let lacks = file.lacks(now_ms, term);
        let gifts = file.holders.values().filter(|holder| holder.price.is_none()).count();
        let why = if ask.shortage.is_empty() { String::new() } else { format!("{}; ", ask.shortage) };
        file.reason = match (lacks, gifts) {
            (0, 0) => String::new(),
            (0, gifts) => format!("{why}{gifts} of its keepers give the space for nothing"),
            (lacks, _) => {
                let copies = usize::from(file.record.copies);
                let others = match ask.asked {
                    0 => {
                        "this node is connected to no other server that it could ask; tabs and guests are not asked"
                            .to_owned()
                    }
                    asked => {
                        let (bytes, roomy) = (file.bytes(), ask.roomy);
                        format!(
                            "of {asked} more that were asked, {roomy} have {bytes} bytes to give for nothing"
                        )
                    }
                };
                format!(
                    "{why}{} of {copies} keepers found; {others}; it is tried again",
                    copies.saturating_sub(lacks)
                )
            }
        };
        cx.emit(Event::Changed(ask.file));
    }

    /// Somebody keeps it from now on, if nothing comes in between.
    pub(super) fn engage(
        &mut self,
        id: BlobId,
        contact: Contact,
        bought: Option<(Sale, Price)>,
        until_ms: u64,
        cx: &mut Ocx<'_>,
    ) {
        let me = self.me;
        let Some(file) = self.files.get_mut(&id) else { return };
        let kept = file.holders.values().filter(|holder| holder.state == State::Kept);
        let at: Vec<Contact> = kept.map(|holder| holder.contact).filter(|at| at.id != contact.id).collect();
        let (manifest, bytes) = (file.record.manifest, file.record.content.len);
        let (heard, audit_at) = (cx.now, cx.now);
        let (sale, price) = (bought.map(|(sale, _)| sale), bought.map(|(_, price)| price));
        match file.holders.get_mut(&contact.id) {
            Some(holder) => {
                // For longer.
                let earlier = std::mem::replace(&mut holder.sale, sale);
                (holder.until_ms, holder.price, holder.heard) = (until_ms, price, heard);
                if let (Some(earlier), Some(sale)) = (earlier, sale) {
                    self.deals.follows(sale, earlier);
                }
                earlier.into_iter().for_each(|earlier| self.end_deal(earlier));
                self.write(id, cx);
            }
            None => {
                let state = State::Pulling(0);
                let holder = Holder { contact, state, until_ms, price, sale, heard, audit_at, silent: 0 };
                file.holders.insert(contact.id, holder);
            }
        }
        to_keeper(&contact, ToKeeper::Keep { manifest, bytes, me, at }, cx);
        cx.emit(Event::Changed(id));
    }
}

/// Where the node is dialled, if it is a peer that may keep something: a native one.
fn can_keep(node: NodeId, cx: &Ocx<'_>) -> Option<Contact> {
    let known = cx.peers.get(node).filter(|known| known.platform == Platform::Native)?;
    known.dialable.contact()
}
