//! The connection between a pair of peers, and its streams.

/// One of the two streams between a pair of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Small, bounded protocol messages.
    Control,
    /// Chunks of blobs, so that they never hold up a heartbeat.
    Blob,
}

/// Carrier of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    Tcp,
    WebSocket,
    /// A WebRTC data channel.
    DataChannel,
    /// A circuit by way of a third node.
    Relay,
}
