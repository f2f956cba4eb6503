//! Whether all markets together are as they must be, as somebody sees it who knows all.

use super::Markets;
use node_core::circle::{MemberId, RingId};
use node_core::goods::{Kind, Market, Scheme};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Markets {
    /// Errors of the markets, in words. In any case: nothing was sold twice or offered falsely. If `strict`,
    /// all is also at rest: each seller is listed where it belongs and nobody else is, the copies are equal,
    /// and exactly the markets with sellers are members of the processor overlay.
    pub fn check_markets(&self, strict: bool) -> Vec<String> {
        let mut wrong = self.shared.wrong.clone();
        if strict {
            self.books_are_right(&mut wrong);
        }
        wrong
    }

    /// Index of the market's operator; `None` if the ring has no members.
    pub fn market_owner(&self, market: Market) -> Option<usize> {
        let point = self.right(RingId::NODES, market.key(self.shared.config.scheme))?;
        self.owner(MemberId { ring: RingId::NODES, point })
    }

    /// Nodes that live and sell, by market.
    pub fn for_sale(&self) -> BTreeMap<Market, Vec<usize>> {
        let mut all: BTreeMap<Market, Vec<usize>> = BTreeMap::new();
        for n in self.alive().into_iter().filter(|n| !self.is_frozen(*n)) {
            for market in Kind::ALL.into_iter().filter_map(|kind| self.sells(n, kind)?.market()) {
                all.entry(market).or_default().push(n);
            }
        }
        all
    }

    fn books_are_right(&self, wrong: &mut Vec<String>) {
        let for_sale = self.for_sale();
        for (market, sellers) in &for_sale {
            let Some(owner) = self.market_owner(*market) else {
                wrong.push(format!("{market:?} has no owner"));
                continue;
            };
            let book = self.owner_view(owner).books().find(|book| book.market == *market);
            let listed: BTreeMap<_, _> =
                book.iter().flat_map(|book| book.sellers).map(|e| (e.seller.id, *e)).collect();
            for n in sellers {
                let goods = self.sells(*n, market.kind);
                let entry = listed.get(&self.nodes[*n].contact.id);
                if entry.map(|entry| entry.goods(market.kind)) != goods {
                    wrong.push(format!("{n} is not listed in {market:?} at {owner} as it is"));
                }
            }
            if listed.len() > sellers.len() {
                wrong.push(format!("{market:?} lists {} who do not sell", listed.len() - sellers.len()));
            }
            self.copies_are_right(*market, owner, wrong);
        }
        let members: BTreeSet<Market> = for_sale.keys().copied().collect();
        let mut there: BTreeSet<Market> = BTreeSet::new();
        for n in self.alive() {
            for book in self.owner_view(n).books() {
                if book.mine && book.member {
                    there.insert(book.market);
                }
                if book.mine && !book.sellers.is_empty() && !for_sale.contains_key(&book.market) {
                    wrong.push(format!(
                        "{n} lists {} in {:?}, where nobody sells",
                        book.sellers.len(),
                        book.market
                    ));
                }
            }
        }
        if self.shared.config.scheme == Scheme::Processor {
            if members != there {
                wrong.push(format!("members are {there:?}, and should be {members:?}"));
            }
            Kind::ALL.into_iter().for_each(|kind| wrong.extend(self.check(kind.ring(), true)));
        }
    }

    fn copies_are_right(&self, market: Market, owner: usize, wrong: &mut Vec<String>) {
        let of = |n: usize| {
            let book = self.owner_view(n).books().find(|book| book.market == market);
            let goods = |book: node_core::market::owner::BookView<'_>| -> BTreeMap<_, _> {
                book.sellers.iter().map(|entry| (entry.seller.id, entry.goods(market.kind))).collect()
            };
            book.map(goods).unwrap_or_default()
        };
        let order = self.in_order(RingId::NODES);
        let Some(at) = order.iter().position(|n| *n == owner) else { return };
        let copies = self.shared.config.copies.min(order.len() - 1);
        for heir in (1..=copies).map(|by| order[(at + by) % order.len()]) {
            if of(heir) != of(owner) {
                wrong.push(format!("{heir} has another copy of {market:?} than {owner}"));
            }
        }
    }

    /// Runs until all is at rest, at most so long; says how long it took.
    pub fn settle_markets(&mut self, within: Duration) -> Duration {
        let begun = self.now;
        loop {
            let mut wrong = self.check_markets(true);
            wrong.extend(self.check(RingId::NODES, true));
            if wrong.is_empty() {
                return self.now.since(begun);
            }
            let some = wrong[..wrong.len().min(12)].join("\n");
            let (seed, count) = (self.seed, wrong.len());
            assert!(self.now.since(begun) < within, "seed {seed}: {count} wrong after {within:?}:\n{some}");
            self.run(Duration::from_secs(1));
            assert_eq!(self.check_markets(false), Vec::<String>::new(), "seed {seed}");
        }
    }
}
