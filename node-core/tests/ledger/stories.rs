use crate::ledger::support::*;
use node_core::contract::{Fee, Goods, Order, Refusal, Term, most};
use node_core::keys::Signed;
use node_core::ledger::bank::{Command, NotInvited};
use node_core::ledger::books::Rules;
use node_core::ledger::{COMMONS, ToBank, ToClient, Why};
use node_core::money::{Micro, Price};
use node_core::{JobId, NodeId};
use std::collections::BTreeMap;

const OWNER: u8 = 1;
const SELLER: u8 = 2;
const OTHER: u8 = 3;
const MARKET: u8 = 4;
const KEEPER: u8 = 5;
const BILLION: u64 = Price::PER;

fn desk() -> Desk {
    let mut desk = Desk::open(Rules::default());
    desk.endow(OWNER, 1000);
    desk
}

fn hold(n: u32, payer: u8, fuel: u64, terms: Vec<Term>) -> Order {
    Order::Hold { sale: sale(n), payer: node(payer), fuel, terms }
}

fn settle(n: u32, used: &[u64]) -> Order {
    Order::Settle { sale: sale(n), used: used.to_vec() }
}

fn everybody() -> Vec<NodeId> {
    (0..10).map(node).chain([COMMONS]).collect()
}

#[test]
fn a_unit_is_paid_for_what_it_used_and_the_rest_comes_back() {
    let mut desk = desk();
    assert_eq!(desk.order(OWNER, hold(1, OWNER, 10 * BILLION, vec![cycles(node(SELLER), 30)])), Ok(()));
    assert_eq!((desk.has(OWNER), desk.has(SELLER)), (700, 0));
    assert_eq!(desk.order(OWNER, settle(1, &[4 * BILLION + 1])), Ok(()));
    assert_eq!((desk.has(OWNER), desk.has(SELLER)), (879, 121), "rounded up, once");
    desk.audit(everybody());
}

#[test]
fn two_settlements_of_one_unit_pay_once() {
    let mut desk = desk();
    desk.order(OWNER, hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)])).unwrap();
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Ok(()));
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Err(Refusal::Over));
    desk.restart();
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Err(Refusal::Over));
    assert_eq!((desk.has(OWNER), desk.has(SELLER)), (970, 30));
    desk.audit(everybody());
}

#[test]
fn successive_runners_market_owner_and_keeper_share_one_settlement() {
    let mut desk = desk();
    let fee = |amount| vec![Fee { to: node(MARKET), amount: Micro(amount) }];
    let first = Term { fees: fee(7), ..cycles(node(SELLER), 30) };
    let second = Term { fees: fee(5), ..cycles(node(OTHER), 40) };
    let idle = Term { fees: fee(100), ..cycles(node(9), 1) };
    let space = Term { goods: Goods::Space { most: 2 * BILLION }, ..cycles(node(KEEPER), 3) };
    desk.order(OWNER, hold(1, OWNER, 10 * BILLION, vec![first.clone(), space.clone()])).unwrap();
    assert_eq!(desk.has(OWNER), 1000 - 300 - 6 - 7);
    // It moves on to a dearer one: only what is missing is put aside.
    let terms = vec![first, space, second, idle];
    desk.order(OWNER, hold(1, OWNER, 10 * BILLION, terms.clone())).unwrap();
    assert_eq!(most(10 * BILLION, &terms), Some(Micro(400 + 6 + 112)));
    assert_eq!(desk.has(OWNER), 1000 - 518);
    // Halves of a micro-credit: 30 · 2.25 + 3 · 0.5 + 40 · 1.125 = 114 in all.
    let used = [2_250_000_000, 500_000_000, 1_125_000_000, 0];
    assert_eq!(desk.order(OWNER, settle(1, &used)), Ok(()));
    assert_eq!((desk.has(SELLER), desk.has(KEEPER), desk.has(OTHER)), (68, 1, 45));
    assert_eq!(desk.has(MARKET), 12, "who named a seller that did nothing gets nothing for it");
    assert_eq!(desk.has(OWNER), 1000 - 114 - 12);
    desk.audit(everybody());
}

