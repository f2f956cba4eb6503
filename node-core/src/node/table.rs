//! The table of a node's services: which machines it has, and how the node speaks to each.

use super::Node;
use super::config::Config;
use super::host::{Command, Host};
use super::notes::{Note, Reply};
use crate::address::Sender;
use crate::disk::{self, Answer, Asked};
use crate::finding::Query;
use crate::ids::NodeId;
use crate::protocol::{Effect, Input, InputOf, Machine, Protocol, Rng};
use crate::ticket::{ServiceId, Services};
use crate::time::Time;
use crate::wire::{self, Framed, WireError};
use std::any::Any;
use std::fmt::Debug;

/// A machine that can live in a node: one small file a service in `services/`.
///
/// All functions but `open` and `on_event` have a default, which does nothing or what most services do.
/// Their code is linked only if the service stands in a list that the driver uses: [`Node::new`] or
/// [`Node::guest`].
pub(super) trait Service:
    Protocol<
        Message: Framed + Debug + Send + 'static,
        Timer: Debug + Send + 'static,
        Command: Debug + Send + 'static,
    > + Sized
    + Send
    + 'static
{
    const ID: ServiceId;
    /// For people, and the name by which its randomness is forked from the node's seed.
    const NAME: &'static str;
    /// State that the node keeps beside the machine, of which the machine needs to know nothing.
    type Beside: Default + Send + 'static;

    /// The machine as the configuration has it. `None`: such a node has no part in it.
    fn open(config: &Config) -> Option<Self>;

    /// An event of the machine: it becomes commands for others, a note, a reply, or word for the driver.
    fn on_event(node: &mut Node, event: Self::Event, host: &mut dyn Host);

    /// The node starts.
    fn start(_: &mut Node, _: &mut dyn Host) {}

    fn on_note(_: &mut Node, _: &Note<'_>, _: &mut dyn Host) {}

    /// The answer to its question of this number.
    fn on_reply(_: &mut Node, _number: u64, _: Reply, _: &mut dyn Host) {}

    /// The answer of storage.
    fn on_stored(_: &mut Node, _: Asked, _: Result<Answer, disk::Failed>, _: &mut dyn Host) {}

    /// A command of the driver ([`Command::service`]).
    fn on_command(_: &mut Node, _: Command, _: &mut dyn Host) {}

    /// A message that another node has forwarded. Services of trade and signalling alone take any: their messages are short.
    fn on_forwarded(_: &mut Node, _: Sender, _: Self::Message) {}

    /// A node says that a message for a guest of its cannot be delivered.
    fn on_gone(_: &mut Node, _guest: NodeId, _by: NodeId) {}

    /// A finder's: looks for places in the swarm. Answered by [`Node::found`].
    const FIND: Option<Find> = None;

    /// Called just before the machine handles the input.
    fn on_input(_: &mut Node, _: &InputOf<Self>, _: &mut dyn Host) {}

    /// Sees to what came of an input.
    fn follow(node: &mut Node, effects: Vec<Effect<Self>>, host: &mut dyn Host) {
        node.follow(effects, host);
    }

    /// The body of a frame of this service.
    fn receive(node: &mut Node, from: NodeId, body: &[u8], host: &mut dyn Host) -> Result<(), WireError> {
        let message: Self::Message = wire::read(body)?;
        if message.service() != Self::ID {
            return Err(WireError::WrongService);
        }
        Self::deliver(node, from, message, host);
        Ok(())
    }

    /// A message of this node itself, of whatever type.
    fn from_self(node: &mut Node, message: Box<dyn Any + Send>, host: &mut dyn Host) {
        if let Ok(message) = message.downcast() {
            Self::deliver(node, node.me, *message, host);
        }
    }

    fn deliver(node: &mut Node, from: NodeId, message: Self::Message, _: &mut dyn Host) {
        node.give::<Self>(Input::Message { from, message });
    }

    /// Gives the machine an input; its effects, and when it wants to be woken.
    fn step(node: &mut Node, input: InputOf<Self>) -> Option<Stepped<Self>> {
        let Node { table, neighbours, me, now, .. } = node;
        let seated: &mut Seated<Self> = table.seat_mut(Self::ID)?.service.downcast_mut()?;
        let effects = seated.machine.step_among(neighbours.machine.state().peers(), *me, *now, input);
        Some((effects, seated.machine.deadline()))
    }

    /// Its place in the table. The node keeps its neighbours elsewhere, since everybody needs them.
    fn seated(node: &Node) -> Option<&Seated<Self>> {
        node.table.seat(Self::ID)?.service.downcast_ref()
    }

    fn seated_mut(node: &mut Node) -> Option<&mut Seated<Self>> {
        node.table.seat_mut(Self::ID)?.service.downcast_mut()
    }
}

/// Effects of an input, and the machine's next deadline.
pub(super) type Stepped<S> = (Vec<Effect<S>>, Option<Time>);

pub(super) struct Seated<S: Service> {
    pub(super) machine: Machine<S>,
    pub(super) beside: S::Beside,
}

impl<S: Service> Seated<S> {
    pub(super) fn new(service: S, seed: &[u8; 32]) -> Seated<S> {
        Seated { machine: Machine::new(service, Rng::fork(seed, S::NAME)), beside: S::Beside::default() }
    }
}

pub(super) type Find = fn(&mut Node, Query);
type AnyInput = Box<dyn Any + Send>;
type Receive = fn(&mut Node, NodeId, &[u8], &mut dyn Host) -> Result<(), WireError>;

/// How the node speaks to a service of which it knows no more than the number.
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Gives it an input, and sees to what comes of it.
    pub(super) run: fn(&mut Node, AnyInput, &mut dyn Host),
    /// Takes one timer that is due among the steps. `false`: none was.
    pub(super) fire: fn(&mut Node) -> bool,
    pub(super) start: fn(&mut Node, &mut dyn Host),
    pub(super) on_note: fn(&mut Node, &Note<'_>, &mut dyn Host),
    pub(super) on_reply: fn(&mut Node, u64, Reply, &mut dyn Host),
    pub(super) on_stored: fn(&mut Node, Asked, Result<Answer, disk::Failed>, &mut dyn Host),
    pub(super) on_command: fn(&mut Node, Command, &mut dyn Host),
    pub(super) find: Option<Find>,
    pub(super) receive: Receive,
    /// The body of a frame that another node has forwarded.
    pub(super) forwarded: fn(&mut Node, Sender, &[u8]),
    pub(super) on_gone: fn(&mut Node, NodeId, NodeId),
    /// A message of this node to itself.
    pub(super) from_self: fn(&mut Node, Box<dyn Any + Send>, &mut dyn Host),
    /// An input in words, in tests. A page does not link it.
    pub(super) show: Option<fn(&(dyn Any + Send)) -> String>,
}

pub(super) trait HasRow: Service {
    const ROW: Row = Row {
        name: Self::NAME,
        run: run::<Self>,
        fire: fire::<Self>,
        start: Self::start,
        on_note: Self::on_note,
        on_reply: Self::on_reply,
        on_stored: Self::on_stored,
        on_command: Self::on_command,
        find: Self::FIND,
        receive: Self::receive,
        forwarded: forwarded::<Self>,
        on_gone: Self::on_gone,
        from_self: Self::from_self,
        show: None,
    };
    const SHOWN: Row = Row { show: Some(show::<Self>), ..Self::ROW };
}

impl<S: Service> HasRow for S {}

fn run<S: Service>(node: &mut Node, input: AnyInput, host: &mut dyn Host) {
    if let Ok(input) = input.downcast::<InputOf<S>>() {
        node.run::<S>(*input, host);
    }
}

fn forwarded<S: Service>(node: &mut Node, sender: Sender, body: &[u8]) {
    if let Ok(message) = wire::read::<S::Message>(body)
        && message.service() == S::ID
    {
        S::on_forwarded(node, sender, message);
    }
}

fn fire<S: Service>(node: &mut Node) -> bool {
    let now = node.now;
    let Some(seated) = S::seated_mut(node) else { return false };
    let timer = seated.machine.due(now);
    let deadline = seated.machine.deadline();
    node.alarms.set(S::ID, deadline);
    let fired = timer.is_some();
    timer.into_iter().for_each(|timer| node.give::<S>(Input::Timer(timer)));
    fired
}

fn show<S: Service>(input: &(dyn Any + Send)) -> String {
    format!("{}: {:?}", S::NAME, input.downcast_ref::<InputOf<S>>())
}

struct Seat {
    row: &'static Row,
    service: Box<dyn Any + Send>,
}

/// In the order of its list, in which services hear notes.
#[derive(Default)]
pub(super) struct Table {
    seats: Vec<Seat>,
    /// Where the service of each number sits, from 1; 0: nowhere.
    index: [u8; ServiceId::ALL.len()],
}

/// Takes a service into a table, if the configuration has it.
pub(super) type Entry = fn(&mut Table, &Config, &[u8; 32]);

pub(super) fn entry<S: Service>(table: &mut Table, config: &Config, seed: &[u8; 32]) {
    table.add::<S>(&S::ROW, config, seed);
}

/// As [`entry`], and its inputs can be shown.
pub(super) fn shown<S: Service>(table: &mut Table, config: &Config, seed: &[u8; 32]) {
    table.add::<S>(&S::SHOWN, config, seed);
}

impl Table {
    pub(super) fn of(list: &[Entry], config: &Config, seed: &[u8; 32]) -> Table {
        let mut table = Table::default();
        list.iter().for_each(|entry| entry(&mut table, config, seed));
        table.seats.shrink_to_fit();
        table
    }

    fn add<S: Service>(&mut self, row: &'static Row, config: &Config, seed: &[u8; 32]) {
        let Some(service) = S::open(config) else { return };
        self.seats.push(Seat { row, service: Box::new(Seated::new(service, seed)) });
        if let Some(place) = self.index.get_mut(S::ID as usize) {
            *place = self.seats.len() as u8;
        }
    }

    fn seat(&self, of: ServiceId) -> Option<&Seat> {
        let place = usize::from(*self.index.get(of as usize)?);
        self.seats.get(place.checked_sub(1)?)
    }

    fn seat_mut(&mut self, of: ServiceId) -> Option<&mut Seat> {
        let place = usize::from(*self.index.get(of as usize)?);
        self.seats.get_mut(place.checked_sub(1)?)
    }

    /// The service has no part in the node any more. Its seat stays: others keep their places.
    fn shut(&mut self, of: ServiceId) {
        if let Some(seat) = self.seat_mut(of) {
            seat.service = Box::new(());
        }
        if let Some(place) = self.index.get_mut(of as usize) {
            *place = 0;
        }
    }

    pub(super) fn row(&self, of: ServiceId) -> Option<&'static Row> {
        self.seat(of).map(|seat| seat.row)
    }

    /// The service at this place, in the order of the list.
    pub(super) fn nth(&self, place: usize) -> Option<&'static Row> {
        self.seats.get(place).map(|seat| seat.row)
    }

    /// All of them, and the neighbours.
    pub(super) fn services(&self) -> Services {
        let seated = ServiceId::ALL.iter().copied().filter(|service| self.has(*service));
        seated.chain([ServiceId::Neighbours]).collect()
    }

    pub(super) fn has(&self, of: ServiceId) -> bool {
        self.seat(of).is_some()
    }
}

