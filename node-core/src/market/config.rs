//! Rules, sizes and times of markets.

use crate::goods::Rule;
use crate::goods::Scheme;
use crate::money::Micro;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarketConfig {
    /// These three are the same on all nodes of a network.
    pub scheme: Scheme,
    pub rule: Rule,
    /// A market operator's fixed payoff, a sale (paper `market`, equation 1). Our choice: a thousandth of a
    /// credit, a hundredth of what a usual unit costs.
    pub delta: Micro,
    /// How often a seller lists again what it has (paper `market`, section V-A). Less than half of
    /// `purge`, so that one listing may be lost.
    pub relist: Duration,
    /// After such a silence of a seller its listing is dropped. Our choice: two and a half listings.
    pub purge: Duration,
    /// How long a seller may take to say that it is alive. Our choice: a dial and an answer on a slow
    /// line.
    pub probe: Duration,
    /// When an answer is given with those that have said so by then. Our choice: three probes in vain,
    /// one after the other.
    pub answer: Duration,
    /// How long a seller that was named to one buyer is not named to the next. Our choice: credit put
    /// aside at the bank, and the purchase.
    pub hold: Duration,
    /// How many successors have a copy. Our choice: four more deaths at once, of neighbours, within
    /// the 10 s that a death takes to be noticed, and sellers list again within a minute anyway.
    pub copies: usize,
    /// How long changes are gathered for the copies. Our choice: a busy market sends one message a
    /// second to each.
    pub gather: Duration,
    /// How often copies are compared. Our choice: less than half of `purge`, after which a copy whose
    /// owner is silent is dropped.
    pub compare: Duration,
    /// Sellers in one market; above, a cheaper one takes the place of the dearest. Our choice: twice
    /// what the paper reckons with.
    pub sellers: usize,
    /// Answers that a market operator prepares at once, and for one buyer; one more is refused.
    pub answers: usize,
    pub per_buyer: usize,
    /// How often the owner of a market tells the entrance that it is there, and asks who else is.
    pub register: Duration,
    /// How long a new entrance hears who is there before it believes that nobody is. Our choice: one of
    /// those, and a lookup that fails first.
    pub open: Duration,
    /// How long a market stays in the processor overlay without a seller. Our choice: sellers that
    /// sold and list the rest come back at once.
    pub empty: Duration,
    /// Answers in a thousand that are compared with another copy. Our choice: a market operator that hides
    /// the cheapest is found out after twenty sales, for 5 % more messages.
    pub samples: u64,
    /// When a search ends that has found no market. Our choice: a swarm that begins, or one that mends.
    pub search: Duration,
    /// Searches of one buyer at once; one more fails at once.
    pub searches: usize,
}

impl Default for MarketConfig {
    fn default() -> Self {
        MarketConfig {
            scheme: Scheme::default(),
            rule: Rule::default(),
            delta: Micro(1000),
            relist: Duration::from_secs(60),
            purge: Duration::from_secs(150),
            probe: Duration::from_secs(3),
            answer: Duration::from_secs(10),
            hold: Duration::from_secs(10),
            copies: 4,
            gather: Duration::from_secs(1),
            compare: Duration::from_secs(50),
            sellers: 20_000,
            answers: 256,
            per_buyer: 16,
            register: Duration::from_secs(10),
            open: Duration::from_secs(45),
            empty: Duration::from_secs(20),
            samples: 50,
            search: Duration::from_secs(60),
            searches: 256,
        }
    }
}