#[test]
fn what_a_seller_was_promised_stays() {
    let mut desk = desk();
    let promised = hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)]);
    assert_eq!(desk.order(OWNER, promised.clone()), Ok(()));
    for changed in [
        hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 29)]),
        hold(1, OWNER, BILLION, vec![cycles(node(OTHER), 30)]),
        hold(1, OWNER, BILLION - 1, vec![cycles(node(SELLER), 30)]),
        hold(1, OTHER, BILLION, vec![cycles(node(SELLER), 30)]),
        hold(1, OWNER, BILLION, vec![]),
    ] {
        assert_eq!(desk.order(OWNER, changed), Err(Refusal::Nonsense));
    }
    assert_eq!(desk.order(OWNER, promised), Ok(()), "the same again is no news");
    assert_eq!(desk.has(OWNER), 970);
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION + 1])), Err(Refusal::Nonsense), "above the limit");
    assert_eq!(desk.order(OWNER, settle(1, &[1, 1])), Err(Refusal::Nonsense));
    assert_eq!(desk.order(OWNER, settle(1, &[])), Ok(()), "a cancelled unit costs nothing");
    assert_eq!(desk.has(OWNER), 1000);
    desk.audit(everybody());
}

#[test]
fn a_buyer_without_funds_buys_nothing() {
    let mut desk = desk();
    let dear = hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 1001)]);
    let short = Refusal::NoFunds { has: Micro(1000), needed: Micro(1001) };
    assert_eq!(desk.order(OWNER, dear.clone()), Err(short));
    assert_eq!(short.to_string(), "the payer has 0.001000 credits and 0.001001 are needed");
    // Later credit does not revive an order that was refused.
    let refused = desk.order_as(OWNER, 500, dear.clone());
    desk.endow(OTHER, 50);
    desk.order(OTHER, Order::Transfer { to: node(OWNER), amount: Micro(50) }).unwrap();
    assert_eq!(desk.order_as(OWNER, 500, dear.clone()), refused);
    assert_eq!(desk.order_as(OWNER, 501, dear), Ok(()));
    assert_eq!(desk.order_as(OWNER, 502, Order::Transfer { to: node(OTHER), amount: Micro(50) }), {
        Err(Refusal::NoFunds { has: Micro(49), needed: Micro(50) })
    });
    desk.audit(everybody());
}

#[test]
fn nobody_spends_what_is_not_its_own() {
    let mut desk = desk();
    desk.endow(OTHER, 10);
    let theirs = hold(1, OWNER, BILLION, vec![cycles(node(OTHER), 30)]);
    let refused = Refusal::NotAllowed { needed: Micro(30), left: Micro(0) };
    assert_eq!(desk.order(OTHER, theirs.clone()), Err(refused));
    // With the payer's word, up to its limit, for that job and that owner.
    let job = sale(1).unit.job;
    let allow = |most| Order::Allow { owner: node(OTHER), job, most: Micro(most) };
    assert_eq!(desk.order(OWNER, allow(50)), Ok(()));
    assert_eq!(desk.order(OTHER, theirs), Ok(()));
    assert_eq!((desk.has(OWNER), desk.has(OTHER)), (970, 10));
    let second = hold(2, OWNER, BILLION, vec![cycles(node(SELLER), 30)]);
    let refused = Refusal::NotAllowed { needed: Micro(30), left: Micro(20) };
    assert_eq!(desk.order(OTHER, second.clone()), Err(refused));
    // The payer does not settle another's sale, nor does the seller.
    assert_eq!(desk.order(OWNER, settle(1, &[])), Err(Refusal::Over));
    // Credit that is paid stays used up; credit that comes back can be bound again.
    assert_eq!(desk.order(OTHER, settle(1, &[BILLION / 3])), Ok(()));
    assert_eq!((desk.has(OWNER), desk.has(OTHER)), (990, 20));
    assert_eq!(desk.order(OTHER, second.clone()), Ok(()));
    desk.restart();
    assert_eq!(desk.order(OWNER, allow(0)), Ok(()), "and what is bound stays bound");
    assert!(desk.order(OTHER, hold(3, OWNER, BILLION, vec![cycles(node(SELLER), 1)])).is_err());
    assert_eq!(desk.order(OTHER, settle(2, &[BILLION])), Ok(()));
    assert_eq!(desk.has(SELLER), 30);
    desk.audit(everybody());
}

