//! Space that a keeper has for sale: the machine alone.

use node_core::bounds::Bounds;
use node_core::content::BlobRef;
use node_core::ids::{BlobId, JobId, NodeId, UnitId};
use node_core::progress::Version;
use node_core::protocol::{Effect, Input, InputOf, Machine, Rng};
use node_core::work::keeper::{Command, Event, Keeper};
use node_core::work::message::ToOwner;
use node_core::work::message::{Keep, KeepTerms, Message, ToKeeper, ToRunner};

use node_core::{Config, Time};
use std::sync::Arc;
use std::time::Duration;

const ME: NodeId = NodeId([1; 32]);
const BUYER: NodeId = NodeId([2; 32]);
const OTHER: NodeId = NodeId([3; 32]);
const MIB: u64 = 1 << 20;

struct Shelf {
    keeper: Machine<Keeper>,
    now: Time,
    room: Option<u64>,
    refused: Option<String>,
    units: u32,
    /// Whether owners answer what they are asked.
    answers: bool,
}

impl Shelf {
    /// Gives 64 MiB, and each owner 16 of them.
    fn new() -> Shelf {
        Shelf::of(Bounds { kept_bytes: 64 * MIB, kept_bytes_per_owner: 16 * MIB, ..Bounds::default() })
    }

    fn of(limits: Bounds) -> Shelf {
        let config = Arc::new(Config { limits: limits.into(), ..Config::default() });
        let keeper = Machine::new(Keeper::new(config.keeper()), Rng::from_seed([0; 32]));
        let mut shelf = Shelf { keeper, now: Time(1), room: None, refused: None, units: 0, answers: true };
        shelf.step(Input::Command(Command::OwnerUp(BUYER)));
        shelf.step(Input::Command(Command::OwnerUp(OTHER)));
        shelf
    }

    fn step(&mut self, input: InputOf<Keeper>) {
        for effect in self.keeper.step(ME, self.now, input) {
            match effect {
                Effect::Emit(Event::Room(room)) => self.room = Some(room),
                Effect::Emit(Event::Fetch { ticket, .. }) => {
                    self.step(Input::Command(Command::Answered { ticket, result: Ok(()) }));
                }
                Effect::Send { message: Message::ToRunner(ToRunner::KeepRefused { reason, .. }), .. } => {
                    self.refused = Some(reason);
                }
                // Owners say that all units are where somebody says that it runs them.
                Effect::Send {
                    to,
                    message: Message::ToOwner(ToOwner::IsGranted { unit, runner, attempt }),
                } if self.answers => {
                    let terms = KeepTerms { origin: to, part_bytes: u64::MAX };
                    let granted = ToKeeper::Granted { unit, runner, attempt, terms: Some(terms) };
                    self.step(Input::Message { from: to, message: Message::ToKeeper(granted) });
                }
                _ => {}
            }
        }
    }

    /// A checkpoint of a unit that was not here before; whether it is kept.
    fn keeps(&mut self, owner: NodeId, len: u64) -> bool {
        self.units += 1;
        let (index, id) = (self.units, BlobId([self.units as u8; 32]));
        let unit = UnitId { job: JobId([9; 16]), index };
        let (version, parts) = (Version { attempt: 1, number: 1 }, vec![BlobRef { id, len }]);
        let keep = Keep { unit, owner, origin: owner, version, parts, relayed: false };
        self.refused = None;
        let message = Message::ToKeeper(ToKeeper::Keep(keep));
        self.step(Input::Message { from: NodeId([8; 32]), message });
        self.refused.is_none()
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        while let Some(timer) = self.keeper.due(self.now) {
            self.step(Input::Timer(timer));
        }
    }
}

