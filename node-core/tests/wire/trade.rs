//! Messages of markets and of the bank.

use super::*;

pub(crate) fn market_examples() -> Vec<Message> {
    use node_core::goods::Goods;
    use node_core::goods::NoDeal;
    use node_core::goods::Wanted;
    use node_core::goods::{Kind, Market};
    use node_core::market::Message as M;
    use node_core::market::listing::Guest;
    use node_core::market::pricing::Deal;
    use node_core::market::{
        Alive, Answer as Named, Copy, Entrance, Entry, Outcome, Prober, Purpose, Query, Sale, Stock, Summary,
        Take, ToBuyer, ToOwner, ToSeller, Unlisted,
    };
    use node_core::overlay::guests::{self, ToGuest, ToRelay};
    let (kind, at, body) = (Kind::Cycles, contact(), Bytes::from_static(b"body"));
    let market = Market { kind, index: 3 };
    let signed = Signed { by: at.id, body, signature: Bytes::from_static(b"signature") };
    let alive =
        Alive { ticket: 1, listing: Some(signed.clone()), listed: Some((at.id, 2)), probed: vec![at.id] };
    let wanted = Wanted {
        kind,
        capacity: 1 << 21,
        minutes: 2,
        memory_mib: 3,
        engine: Some(Platform::Native),
        units: 4,
        quantity: 5,
        most: Micro(6),
        tie: 7,
    };
    let entry = Entry {
        seller: at,
        units: 1,
        minutes: 2,
        engine: Platform::Browser,
        proven: false,
        memory_mib: 3,
        until: 0,
        capacity: 4,
        cost: Price(5),
        number: 6,
    };
    let deal = Deal { seller: at.id, price: Price(2), payoff: Micro(3) };
    let sale = Sale {
        winners: vec![signed.clone()],
        second: Some(signed.clone()),
        highest: Price(9),
        deals: vec![deal],
    };
    let named = |what| Box::new(Named { ticket: 1, market, what, next: Some(market) });
    let goods = Goods {
        kind,
        capacity: 1 << 21,
        units: 2,
        minutes: 3,
        cost: Price(4),
        engine: Platform::Native,
        memory_mib: 5,
    };
    let offers = vec![(at.id, goods)];
    let summary = Summary { sellers: 1, units: 2, dearest: Price(4), last: Some((Price(5), 6)), offers };
    let take = Take { ticket: 1, kind, number: 2, units: 3, capacity: 4, price: Price(5), receipt: None };
    let range = node_core::circle::Range { after: Point(1), upto: Point(2) };
    let to_owner = [
        ToOwner::List(Box::new(signed.clone())),
        ToOwner::Withdraw { market, number: 1 },
        ToOwner::Alive(Box::new(alive.clone())),
        ToOwner::Query(Box::new(Query { ticket: 1, market, wanted, purpose: Purpose::Second })),
        ToOwner::Enter { kind: Kind::Checkpoints, ticket: 1 },
        ToOwner::Copy(Box::new(Copy {
            market,
            whole: true,
            entries: vec![entry],
            gone: vec![at.id],
            guests: vec![(at.id, Guest { relay: at.id, channels: true })],
        })),
        ToOwner::Compare { market, count: 1, digest: 2 },
        ToOwner::Pull(range),
        ToOwner::Here { kind: Kind::Files, me: at, markets: 1, wants: true },
        ToOwner::Others { kind, at: vec![at], lowest: Some(market), entrance: Entrance::Open, first: true },
        ToOwner::Door { kind, open: true, members: vec![(at, 5)] },
        ToOwner::Look { ticket: 1, market },
    ];
    let to_seller = [
        ToSeller::Listed { kind, number: 1 },
        ToSeller::Refused { kind, number: 1, why: Unlisted::Full },
        ToSeller::Probe { kind, ticket: 1, by: Prober::Buyer },
        ToSeller::Take(Box::new(take)),
    ];
    let to_buyer = [
        ToBuyer::Answer(named(Outcome::Sale(sale))),
        ToBuyer::Answer(named(Outcome::None(NoDeal::TooDear { least: Micro(1), most: Micro(2) }))),
        ToBuyer::Answer(named(Outcome::NotMine)),
        ToBuyer::Answer(named(Outcome::Busy)),
        ToBuyer::Answer(named(Outcome::Costs(vec![Stock { cost: Price(7), units: 8 }]))),
        ToBuyer::Alive(Box::new(alive.clone())),
        ToBuyer::Entry { ticket: 1, at: vec![at], entrance: Entrance::Listening },
        ToBuyer::Taken { ticket: 1 },
        ToBuyer::Gone { ticket: 1 },
        ToBuyer::Summary { ticket: 1, summary: Some(Box::new(summary)), next: Some(market) },
    ];
    let frame = Bytes::from_static(b"frame");
    let to_host = [
        ToRelay::Forward { to: at.id, frame: frame.clone() },
        ToRelay::Locate { number: 1, key: Point(2) },
        ToRelay::Balance(signed),
        ToRelay::Chosen { relay: true, stated: Some(Default::default()) },
        ToRelay::Load { slots: 3, busy: vec![(NodeId([4; 32]), 2)] },
    ];
    let to_guest = [
        ToGuest::Relay(at),
        ToGuest::Forwarded { from: at.id, frame },
        ToGuest::Gone(at.id),
        ToGuest::Owner { number: 1, owner: Some(at) },
        ToGuest::Balance(Micro(1)),
        ToGuest::Second(at),
    ];
    let guests = to_host.map(guests::Message::ToRelay).into_iter();
    let guests = guests.chain(to_guest.map(guests::Message::ToGuest)).map(Message::Guests);
    let all = to_owner.map(M::ToOwner).into_iter().chain(to_seller.map(M::ToSeller));
    let all = all.chain(to_buyer.map(M::ToBuyer));
    let all = all.map(Message::Market);
    all.chain(guests).collect()
}