#[test]
fn forged_orders_are_faults_and_move_nothing() {
    let mut desk = desk();
    let theft = Order::Transfer { to: node(OTHER), amount: Micro(1000) };
    // Signed by the thief, in the victim's name.
    let mut forged = orders(&secret(OTHER), BANK, &[(50, theft.clone())]);
    forged.by = node(OWNER);
    assert_eq!(desk.send(node(OTHER), forged), None);
    assert!(desk.faults[0].contains("has not signed"), "{:?}", desk.faults);
    // Signed by the victim, and changed on the way.
    let small = Order::Transfer { to: node(OTHER), amount: Micro(1) };
    let honest = orders(&secret(OWNER), BANK, &[(50, small)]);
    let bytes: Vec<u8> = honest.body.to_vec();
    let changed = bytes.iter().rposition(|byte| *byte == 1).unwrap();
    let mut bytes = bytes;
    bytes[changed] = 99;
    assert_eq!(desk.send(node(OTHER), Signed { body: bytes.into(), ..honest }), None);
    // Signed by the victim, for another bank or as another thing.
    assert_eq!(desk.send(node(OTHER), orders(&secret(OWNER), node(9), &[(50, theft)])), None);
    assert_eq!(desk.send(node(OTHER), signed_bytes(&secret(OWNER), vec![0xc1])), None);
    assert_eq!(desk.send(node(OTHER), signed_bytes(&secret(OWNER), vec![0; 300 << 10])), None);
    let many: Vec<(u64, Order)> = (1..300).map(|n| (n, Order::Begin)).collect();
    assert_eq!(desk.send(node(OTHER), orders(&secret(OWNER), BANK, &many)), None);
    assert_eq!(desk.faults.len(), 6, "{:?}", desk.faults);
    assert_eq!((desk.has(OWNER), desk.has(OTHER)), (1000, 0));
    assert_eq!(
        desk.send(COMMONS, orders(&secret(7), BANK, &[(1, Order::Begin)])),
        Some(Err(Refusal::NoAccount))
    );
}

#[test]
fn a_replayed_transfer_moves_nothing_soon_late_or_after_a_restart() {
    let mut desk = desk();
    let signed =
        orders(&secret(OWNER), BANK, &[(7, Order::Transfer { to: node(OTHER), amount: Micro(100) })]);
    assert_eq!(desk.send(node(OWNER), signed.clone()), Some(Ok(())));
    assert_eq!(desk.send(node(OTHER), signed.clone()), Some(Ok(())), "the answer is the same");
    desk.restart();
    assert_eq!(desk.send(node(OTHER), signed.clone()), Some(Ok(())));
    let other = Order::Transfer { to: node(OTHER), amount: Micro(101) };
    assert_eq!(desk.order_as(OWNER, 7, other), Err(Refusal::NumberTaken));
    desk.order_as(OWNER, 7 + 1024, Order::Begin).unwrap();
    assert_eq!(desk.send(node(OTHER), signed.clone()), Some(Err(Refusal::TooLate)));
    assert_eq!(desk.order_as(OWNER, 7 + 1024 + 2049, Order::Begin), Err(Refusal::TooEarly));
    desk.restart();
    assert_eq!(desk.send(node(OTHER), signed), Some(Err(Refusal::TooLate)));
    assert_eq!((desk.has(OWNER), desk.has(OTHER)), (900, 100));
    desk.audit(everybody());
}

