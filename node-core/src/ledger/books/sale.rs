//! Sales: what is put aside for them, and who gets it.

use super::rows::Row;
use super::{Account, Books, DAY_MS, due, most};
use crate::budget::Budget;
use crate::contract::{Goods, Outcome, Refusal, Sale, Term};
use crate::goods::Kind;
use crate::ids::{JobId, NodeId, UnitId};
use crate::ledger::{COMMONS, Why};
use crate::money::{Micro, Price};
use serde::{Deserialize, Serialize};

impl Sale {
    fn held(self) -> Why {
        match self.kind {
            Kind::Cycles => Why::Held(self.unit),
            kind => Why::SpaceHeld(kind, self.unit),
        }
    }

    fn returned(self) -> Why {
        match self.kind {
            Kind::Cycles => Why::Returned(self.unit),
            kind => Why::SpaceReturned(kind, self.unit),
        }
    }

    fn earned(self, term: &Term) -> Why {
        match (term.goods, self.kind) {
            (Goods::Cycles, _) => Why::Earned(self.unit),
            (Goods::Space { .. }, Kind::Cycles) => Why::Kept(Kind::Checkpoints, self.unit),
            (Goods::Space { .. }, kind) => Why::Kept(kind, self.unit),
        }
    }
}

/// Put aside for one sale: always enough for whatever its terms may cost.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) payer: NodeId,
    pub(super) amount: Micro,
    fuel: u64,
    terms: Vec<Term>,
    /// On this day, counted from 1970, it is over.
    pub(super) ends: u64,
}

impl Books {
    pub(super) fn allow(&mut self, payer: NodeId, owner: NodeId, job: JobId, limit: Micro) -> Outcome {
        if owner == payer || limit > Micro::MAX {
            return Err(Refusal::Nonsense);
        }
        let key = (payer, owner, job);
        let known = self.allowances.contains_key(&key);
        if !known && limit > Micro::ZERO {
            let first = (payer, NodeId([0; 32]), JobId([0; 16]));
            let its = self.allowances.range(first..).take_while(|((of, ..), _)| *of == payer);
            let full = its.count() >= self.rules.allowances_each;
            if full || self.allowances.len() >= self.rules.allowances {
                return Err(Refusal::Full);
            }
            // So that it can be answered, and has numbers.
            self.open([owner])?;
        }
        if known || limit > Micro::ZERO {
            let budget = self.allowances.entry(key).or_insert(Budget::new(Micro::ZERO));
            budget.limit(limit);
            self.changed.insert(Row::Allowance(payer, owner, job));
            self.drop_spent(key);
        }
        Ok(())
    }

    /// An allowance of which nothing is bound and nothing is left is none.
    fn drop_spent(&mut self, key: (NodeId, NodeId, JobId)) {
        let empty = |budget: &Budget| budget.bound() == Micro::ZERO && budget.left() == Micro::ZERO;
        if self.allowances.get(&key).is_some_and(empty) {
            self.allowances.remove(&key);
            self.close_unused(key.1);
        }
    }

    /// An account that was opened for an allowance, and has had neither credit nor orders, is closed with it:
    /// so nobody fills the books with accounts of nobody.
    fn close_unused(&mut self, owner: NodeId) {
        let is_unused = self.accounts.get(&owner).is_some_and(Account::is_unused);
        if is_unused && !self.allowances.keys().any(|(_, of, _)| *of == owner) {
            self.accounts.remove(&owner);
            self.changed.insert(Row::Account(owner));
        }
    }

