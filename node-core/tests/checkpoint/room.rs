//! What a keeper has for sale: the machine alone.

use node_core::bounds::Bounds;
use node_core::content::BlobRef;
use node_core::ids::{BlobId, JobId, NodeId, UnitId};
use node_core::progress::Version;
use node_core::protocol::{Effect, Input, InputOf, Machine, Rng};
use node_core::work::keeper::{Command, Event, Keeper};
use node_core::work::message::{Keep, Message, ToKeeper, ToRunner};
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
}

impl Shelf {
    /// Gives 64 MiB, and each owner 16 of them.
    fn new() -> Shelf {
        let limits = Bounds { kept_bytes: 64 * MIB, kept_bytes_per_owner: 16 * MIB, ..Bounds::default() };
        let config = Arc::new(Config { limits: limits.into(), ..Config::default() });
        let keeper = Machine::new(Keeper::new(config.keeper()), Rng::from_seed([0; 32]));
        let mut shelf = Shelf { keeper, now: Time(1), room: None, refused: None, units: 0 };
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
        let keep = Keep { unit, owner, version, parts, relayed: false };
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