#[test]
fn amounts_that_make_no_sense_are_refused() {
    let mut desk = desk();
    for amount in [0, (1 << 53), u64::MAX] {
        let order = Order::Transfer { to: node(OTHER), amount: Micro(amount) };
        assert_eq!(desk.order(OWNER, order), Err(Refusal::Nonsense), "{amount}");
    }
    let to_itself = Order::Transfer { to: node(OWNER), amount: Micro(1) };
    assert_eq!(desk.order(OWNER, to_itself), Err(Refusal::Nonsense));
    let fees = |amounts: &[u64]| {
        let fees = amounts.iter().map(|amount| Fee { to: node(MARKET), amount: Micro(*amount) }).collect();
        vec![Term { fees, ..cycles(node(SELLER), 1) }]
    };
    for terms in [
        vec![cycles(node(SELLER), u64::MAX)],
        fees(&[u64::MAX, u64::MAX]),
        fees(&[1; 5]),
        vec![cycles(node(SELLER), 1); 65],
    ] {
        assert_eq!(desk.order(OWNER, hold(1, OWNER, u64::MAX, terms)), Err(Refusal::Nonsense));
    }
    // Below zero there is nothing: it is no order at all.
    let transfer = |amount: i64| {
        let order = BTreeMap::from([("Transfer", (node(OTHER), amount))]);
        let bytes = rmp_serde::to_vec(&(BANK, [(99u64, order)])).unwrap();
        signed_bytes(&secret(OWNER), bytes)
    };
    assert_eq!(desk.send(node(OWNER), transfer(-5)), None);
    assert_eq!(desk.send(node(OWNER), transfer(5)), Some(Ok(())));
    assert!(desk.faults[0].contains("no orders"), "{:?}", desk.faults);
    for amount in [0, 1 << 53, u64::MAX] {
        desk.command(Command::Invite { number: 1, amount: Micro(amount) });
        assert_eq!(desk.invited.pop(), Some(Err(NotInvited::Refused(Refusal::Nonsense))));
    }
    assert_eq!(desk.has(OWNER), 995);
    desk.audit(everybody());
}

#[test]
fn codes_of_invites_are_not_guessed_by_the_message() {
    let mut desk = Desk::open(Rules::default());
    desk.command(Command::Invite { number: 1, amount: Micro(10) });
    let code = desk.invited.pop().unwrap().unwrap();
    let redeem = |code| Order::Redeem { code };
    let mut guesses: Vec<(u64, Order)> = (1..256).map(|n| (n, redeem([n as u8; 16]))).collect();
    guesses.push((256, redeem(code)));
    desk.said.clear();
    desk.hear(node(OTHER), ToBank::Orders(orders(&secret(OTHER), BANK, &guesses)));
    let Some((_, ToClient::Outcomes(outcomes))) = desk.said.pop() else { panic!("it is answered") };
    assert_eq!(outcomes[0], (1, Err(Refusal::NoInvite)));
    assert!(outcomes[1..].iter().all(|(_, outcome)| *outcome == Err(Refusal::Full)), "one guess a message");
    assert_eq!(desk.faults.len(), 1, "and ten such faults end the connection: {:?}", desk.faults);
    assert_eq!(desk.order(OTHER, redeem(code)), Ok(()), "with the right one it is let in");
}

#[test]
fn there_is_no_credit_without_an_invite_and_an_invite_counts_once() {
    let mut desk = Desk::open(Rules::default());
    assert_eq!(desk.order(OTHER, Order::Begin), Err(Refusal::NoAccount));
    assert_eq!(desk.order(OTHER, Order::Redeem { code: [5; 16] }), Err(Refusal::NoInvite));
    desk.command(Command::Invite { number: 1, amount: Micro(10) });
    let code = desk.invited.pop().unwrap().unwrap();
    desk.restart();
    assert_eq!(desk.order(OTHER, Order::Redeem { code }), Ok(()));
    assert_eq!(desk.order(OTHER, Order::Redeem { code }), Err(Refusal::NoInvite));
    assert_eq!(desk.order(SELLER, Order::Redeem { code }), Err(Refusal::NoInvite));
    assert_eq!(desk.has(OTHER), 10);
    desk.audit(everybody());
}

