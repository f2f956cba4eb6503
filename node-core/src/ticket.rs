//! Services by name, and who asked: the service that an answer goes back to, and its own number for the
//! question.

use crate::channel::Channel;
use serde::{Deserialize, Serialize};

macro_rules! services {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// A service of a node, and what is around it. Its number is the byte of a frame that names the
        /// receiver, and the order in which timers fire that are due
        /// at one wake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum ServiceId {
            $($(#[$about])* $name,)+
        }

        impl ServiceId {
            pub const ALL: &[ServiceId] = &[$(ServiceId::$name,)+];

            /// Its name in traces and scenarios.
            pub fn name(self) -> &'static str {
                match self {
                    $(ServiceId::$name => stringify!($name),)+
                }
            }
        }
    };
}

services! {
    /// The program around the node: command line, API, page.
    Driver,
    Neighbours,
    /// The finder that knows the nodes at hand.
    Connected,
    Tree,
    /// The finder that asks the tree.
    Nearest,
    DialBack,
    Ring,
    Seller,
    MarketOwner,
    Buyer,
    /// The finder that buys.
    Cheapest,
    /// A gateway among nodes that nobody can dial: forwards what they say.
    Relay,
    Records,
    /// The owner of files.
    Files,
    /// The keeper of others' files.
    KeptFiles,
    /// The bank's client.
    Purse,
    Bank,
    Client,
    /// The owner of jobs.
    Owner,
    Runner,
    /// The keeper of checkpoints.
    Keeper,
    Store,
    /// The finder that others are compared with.
    Random,
    /// Hears what relays forward; of a node that nobody can dial, also who its relay is.
    Guest,
    /// Agrees with others on data channels.
    Signalling,
    /// Passes on what others write to each other.
    CircuitRelay,
    /// This node's ends of circuits.
    Circuits,
    /// The tree that knows what nodes can do.
    RnTree,
    /// The finder for jobs with requirements.
    Fitting,
    /// The space that knows what nodes can do.
    Can,
}

impl ServiceId {
    /// The service of this number, if there is one.
    pub fn of(number: u8) -> Option<ServiceId> {
        ServiceId::ALL.get(usize::from(number)).copied()
    }

    /// The stream that carries its frames: content must never hold up a heartbeat.
    pub fn channel(self) -> Channel {
        match self {
            ServiceId::Store | ServiceId::CircuitRelay | ServiceId::Circuits => Channel::Blob,
            _ => Channel::Control,
        }
    }
}

/// A set of services: bit n stands for the service of that number. A service that comes to speak otherwise,
/// so that older nodes would not understand it, gets a new number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Services(pub u64);

impl Services {
    pub const ALL: Services = Services((1 << ServiceId::ALL.len()) - 1);

    pub fn has(self, service: ServiceId) -> bool {
        self.0 >> service as u8 & 1 == 1
    }
}

impl FromIterator<ServiceId> for Services {
    fn from_iter<I: IntoIterator<Item = ServiceId>>(services: I) -> Self {
        Services(services.into_iter().fold(0, |all, service| all | 1 << service as u8))
    }
}

/// A question of a service: its answer carries the ticket back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    pub of: ServiceId,
    /// Unique among the questions of that service that are under way.
    pub number: u64,
}

impl ServiceId {
    pub fn ticket(self, number: u64) -> Ticket {
        Ticket { of: self, number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_number() {
        for (number, service) in ServiceId::ALL.iter().copied().enumerate() {
            assert_eq!(service as usize, number);
            assert_eq!(ServiceId::of(number as u8), Some(service));
        }
        assert_eq!(ServiceId::of(ServiceId::ALL.len() as u8), None);
        let two: Services = [ServiceId::Driver, ServiceId::Store].into_iter().collect();
        let members = ServiceId::ALL.iter().copied().filter(|service| two.has(*service));
        assert_eq!(members.collect::<Vec<_>>(), [ServiceId::Driver, ServiceId::Store]);
        assert!(ServiceId::ALL.iter().all(|service| Services::ALL.has(*service)));
    }
}
