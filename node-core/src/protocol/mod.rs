//! The kernel that all machines share.
//!
//! A [`Protocol`] is a state machine without surroundings: one [`Input`] in, all its effects
//! out through [`Cx`], nothing kept waiting in between. A [`Machine`] adds what each of them
//! needs, keyed timers and randomness of its own. Machines never see each other; what one
//! needs of another goes up as an event and comes down as a command, in `node/services`.

mod machine;
mod rng;
mod timers;

pub use machine::{Effect, Machine};
pub use rng::Rng;
pub use timers::Timers;

use crate::address::{Address, Contact, Sender};
use crate::ids::NodeId;
use crate::peers::Peers;
use crate::time::Time;

/// One protocol of the node.
pub trait Protocol {
    type Message;
    /// Arming a key again moves it; there is one deadline a key.
    type Timer: Copy + Ord;
    /// From above: what the node wants of this protocol.
    type Command;
    /// To above: what this protocol found out, or wants of others.
    type Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>);

    /// Panics if the state contradicts itself. Run after every input in debug builds and in
    /// simulation; what a peer can cause must not be checked here but handled.
    fn check_invariants(&self) {}
}

/// An input of a protocol.
#[derive(Clone, Debug)]
pub enum Input<M, T, C> {
    Message {
        from: NodeId,
        message: M,
    },
    Timer(T),
    Command(C),
    /// A peer is connected and has introduced itself.
    Up(NodeId),
    /// The connection has ended. The peer may come back.
    Down(NodeId),
    /// A peer that is not connected does not answer where it was said to be: it is dead, or cut off.
    Unreachable(NodeId),
}

pub type InputOf<P> = Input<<P as Protocol>::Message, <P as Protocol>::Timer, <P as Protocol>::Command>;

/// The context in which a protocol handles an input: time, randomness, timers and effects.
pub struct Cx<'a, P: Protocol + ?Sized> {
    pub now: Time,
    pub me: NodeId,
    /// Connections of this node, as they are now.
    pub peers: &'a Peers,
    pub rng: &'a mut Rng,
    timers: &'a mut Timers<P::Timer>,
    effects: &'a mut Vec<Effect<P>>,
}

impl<P: Protocol + ?Sized> Cx<'_, P> {
    /// Sends `message`; to oneself, too.
    pub fn send(&mut self, to: NodeId, message: P::Message) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Sends to a node that may not be connected, by the best way there is: connects to it or to its relay first.
    pub fn send_to(&mut self, to: impl Into<Address>, message: P::Message) {
        let to = to.into();
        match to.relay() {
            Some(relay) => {
                self.reach(relay);
                self.effects.push(Effect::Forward { by: relay.id, to: to.id, message });
            }
            None => {
                self.reach(to);
                self.send(to.id, message);
            }
        }
    }

    /// Answers on the way by which a message came.
    pub fn answer(&mut self, to: Sender, message: P::Message) {
        match to.by {
            Some(by) => self.effects.push(Effect::Forward { by, to: to.id, message }),
            None => self.send(to.id, message),
        }
    }

    pub fn emit(&mut self, event: P::Event) {
        self.effects.push(Effect::Emit(event));
    }

    /// Says what a peer did that a correct peer does not do. Ten faults end its connection.
    pub fn fault(&mut self, peer: NodeId, fault: String) {
        self.effects.push(Effect::Fault { peer, fault });
    }

    /// Connects to a node to which something will be sent, unless it is connected or cannot be dialled.
    pub fn reach(&mut self, to: impl Into<Address>) {
        if let Some(contact) = to.into().contact().filter(|contact| contact.id != self.me) {
            self.effects.push(Effect::Reach(contact));
        }
    }

    /// Connects to a node, and keeps the connection until [`Cx::release`].
    pub fn hold(&mut self, contact: Contact) {
        self.effects.push(Effect::Hold(contact));
    }

    pub fn release(&mut self, peer: NodeId) {
        self.effects.push(Effect::Release(peer));
    }

    /// Says that this node's own storage or engine failed, and what to do next.
    pub fn trouble(&mut self, what: String) {
        self.effects.push(Effect::Trouble(what));
    }

    /// Fires `Input::Timer(key)` once, `after` from now, in place of an earlier setting.
    pub fn set_timer(&mut self, key: P::Timer, after: std::time::Duration) {
        self.timers.set(key, self.now + after);
    }

    /// As [`Cx::set_timer`], but a setting that fires earlier stays.
    pub fn set_timer_by(&mut self, key: P::Timer, after: std::time::Duration) {
        let at = self.now + after;
        if self.timers.get(key).is_none_or(|old| at < old) {
            self.timers.set(key, at);
        }
    }

    pub fn cancel_timer(&mut self, key: P::Timer) {
        self.timers.cancel(key);
    }

    pub fn timer_is_set(&self, key: P::Timer) -> bool {
        self.timers.get(key).is_some()
    }
}
