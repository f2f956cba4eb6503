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

    /// Handles one input of the node `me`.
    pub fn step(&mut self, me: NodeId, now: Time, input: InputOf<P>) -> Vec<Effect<P>> {
        let mut effects = Vec::new();
        let mut cx = Cx { now, me, rng: &mut self.rng, timers: &mut self.timers, effects: &mut effects };
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
