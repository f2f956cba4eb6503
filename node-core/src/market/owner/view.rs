//! A market operator's knowledge: for people and for checkers.

use super::super::message::Entry;
use super::overlay::Stage;
use super::{Book, Owner};
use crate::goods::Market;
use crate::money::Price;
use crate::time::Time;

#[derive(Clone, Copy)]
pub struct OwnerView<'a>(&'a Owner);

/// A market, or a copy of one.
#[derive(Clone, Copy)]
pub struct BookView<'a> {
    pub market: Market,
    /// This node is its owner.
    pub mine: bool,
    /// A member of the processor overlay.
    pub member: bool,
    /// In the order of their ids.
    pub sellers: &'a [Entry],
    /// The price of the last sale that shows, and when that was.
    pub last: Option<(Price, Time)>,
}

impl<'a> OwnerView<'a> {
    pub fn books(self) -> impl Iterator<Item = BookView<'a>> {
        self.0.books.iter().map(move |(market, book)| BookView {
            market: *market,
            mine: self.0.mine.contains(market),
            member: book.stage == Stage::In,
            sellers: book.table.all(),
            last: book.last,
        })
    }

    /// Whether it would answer for this market.
    pub fn owns(self, market: Market) -> bool {
        self.0.mine.contains(&market)
    }

    /// Answers that are being prepared.
    pub fn answers(self) -> usize {
        self.0.sessions.len()
    }
}

impl Owner {
    pub fn view(&self) -> OwnerView<'_> {
        OwnerView(self)
    }

    /// Bytes of memory that this state takes, roughly.
    pub fn memory(&self) -> usize {
        let book = |book: &Book| size_of::<Book>() + book.table.memory() + book.changed.len() * 48;
        size_of::<Owner>()
            + self.books.values().map(book).sum::<usize>()
            + self.mine.len() * 4
            + self.sessions.len() * 512
            + self.held.len() * 128
            + self.pulls.weight()
    }
}
