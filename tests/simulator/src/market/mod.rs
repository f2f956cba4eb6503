//! Markets of machines without the node around them: in each node a ring, a market operator, a seller and
//! a buyer, joined as a node joins them.

mod check;
pub mod life;
mod wiring;

use crate::ring::{Above, Heard, Stack};
use node_core::NodeId;
use node_core::goods::Goods;
use node_core::goods::Kind;
use node_core::goods::NoDeal;
use node_core::goods::Offer;
use node_core::goods::Wanted;
use node_core::keys::Secret;
use node_core::market::buyer::{self, Buyer, Doubt};
use node_core::market::owner::{self, Owner, OwnerView};
use node_core::market::seller::{self, Seller};
use node_core::market::{MarketConfig, Message};
use node_core::overlay::ring::{Event, RingConfig};
use node_core::protocol::{Input, Machine, Rng as NodeRng};
use node_core::replicas::Keys;
use node_core::ticket::ServiceId;
use node_core::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

pub type Markets = Stack<Trader>;

/// Machines on a node's ring: market operator, seller and buyer.
pub struct Trader {
    secret: Secret,
    pub owner: Machine<Owner>,
    pub seller: Machine<Seller>,
    pub buyer: Machine<Buyer>,
    lie: Option<Lie>,
}

/// Reaction of a hostile node (the second) to a message of a node (the third), in place of its machines.
/// `false` if the machines are to handle the message as ever.
pub type Lie = fn(&mut Markets, usize, usize, &Message) -> bool;

/// State that all nodes have in common, and observations of them.
#[derive(Default)]
pub struct Shared {
    pub config: Arc<MarketConfig>,
    /// By number.
    pub asked: BTreeMap<u64, Asked>,
    /// Whether purchases succeeded, by number.
    pub bought: BTreeMap<u64, bool>,
    /// By whom, of whom.
    pub doubts: Vec<(usize, NodeId, Doubt)>,
    pub refusals: Vec<(usize, node_core::market::Unlisted)>,
    /// Goods that a node sells, and how much of them was sold since it said so.
    pub stock: BTreeMap<(usize, Kind), (Goods, u64)>,
    /// Errors that no correct network makes, in words.
    pub wrong: Vec<String>,
    /// Messages that came to each node's owner of markets.
    pub requests: BTreeMap<usize, u64>,
    next: u64,
}

/// State of a search.
#[derive(Clone, Debug)]
pub struct Asked {
    pub by: usize,
    pub wanted: Wanted,
    pub at: Time,
    pub end: Option<End>,
}

#[derive(Clone, Debug)]
pub struct End {
    pub at: Time,
    pub offers: Vec<Offer>,
    pub shortage: Option<NoDeal>,
    pub hops: u16,
    pub entered: bool,
    /// How many of the offers named a node that was dead.
    pub dead: usize,
}

/// When all simulations begin, milliseconds since 1970.
const EPOCH_MS: u64 = 1_800_000_000_000;

impl Above for Trader {
    type Message = Message;
    type Shared = Shared;

    fn place(seed: [u8; 32], _: usize) -> (NodeId, Trader) {
        let secret = Secret::from_bytes(&seed);
        let id = secret.node();
        (id, Trader::new(secret, &Arc::default(), seed))
    }

    fn start(stack: &mut Markets, n: usize) {
        let seed = stack.rng.seed();
        let secret = stack.nodes[n].above.secret.clone();
        stack.nodes[n].above = Trader::new(secret, &stack.shared.config, seed);
        stack.shared.stock.retain(|(at, _), _| *at != n);
        stack.tell_time(n);
        let me = stack.nodes[n].contact;
        stack.step_owner(n, Input::Command(owner::Command::Me(me)));
        stack.step_seller(n, Input::Command(seller::Command::Me(Some(me.into()))));
    }

    fn handle(stack: &mut Markets, n: usize, heard: Heard<Message>) {
        match heard {
            Heard::Message(from, message) => {
                if let Some(lie) = stack.nodes[n].above.lie
                    && let Some(at) = stack.find(from)
                    && lie(stack, n, at, &message)
                {
                    return;
                }
                match message {
                    Message::ToOwner(_) => {
                        *stack.shared.requests.entry(n).or_default() += 1;
                        stack.step_owner(n, Input::Message { from, message });
                    }
                    Message::ToSeller(_) => stack.step_seller(n, Input::Message { from, message }),
                    Message::ToBuyer(_) => stack.step_buyer(n, Input::Message { from, message }),
                }
            }
            Heard::Up(peer) => {
                stack.step_owner(n, Input::Up(peer));
                stack.step_seller(n, Input::Up(peer));
                stack.step_buyer(n, Input::Up(peer));
            }
            Heard::Down(peer) => {
                stack.step_owner(n, Input::Down(peer));
                stack.step_seller(n, Input::Down(peer));
                stack.step_buyer(n, Input::Down(peer));
            }
        }
    }

    fn told(stack: &mut Markets, n: usize, event: &Event) {
        stack.ring_says(n, event);
    }

