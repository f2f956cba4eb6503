//! Every message of every protocol, for tools that look at whole frames. A node decodes no more than the
//! messages of its own services.

use crate::channel::Channel;
use crate::ticket::ServiceId;
use crate::wire::{self, Framed, WireError};
use crate::{discovery, files, finding, ledger, market, overlay, records, store, work};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

macro_rules! messages {
    ($($name:ident($message:ty): $($service:ident)|*,)+) => {
        /// Every message of every protocol, without the frame around it.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Message {
            $($name($message),)+
        }

        impl Message {
            /// The service that is to receive it.
            pub fn service(&self) -> ServiceId {
                match self {
                    $(Message::$name(message) => message.service(),)+
                }
            }

            /// Its frame; `None` if that would be longer than [`wire::MAX_FRAME`].
            pub fn encode(&self) -> Option<Bytes> {
                match self {
                    $(Message::$name(message) => wire::encode(message.service(), message),)+
                }
            }

            fn read(service: ServiceId, body: &[u8]) -> Result<Message, WireError> {
                Ok(match service {
                    $($(ServiceId::$service => Message::$name(wire::read(body)?),)*)+
                    _ => return Err(WireError::WrongService),
                })
            }
        }
    };
}

messages! {
    Neighbours(overlay::neighbours::Message): Neighbours,
    Offer(finding::Offer): Connected,
    Work(work::message::Message): Client | Owner | Runner | Keeper,
    Store(store::Message): Store,
    DialBack(overlay::dialback::Message): DialBack,
    Tree(overlay::tree::Message): Tree,
    Nearest(discovery::nearest::Message): Nearest,
    Random(discovery::random::Message): Random,
    Ring(overlay::ring::Message): Ring,
    Market(market::Message): MarketOwner | Seller | Buyer,
    Guests(overlay::guests::Message): Relay | Guest,
    Ledger(ledger::Message): Purse | Bank,
    Records(records::Message): Records,
    Files(files::Message): Files | KeptFiles,
    Signalling(overlay::signalling::Message): Signalling,
    Circuits(overlay::circuits::Message): CircuitRelay | Circuits,
    RnTree(overlay::rn_tree::Message): RnTree,
    Fitting(discovery::fitting::Message): Fitting,
    Can(overlay::can::Message): Can,
}

impl Message {
    /// The stream that carries it.
    pub fn channel(&self) -> Channel {
        self.service().channel()
    }

    /// The message in a frame.
    ///
    /// # Errors
    /// The frame is too long, of another version or service, no message, or came on another channel than its
    /// service's.
    pub fn decode(frame: &[u8], channel: Channel) -> Result<Message, WireError> {
        let (service, body) = wire::open(frame, channel)?;
        let service = ServiceId::of(service).ok_or(WireError::WrongService)?;
        let message = Message::read(service, body)?;
        match message.service() == service {
            true => Ok(message),
            false => Err(WireError::WrongService),
        }
    }
}
