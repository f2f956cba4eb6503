//! Clients and the bank over a wire that loses, doubles and reorders, while both sides crash.

use crate::ledger::support::*;
use node_core::contract::{Order, Outcome, Refusal, Sale};
use node_core::ledger::bank;
use node_core::ledger::books::Rules;
use node_core::ledger::client::{Client, Command, Event, Timer};
use node_core::ledger::{Message, ToBank, ToClient};
use node_core::money::Micro;
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::ticket::{ServiceId, Ticket};
use node_core::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const OWNER: u8 = 1;
const SELLER: u8 = 2;
const RETRY: Duration = Duration::from_secs(3);

/// An owner that runs units, with a record of its own on its disk: which units there are, and
/// which have a result.
struct Owner {
    id: u8,
    machine: Machine<Client>,
    open: bool,
    /// Durable: units that were placed, and whether their result is accepted.
    record: BTreeMap<u32, bool>,
    /// In memory: what was answered in this life.
    answered: BTreeMap<u64, Outcome>,
    holding: BTreeSet<Sale>,
    next: u64,
}

struct World {
    desk: Desk,
    owner: Owner,
    wire: Vec<(bool, Message)>,
    now: Time,
    rng: Rng,
    /// Messages that are lost, of a hundred; `doubled`: that arrive twice.
    lost: u64,
    doubled: u64,
    bank_up: bool,
}

impl World {
    fn new(seed: u8) -> World {
        let mut desk = Desk::open(Rules::default());
        desk.endow(OWNER, 1_000_000);
        desk.said.clear();
        let owner = Owner {
            id: OWNER,
            machine: Machine::new(Client::new(secret(OWNER), RETRY), Rng::from_seed([seed; 32])),
            open: false,
            record: BTreeMap::new(),
            answered: BTreeMap::new(),
            holding: BTreeSet::new(),
            next: 0,
        };
        let rng = Rng::from_seed([seed; 32]);
        let mut world =
            World { desk, owner, wire: Vec::new(), now: Time(0), rng, lost: 0, doubled: 0, bank_up: true };
        world.command(Command::BankUp(BANK));
        world
    }

    fn command(&mut self, command: Command) {
        self.client(Input::Command(command));
    }

    fn client(&mut self, input: Input<Message, Timer, Command>) {
        let me = node(self.owner.id);
        for effect in self.owner.machine.step(me, self.now, input) {
            match effect {
                Effect::Send { to, message } => {
                    assert_eq!(to, BANK);
                    self.wire.push((true, message));
                }
                Effect::Emit(Event::Answered { ticket: Ticket { number: id, .. }, outcome, .. }) => {
                    let twice = self.owner.answered.insert(id, outcome);
                    assert_eq!(twice, None, "an order is answered once");
                }
                Effect::Emit(Event::Holding(holdings)) => {
                    self.owner.holding.extend(holdings.iter().map(|holding| holding.sale));
                }
                Effect::Emit(Event::Open) => self.owner.open = true,
                Effect::Emit(
                    Event::Full { .. } | Event::Statement { .. } | Event::Balance { .. } | Event::Seek(_),
                ) => {}
                Effect::Fault { .. }
                | Effect::Forward { .. }
                | Effect::Reach(_)
                | Effect::Hold(_)
                | Effect::Release(_)
                | Effect::Trouble(_) => panic!("a client wants nothing of its node"),
            }
        }
    }

    fn order(&mut self, order: Order) -> u64 {
        self.owner.next += 1;
        let id = self.owner.next;
        self.command(Command::Order { ticket: ServiceId::Driver.ticket(id), order });
        id
    }

