//! The owner of markets (paper `market`, sections IV-A and V-A): lists sellers, purges them, and says who
//! is the cheapest, when it has made sure that this one is alive and able.
//!
//! Which markets are a node's own, the ring of nodes says ([`Keys`]);
//! of others it may have copies.
//!
//! | file | what it knows |
//! |---|---|
//! | `table` | the sellers of one market |
//! | `list` | listings, and what is refused |
//! | `answer` | one answer to a buyer: a machine of its own, which probes until winners and second live |
//! | `copies` | copies at successors, and handing over |
//! | `summary` | a market in short, for who looks around |
//! | `overlay` | the processor overlay: markets as members of a second ring |
//! | `entrance` | who is there, for those who are not, and who may be the first |
//! | `view` | for people and for checkers |

mod answer;
mod copies;
mod entrance;
mod list;
mod overlay;
mod summary;
mod table;
mod view;

pub use view::{BookView, OwnerView};

use super::config::MarketConfig;
use super::message::{Message, Summary, ToBuyer, ToOwner, ToSeller};
use crate::address::{Address, Contact, Sender};
use crate::circle::{Located, MemberId, Point, RingId};
use crate::goods::{Kind, Market};
use crate::ids::NodeId;
use crate::money::Price;
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::replicas::{Keys, Pulls, Share};
use crate::time::{Time, Wall};
use crate::under_way::UnderWay;
use answer::{Held, Session};
use entrance::Door;
use overlay::{For, Registered, Stage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use table::Table;

/// How often what is over is dropped. Our choice: short beside all that ends.
const SWEEP: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Owner {
    config: Arc<MarketConfig>,
    wall: Wall,
    me: Option<Contact>,
    /// Markets whose operator this node is. `doors`: kinds whose rendezvous it is.
    mine: BTreeSet<Market>,
    doors: BTreeMap<Kind, Door>,
    /// Knowledge about kinds whose rendezvous is another node: this node may be it soon, or was it a moment
    /// ago.
    left_doors: BTreeMap<Kind, Door>,
    books: BTreeMap<Market, Book>,
    /// Nodes that keep replicas; which markets are this node's own, `mine` says.
    share: Share,
    sessions: BTreeMap<u64, Session>,
    held: BTreeMap<(Kind, NodeId), Vec<Held>>,
    pulls: Pulls,
    /// Lookups under way, and entrances that were asked.
    lookups: UnderWay<For>,
    entrances: BTreeMap<Kind, NodeId>,
    /// How often in a row a member that the entrance named was not in this node's overlay.
    apart: BTreeMap<Kind, u8>,
    registered: BTreeMap<Kind, Registered>,
}

/// One market, or a copy of it.
#[derive(Debug, Default)]
struct Book {
    table: Table,
    /// Node that sent this copy, and when it was heard last.
    holder: Option<(NodeId, Time)>,
    /// Sellers that the copies have not heard of, or not that they are gone.
    changed: BTreeSet<NodeId>,
    stage: Stage,
    empty_since: Option<Time>,
    /// The last sale that shows: its price, and when. The next owner does not hear of it.
    last: Option<(Price, Time)>,
    /// Summary that was sent to nodes that look around, and when.
    summary: Option<Box<(Time, Summary)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Sweep,
    /// Tell the copies what has changed.
    Gather,
    /// Compare the copies.
    Compare,
    /// A probe of this answer is late.
    Answer(u64),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// The driver's wall clock, milliseconds since 1970; nothing is listed before.
    WallClock(u64),
    /// The rules of the swarm, before anything is listed.
    Rules(Arc<MarketConfig>),
    /// Where others dial this node; markets join the processor overlay as this.
    Me(Contact),
    /// A message of a seller that its relay has forwarded.
    Forwarded {
        sender: Sender,
        said: ToOwner,
    },
    /// A relay says that a guest is not there.
    Gone {
        guest: NodeId,
        by: NodeId,
    },
    /// From the ring of nodes.
    Keys(Keys),
    /// Results of [`Event::Join`] and [`Event::Leave`]: `Joined`, `Refused`, `Left`.
    Joined(MemberId),
    Refused(MemberId),
    Left(MemberId),
    /// Results of [`Event::Lookup`]: `Found` or `NotFound`.
    Found {
        number: u64,
        found: Located,
    },
    NotFound {
        number: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Look this up; answered by [`Command::Found`] or [`Command::NotFound`].
    Lookup { number: u64, ring: RingId, key: Point },
    /// Take part in the processor overlay with this market, by way of these; answered by
    /// [`Command::Joined`] or [`Command::Refused`]. By way of nobody: this node has a member there, or
    /// is the first.
    Join { member: MemberId, via: Vec<Contact> },
    /// Answered by [`Command::Left`].
    Leave(MemberId),
    /// Others that are members there, for one that is alone.
    Know { ring: RingId, via: Vec<Contact> },
}

type Ocx<'a> = Cx<'a, Owner>;

impl Protocol for Owner {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Ocx<'_>) {
        match input {
            Input::Message { from, message: Message::ToOwner(message) } => {
                self.message(Sender::direct(from), message, cx);
            }
            Input::Timer(Timer::Sweep) => self.sweep(cx),
            Input::Timer(Timer::Gather) => self.tell_copies(cx),
            Input::Timer(Timer::Compare) => self.compare(cx),
            Input::Timer(Timer::Answer(ticket)) => self.advance(ticket, cx),
            Input::Command(command) => self.command(command, cx),
            Input::Down(peer) | Input::Unreachable(peer) => {
                self.unnamed(peer);
                self.entrance_down(peer, cx);
                self.probed_in_vain(peer, cx);
            }
            // Nothing that the route gives a market operator, or nothing to be done.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }

    fn check_invariants(&self) {
        assert!(self.sessions.len() <= self.config.answers, "answers under way are bounded");
        for (market, book) in &self.books {
            assert!(book.table.len() <= self.config.sellers, "a market is bounded");
            let in_order = book.table.all().windows(2).all(|two| two[0].seller.id < two[1].seller.id);
            assert!(in_order, "a seller is once in {market:?}");
        }
    }
}

impl Owner {
    pub fn new(config: impl Into<Arc<MarketConfig>>) -> Owner {
        Owner {
            config: config.into(),
            wall: Wall::default(),
            me: None,
            mine: BTreeSet::new(),
            doors: BTreeMap::new(),
            left_doors: BTreeMap::new(),
            books: BTreeMap::new(),
            share: Share::default(),
            sessions: BTreeMap::new(),
            held: BTreeMap::new(),
            pulls: Pulls::default(),
            // Each kind's entrance, and a few markets that may be apart; what is older is said again.
            lookups: UnderWay::new(4 * Kind::ALL.len()),
            entrances: BTreeMap::new(),
            apart: BTreeMap::new(),
            registered: BTreeMap::new(),
        }
    }

    fn message(&mut self, sender: Sender, message: ToOwner, cx: &mut Ocx<'_>) {
        let from = sender.id;
        match message {
            ToOwner::List(signed) => self.list(sender, &signed, cx),
            ToOwner::Withdraw { market, number } => self.withdraw(sender, market, number, cx),
            ToOwner::Alive(alive) => self.alive(sender, *alive, cx),
            ToOwner::Query(query) => self.query(from, *query, cx),
            ToOwner::Enter { kind, ticket } => self.enter(from, kind, ticket, cx),
            ToOwner::Copy(copy) => self.copy(from, *copy, cx),
            ToOwner::Compare { market, count, digest } => self.compared(from, market, count, digest, cx),
            ToOwner::Pull(range) => self.pull(from, range, cx),
            ToOwner::Here { kind, me, markets, wants } => self.here(from, kind, me, (markets, wants), cx),
            ToOwner::Door { kind, open, members } => self.handed(kind, open, &members, cx),
            ToOwner::Others { kind, at, lowest, entrance, first } => {
                self.others(from, kind, at, lowest, (entrance, first), cx);
            }
            ToOwner::Look { ticket, market } => self.look(from, ticket, market, cx),
        }
    }

    fn command(&mut self, command: Command, cx: &mut Ocx<'_>) {
        match command {
            Command::WallClock(ms) => {
                self.wall.told(ms, cx.now);
                cx.set_timer_by(Timer::Sweep, SWEEP);
                cx.set_timer_by(Timer::Compare, self.config.compare);
            }
            Command::Rules(config) => self.config = config,
            Command::Me(me) => {
                if self.me.replace(me).is_some_and(|before| before != me) {
                    // The entrance names members by where they are.
                    Kind::ALL.into_iter().for_each(|kind| self.register_again(kind, Duration::ZERO, cx));
                }
            }
            Command::Forwarded { sender, said } => self.message(sender, said, cx),
            Command::Gone { guest, by } => self.gone(guest, by, cx),
            Command::Keys(Keys::Gained { range, from }) => self.gained(range, from, cx),
            Command::Keys(Keys::Lost { range, to }) => self.lost(range, to, cx),
            Command::Keys(Keys::Successors(list)) => self.successors(list, cx),
            Command::Joined(member) => self.joined(member, cx),
            Command::Refused(member) => self.refused(member, cx),
            Command::Left(member) => self.left(member, cx),
            Command::Found { number, found } => self.located(number, &found, cx),
            Command::NotFound { number } => self.not_located(number, cx),
        }
    }

    /// Sellers that were silent, and copies whose owner is.
    fn sweep(&mut self, cx: &mut Ocx<'_>) {
        cx.set_timer(Timer::Sweep, SWEEP);
        let (now, silent) = (seconds(cx.now), self.config.purge);
        for (market, book) in &mut self.books {
            if self.mine.contains(market) {
                let over = book.table.purge(now);
                if !over.is_empty() {
                    book.changed.extend(over);
                    cx.set_timer_by(Timer::Gather, self.config.gather);
                }
            } else if book.holder.is_none_or(|(_, heard)| cx.now.since(heard) > silent) {
                book.table.clear();
            }
        }
        self.held.retain(|_, held| {
            held.retain(|held| held.until > cx.now);
            !held.is_empty()
        });
        self.pull_again(cx);
        self.keep_overlay(cx);
        let mine = &self.mine;
        self.books.retain(|market, book| {
            !book.table.is_empty()
                || !book.stage.is_out()
                || mine.contains(market) && !book.changed.is_empty()
        });
    }
}

fn to_seller(to: Address, message: ToSeller, cx: &mut Ocx<'_>) {
    cx.send_to(to, Message::ToSeller(message));
}

fn to_owner(to: &Contact, message: ToOwner, cx: &mut Ocx<'_>) {
    cx.send_to(*to, Message::ToOwner(message));
}

fn to_buyer(to: NodeId, message: ToBuyer, cx: &mut Ocx<'_>) {
    cx.send(to, Message::ToBuyer(message));
}

fn fault(peer: NodeId, fault: &str, cx: &mut Ocx<'_>) {
    cx.fault(peer, fault.to_string());
}

/// Whole seconds of this node's time.
fn seconds(now: Time) -> u32 {
    u32::try_from(now.0 / 1_000_000).unwrap_or(u32::MAX)
}

fn seconds_after(now: Time, wait: Duration) -> u32 {
    seconds(now).saturating_add(wait.as_secs() as u32)
}