#[test]
fn what_is_sold_is_kept_free_for_its_buyer_for_a_while() {
    let mut shelf = Shelf::new();
    assert_eq!(shelf.room, Some(64 * MIB));
    shelf.step(Input::Command(Command::Sold { buyer: BUYER, bytes: 56 * MIB }));
    assert_eq!(shelf.room, Some(8 * MIB), "that is left");
    assert!(shelf.keeps(OTHER, 5 * MIB));
    assert_eq!(shelf.room, Some(3 * MIB));
    assert!(!shelf.keeps(OTHER, 5 * MIB), "it is the buyer's");
    assert!(shelf.keeps(BUYER, 40 * MIB), "more than an owner is given");
    assert_eq!(shelf.room, Some(3 * MIB), "what it bought is not taken twice");
    shelf.wait(Duration::from_secs(121));
    assert_eq!(shelf.room, Some(19 * MIB), "what has come stays, the rest is free");
    assert!(shelf.keeps(OTHER, 5 * MIB));
    assert!(!shelf.keeps(BUYER, MIB), "it has more than an owner is given");
}

#[test]
fn small_changes_are_not_told() {
    let mut shelf = Shelf::new();
    shelf.room = None;
    assert!(shelf.keeps(OTHER, 10));
    assert_eq!(shelf.room, Some(63 * MIB));
    shelf.room = None;
    assert!((0..50).all(|_| shelf.keeps(OTHER, 1000)));
    assert_eq!(shelf.room, None, "a mebibyte is a part");
}

#[test]
fn one_owner_leaves_room_for_the_units_of_another_and_all_for_those_of_this_node() {
    let mut shelf = Shelf::of(Bounds { kept_units: 10, ..Bounds::default() });
    let kept = |shelf: &mut Shelf, owner| (0..20).filter(|_| shelf.keeps(owner, 0)).count();
    assert_eq!(kept(&mut shelf, OTHER), 5);
    assert!(shelf.refused.as_ref().is_some_and(|why| why.contains("for one owner")), "{:?}", shelf.refused);
    assert_eq!(kept(&mut shelf, BUYER), 5);
    assert_eq!(kept(&mut shelf, NodeId([4; 32])), 0);
    assert_eq!(kept(&mut shelf, ME), 10, "whose checkpoints nobody else may want to keep");
}

#[test]
fn others_leave_a_fourth_of_the_bytes_to_the_units_of_this_node() {
    let mut shelf = Shelf::new();
    assert!((0..4).all(|_| shelf.keeps(OTHER, 4 * MIB)));
    shelf.step(Input::Command(Command::OwnerUp(ME)));
    // Others can have 48 of 64, of which 16 are taken. What is for sale is told in parts.
    assert!(shelf.room.is_some_and(|room| (31 * MIB..=32 * MIB).contains(&room)), "{:?}", shelf.room);
    assert!((0..4).all(|_| shelf.keeps(BUYER, 4 * MIB)));
    assert!((0..4).all(|_| shelf.keeps(NodeId([4; 32]), 4 * MIB)));
    assert!(!shelf.keeps(NodeId([5; 32]), MIB), "what is left is its own");
    assert!((0..4).all(|_| shelf.keeps(ME, 4 * MIB)));
}

#[test]
fn nothing_is_kept_for_an_owner_that_does_not_answer() {
    let mut shelf = Shelf::new();
    shelf.answers = false;
    assert!(shelf.keeps(OTHER, 10), "it is asked");
    assert_eq!(shelf.keeper.state().load(), (0, 0));
    shelf.wait(Duration::from_secs(10));
    assert!(shelf.refused.as_ref().is_some_and(|why| why.contains("does not answer")), "{:?}", shelf.refused);
    // Requests that the owner has not answered yet are bounded, for each runner.
    (0..1_000).for_each(|_| assert!(shelf.keeps(OTHER, 10)));
    shelf.answers = true;
    assert!(shelf.keeps(OTHER, 10));
    assert_eq!(shelf.keeper.state().load(), (0, 0), "its runner is to ask again");
    shelf.wait(Duration::from_secs(10));
    assert!(shelf.keeps(OTHER, 10));
    assert_eq!(shelf.keeper.state().load().0, 1);
}