    /// Brings one message, any of those on their way; or time passes.
    fn step(&mut self) {
        if self.wire.is_empty() || self.rng.below(20) == 0 {
            self.now = self.now + Duration::from_millis(self.rng.below(1000));
            while let Some(timer) = self.owner.machine.due(self.now) {
                self.client(Input::Timer(timer));
            }
            return;
        }
        let which = self.rng.below(self.wire.len() as u64) as usize;
        let (to_bank, message) = self.wire.swap_remove(which);
        if self.rng.below(100) < self.lost {
            return;
        }
        if self.rng.below(100) < self.doubled {
            self.wire.push((to_bank, message.clone()));
        }
        match message {
            Message::ToBank(message) if to_bank && self.bank_up => {
                self.desk.hear(node(self.owner.id), message)
            }
            message @ Message::ToClient(_) if !to_bank => self.client(Input::Message { from: BANK, message }),
            _ => {}
        }
        let said = std::mem::take(&mut self.desk.said);
        self.wire.extend(said.into_iter().map(|(_, message)| (false, Message::ToClient(message))));
    }

    fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("never: {what}");
    }

    /// The owner's process ends and starts again: only its record is left. Then it settles what the
    /// bank still holds for units that have a result, and gives back what has none any more.
    fn restart_owner(&mut self) {
        let seed = [self.rng.u64() as u8; 32];
        self.owner.machine = Machine::new(Client::new(secret(OWNER), RETRY), Rng::from_seed(seed));
        self.owner.answered.clear();
        self.owner.holding.clear();
        self.owner.open = false;
        self.command(Command::BankUp(BANK));
    }

    fn settle(&mut self, index: u32) -> u64 {
        self.order(Order::Settle { sale: sale(index), used: vec![PRICED] })
    }
}

/// Fuel of each unit; at a price of 10 it costs 10.
const PRICED: u64 = 1_000_000_000;

fn hold(index: u32) -> Order {
    Order::Hold { sale: sale(index), payer: node(OWNER), fuel: PRICED, terms: vec![cycles(node(SELLER), 10)] }
}

#[test]
fn a_seller_is_paid_once_however_often_messages_are_lost_or_repeated() {
    for seed in 0..8 {
        let mut world = World::new(seed);
        (world.lost, world.doubled) = (30, 30);
        world.until("the bank opens", |world| world.owner.open);
        let holds: Vec<u64> = (0..500).map(|index| world.order(hold(index))).collect();
        // In the queue behind the holds; they must not overtake them.
        let settled: Vec<u64> = (0..500).map(|index| world.settle(index)).collect();
        world.until("all are answered", |world| world.owner.answered.len() == 1000);
        for id in holds.iter().chain(&settled) {
            assert_eq!(world.owner.answered[id], Ok(()), "seed {seed}");
        }
        assert_eq!(world.desk.has(SELLER), 5000);
        assert!(world.desk.disk.paid.values().all(|(times, amount)| (*times, *amount) == (1, 10)));
        assert!(world.desk.faults.is_empty(), "{:?}", world.desk.faults);
        world.desk.audit([node(OWNER), node(SELLER)]);
    }
}

#[test]
fn while_the_bank_is_down_settlements_queue() {
    let mut world = World::new(1);
    let holds: Vec<u64> = (0..300).map(|index| world.order(hold(index))).collect();
    world.until("all are held", |world| world.owner.answered.len() == holds.len());
    world.bank_up = false;
    world.client(Input::Down(BANK));
    for index in 0..300 {
        world.settle(index);
    }
    for _ in 0..1000 {
        world.step();
    }
    assert_eq!((world.desk.has(SELLER), world.owner.machine.state().pending()), (0, 300));
    world.desk.restart();
    world.bank_up = true;
    world.command(Command::BankUp(BANK));
    world.until("all are settled", |world| world.owner.machine.state().pending() == 0);
    assert_eq!(world.desk.has(SELLER), 3000);
}

#[test]
fn an_owner_that_lost_its_memory_settles_what_the_bank_still_holds() {
    for seed in 0..16 {
        let mut world = World::new(seed);
        (world.lost, world.doubled) = (20, 20);
        let mut crashes = 0;
        for index in 0..200 {
            world.until("the bank opens", |world| world.owner.open);
            let id = world.order(hold(index));
            world.until("it is held", |world| world.owner.answered.contains_key(&id));
            world.owner.record.insert(index, true);
            world.settle(index);
            for _ in 0..world.rng.below(12) {
                world.step();
            }
            if world.rng.below(8) == 0 {
                crashes += 1;
                match world.rng.below(2) {
                    0 => world.desk.restart(),
                    _ => world.restart_owner(),
                }
            }
            world.until("the bank opens", |world| world.owner.open);
            for sale in std::mem::take(&mut world.owner.holding) {
                if world.owner.record.contains_key(&sale.unit.index) {
                    world.settle(sale.unit.index);
                }
            }
        }
        world.until("all is answered", |world| world.owner.machine.state().pending() == 0);
        assert!(crashes > 10);
        assert_eq!(world.desk.has(SELLER), 2000, "seed {seed}");
        assert!(world.desk.disk.paid.values().all(|(times, _)| *times == 1), "seed {seed}");
        world.desk.audit([node(OWNER), node(SELLER)]);
    }
}

