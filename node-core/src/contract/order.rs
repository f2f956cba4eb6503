//! Orders to the bank: all that moves credit.

use crate::goods::Kind;
use crate::goods::Offer;
use crate::ids::{JobId, NodeId, UnitId};
use crate::money::{Micro, Price};
use serde::{Deserialize, Serialize};

/// Name of a purchase that is paid for: the run of a unit, or space at a keeper. Its owner chooses the name;
/// under another owner it names another sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sale {
    /// For a file: the first half of its content id, and a number that its owner chose.
    pub unit: UnitId,
    /// Each place that a unit has, one after the other or several at once, is a sale of its own.
    pub number: u32,
    /// Each kind has names of its own.
    pub kind: Kind,
}

/// One thing that a node wants of the bank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Nothing, but it is the first of a life: orders of earlier lives that are still on their way
    /// are too late from now on.
    Begin,
    /// Credit of the signer for another node.
    Transfer { to: NodeId, amount: Micro },
    /// Credit of an invite for the signer.
    Redeem { code: [u8; 16] },
    /// `owner` may spend so much of the signer's credit on this job, all legs together; 0 takes
    /// back what is not bound yet.
    Allow { owner: NodeId, job: JobId, most: Micro },
    /// Before the unit is placed: puts aside what its run may cost at most. Repeated with further
    /// terms when the unit moves on; the earlier ones stay as they are, and more is put aside if
    /// the new runner is dearer.
    Hold {
        sale: Sale,
        /// The signer itself, who allowed it, or the commons.
        payer: NodeId,
        /// The unit's fuel limit, whoever runs it.
        fuel: u64,
        terms: Vec<Term>,
    },
    /// After the result was accepted: pays for what was used, in the order of the terms, and
    /// returns the rest. Nothing used (an empty list) gives all back.
    Settle { sale: Sale, used: Vec<u64> },
}

/// One seller of a sale: a runner, or a keeper of its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub to: NodeId,
    pub goods: Goods,
    pub price: Price,
    /// Due once, if anything of these goods was used: the market operator's payoff with its delta.
    pub fees: Vec<Fee>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Goods {
    /// Fuel between accepted checkpoints; all runners of the sale together use its limit at most.
    Cycles,
    /// Byte-seconds, at most so many.
    Space { most: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fee {
    pub to: NodeId,
    pub amount: Micro,
}

/// The bank's answer to an order.
pub type Outcome = Result<(), Refusal>;

/// Why the bank did not do it. Nothing was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    #[error(
        "the bank has no account of this node: it needs an invite (`manyhands wallet redeem CODE`), or work that was \
         paid for"
    )]
    NoAccount,
    #[error("the payer has {has} credits and {needed} are needed")]
    NoFunds { has: Micro, needed: Micro },
    #[error("the payer did not allow it: {needed} credits are needed, and {left} are left")]
    NotAllowed { needed: Micro, left: Micro },
    /// It was settled or returned; a repeated settlement moves nothing.
    #[error("nothing is held for this unit any more")]
    Over,
    #[error("nobody waits with an invite of this code")]
    NoInvite,
    #[error("the order makes no sense: an amount of zero or above all credit, or terms that do not fit")]
    Nonsense,
    #[error("another order had this number")]
    NumberTaken,
    #[error(
        "the number is too far below the newest of this node; the order may have been carried out before"
    )]
    TooLate,
    #[error("the number is far above the newest of this node")]
    TooEarly,
    #[error("a table of the bank is full; it can be tried again later")]
    Full,
}

impl Refusal {
    /// Whether the number was left unused.
    pub fn is_forgotten(self) -> bool {
        use Refusal::*;
        matches!(self, NoAccount | NumberTaken | TooLate | TooEarly)
    }
}

/// Terms of one sale. Our choice: a unit that moves ten times a day for a week.
pub const TERMS: usize = 64;

/// Fees of one term. Our choice: a market operator's, and what may come to it.
pub const FEES: usize = 4;

