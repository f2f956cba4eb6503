use super::{Cx, InputOf, Protocol, Rng, Timers};
use crate::address::Contact;
use crate::ids::NodeId;
use crate::peers::Peers;
use crate::time::Time;

/// An action that a machine asks for while it handles an input, in order.
pub enum Effect<P: Protocol + ?Sized> {
    Send {
        to: NodeId,
        message: P::Message,
    },
    /// A message that the relay `by` is to forward.
    Forward {
        by: NodeId,
        to: NodeId,
        message: P::Message,
    },
    Emit(P::Event),
    /// The peer did something that a correct peer does not do.
    Fault {
        peer: NodeId,
        fault: String,
    },
    /// Something will be sent to this node: connect, unless it is connected.
    Reach(Contact),
    /// The connection to this node is to last: connect, and do not let it go while it is idle.
    Hold(Contact),
    /// The connection to this node need not last any more.
    Release(NodeId),
    /// This node's own storage or engine failed; the text says what to do next.
    Trouble(String),
}

/// A protocol with its timers and its randomness.
pub struct Machine<P: Protocol> {
    state: P,
    timers: Timers<P::Timer>,
    rng: Rng,
}

impl<P: Protocol> Machine<P> {
    pub fn new(state: P, rng: Rng) -> Self {
        Machine { state, timers: Timers::default(), rng }
    }

    pub fn state(&self) -> &P {
        &self.state
    }

    /// The state, to note what is no input: it neither answers nor sets a timer.
    pub fn state_mut(&mut self) -> &mut P {
        &mut self.state
    }

    /// Handles one input of the node `me`, which is connected to nobody.
    pub fn step(&mut self, me: NodeId, now: Time, input: InputOf<P>) -> Vec<Effect<P>> {
        static NOBODY: Peers = Peers::new();
        self.step_among(&NOBODY, me, now, input)
    }

    /// Handles one input of the node `me`, which has these peers.
    pub fn step_among(&mut self, peers: &Peers, me: NodeId, now: Time, input: InputOf<P>) -> Vec<Effect<P>> {
        let mut effects = Vec::new();
        let mut cx =
            Cx { now, me, peers, rng: &mut self.rng, timers: &mut self.timers, effects: &mut effects };
        self.state.handle(input, &mut cx);
        if cfg!(debug_assertions) {
            self.state.check_invariants();
        }
        effects
    }

    /// Takes one timer that is due.
    pub fn due(&mut self, now: Time) -> Option<P::Timer> {
        self.timers.pop_due(now)
    }

    /// When the next timer fires.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }
}
