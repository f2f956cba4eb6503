//! Messages between the ends of circuits and the relay.

use crate::ids::NodeId;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Longest piece, bytes. Our choice: the longest frame of the handshake's cipher fits.
pub const PIECE: usize = 64 << 10;

/// Bytes that may be under way in each direction, from end to end. Our choice: a tenth of a second at 2.6 MB/s. A
/// relay's memory is bounded by it.
pub const WINDOW: u32 = 256 << 10;

/// A piece takes so much of the window beside its bytes, so that many short ones cost something as well.
const OVERHEAD: u32 = 64;

/// Part of the window that a piece of so many bytes takes.
pub const fn cost(bytes: usize) -> u32 {
    // A frame's length is far below.
    (bytes as u32).saturating_add(OVERHEAD)
}

/// A circuit, as its ends name it: the relay has given it the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CircuitId {
    pub relay: NodeId,
    pub number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToRelay(ToRelay),
    ToEnd(ToEnd),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRelay {
    /// Open a circuit to this node. Answered by `Opened` or `Refused`.
    Open {
        to: NodeId,
    },
    On {
        circuit: u64,
        piece: Piece,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToEnd {
    /// The circuit that you have asked for.
    Opened {
        circuit: u64,
        to: NodeId,
    },
    /// There is no circuit to this node.
    Refused {
        to: NodeId,
        why: Refusal,
    },
    /// This node has asked for a circuit to you, and has it.
    Incoming {
        circuit: u64,
        from: NodeId,
    },
    On {
        circuit: u64,
        piece: Piece,
    },
}

/// A part of what is said on a circuit, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Bytes of the stream, 1 to [`PIECE`]. A piece takes [`cost`] of the window.
    Data(Bytes),
    /// The sender has read so much more, as [`cost`] has it: the other end may send that again.
    Room(u32),
    /// The sender has closed it. Nothing follows.
    Close,
}

/// Why a relay opens no circuit; the words follow "the relay says that".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("its donor gives nothing for relaying (`relay_mb_per_s` is 0)")]
    NotRelaying,
    #[error("the peer is not connected to it")]
    NotHere,
    #[error("it has as many circuits as it may; it is tried later")]
    Full,
}