    pub(super) fn hold(
        &mut self,
        owner: NodeId,
        sale: Sale,
        payer: NodeId,
        fuel: u64,
        terms: &[Term],
    ) -> Outcome {
        // A sale that may cost nothing is a gift, and needs no place in the books.
        let needed = most(fuel, terms).filter(|most| *most > Micro::ZERO).ok_or(Refusal::Nonsense)?;
        if terms.iter().any(|term| term.price > Price::MAX) {
            return Err(Refusal::Nonsense);
        }
        let held = match self.holds.get(&(owner, sale)) {
            Some(hold) if hold.payer == payer && hold.fuel == fuel && terms.starts_with(&hold.terms) => {
                hold.amount
            }
            // Terms that a seller was promised stay as they are.
            Some(_) => return Err(Refusal::Nonsense),
            None if self.is_crowded(owner) => return Err(Refusal::Full),
            None => Micro::ZERO,
        };
        // Further terms never make it cheaper.
        let more = needed.minus(held).unwrap_or_default();
        let allowance = (payer, owner, sale.unit.job);
        if payer == COMMONS {
            let usual = |term: &Term| term.price <= self.rules.commons_price && term.fees.is_empty();
            if !self.rules.stewards.contains(&owner) || !terms.iter().all(usual) {
                return Err(Refusal::NotAllowed { needed: more, left: Micro::ZERO });
            }
        } else if payer != owner {
            let left = self.allowances.get(&allowance).map(Budget::left).unwrap_or_default();
            if left < more || !self.allowances.contains_key(&allowance) {
                return Err(Refusal::NotAllowed { needed: more, left });
            }
        }
        self.funds(payer, more)?;
        self.open([owner])?;
        if let Some(budget) = self.allowances.get_mut(&allowance).filter(|_| payer != owner) {
            budget.bind(more).map_err(|short| Refusal::NotAllowed { needed: more, left: short.left })?;
            self.changed.insert(Row::Allowance(payer, owner, sale.unit.job));
        }
        if more > Micro::ZERO {
            self.take(payer, more, sale.held());
        }
        let ends = self.wall_ms / DAY_MS + self.rules.hold_days;
        let hold = Hold { payer, amount: Micro(held.0 + more.0), fuel, terms: terms.to_vec(), ends };
        self.in_holds.0 += more.0;
        if let Some(account) = self.accounts.get_mut(&payer) {
            account.held.0 += more.0;
        }
        if let Some(earlier) = self.holds.insert((owner, sale), hold) {
            self.ends.remove(&(earlier.ends, owner, sale));
        }
        self.ends.insert((ends, owner, sale));
        self.changed.extend([Row::Hold(owner, sale), Row::Account(payer)]);
        Ok(())
    }

    /// Whether the table of sales is full, or nearly and half of it is this owner's.
    fn is_crowded(&self, owner: NodeId) -> bool {
        let (count, most) = (self.holds.len(), self.rules.holds);
        if count < most - most / 4 {
            return false;
        }
        let first = Sale { unit: UnitId { job: JobId([0; 16]), index: 0 }, number: 0, kind: Kind::Cycles };
        let its = self.holds.range((owner, first)..).take_while(|((of, _), _)| *of == owner).count();
        count >= most || its >= most.div_ceil(2)
    }

    pub(super) fn settle(&mut self, owner: NodeId, sale: Sale, used: &[u64]) -> Outcome {
        let hold = self.holds.get(&(owner, sale)).ok_or(Refusal::Over)?;
        let nothing = vec![0; hold.terms.len()];
        let used = if used.is_empty() { &nothing } else { used };
        let shares = due(hold.fuel, &hold.terms, used).ok_or(Refusal::Nonsense)?;
        let mut legs = Vec::new();
        for ((term, share), used) in hold.terms.iter().zip(shares).zip(used) {
            legs.push((term.to, share, sale.earned(term)));
            let fees = term.fees.iter().filter(|_| *used > 0);
            legs.extend(fees.map(|fee| (fee.to, fee.amount, Why::Fee(sale.unit))));
        }
        legs.retain(|(_, amount, _)| *amount > Micro::ZERO);
        let fits = Micro::sum(legs.iter().map(|leg| leg.1)).is_some_and(|sum| sum <= hold.amount);
        if !fits {
            return Err(Refusal::Nonsense);
        }
        self.open(legs.iter().map(|leg| leg.0))?;
        self.end((owner, sale), legs);
        Ok(())
    }

    /// Pays these legs out of a hold, whose sum it covers, and gives the rest back.
    pub(super) fn end(&mut self, key: (NodeId, Sale), legs: Vec<(NodeId, Micro, Why)>) {
        let Some(hold) = self.holds.remove(&key) else { return };
        let (owner, sale) = key;
        self.ends.remove(&(hold.ends, owner, sale));
        self.in_holds.0 -= hold.amount.0;
        if let Some(account) = self.accounts.get_mut(&hold.payer) {
            account.held.0 -= hold.amount.0;
        }
        let mut rest = hold.amount;
        for (to, amount, why) in legs {
            rest.0 -= amount.0;
            self.give(to, amount, why);
        }
        if rest > Micro::ZERO {
            self.give(hold.payer, rest, sale.returned());
        }
        let allowance = (hold.payer, owner, sale.unit.job);
        if let Some(budget) = self.allowances.get_mut(&allowance) {
            budget.free(rest);
            self.changed.insert(Row::Allowance(hold.payer, owner, sale.unit.job));
            self.drop_spent(allowance);
        }
        self.changed.extend([Row::Hold(owner, sale), Row::Account(hold.payer)]);
    }
}