#[test]
fn the_commons_pays_for_verified_work_within_its_bounds() {
    let rules = Rules {
        stewards: [node(OWNER)].into(),
        commons_a_day: Micro(100),
        commons_most: Micro(250),
        commons_price: Price(50),
        ..Rules::default()
    };
    let mut desk = Desk::open(rules);
    let of_commons = |n, price| Order::Hold {
        sale: sale(n),
        payer: COMMONS,
        fuel: BILLION,
        terms: vec![cycles(node(SELLER), price)],
    };
    assert!(matches!(desk.order(OWNER, of_commons(1, 50)), Err(Refusal::NoFunds { .. })));
    desk.command(Command::WallClock(20_000 * DAY_MS));
    desk.command(Command::WallClock(20_000 * DAY_MS + 5));
    assert_eq!(desk.books().balance(COMMONS), Micro(100));
    // Only on a steward's word, and at no more than the usual price.
    assert!(matches!(desk.order(OTHER, of_commons(1, 50)), Err(Refusal::NoAccount)));
    desk.endow(OTHER, 1);
    assert!(matches!(desk.order(OTHER, of_commons(1, 50)), Err(Refusal::NotAllowed { .. })));
    assert!(matches!(desk.order(OWNER, of_commons(1, 51)), Err(Refusal::NotAllowed { .. })));
    assert_eq!(desk.order(OWNER, of_commons(1, 50)), Ok(()));
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Ok(()));
    assert_eq!(desk.has(SELLER), 50);
    // A part a day, up to a bound, and none for days that the bank was not there.
    for day in [20_000, 20_001, 20_010, 20_011, 20_005, 20_012] {
        desk.command(Command::WallClock(day * DAY_MS));
        desk.restart();
    }
    assert_eq!(desk.books().balance(COMMONS), Micro(250));
    desk.audit(everybody());
}

#[test]
fn what_is_never_settled_comes_back_after_a_month() {
    let mut desk = desk();
    desk.command(Command::WallClock(20_000 * DAY_MS));
    desk.order(OWNER, hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)])).unwrap();
    desk.command(Command::WallClock(20_029 * DAY_MS));
    assert_eq!(desk.has(OWNER), 970);
    desk.restart();
    desk.command(Command::WallClock(20_030 * DAY_MS));
    assert_eq!(desk.has(OWNER), 1000);
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Err(Refusal::Over));
    desk.audit(everybody());
}

#[test]
fn a_bank_that_does_not_know_the_time_is_closed_and_what_it_holds_is_not_over() {
    const TODAY: u64 = 20_000 * DAY_MS;
    let holds = |n| hold(n, OWNER, BILLION, vec![cycles(node(SELLER), 30)]);
    let mut desk = desk();
    desk.command(Command::WallClock(TODAY));
    // It is told the time before its books are read, between, after, or with a clock that nobody has set.
    for (n, told) in [[TODAY, 0, 0], [0, TODAY, 0], [0, 0, TODAY]].into_iter().enumerate() {
        desk.stop();
        desk.command(Command::WallClock(told[0]));
        desk.command(Command::Invite { number: 1, amount: Micro(1) });
        assert_eq!(desk.invited.pop(), Some(Err(NotInvited::Closed)));
        desk.wait(60);
        desk.command(Command::WallClock(told[1]));
        desk.read_books();
        assert_eq!(desk.ready, told[2] == 0, "{told:?}");
        if !desk.ready {
            let order = orders(&secret(OWNER), BANK, &[(9, holds(9))]);
            assert_eq!(desk.send(node(OWNER), order), None, "not answered, so it comes again");
            desk.command(Command::WallClock(told[2]));
            assert!(desk.ready);
        }
        let number = n as u32 + 1;
        assert_eq!(desk.order(OWNER, holds(number)), Ok(()));
        desk.command(Command::WallClock(TODAY + 120_000));
        assert!(desk.books().holds(node(OWNER), sale(number)), "{told:?}: it is not over");
        let at = desk.statement(OWNER, u64::MAX, 1).lines[0].at_ms;
        assert_eq!(at, TODAY + if n == 0 { 60_000 } else { 0 }, "the time goes on while books are read");
    }
    desk.audit(everybody());
}

