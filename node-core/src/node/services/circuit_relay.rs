//! The relay of circuits: a node that others can dial passes on what guests and their peers write.

use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::Host;
use crate::node::notes::Note;
use crate::node::table::Service;
use crate::overlay::circuits::relay::{CircuitRelay, Command};
use crate::ticket::ServiceId;
use std::convert::Infallible;

impl Service for CircuitRelay {
    const ID: ServiceId = ServiceId::CircuitRelay;
    const NAME: &'static str = "circuit relay";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.relay_rate.map(CircuitRelay::new)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        if matches!(note, Note::Down(_) | Note::Unreachable(_)) {
            node.ended::<Self>(note);
        }
    }

    fn on_event(_: &mut Node, event: Infallible, _: &mut dyn Host) {
        match event {}
    }
}

impl Node {
    /// The donor gives so many bytes a second for what others write to each other.
    pub(super) fn relays_at(&mut self, rate: u64) {
        self.tell::<CircuitRelay>(Command::Rate(rate));
    }

    /// Circuits that this node relays now, and the bytes that it has passed on since its start; none if it is no relay.
    pub fn relayed(&self) -> Option<(usize, u64)> {
        self.state::<CircuitRelay>().map(|relay| (relay.len(), relay.passed()))
    }
}
