use super::{Cx, InputOf, Protocol, Rng, Timers};
use crate::ids::NodeId;
use crate::time::Time;

/// What came of an input, in order.
pub enum Effect<P: Protocol + ?Sized> {
    Send { to: NodeId, message: P::Message },
    Emit(P::Event),
}

/// A protocol with its timers and its randomness.
pub struct Machine<P: Protocol> {
    me: NodeId,
    state: P,
    timers: Timers<P::Timer>,
    rng: Rng,
}

impl<P: Protocol> Machine<P> {
    pub fn new(me: NodeId, state: P, rng: Rng) -> Self {
        Machine { me, state, timers: Timers::default(), rng }
    }

    pub fn state(&self) -> &P {
        &self.state
    }

    /// Handles one input.
    pub fn step(&mut self, now: Time, input: InputOf<P>) -> Vec<Effect<P>> {
        let mut effects = Vec::new();
        let mut cx =
            Cx { now, me: self.me, rng: &mut self.rng, timers: &mut self.timers, effects: &mut effects };
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