#[test]
fn nothing_is_answered_before_it_is_durable_and_what_was_answered_survives() {
    let mut desk = desk();
    desk.slow = true;
    let pay =
        |n: u64| orders(&secret(OWNER), BANK, &[(n, Order::Transfer { to: node(OTHER), amount: Micro(1) })]);
    assert_eq!(desk.send(node(OWNER), pay(10)), None);
    // These wait for the first and share the next commit; a repetition is not answered earlier.
    assert_eq!(desk.send(node(OWNER), pay(10)), None);
    assert_eq!(desk.send(node(OWNER), pay(11)), None);
    desk.hear(node(OTHER), ToBank::Statement { number: 1, from: u64::MAX, limit: 10 });
    assert!(desk.said.is_empty());
    desk.write();
    assert_eq!(desk.said.len(), 1);
    desk.write();
    assert_eq!(desk.said.len(), 4);
    assert_eq!(desk.send(node(OWNER), pay(12)), None);
    desk.restart();
    assert_eq!(desk.has(OTHER), 2, "what was not durable is lost");
    desk.slow = false;
    assert_eq!(desk.send(node(OWNER), pay(12)), Some(Ok(())), "and is done when it comes again");
    assert_eq!(desk.has(OTHER), 3);
    desk.audit(everybody());
}

#[test]
fn a_full_disk_stops_the_bank_and_loses_nothing() {
    let mut desk = desk();
    desk.full = true;
    let pay =
        |n: u64| orders(&secret(OWNER), BANK, &[(n, Order::Transfer { to: node(OTHER), amount: Micro(1) })]);
    for number in 10..200 {
        assert_eq!(desk.send(node(OWNER), pay(number)), None);
    }
    assert!(desk.troubles[0].contains("could not be written"));
    desk.wait(5);
    desk.full = false;
    desk.wait(5);
    // Orders that did not fit the queue were dropped before they did anything.
    let done = desk.disk.replay[&node(OTHER)];
    assert!((1..190).contains(&done), "{done}");
    for number in 10..200 {
        assert_eq!(desk.send(node(OWNER), pay(number)), Some(Ok(())));
    }
    assert_eq!(desk.has(OTHER), 190);
    desk.audit(everybody());
}

#[test]
fn a_statement_comes_in_pages_and_says_why() {
    let mut desk = Desk::open(Rules { lines: 50, ..Rules::default() });
    desk.command(Command::WallClock(77));
    desk.endow(OWNER, 1000);
    desk.order(OWNER, hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)])).unwrap();
    desk.order(OWNER, settle(1, &[BILLION / 2])).unwrap();
    let page = desk.statement(OWNER, 0, 10);
    let unit = sale(1).unit;
    let whys: Vec<(i64, u64, Why)> = page.lines.iter().map(|l| (l.amount, l.balance.0, l.why)).collect();
    assert_eq!(
        whys,
        [(1000, 1000, Why::Invite), (-30, 970, Why::Held(unit)), (15, 985, Why::Returned(unit))]
    );
    assert_eq!((page.balance, page.held, page.first, page.all), (Micro(985), Micro(0), 0, 3));
    assert_eq!(page.lines[0].at_ms, 77);
    let page = desk.statement(SELLER, u64::MAX, 10);
    assert_eq!((page.balance, page.lines[0].why), (Micro(15), Why::Earned(unit)));
    for _ in 0..100 {
        desk.order(OWNER, Order::Transfer { to: node(OTHER), amount: Micro(1) }).unwrap();
    }
    // The oldest are gone; the newest are a page away, and pages join.
    let page = desk.statement(OWNER, 0, 20);
    assert_eq!((page.first, page.all, page.lines.len()), (53, 103, 20));
    let next = desk.statement(OWNER, page.first + 20, 20);
    assert_eq!((next.first, next.lines[0].balance.0), (73, page.lines[19].balance.0 - 1));
    let newest = desk.statement(OWNER, u64::MAX, 1);
    assert_eq!((newest.first, newest.lines[0].balance), (102, newest.balance));
    assert_eq!(desk.statement(9, 0, 10).lines, []);
    desk.audit(everybody());
}

