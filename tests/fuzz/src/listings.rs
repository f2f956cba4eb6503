//! Words that peers have signed, rightly: listings, records, receipts, and orders to the bank.

use crate::bend::Bend;
use crate::desk::{CLOCK, JOB, cast, contact, secret};
use crate::edit::{Edit, apply};
use crate::gauge::within;
use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use node_core::contract::{Fee, Goods as Paid, Order, Receipt, Sale, Term};
use node_core::goods::Goods;
use node_core::goods::Kind as Of;
use node_core::goods::Rule;
use node_core::keys::Signed;
use node_core::ledger::bank::{Bank, Command, Event};
use node_core::ledger::books::Rules;
use node_core::ledger::{COMMONS, Message, PURPOSE, ToBank, ToClient, WINDOW};
use node_core::market::listing::{AHEAD, Listing};
use node_core::money::{Micro, Price};
use node_core::protocol::{Effect, Input as In, Machine, Rng};
use node_core::record::Key;
use node_core::records::{Record, RecordsConfig, VALUE};
use node_core::{BlobId, Platform, Time, UnitId};
use serde::Serialize;
use std::sync::LazyLock;

#[derive(Arbitrary, Debug)]
enum Input {
    Listing(Change),
    Record(bool, Change),
    Receipt(Change),
    Bank(Vec<Letter>),
}

/// One change of what is signed, and whether it is signed again.
#[derive(Arbitrary, Debug)]
struct Change {
    bends: Vec<Bend>,
    edits: Vec<Edit>,
    signed: bool,
}

/// A message of orders.
#[derive(Arbitrary, Debug)]
struct Letter {
    who: u8,
    orders: Vec<(u8, u16)>,
    change: Change,
}

/// More would only be slow.
const MOST: usize = 8;
const MOST_ORDERS: usize = 20;

/// The bound of opening: signed words are short, and read once.
const BOUND: usize = 2 << 20;

/// The bound of the bank after a few messages.
const BANK: usize = 16 << 20;

/// The credit that its operator gives.
const INVITED: u64 = 1_000_000_000;

pub fn listings(data: &[u8]) -> u64 {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return 0 };
    match input {
        Input::Listing(change) => 1 + u64::from(listing(&change)),
        Input::Record(name, change) => 3 + 2 * u64::from(name) + u64::from(record(name, &change)),
        Input::Receipt(change) => 7 + u64::from(receipt(&change)),
        Input::Bank(letters) => 9 + within(BANK, || bank(&letters)),
    }
}

/// Changes signed words, and signs them again for the same purpose.
fn changed(honest: &Signed, purpose: &str, who: usize, change: &Change) -> Signed {
    let body = altered(&honest.body, change);
    match change.signed {
        true => Signed::new(secret(who), purpose, body),
        false => Signed { body, ..honest.clone() },
    }
}

fn altered(body: &[u8], change: &Change) -> Bytes {
    let mut value = rmpv::decode::read_value(&mut &body[..]).expect("it is MessagePack");
    change.bends.iter().take(MOST).for_each(|bend| bend.apply(&mut value));
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &value).expect("into memory");
    apply(&change.edits, &mut bytes);
    bytes.into()
}

fn listing(change: &Change) -> bool {
    const PURPOSE: &str = "manyhands 2026-11 listing in a market";
    static HONEST: LazyLock<Signed> = LazyLock::new(|| {
        let goods = Goods {
            kind: Of::Cycles,
            capacity: 1 << 30,
            units: 4,
            minutes: 30,
            cost: Price(5),
            engine: Platform::Native,
            memory_mib: 2048,
        };
        let listing = Listing { seller: contact(1).into(), goods, number: 3, expires_ms: CLOCK + 60_000 };
        let signed = listing.sign(secret(1));
        assert!(signed.open(PURPOSE).is_some(), "this is what listings are signed for");
        signed
    });
    let signed = changed(&HONEST, PURPOSE, 1, change);
    let mut good = false;
    for rule in [Rule::ReverseVickrey, Rule::MaxMin] {
        let Ok((market, listing)) = within(BOUND, || Listing::open(&signed, rule, CLOCK)) else { continue };
        good = true;
        assert!(change.signed || signed.body == HONEST.body, "what nobody signed was believed");
        assert_eq!(listing.id(), signed.by);
        assert_eq!(Some(market), listing.goods.market());
        assert!(listing.expires_ms > CLOCK && listing.expires_ms - CLOCK <= AHEAD.as_millis() as u64);
        assert!(listing.goods.units > 0 && listing.goods.minutes > 0);
    }
    good
}