impl Order {
    /// About what it takes in a message, bytes; not less.
    pub fn size(&self) -> usize {
        const NODE: usize = 48;
        match self {
            Order::Hold { terms, .. } => {
                let of = |term: &Term| 2 * NODE + term.fees.len() * (NODE + 16);
                128 + NODE + terms.iter().map(of).sum::<usize>()
            }
            Order::Settle { used, .. } => 128 + 9 * used.len(),
            _ => 128,
        }
    }

    /// The sale that it is about.
    pub fn sale(&self) -> Option<Sale> {
        match self {
            Order::Hold { sale, .. } | Order::Settle { sale, .. } => Some(*sale),
            _ => None,
        }
    }
}

/// The most that a sale on these terms can cost, fees included, however its runners share the
/// fuel; `None` if that is more than there is, or the terms are too many. An owner binds this in the
/// job's budget, and the bank puts it aside.
pub fn most(fuel: u64, terms: &[Term]) -> Option<Micro> {
    if terms.len() > TERMS || terms.iter().any(|term| term.fees.len() > FEES) {
        return None;
    }
    let cycles = terms.iter().filter(|term| term.goods == Goods::Cycles).map(|term| term.price).max();
    let mut exact = cycles.unwrap_or_default().of(fuel);
    for term in terms {
        if let Goods::Space { most } = term.goods {
            exact = exact.plus(term.price.of(most))?;
        }
    }
    let fees = Micro::sum(terms.iter().flat_map(|term| &term.fees).map(|fee| fee.amount))?;
    exact.round_up()?.plus(fees)
}

/// Payment of each term's seller for the quantities used, rounded once for all; `None` if these are more than
/// the terms allow.
pub fn due(fuel: u64, terms: &[Term], used: &[u64]) -> Option<Vec<Micro>> {
    if used.len() != terms.len() {
        return None;
    }
    let mut fuel_used: u64 = 0;
    let mut parts = Vec::with_capacity(used.len());
    for (term, used) in terms.iter().zip(used) {
        match term.goods {
            Goods::Cycles => fuel_used = fuel_used.checked_add(*used)?,
            Goods::Space { most } if *used > most => return None,
            Goods::Space { .. } => {}
        }
        parts.push(term.price.of(*used));
    }
    (fuel_used <= fuel).then(|| crate::money::shares(parts))?
}

impl Sale {
    /// Pays for so much of each of its terms, and returns the rest.
    pub fn settle(self, used: &[u64]) -> Order {
        let nothing = used.iter().all(|used| *used == 0);
        Order::Settle { sale: self, used: if nothing { Vec::new() } else { used.to_vec() } }
    }
}

impl Term {
    /// The seller's price for these goods, and the fee of the market operator that named the seller.
    pub fn of(offer: &Offer, goods: Goods) -> Term {
        let fees = match offer.payoff {
            Micro::ZERO => Vec::new(),
            amount => vec![Fee { to: offer.owner, amount }],
        };
        Term { to: offer.seller.id, goods, price: offer.price, fees }
    }

    /// The most that a sale on this term alone can cost.
    pub fn most(&self, fuel: u64) -> Option<Micro> {
        most(fuel, std::slice::from_ref(self))
    }

    /// The most that a sale on several terms can cost.
    pub fn most_of(fuel: u64, terms: &[Term]) -> Option<Micro> {
        most(fuel, terms)
    }

    /// Cost of a sale on this term alone if `used` was used, fees included: all that the bank pays when the
    /// sale is settled. `None` if the term does not allow it.
    pub fn cost(&self, fuel: u64, used: u64) -> Option<Micro> {
        Term::cost_of(fuel, std::slice::from_ref(self), &[used])
    }

    /// Cost of a sale on several terms, each with the quantity used of it; see [`Term::cost`].
    pub fn cost_of(fuel: u64, terms: &[Term], used: &[u64]) -> Option<Micro> {
        let shares = Micro::sum(due(fuel, terms, used)?)?;
        let due = terms.iter().zip(used).filter(|(_, used)| **used > 0);
        shares.plus(Micro::sum(due.flat_map(|(term, _)| &term.fees).map(|fee| fee.amount))?)
    }
}
