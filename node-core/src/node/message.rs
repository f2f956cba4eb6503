//! Every message of every protocol.

use crate::channel::Channel;
use crate::finding;
use crate::wire::Framed;
#[cfg(feature = "roles")]
use crate::{discovery, files, ledger, records};
use crate::{market, overlay, store, work};
use serde::{Deserialize, Serialize};

/// Every message of every protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Neighbours(overlay::neighbours::Message),
    Offer(finding::Offer),
    Work(work::message::Message),
    Store(store::Message),
    #[cfg(feature = "roles")]
    DialBack(overlay::dialback::Message),
    #[cfg(feature = "roles")]
    Tree(overlay::tree::Message),
    #[cfg(feature = "roles")]
    Nearest(discovery::nearest::Message),
    #[cfg(feature = "roles")]
    Ring(overlay::ring::Message),
    #[cfg(feature = "roles")]
    Market(market::Message),
    #[cfg(feature = "roles")]
    Ledger(ledger::Message),
    #[cfg(feature = "roles")]
    Records(records::Message),
    #[cfg(feature = "roles")]
    Files(files::Message),
    // Each side reads what it is told, and no more: a page loads what it has.
    #[cfg_attr(not(feature = "roles"), serde(skip_deserializing))]
    ToHost(market::guest::ToHost),
    #[cfg_attr(not(feature = "roles"), serde(skip_serializing))]
    ToGuest(market::guest::ToGuest),
}

impl Message {
    /// The stream that carries it: content must never hold up a heartbeat.
    pub fn channel(&self) -> Channel {
        match self {
            Message::Store(_) => Channel::Blob,
            _ => Channel::Control,
        }
    }
}

impl Framed for Message {
    fn channel(&self) -> Channel {
        Message::channel(self)
    }
}