fn record(name: bool, change: &Change) -> bool {
    const PURPOSE: &str = "manyhands 2026-11 record on the ring";
    static HONEST: LazyLock<[Signed; 2]> = LazyLock::new(|| {
        [Key::Keepers(BlobId([4; 32])), Key::Name("a name".into())].map(|key| {
            let value = Some(Bytes::from_static(b"a value"));
            let record = Record { key, number: 3, expires_ms: CLOCK + 60_000, value };
            let signed = Signed::new(secret(1), PURPOSE, packed(&record));
            let opened = Record::open(&signed, &RecordsConfig::default(), CLOCK);
            assert_eq!(opened, Ok(record), "this is what records are signed for");
            signed
        })
    });
    let honest = &HONEST[usize::from(name)];
    let signed = changed(honest, PURPOSE, 1, change);
    let Ok(record) = within(BOUND, || Record::open(&signed, &RecordsConfig::default(), CLOCK)) else {
        return false;
    };
    assert!(change.signed || signed.body == honest.body, "what nobody signed was believed");
    assert!(record.key.check().is_ok() && record.value.is_none_or(|value| value.len() <= VALUE));
    true
}

fn receipt(change: &Change) -> bool {
    const PURPOSE: &str = "manyhands 2026 what a bank holds";
    static HONEST: LazyLock<Signed> = LazyLock::new(|| {
        let receipt = Receipt {
            owner: cast()[2],
            sale: sale(),
            to: cast()[0],
            price: Price(5),
            fuel: 6,
            space: Vec::new(),
        };
        let signed = receipt.sign(secret(1));
        assert!(signed.open(PURPOSE).is_some(), "this is what receipts are signed for");
        signed
    });
    let signed = changed(&HONEST, PURPOSE, 1, change);
    assert!(within(BOUND, || Receipt::open(&signed, cast()[2])).is_none(), "another's word was believed");
    let opened = within(BOUND, || Receipt::open(&signed, cast()[1])).is_some();
    assert!(!opened || change.signed || signed.body == HONEST.body, "what nobody signed was believed");
    opened
}

fn sale() -> Sale {
    Sale { unit: UnitId { job: JOB, index: 0 }, number: 0, kind: Of::Cycles }
}

fn packed(what: &impl Serialize) -> Bytes {
    rmp_serde::to_vec(what).expect("it encodes").into()
}

/// A bank whose operator has made one invite, and whose disk is as fast as it is.
struct Desk {
    bank: Machine<Bank>,
    now: Time,
    code: [u8; 16],
    faults: u64,
    answers: u64,
}

impl Desk {
    fn open() -> Desk {
        let rules = Rules { stewards: [cast()[2]].into(), ..Rules::default() };
        let bank = Machine::new(Bank::new(rules).signing(secret(0).clone()), Rng::from_seed([0; 32]));
        let mut desk = Desk { bank, now: Time(1_000_000), code: [0; 16], faults: 0, answers: 0 };
        desk.step(In::Command(Command::WallClock(CLOCK)));
        desk.step(In::Command(Command::Restore(Vec::new())));
        desk.step(In::Command(Command::Invite { number: 1, amount: Micro(INVITED) }));
        assert_ne!(desk.code, [0; 16], "the bank is open");
        desk
    }