#[test]
fn what_an_earlier_life_has_on_its_way_comes_too_late() {
    let mut world = World::new(1);
    world.until("the bank opens", |world| world.owner.open);
    world.order(Order::Transfer { to: node(SELLER), amount: Micro(5) });
    world.until("it is on its way", |world| !world.wire.is_empty());
    let late = std::mem::take(&mut world.wire);
    world.restart_owner();
    world.until("the bank opens", |world| world.owner.open);
    world.wire = late;
    world.until("it has arrived", |world| world.wire.is_empty());
    assert_eq!(world.desk.has(SELLER), 0, "whoever gave the order does not know of it any more");
}

#[test]
fn a_node_without_an_account_is_told_so_and_can_redeem_an_invite() {
    let mut world = World::new(1);
    world.owner.id = 7;
    world.owner.machine = Machine::new(Client::new(secret(7), RETRY), Rng::from_seed([7; 32]));
    world.wire.clear();
    world.command(Command::BankUp(BANK));
    let first = world.order(Order::Transfer { to: node(SELLER), amount: Micro(5) });
    world.until("it is told", |world| world.owner.answered.contains_key(&first));
    assert_eq!(world.owner.answered[&first], Err(Refusal::NoAccount));
    world.desk.command(bank::Command::Invite { number: 1, amount: Micro(10) });
    let code = world.desk.invited.pop().unwrap().unwrap();
    let redeem = world.order(Order::Redeem { code });
    let second = world.order(Order::Transfer { to: node(SELLER), amount: Micro(5) });
    world.until("it is told", |world| world.owner.answered.contains_key(&second));
    assert_eq!((world.owner.answered[&redeem], world.owner.answered[&second]), (Ok(()), Ok(())));
    assert_eq!((world.desk.has(7), world.desk.has(SELLER)), (5, 5));
}

#[test]
fn the_queue_is_bounded_and_strangers_are_not_believed() {
    let mut world = World::new(1);
    world.until("the bank opens", |world| world.owner.open);
    let id = world.order(Order::Begin);
    let lie = Message::ToClient(ToClient::Outcomes((0..5000).map(|n| (n, Err(Refusal::Over))).collect()));
    world.client(Input::Message { from: node(9), message: lie });
    world.until("it is answered", |world| world.owner.answered.contains_key(&id));
    assert_eq!(world.owner.answered[&id], Ok(()));
    world.client(Input::Down(BANK));
    let mut client = Machine::new(Client::new(secret(3), RETRY), Rng::from_seed([3; 32]));
    let mut full = 0;
    for id in 0..100_010 {
        let command =
            Input::Command(Command::Order { ticket: ServiceId::Driver.ticket(id), order: Order::Begin });
        let effects = client.step(node(3), Time(0), command);
        full += effects.iter().filter(|effect| matches!(effect, Effect::Emit(Event::Full { .. }))).count();
    }
    assert_eq!((full, client.state().pending()), (10, 100_000));
}

#[test]
fn a_page_of_statement_reaches_who_asked() {
    let mut world = World::new(1);
    world.command(Command::Statement { number: 1, from: 0, limit: 5 });
    world.until("it is asked", |world| !world.wire.is_empty());
    let asked = world.wire.iter().any(|(_, message)| {
        matches!(message, Message::ToBank(ToBank::Statement { number: 1, from: 0, limit: 5 }))
    });
    assert!(asked);
    let id: NodeId = node(OWNER);
    assert_eq!(world.desk.books().page(id, 0, 5).balance, Micro(1_000_000));
}
