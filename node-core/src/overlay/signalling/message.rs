//! Messages by which two nodes agree on a data channel: of SDP, the few fields that they need, typed and bounded.

use crate::address::{Ip, Scope, as_bytes};
use crate::ids::NodeId;
use crate::keys::{Secret, Signed};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Purpose of the signature ([`Signed`]).
const PURPOSE: &str = "Manyhands 2026-11 signalling";

/// Longest signed body, bytes. Our choice: eight candidates and the longest words of ICE fit twice.
pub const BODY_MAX: usize = 1 << 10;

/// Candidates of one end, in all its messages. Our choice: a machine has two networks of two families, each
/// seen from inside and from outside.
pub const CANDIDATES: usize = 8;

/// Length of an ICE user name fragment, characters. RFC 8839, 5.4, allows 256; implementations use 4 to 16.
const UFRAG: std::ops::RangeInclusive<usize> = 4..=32;

/// Length of an ICE password, characters. RFC 8839, 5.4, allows 22 to 256; implementations use 22 to 32.
const PASSWORD: std::ops::RangeInclusive<usize> = 22..=64;

/// One attempt of two nodes to open a channel. Drawn at random by the one that offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

as_bytes!(SessionId, 16, |id| id.0, SessionId);

/// SHA-256 of the certificate that an end shows in DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

as_bytes!(Fingerprint, 32, |it| it.0, Fingerprint);

/// Random name by which a browser hides an address (mDNS ICE candidates): `<uuid>.local`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

as_bytes!(Uuid, 16, |it| it.0, Uuid);

/// How one end of a channel is reached and recognised (RFC 8839, 5.4; RFC 8122).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// ICE user name fragment: 4 to 32 characters of ICE's alphabet.
    pub ufrag: String,
    /// ICE password: 22 to 64 characters of ICE's alphabet.
    pub password: String,
    pub fingerprint: Fingerprint,
}

/// One address at which an end may be reached (RFC 8839, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub at: At,
    /// UDP.
    pub port: u16,
    /// The drivers here go by the priority alone.
    pub kind: Kind,
    /// The larger the better (RFC 8445, 5.1.2).
    pub priority: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    Ip(Ip),
    Mdns(Uuid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// An address of the machine itself.
    Host,
    /// An address that a STUN server saw.
    Reflexive,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// A [`Said`], signed by the node that says it.
    Said(Signed),
    /// The sender has given the session up.
    Over { session: SessionId, why: Over },
}

/// Reason why an end gives a session up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Over {
    #[error("its donor lets it connect to no strangers")]
    Refused,
    #[error("it opens as many channels as it may")]
    Busy,
    #[error("it could not open the channel")]
    Failed,
}

/// Content of a signed message: one node's word to another one in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub to: NodeId,
    pub session: SessionId,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// Opens a session.
    Offer(Description),
    Answer(Description),
    /// More addresses of the sender.
    Candidates(Vec<Candidate>),
}

/// Why a message is not taken; the words follow "the node" in a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    #[error("signalled {0} bytes; {BODY_MAX} are allowed")]
    Long(usize),
    #[error("signalled in the name of another node")]
    OtherNode,
    #[error("signalled with a signature that is not its own")]
    Forged,
    #[error("signalled what cannot be read")]
    Garbage,
    #[error("signalled what was said to another node")]
    OtherReceiver,
    #[error("signalled words that ICE does not have")]
    Words,
    #[error("signalled more than {CANDIDATES} candidates")]
    Candidates,
}

impl Said {
    /// The message; `None` if it is longer than it may be.
    pub fn sign(&self, secret: &Secret) -> Option<Message> {
        let body = rmp_serde::to_vec(self).ok().filter(|body| body.len() <= BODY_MAX)?;
        Some(Message::Said(Signed::new(secret, PURPOSE, Bytes::from(body))))
    }

    /// Reads what `from` said to `me`.
    ///
    /// # Errors
    /// [`NotTaken`] says what is wrong with it.
    pub fn open(signed: &Signed, from: NodeId, me: NodeId) -> Result<Said, NotTaken> {
        // The signature last: it costs most.
        if signed.body.len() > BODY_MAX {
            return Err(NotTaken::Long(signed.body.len()));
        }
        if signed.by != from {
            return Err(NotTaken::OtherNode);
        }
        let said: Said = sandbox::unpack::from_slice(&signed.body).map_err(|_| NotTaken::Garbage)?;
        if said.to != me {
            return Err(NotTaken::OtherReceiver);
        }
        said.what.check()?;
        signed.open(PURPOSE).map(|_| said).ok_or(NotTaken::Forged)
    }
}

impl What {
    fn check(&self) -> Result<(), NotTaken> {
        match self {
            What::Offer(description) | What::Answer(description) => match description.is_well_formed() {
                true => Ok(()),
                false => Err(NotTaken::Words),
            },
            What::Candidates(all) if all.len() > CANDIDATES => Err(NotTaken::Candidates),
            What::Candidates(_) => Ok(()),
        }
    }
}

impl Description {
    /// Whether its words are words of ICE, so that a driver may put them into SDP as they are.
    pub fn is_well_formed(&self) -> bool {
        let of_ice = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
        let fits = |word: &str, length: &std::ops::RangeInclusive<usize>| {
            length.contains(&word.len()) && of_ice(word)
        };
        fits(&self.ufrag, &UFRAG) && fits(&self.password, &PASSWORD)
    }
}

impl Candidate {
    /// Whether packets may be sent there because a peer says so. To this machine itself only if the peers are here
    /// as well; never to groups, to everybody, or to no address.
    pub fn may_be_tried(&self, on_this_machine: bool) -> bool {
        if self.port == 0 {
            return false;
        }
        match self.at {
            At::Ip(ip) => ip.is_of_a_machine() && (on_this_machine || ip.scope() != Scope::Machine),
            At::Mdns(_) => true,
        }
    }
}
