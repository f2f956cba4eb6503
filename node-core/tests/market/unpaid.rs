//! A buyer that has put nothing aside at the bank buys nothing, where there is a bank.

use crate::market::{SPEED, config, slots};
use node_core::contract::{Receipt, Sale};
use node_core::goods::{Goods, Kind, Scheme};
use node_core::ids::{JobId, NodeId, UnitId};
use node_core::keys::{Secret, Signed};
use node_core::market::seller::{Command, Seller};
use node_core::market::{Message, Take, ToBuyer, ToSeller};
use node_core::money::Price;
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::time::Time;

const ME: NodeId = NodeId([1; 32]);
const BUYER: NodeId = NodeId([2; 32]);
const PRICE: Price = Price(100);

/// Bytes of space that are bought.
const BYTES: u64 = 1 << 20;

fn bank() -> Secret {
    Secret::from_bytes(&[7; 32])
}

fn seller(goods: &[Goods], bank: Option<NodeId>) -> Machine<Seller> {
    let seller = Seller::new(config(Scheme::Single), Secret::from_bytes(&[3; 32]));
    let mut seller = Machine::new(seller, Rng::from_seed([4; 32]));
    for goods in goods {
        seller.step(ME, Time::ZERO, Input::Command(Command::Offer(*goods)));
    }
    if let Some(bank) = bank {
        seller.step(ME, Time::ZERO, Input::Command(Command::Bank(bank)));
    }
    seller
}

/// Whether the seller sells.
fn buys(seller: &mut Machine<Seller>, ticket: u64, kind: Kind, receipt: Option<Signed>) -> bool {
    buys_so_many(seller, 1, (ticket, kind, receipt))
}

fn buys_so_many(
    seller: &mut Machine<Seller>,
    units: u16,
    (ticket, kind, receipt): (u64, Kind, Option<Signed>),
) -> bool {
    let (goods, number) = seller.state().sells(kind).expect("some are left");
    let capacity = if kind == Kind::Cycles { goods.capacity } else { BYTES };
    let take = Take { ticket, kind, number, units, capacity, price: PRICE, receipt };
    let message = Message::ToSeller(ToSeller::Take(Box::new(take)));
    let effects = seller.step(ME, Time::ZERO, Input::Message { from: BUYER, message });
    let answers = effects.into_iter().filter_map(|effect| match effect {
        Effect::Send { to: BUYER, message: Message::ToBuyer(answer) } => Some(answer),
        _ => None,
    });
    let answers: Vec<ToBuyer> = answers.collect();
    match answers[..] {
        [ToBuyer::Taken { .. }] => true,
        [ToBuyer::Gone { .. }] => false,
        ref other => panic!("it was answered {other:?}"),
    }
}

fn good(index: u32) -> Receipt {
    good_for(Kind::Cycles, index)
}

fn good_for(kind: Kind, index: u32) -> Receipt {
    let sale = Sale { unit: UnitId { job: JobId([5; 16]), index }, number: 1, kind };
    let space = vec![(ME, PRICE, BYTES * 600)];
    Receipt { owner: BUYER, sale, to: ME, price: PRICE, fuel: 1000, space }
}

#[test]
fn who_has_put_nothing_aside_buys_no_slot() {
    let mut seller = seller(&[slots(SPEED, 3, 100)], Some(bank().node()));
    let other = NodeId([9; 32]);
    let bad = [
        None,
        Some(good(0).sign(&Secret::from_bytes(&[8; 32]))),
        Some(Receipt { owner: other, ..good(0) }.sign(&bank())),
        Some(Receipt { to: other, ..good(0) }.sign(&bank())),
        Some(Receipt { price: Price(99), ..good(0) }.sign(&bank())),
        Some(Receipt { fuel: 0, ..good(0) }.sign(&bank())),
    ];
    for (ticket, receipt) in bad.into_iter().enumerate() {
        assert!(!buys(&mut seller, ticket as u64, Kind::Cycles, receipt.clone()), "{receipt:?}");
    }
    let receipt = Some(good(0).sign(&bank()));
    assert!(!buys_so_many(&mut seller, 3, (9, Kind::Cycles, receipt)), "a receipt is for one place");
    assert!(buys(&mut seller, 10, Kind::Cycles, Some(good(0).sign(&bank()))));
    assert!(!buys(&mut seller, 11, Kind::Cycles, Some(good(0).sign(&bank()))), "a receipt buys once");
    assert!(buys(&mut seller, 12, Kind::Cycles, Some(good(1).sign(&bank()))));
}

#[test]
fn who_has_put_nothing_aside_has_nothing_kept() {
    let space = Goods { kind: Kind::Files, capacity: 1 << 30, ..slots(SPEED, 1, 100) };
    let mut seller = seller(&[space], Some(bank().node()));
    let other = NodeId([9; 32]);
    for space in [vec![], vec![(other, PRICE, BYTES * 600)], vec![(ME, PRICE, BYTES)]] {
        let receipt = Receipt { space, ..good_for(Kind::Files, 0) };
        assert!(!buys(&mut seller, 1, Kind::Files, Some(receipt.sign(&bank()))), "{receipt:?}");
    }
    // Credit that is put aside for a unit's place and its checkpoints buys no space for files.
    assert!(!buys(&mut seller, 2, Kind::Files, Some(good(0).sign(&bank()))));
    assert!(buys(&mut seller, 3, Kind::Files, Some(good_for(Kind::Files, 0).sign(&bank()))));
}

#[test]
fn without_a_bank_sellers_believe_buyers() {
    assert!(buys(&mut seller(&[slots(SPEED, 1, 100)], None), 1, Kind::Cycles, None));
}