pub(crate) fn ledger_examples() -> Vec<Message> {
    use node_core::contract::{Fee, Goods, Holding, Order, Receipt, Refusal, Sale, Term};
    use node_core::goods::Kind;
    use node_core::ledger::{Line, Message as M, Page, ToBank, ToClient, Why};
    let node = NodeId([1; 32]);
    let unit = UnitId { job: JobId([2; 16]), index: 3 };
    let sale = Sale { unit, number: 4, kind: Kind::Files };
    let fees = vec![Fee { to: node, amount: Micro(5) }];
    let term = |goods| Term { to: node, goods, price: Price(6), fees: fees.clone() };
    let terms = vec![term(Goods::Cycles), term(Goods::Space { most: 7 })];
    // Only the bank reads signed orders; their encoding is as golden as the rest.
    let orders = vec![
        (1u64, Order::Begin),
        (2, Order::Transfer { to: node, amount: Micro(8) }),
        (3, Order::Redeem { code: [9; 16] }),
        (4, Order::Allow { owner: node, job: unit.job, most: Micro(10) }),
        (5, Order::Hold { sale, payer: node, fuel: 11, terms }),
        (6, Order::Settle { sale, used: vec![12, 13] }),
    ];
    let body = rmp_serde::to_vec(&(node, orders)).unwrap();
    let signed = Signed::new(&node_core::keys::Secret::from_bytes(&[14; 32]), "orders", body.into());
    let leave = node_core::ledger::may_read(&node_core::keys::Secret::from_bytes(&[14; 32]));
    let bank = node_core::keys::Secret::from_bytes(&[15; 32]);
    let receipt = Receipt {
        owner: node,
        sale,
        to: node,
        price: Price(29),
        fuel: 30,
        space: vec![(node, Price(31), 32)],
    }
    .sign(&bank);
    let why = [
        Why::Invite,
        Why::Minted,
        Why::To(node),
        Why::From(node),
        Why::Held(unit),
        Why::Returned(unit),
        Why::Earned(unit),
        Why::Fee(unit),
        Why::SpaceHeld(Kind::Files, unit),
        Why::SpaceReturned(Kind::Files, unit),
        Why::Kept(Kind::Checkpoints, unit),
    ];
    let line = |why| Line { at_ms: 15, amount: -16, balance: Micro(17), why };
    let lines = why.map(line).to_vec();
    let outcomes = vec![
        (1, Ok(())),
        (2, Err(Refusal::NoFunds { has: Micro(18), needed: Micro(19) })),
        (3, Err(Refusal::Over)),
    ];
    let to_bank = [
        ToBank::Stand,
        ToBank::Orders(signed),
        ToBank::Holdings { after: Some(sale) },
        ToBank::Statement { number: 19, from: 20, limit: 21 },
        ToBank::Balance(leave),
    ];
    let to_client = [
        ToClient::Stands { next: 22 },
        ToClient::Outcomes(outcomes),
        ToClient::Holdings(vec![Holding { sale, payer: node, amount: Micro(23) }]),
        ToClient::Statement {
            number: 19,
            page: Page { of: node, balance: Micro(24), held: Micro(25), first: 26, all: 27, lines },
        },
        ToClient::Balance { of: node, balance: Micro(28) },
        ToClient::Receipts(vec![(28, receipt)]),
    ];
    let all = to_bank.map(M::ToBank).into_iter().chain(to_client.map(M::ToClient));
    all.map(Message::Ledger).collect()
}