#[test]
fn full_tables_refuse_and_pay_nobody_twice() {
    let mut desk = Desk::open(Rules { accounts: 2, holds: 1, allowances: 1, invites: 1, ..Rules::default() });
    desk.endow(OWNER, 1000);
    desk.endow(OTHER, 1000);
    desk.command(Command::Invite { number: 1, amount: Micro(1) });
    assert!(desk.invited.pop().unwrap().is_ok());
    desk.command(Command::Invite { number: 1, amount: Micro(1) });
    assert_eq!(desk.invited.pop(), Some(Err(NotInvited::Refused(Refusal::Full))));
    let to_new = Order::Transfer { to: node(9), amount: Micro(1) };
    assert_eq!(desk.order(OWNER, to_new), Err(Refusal::Full));
    let allow = |owner, n| Order::Allow { owner: node(owner), job: JobId([n; 16]), most: Micro(5) };
    assert_eq!(desk.order(OWNER, allow(9, 1)), Err(Refusal::Full), "no account for it");
    assert_eq!(desk.order(OWNER, allow(OTHER, 1)), Ok(()));
    assert_eq!(desk.order(OWNER, allow(OTHER, 2)), Err(Refusal::Full));
    desk.order(OWNER, hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)])).unwrap();
    assert_eq!(
        desk.order(OWNER, hold(2, OWNER, BILLION, vec![cycles(node(SELLER), 30)])),
        Err(Refusal::Full)
    );
    // The seller's account does not fit: the sale stays as it is, for later.
    assert_eq!(desk.order(OWNER, settle(1, &[BILLION])), Err(Refusal::Full));
    assert_eq!(desk.has(OWNER), 970);
    desk.audit(everybody());
}

#[test]
fn one_owner_fills_neither_the_books_nor_the_table_of_sales() {
    let mut desk = Desk::open(Rules { accounts: 4, holds: 8, ..Rules::default() });
    desk.endow(OWNER, 1000);
    desk.endow(OTHER, 1000);
    let gift = hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 0)]);
    assert_eq!(desk.order(OWNER, gift), Err(Refusal::Nonsense), "what costs nothing takes no place");
    let sales = |by| move |n| hold(n, by, BILLION, vec![cycles(node(SELLER), 1)]);
    let held = (0..8).map(|n| desk.order(OWNER, sales(OWNER)(n))).filter(|outcome| outcome.is_ok()).count();
    assert_eq!(held, 6, "until the table is nearly full");
    assert_eq!(desk.order(OTHER, sales(OTHER)(1)), Ok(()), "another owner has room");
    // Accounts that were opened for an allowance are gone with it.
    for n in 10..30 {
        let allow = |most| Order::Allow { owner: node(n), job: sale(1).unit.job, most: Micro(most) };
        assert_eq!(desk.order(OWNER, allow(1)), Ok(()), "{n}");
        assert_eq!(desk.order(OWNER, allow(0)), Ok(()), "{n}");
    }
    desk.restart();
    let to_new = Order::Transfer { to: node(9), amount: Micro(1) };
    assert_eq!(desk.order(OWNER, to_new), Ok(()), "there is room for accounts");
    desk.audit(everybody());
}

#[test]
fn a_disk_that_has_gone_bad_closes_the_bank() {
    for letter in [b'a', b'h', b'm'] {
        let mut desk = desk();
        desk.order(OWNER, hold(1, OWNER, BILLION, vec![cycles(node(SELLER), 30)])).unwrap();
        desk.disk.damage(letter, None);
        desk.restart();
        assert!(!desk.ready, "{}", char::from(letter));
        assert!(desk.troubles.iter().any(|trouble| trouble.contains("stays closed")), "{:?}", desk.troubles);
        assert_eq!(desk.send(node(OWNER), orders(&secret(OWNER), BANK, &[(9, Order::Begin)])), None);
    }
    // A row that nobody can read may be an order's outcome: the order could be carried out again.
    let mut desk = desk();
    desk.disk.damage(b'o', Some(b"\xc1"));
    desk.restart();
    assert!(!desk.ready && desk.troubles.iter().any(|trouble| trouble.contains("cannot be read")));
}
