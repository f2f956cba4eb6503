//! Messages between a guest and its host.
//!
//! A node that nobody can dial, such as a page, sells by way of the gateway that it dialled. It has a
//! [`super::seller`] like any other, which is the one truth about its stock and signs what it lists,
//! the host's name included; the host ([`super::host`]) looks market owners up for it and carries
//! what they, buyers and the guest say to each other.

use super::message::{self, Alive, ToBuyer, ToOwner, ToSeller};
use crate::address::Contact;
use crate::circle::Point;
use crate::goods::{Market, Scheme};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::money::Micro;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    ToHost(ToHost),
    ToGuest(ToGuest),
}

/// All that a host is told: by its guests, or, for them, by market owners and buyers.
#[derive(Deserialize)]
pub enum AtHost {
    ToHost(ToHost),
    ForGuest { guest: NodeId, what: Box<ToSeller> },
}

/// All that a seller is told: by markets and buyers, or, of a guest, by its host.
#[derive(Deserialize)]
pub enum AtSeller {
    ToSeller(ToSeller),
    ToGuest(ToGuest),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHost {
    /// Look up the owner of this point on the ring of nodes. Answered by `Owner`.
    Locate { number: u64, key: Point },
    /// To a market owner that was named to the guest, or to who has spoken to it.
    Say { to: NodeId, word: Word },
    /// Read the balance of the sender's account. The bank is shown this leave ([`crate::ledger::may_read`]).
    /// Answered by `Balance` if the bank answers.
    Balance(Signed),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// The sender is your host: others reach you through it, and it is there.
    Host {
        at: Contact,
        scheme: Scheme,
    },
    Owner {
        number: u64,
        owner: Option<Contact>,
    },
    Heard {
        from: NodeId,
        what: ToSeller,
    },
    Balance(Micro),
}

/// A seller's message on its way through its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Word {
    List(Box<Signed>),
    Withdraw {
        market: Market,
        number: u64,
    },
    Alive(Box<Alive>),
    /// `Alive`, to a buyer.
    AliveToBuyer(Box<Alive>),
    Taken {
        ticket: u64,
    },
    Gone {
        ticket: u64,
    },
}

impl Word {
    /// `None` for a message that no seller sends.
    pub(crate) fn of(message: message::Message) -> Option<Word> {
        use message::Message;
        Some(match message {
            Message::ToOwner(ToOwner::List(signed)) => Word::List(signed),
            Message::ToOwner(ToOwner::Withdraw { market, number }) => Word::Withdraw { market, number },
            Message::ToOwner(ToOwner::Alive(alive)) => Word::Alive(alive),
            Message::ToBuyer(ToBuyer::Alive(alive)) => Word::AliveToBuyer(alive),
            Message::ToBuyer(ToBuyer::Taken { ticket }) => Word::Taken { ticket },
            Message::ToBuyer(ToBuyer::Gone { ticket }) => Word::Gone { ticket },
            _ => return None,
        })
    }
}
