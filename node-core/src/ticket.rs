//! Services by name, and who asked: the service that an answer goes back to, and its own number for the
//! question.

/// A service of a node, and what is around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ServiceId {
    /// The program around the node: command line, API, page.
    Driver,
    Neighbours,
    DialBack,
    Tree,
    Ring,
    /// The finder that knows the nodes at hand.
    Connected,
    Client,
    /// The keeper of checkpoints.
    Keeper,
    /// The owner of jobs.
    Owner,
    Runner,
    Store,
    /// The finder that asks the tree.
    Nearest,
    /// The finder that buys.
    Cheapest,
    MarketOwner,
    Buyer,
    Seller,
    /// A gateway's stall for sellers that nobody can dial.
    Hosting,
    Records,
    /// The owner of files.
    Files,
    /// The keeper of others' files.
    KeptFiles,
    /// The bank's client.
    Purse,
    Bank,
}

impl ServiceId {
    const ALL: [ServiceId; 22] = [
        ServiceId::Driver,
        ServiceId::Neighbours,
        ServiceId::DialBack,
        ServiceId::Tree,
        ServiceId::Ring,
        ServiceId::Connected,
        ServiceId::Client,
        ServiceId::Keeper,
        ServiceId::Owner,
        ServiceId::Runner,
        ServiceId::Store,
        ServiceId::Nearest,
        ServiceId::Cheapest,
        ServiceId::MarketOwner,
        ServiceId::Buyer,
        ServiceId::Seller,
        ServiceId::Hosting,
        ServiceId::Records,
        ServiceId::Files,
        ServiceId::KeptFiles,
        ServiceId::Purse,
        ServiceId::Bank,
    ];

    /// The service of this number, if there is one.
    pub fn of(number: u8) -> Option<ServiceId> {
        ServiceId::ALL.get(usize::from(number)).copied()
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
        for (number, service) in ServiceId::ALL.into_iter().enumerate() {
            assert_eq!(service as usize, number);
            assert_eq!(ServiceId::of(number as u8), Some(service));
        }
        assert_eq!(ServiceId::of(ServiceId::ALL.len() as u8), None);
    }
}