    fn fire(stack: &mut Markets, n: usize) {
        let now = stack.now;
        while let Some(timer) = stack.nodes[n].above.owner.due(now) {
            stack.step_owner(n, Input::Timer(timer));
        }
        while let Some(timer) = stack.nodes[n].above.seller.due(now) {
            stack.step_seller(n, Input::Timer(timer));
        }
        while let Some(timer) = stack.nodes[n].above.buyer.due(now) {
            stack.step_buyer(n, Input::Timer(timer));
        }
    }

    fn deadline(&self) -> Option<Time> {
        let all = [self.owner.deadline(), self.seller.deadline(), self.buyer.deadline()];
        all.into_iter().flatten().min()
    }
}

impl Trader {
    fn new(secret: Secret, config: &Arc<MarketConfig>, seed: [u8; 32]) -> Trader {
        let rng = |part| NodeRng::fork(&seed, part);
        Trader {
            owner: Machine::new(Owner::new(config.clone()), rng("owner")),
            seller: Machine::new(Seller::new(config.clone(), secret.clone()), rng("seller")),
            buyer: Machine::new(Buyer::new(config.clone()), rng("buyer")),
            secret,
            lie: None,
        }
    }
}

impl Markets {
    /// No nodes yet.
    pub fn with(seed: u64, ring: RingConfig, config: MarketConfig) -> Markets {
        let mut markets = Markets::new(seed, ring);
        markets.shared.config = Arc::new(config);
        markets
    }

    /// A ring of `count` nodes at rest, whose market operators have heard of their keys.
    pub fn rested(seed: u64, ring: RingConfig, config: MarketConfig, count: usize) -> Markets {
        let mut markets = Markets::with(seed, ring, config);
        markets.rest(count);
        for n in 0..count {
            let view = markets.view(n).and_then(|view| view.members().next());
            let Some((range, list)) = view.map(|view| (view.range(), view.successors().to_vec())) else {
                continue;
            };
            if let Some(range) = range {
                markets
                    .step_owner(n, Input::Command(owner::Command::Keys(Keys::Gained { range, from: None })));
            }
            let list = list.into_iter().map(|peer| peer.contact).collect();
            markets.step_owner(n, Input::Command(owner::Command::Keys(Keys::Successors(list))));
        }
        markets
    }

    fn tell_time(&mut self, n: usize) {
        let ms = EPOCH_MS + self.now.0 / 1000;
        self.step_owner(n, Input::Command(owner::Command::WallClock(ms)));
        self.step_seller(n, Input::Command(seller::Command::WallClock(ms)));
        self.step_buyer(n, Input::Command(buyer::Command::WallClock(ms)));
    }

    /// From now on this node sells this, in place of all of its kind that it sold.
    pub fn offer(&mut self, n: usize, goods: Goods) {
        self.shared.stock.insert((n, goods.kind), (goods, 0));
        self.step_seller(n, Input::Command(seller::Command::Offer(goods)));
    }

    /// Lets a node search; returns the search's number.
    pub fn search(&mut self, by: usize, wanted: Wanted) -> u64 {
        self.shared.next += 1;
        let number = self.shared.next;
        self.shared.asked.insert(number, Asked { by, wanted, at: self.now, end: None });
        self.step_buyer(
            by,
            Input::Command(buyer::Command::Ask { ticket: ServiceId::Driver.ticket(number), wanted }),
        );
        number
    }

    /// Runs until a search has ended, and says how. None if the asker died.
    pub fn searched(&mut self, by: usize, wanted: Wanted) -> Option<End> {
        let number = self.search(by, wanted);
        let until = self.now + 2 * self.shared.config.search;
        while self.shared.asked[&number].end.is_none() && self.now < until {
            self.run(std::time::Duration::from_millis(100));
        }
        self.shared.asked.remove(&number)?.end
    }

    /// Lets a node buy what it found; returns the purchase's number.
    pub fn take(&mut self, by: usize, offer: Offer) -> u64 {
        self.shared.next += 1;
        let number = self.shared.next;
        self.step_buyer(
            by,
            Input::Command(buyer::Command::Take {
                ticket: ServiceId::Driver.ticket(number),
                offer,
                receipt: None,
            }),
        );
        number
    }

    /// From here on its machines hear only what this lets pass.
    pub fn lies(&mut self, n: usize, lie: Lie) {
        self.nodes[n].above.lie = Some(lie);
    }

    pub fn secret(&self, n: usize) -> &Secret {
        &self.nodes[n].above.secret
    }

    /// Milliseconds since 1970.
    pub fn wall_ms(&self) -> u64 {
        EPOCH_MS + self.now.0 / 1000
    }

    pub fn owner_view(&self, n: usize) -> OwnerView<'_> {
        self.nodes[n].above.owner.state().view()
    }

    pub fn buyer(&self, n: usize) -> &Buyer {
        self.nodes[n].above.buyer.state()
    }

    /// Somebody at this node looks at the markets.
    pub fn look(&mut self, n: usize) {
        self.step_buyer(n, Input::Command(buyer::Command::Look));
    }

    pub fn sells(&self, n: usize, kind: Kind) -> Option<Goods> {
        self.nodes[n].above.seller.state().sells(kind).map(|(goods, _)| goods)
    }
}
