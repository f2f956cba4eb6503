//! Capability of this node as finders are told: the least of what its configuration, its donor's policy and its driver's
//! measurement say.

use super::Node;
use super::config::Config;
use super::host::Host;
use super::notes::Note;
use crate::capability::Capability;
use crate::requires::{Properties, Stated};

/// Capability of this node's slots, and how many there are.
#[derive(Debug)]
pub(super) struct Able {
    pub(super) stated: Stated,
    /// Slots that are given without payment.
    slots: u32,
}

/// Rounded down: what is promised is there.
fn mib(bytes: u64) -> u32 {
    u32::try_from(bytes >> 20).unwrap_or(u32::MAX)
}

impl Able {
    pub(super) fn of(config: &Config) -> Able {
        let capability = Capability {
            memory: mib(config.memory_bytes),
            speed: config.power,
            disk: mib(config.properties.disk_bytes),
            words: config.properties.words(config.platform),
        };
        let properties = Box::new(Properties::clone(&config.properties));
        Able { stated: Stated { capability, properties }, slots: 0 }
    }
}

impl Node {
    /// Statement of what a slot can do.
    pub(super) fn stated(&self) -> Stated {
        self.able.stated.clone()
    }

    /// Capability that this node gives; none while it has no slots.
    pub(super) fn capability_given(&self) -> Option<Capability> {
        (self.able.slots > 0).then_some(self.able.stated.capability)
    }

    /// Tells the services how many slots this node gives, and how many are busy for whom.
    pub(super) fn loaded(
        &mut self,
        slots: u32,
        busy: &[(crate::NodeId, u32)],
        room: u32,
        host: &mut dyn Host,
    ) {
        self.able.slots = slots;
        self.note(Note::Load { slots, busy, room }, host);
    }

    /// The donor gives a unit at most so much memory.
    pub(super) fn gives_memory(&mut self, bytes: u64, host: &mut dyn Host) {
        let memory = mib(bytes.min(self.config.memory_bytes));
        self.now_able(Capability { memory, ..self.able.stated.capability }, host);
    }

    /// Takes the measured speed of a slot, fuel a second.
    pub(super) fn measured(&mut self, fuel_a_second: u64, host: &mut dyn Host) {
        let speed = u32::try_from(fuel_a_second / 1_000_000).unwrap_or(u32::MAX);
        self.now_able(Capability { speed, ..self.able.stated.capability }, host);
    }

    fn now_able(&mut self, capability: Capability, host: &mut dyn Host) {
        if std::mem::replace(&mut self.able.stated.capability, capability) != capability {
            self.note(Note::Able, host);
        }
    }
}