/// An input on its way to a service.
pub(super) struct Step {
    pub(super) row: &'static Row,
    pub(super) input: AnyInput,
}

impl Node {
    /// Puts an input in the line of all inputs; nothing happens if the node has no such service.
    pub(super) fn give<S: Service>(&mut self, input: InputOf<S>) {
        if let Some(row) = self.row(S::ID) {
            self.steps.push_back(Step { row, input: Box::new(input) });
        }
    }

    /// Gives an input to its machine, and sees to what comes of it.
    pub(super) fn run<S: Service>(&mut self, input: InputOf<S>, host: &mut dyn Host) {
        S::on_input(self, &input, host);
        let Some((effects, deadline)) = S::step(self, input) else { return };
        self.alarms.set(S::ID, deadline);
        S::follow(self, effects, host);
    }

    /// Ends a service. Inputs that are on their way to it are dropped.
    pub(super) fn shut(&mut self, service: ServiceId) {
        self.table.shut(service);
        self.alarms.set(service, None);
    }

    pub(super) fn tell<S: Service>(&mut self, command: S::Command) {
        self.give::<S>(Input::Command(command));
    }

    /// Turns to each service, in the order of the list.
    pub(super) fn each_service(&mut self, mut turn: impl FnMut(&mut Node, &'static Row)) {
        let mut place = 0;
        while let Some(row) = self.table.nth(place) {
            turn(self, row);
            place += 1;
        }
    }

    pub(super) fn has<S: Service>(&self) -> bool {
        self.table.has(S::ID)
    }

    /// The state of a service, if the node has it.
    pub(super) fn state<S: Service>(&self) -> Option<&S> {
        S::seated(self).map(|seated| seated.machine.state())
    }

    pub(super) fn beside<S: Service>(&self) -> Option<&S::Beside> {
        S::seated(self).map(|seated| &seated.beside)
    }

    pub(super) fn beside_mut<S: Service>(&mut self) -> Option<&mut S::Beside> {
        S::seated_mut(self).map(|seated| &mut seated.beside)
    }
}
