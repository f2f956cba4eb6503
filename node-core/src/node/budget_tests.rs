use super::*;
use crate::address::Contact;
use crate::channel::{Carrier, Channel};
use crate::disk::StorageRequest;
use crate::engine::EngineRequest;
use crate::ids::NodeId;
use crate::node::config::Config;
use crate::node::host::NodeInput;
use crate::node::table::{Service, shown};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use crate::ticket::ServiceId;
use crate::wire::Framed;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A host that only remembers.
#[derive(Default)]
struct Memory {
    sent: Vec<NodeId>,
    closed: Vec<NodeId>,
    events: Vec<NodeEvent>,
    wake: Option<Time>,
}

impl Host for Memory {
    fn transmit(&mut self, to: NodeId, _: Channel, _: Bytes) {
        self.sent.push(to);
    }
    fn dial(&mut self, _: Contact) {}
    fn probe(&mut self, _: u64, _: Contact) {}
    fn disconnect(&mut self, peer: NodeId, _: &str) {
        self.closed.push(peer);
    }
    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = at;
    }
    fn storage(&mut self, _: StorageRequest) {}
    fn engine(&mut self, _: EngineRequest) {}
    fn event(&mut self, event: NodeEvent) {
        self.events.push(event);
    }
}

impl Memory {
    fn troubles(&self) -> Vec<&str> {
        let trouble = |event: &'_ NodeEvent| matches!(event, NodeEvent::Trouble { .. });
        let all = self.events.iter().filter(|event| trouble(event));
        all.map(|event| if let NodeEvent::Trouble { what } = event { what.as_str() } else { "" }).collect()
    }
}

/// A service that gives itself the ball, for ever.
#[derive(Debug)]
struct Player;

impl Framed for Ball {
    fn service(&self) -> ServiceId {
        Player::ID
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ball(bool);

impl Protocol for Player {
    type Message = Ball;
    type Timer = ();
    type Command = Ball;
    type Event = Ball;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        if let Input::Command(Ball(way)) = input {
            cx.emit(Ball(!way));
        }
    }
}

impl Service for Player {
    const ID: ServiceId = ServiceId::Bank;
    const NAME: &'static str = "ball";
    type Beside = ();

    fn open(_: &Config) -> Option<Self> {
        Some(Player)
    }

    fn on_event(node: &mut Node, ball: Ball, _: &mut dyn Host) {
        node.tell::<Self>(ball);
    }
}

/// A node in which a ball is played to and fro for ever.
fn playing(limits: Bounds) -> (Node, Memory) {
    let (mut node, mut host) = (
        Node::new(NodeId([1; 32]), Config { limits: limits.into(), ..Config::default() }, [0; 32], Time(0)),
        Memory::default(),
    );
    node.drive(Time(0), NodeInput::Wake, &mut host);
    assert!(host.troubles().is_empty(), "an ordinary start is within the bound");
    shown::<Player>(&mut node.table, &Config::default(), &[0; 32]);
    node.tell::<Player>(Ball(true));
    node.drive(Time(0), NodeInput::Wake, &mut host);
    (node, host)
}

#[test]
fn machines_that_answer_each_other_for_ever_cost_a_message_and_the_node_goes_on() {
    let (mut node, mut host) = playing(Bounds::default());
    let troubles = host.troubles();
    assert_eq!(troubles.len(), 1);
    assert!(troubles[0].contains("ball (1000)"), "{}", troubles[0]);
    assert_eq!(host.wake, Some(Time(0) + PAUSE));
    assert_eq!(node.steps.len(), 1, "what is over the bound is kept");

    // Peers are heard, and timers fire: one who never introduces itself is told to go.
    let peer = NodeId([2; 32]);
    node.drive(Time(1), NodeInput::Connected { peer, ip: None, joined: true, over: Carrier::Tcp }, &mut host);
    assert_eq!(host.sent, [peer], "it introduces itself");
    let mut at = Time(61_000_000);
    for _ in 0..100 {
        node.drive(at, NodeInput::Wake, &mut host);
        at = host.wake.expect("it goes on by itself");
    }
    assert_eq!(host.closed, [peer], "a timer is starved");
    assert_eq!(host.troubles().len(), 1, "it is said once");

    // Once the loop has ended, nothing is left over.
    node.steps.clear();
    node.drive(host.wake.unwrap_or_default(), NodeInput::Wake, &mut host);
    assert!(!node.budget.behind && node.steps.is_empty());
}

#[test]
#[should_panic(expected = "Ball(")]
fn in_tests_it_is_a_panic_that_shows_the_last_steps() {
    playing(Bounds { overrun_panics: true, ..Bounds::default() });
}
