//! Messages and bytes that each node handles, those of protocols and those of their upkeep apart.

use crate::network::kind_of;

/// Purpose of a frame, by which the meter counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests, their answers, and news of availability: what the paper counts.
    Control,
    /// Liveness, refreshes, greetings, changes of the tree.
    Upkeep,
    /// The work itself and its content.
    Data,
}

pub fn purpose_of(frame: &[u8]) -> Purpose {
    match kind_of(frame) {
        // Its last value says whether it is a refresh; MessagePack's true.
        ("Nearest", "Status") if frame.last() == Some(&0xc3) => Purpose::Upkeep,
        ("Nearest", "Above") => Purpose::Upkeep,
        ("Nearest" | "Random", _) => Purpose::Control,
        ("Tree" | "Neighbours", _) => Purpose::Upkeep,
        _ => Purpose::Data,
    }
}

/// Messages and bytes, received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub messages: u32,
    pub bytes: u32,
    pub upkeep_messages: u32,
    pub upkeep_bytes: u32,
    pub data_messages: u32,
    pub data_bytes: u32,
}

impl Tally {
    /// Messages and bytes for whatever purpose.
    pub fn all(&self) -> (u64, u64) {
        let sum = |of: [u32; 3]| of.into_iter().map(u64::from).sum();
        let messages = [self.messages, self.upkeep_messages, self.data_messages];
        (sum(messages), sum([self.bytes, self.upkeep_bytes, self.data_bytes]))
    }
}

/// Counts for each node, until somebody looks.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    pub nodes: Vec<Tally>,
}

impl Meter {
    pub fn new(nodes: usize) -> Meter {
        Meter { nodes: vec![Tally::default(); nodes] }
    }

    /// A node received or sent this.
    pub fn count(&mut self, at: usize, frame: &[u8]) {
        let Some(tally) = self.nodes.get_mut(at) else { return };
        let bytes = frame.len() as u32;
        match purpose_of(frame) {
            Purpose::Control => {
                tally.messages += 1;
                tally.bytes += bytes;
            }
            Purpose::Upkeep => {
                tally.upkeep_messages += 1;
                tally.upkeep_bytes += bytes;
            }
            Purpose::Data => {
                tally.data_messages += 1;
                tally.data_bytes += bytes;
            }
        }
    }
}
