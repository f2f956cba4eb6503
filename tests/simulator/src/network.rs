//! The network between the nodes: how long a frame takes, and what can happen to it.

use crate::rng::Rng;
use node_core::Time;
use node_core::ticket::ServiceId;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a frame is under way, microseconds, before bandwidth.
#[derive(Clone, Debug)]
pub enum Latency {
    Constant(u64),
    /// Drawn for each frame.
    Uniform(u64, u64),
    /// By the regions of both ends, with so much more drawn for each frame.
    Regions {
        between: Vec<Vec<u64>>,
        jitter: u64,
    },
}

impl Latency {
    /// Whether it depends on where the ends are.
    pub fn is_regional(&self) -> bool {
        matches!(self, Latency::Regions { .. })
    }

    pub fn draw(&self, from: u8, to: u8, rng: &mut Rng) -> u64 {
        match self {
            Latency::Constant(time) => *time,
            Latency::Uniform(low, high) => rng.between(*low, *high),
            Latency::Regions { between, jitter } => {
                let row = between.get(usize::from(from)).and_then(|row| row.get(usize::from(to)));
                row.copied().unwrap_or_default() + rng.below(jitter.saturating_add(1))
            }
        }
    }
}

/// Faults of single frames. A real connection loses nothing but itself; the machines have to survive them all
/// the same. The greeting of a connection is spared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mischief {
    /// Chance that a frame is lost.
    pub loss: f64,
    /// Chance that it comes a second time.
    pub duplication: f64,
    /// Chance that others may overtake it, and by how much it is late, microseconds.
    pub reordering: f64,
    pub late: u64,
}

impl Mischief {
    pub fn is_none(&self) -> bool {
        self.loss <= 0.0 && self.duplication <= 0.0 && self.reordering <= 0.0
    }
}

#[derive(Clone, Debug)]
pub struct Network {
    pub latency: Latency,
    /// Bandwidth of a node's line in each direction, bits a second, if the node has none of its own; 0 for no
    /// bound.
    pub bandwidth: u64,
    /// No line has a bound for now.
    pub wide: bool,
    pub mischief: Mischief,
    /// Kinds of frames that mischief befalls; all if none are named.
    pub mischief_of: Vec<String>,
    /// Time that a dialled connection takes before the first frame, in its latencies.
    pub dial_hops: f64,
    /// Chance that a dialled connection breaks before anything gets through.
    pub stillborn: f64,
    /// How long a node tries to reach one that does not answer.
    pub dial_timeout: (u64, u64),
    /// How long it takes until peers notice that a node died.
    pub notice: (u64, u64),
    /// Time until a frozen node, or one behind a partition, is taken for dead, microseconds; `None` for
    /// never.
    pub keepalive: Option<(u64, u64)>,
    /// Frames from the first to the second are swallowed.
    pub cuts: BTreeSet<(u32, u32)>,
    /// Pairs between which no data channel opens, the smaller index first.
    pub walls: BTreeSet<(u32, u32)>,
    /// Share of all pairs between which none opens.
    pub walled: f64,
    /// Whether nodes are in different parts at all.
    pub parted: bool,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            latency: Latency::Uniform(1_000, 40_000),
            bandwidth: 0,
            wide: false,
            mischief: Mischief::default(),
            mischief_of: Vec::new(),
            dial_hops: 1.0,
            stillborn: 0.0,
            dial_timeout: (3_000_000, 3_000_000),
            notice: (1_000, 1_000),
            keepalive: None,
            cuts: BTreeSet::new(),
            walls: BTreeSet::new(),
            walled: 0.0,
            parted: false,
        }
    }
}

/// Longest time that a frame waits for a line; a frame beyond it is lost, as in a full buffer. Our choice: 15
/// MB at 1 Mbps, well below what a link keeps for a slow peer.
pub const BACKLOG: Duration = Duration::from_secs(120);