    fn step(&mut self, input: node_core::protocol::InputOf<Bank>) {
        let mut next = vec![input];
        while let Some(input) = next.pop() {
            for effect in self.bank.step(cast()[0], self.now, input) {
                match effect {
                    Effect::Emit(Event::Commit { ticket, .. }) => {
                        next.push(In::Command(Command::Answered { ticket, result: Ok(()) }));
                    }
                    Effect::Emit(Event::Read { ticket, .. }) => {
                        next.push(In::Command(Command::Read { ticket, entries: Ok(Vec::new()) }));
                    }
                    Effect::Emit(Event::Invited { made, .. }) => self.code = made.unwrap_or_default(),
                    Effect::Fault { fault, .. } => {
                        assert!(fault.len() <= 1000, "{} bytes are said of a bad order", fault.len());
                        self.faults += 1;
                    }
                    Effect::Send { message: Message::ToClient(said), .. } => {
                        self.answers += 1;
                        if let ToClient::Outcomes(outcomes) = said {
                            assert!(outcomes.len() <= node_core::ledger::ORDERS);
                        }
                    }
                    _ => {}
                }
            }
        }
        let books = self.bank.state().books();
        assert!(books.balances(), "credit came from nowhere, or went there");
    }
}

fn bank(letters: &[Letter]) -> u64 {
    let mut desk = Desk::open();
    for letter in letters.iter().take(MOST) {
        let who = 1 + usize::from(letter.who) % 3;
        let orders = letter.orders.iter().take(MOST_ORDERS);
        let orders: Vec<(u64, Order)> = orders
            .map(|(which, number)| (1 + u64::from(*number) % (2 * WINDOW), order(*which, who, desk.code)))
            .collect();
        let body = packed(&(cast()[0], orders));
        let honest = Signed::new(secret(who), PURPOSE, body);
        let signed = changed(&honest, PURPOSE, who, &letter.change);
        let message = Message::ToBank(ToBank::Orders(signed));
        desk.step(In::Message { from: cast()[who], message });
        desk.now = desk.now + std::time::Duration::from_secs(1);
    }
    let books = desk.bank.state().books();
    let had: u64 = (1..=3).map(|who| books.balance(cast()[who]).0).sum();
    let commons = Rules::default().commons_most.0;
    assert!(had <= INVITED + commons, "{had} is more than was ever given");
    2 * u64::from(desk.faults > 0) + u64::from(had > 0)
}

fn order(which: u8, who: usize, code: [u8; 16]) -> Order {
    let other = cast()[1 + who % 3];
    let fees = vec![Fee { to: cast()[3], amount: Micro(7) }];
    let cycles = Term { to: other, goods: Paid::Cycles, price: Price(1000), fees };
    let space = Term { to: other, goods: Paid::Space { most: 1 << 30 }, price: Price(3), fees: Vec::new() };
    let payer = [cast()[who], other, COMMONS][usize::from(which / 16) % 3];
    let fuel = 1_000_000_000;
    match which % 9 {
        0 => Order::Begin,
        1 => Order::Redeem { code },
        2 => Order::Redeem { code: [9; 16] },
        3 => Order::Transfer { to: other, amount: Micro(INVITED / 3) },
        4 => Order::Allow { owner: other, job: JOB, most: Micro(500_000) },
        5 => Order::Hold { sale: sale(), payer, fuel, terms: vec![cycles] },
        6 => Order::Hold { sale: sale(), payer, fuel, terms: vec![cycles, space] },
        7 => Order::Settle { sale: sale(), used: vec![fuel / 2] },
        _ => Order::Settle { sale: sale(), used: vec![fuel / 4, 1 << 20] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_honest_node_is_believed_and_its_orders_are_carried_out() {
        let honest = || Change { bends: Vec::new(), edits: Vec::new(), signed: true };
        assert!(listing(&honest()) && receipt(&honest()));
        assert!(record(true, &honest()) && record(false, &honest()));
        let redeems = Letter { who: 0, orders: vec![(1, 0), (3, 1), (5, 2)], change: honest() };
        assert_eq!(bank(&[redeems]), 1, "no fault, and somebody has credit");
    }
}