/// A node's line to the network: when it is free again, in each direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    pub up: Time,
    pub down: Time,
}

impl Network {
    /// Microseconds that a node's line is busy with so many bytes. `own` is the node's bandwidth,
    /// 0 if it is as everybody's.
    pub fn on_the_line(&self, own: u64, bytes: usize) -> u64 {
        let bandwidth = if own > 0 { own } else { self.bandwidth };
        if self.wide || bandwidth == 0 {
            return 0;
        }
        // TCP, noise and yamux add 40 + 18 + 12 bytes.
        let bits = (bytes as u64 + OVERHEAD) * 8;
        bits * 1_000_000 / bandwidth
    }
}

/// Bytes that a frame costs on the line beside itself.
pub const OVERHEAD: u64 = 70;

/// Protocol and message that a frame carries; empty where there is none.
pub fn kind_of(frame: &[u8]) -> (&'static str, &str) {
    let [_, service, body @ ..] = frame else { return ("", "") };
    let Some(service) = ServiceId::of(*service) else { return ("", "") };
    (protocol_of(service), variant(body).unwrap_or_default())
}

/// The protocol that a service speaks, by the name that scenarios use.
fn protocol_of(service: ServiceId) -> &'static str {
    match service {
        ServiceId::Connected => "Offer",
        ServiceId::Seller | ServiceId::MarketOwner | ServiceId::Buyer => "Market",
        ServiceId::Relay | ServiceId::Guest => "Guests",
        ServiceId::CircuitRelay => "Circuits",
        ServiceId::KeptFiles => "Files",
        ServiceId::Purse | ServiceId::Bank => "Ledger",
        ServiceId::Client | ServiceId::Owner | ServiceId::Runner | ServiceId::Keeper => "Work",
        service => service.name(),
    }
}

/// The name of an enum's variant as MessagePack has it.
fn variant(bytes: &[u8]) -> Option<&str> {
    // A variant with content is a map of one.
    let bytes = bytes.strip_prefix(&[0x81]).unwrap_or(bytes);
    let (&first, rest) = bytes.split_first()?;
    let len = match first {
        0xa0..=0xbf => usize::from(first & 0x1f),
        _ => return None,
    };
    std::str::from_utf8(rest.get(..len)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_core::node::message::Message;

    #[test]
    fn a_frame_says_what_it_carries() {
        use node_core::overlay::neighbours::Message as Greeting;
        let frame = |message: Message| message.encode().unwrap();
        let rejected = frame(Message::Neighbours(Greeting::Rejected { reason: String::new() }));
        assert_eq!(kind_of(&rejected), ("Neighbours", "Rejected"));
        assert_eq!(kind_of(&frame(Message::Offer(Default::default()))), ("Offer", ""));
        assert_eq!(kind_of(&[]), ("", ""));
        assert_eq!(kind_of(&[1, 99, 0x81, 0xbf]), ("", ""));
    }

    #[test]
    fn a_home_line_takes_its_time() {
        let line = Network { bandwidth: 1_000_000, ..Network::default() };
        assert_eq!(line.on_the_line(0, 55), 1_000);
        assert_eq!(line.on_the_line(100_000_000, 55), 10, "a server's takes less");
        assert_eq!(Network { wide: true, ..line }.on_the_line(0, 1 << 20), 0);
        assert_eq!(Network::default().on_the_line(0, 1 << 20), 0);
    }

    #[test]
    fn regions_are_as_far_apart_as_the_matrix_says() {
        let latency = Latency::Regions { between: vec![vec![5, 90], vec![80, 7]], jitter: 2 };
        let mut rng = Rng::new(3);
        let mut draw = |from, to| latency.draw(from, to, &mut rng);
        assert!((90..=92).contains(&draw(0, 1)) && (80..=82).contains(&draw(1, 0)));
        assert!((7..=9).contains(&draw(1, 1)));
    }
}
