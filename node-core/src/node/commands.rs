//! Commands of the driver: each goes to a service, and one that this node does not have is said to be missing.

use super::Node;
use super::host::{Command, Host, NodeEvent, NotConnected};
use crate::contract::Refusal;
use crate::files::owner::{NotNamed, NotPut};
use crate::ledger::bank::NotInvited;
use crate::overlay::ring::Failure;
use crate::overlay::signalling::NotOpened;
use crate::record::Refused;
use crate::ticket::ServiceId;
use crate::work::client::NotAccepted;

impl Command {
    /// The service that it is for; none: the node itself.
    pub(super) fn service(&self) -> Option<ServiceId> {
        Some(match self {
            Command::Submit { .. } | Command::Cancel { .. } => ServiceId::Client,
            Command::Forget { .. } | Command::Migrate { .. } | Command::PauseUnit { .. } => ServiceId::Owner,
            Command::SetSlots(_)
            | Command::SetDonating(_)
            | Command::Terms { .. }
            | Command::Occupy { .. } => ServiceId::Runner,
            Command::FindCapable { .. } => ServiceId::Fitting,
            Command::Locate { .. } => ServiceId::Ring,
            Command::Sell(_) | Command::Balance => ServiceId::Seller,
            Command::Quote { .. } | Command::LookAround | Command::Buy { .. } => ServiceId::Buyer,
            Command::Order { .. } | Command::Statement { .. } => ServiceId::Purse,
            Command::Invite { .. } => ServiceId::Bank,
            Command::Publish { .. } | Command::ReadRecord { .. } => ServiceId::Records,
            Command::PutFile { .. } | Command::DropFile { .. } | Command::NameFile { .. } => ServiceId::Files,
            Command::Connect(_) => ServiceId::Signalling,
            Command::Bring { .. } | Command::LetGo { .. } | Command::BlobsStored(_) => ServiceId::Store,
            Command::Find { .. } | Command::Measured { .. } | Command::Drain => return None,
        })
    }
}

impl Node {
    pub(super) fn command(&mut self, command: Command, host: &mut dyn Host) {
        match command {
            Command::Find { number, units, needs } => {
                return self.find_for_driver(number, units, needs, host);
            }
            Command::Measured { speed } => return self.measured(speed, host),
            _ => {}
        }
        let row = command.service().and_then(|service| self.row(service));
        match row {
            Some(row) => (row.on_command)(self, command, host),
            None => command.without_service().into_iter().for_each(|event| host.event(event)),
        }
    }
}

impl Command {
    /// Answer for the driver when the node has no such service; none where no answer is due.
    fn without_service(self) -> Option<NodeEvent> {
        Some(match self {
            Command::Submit { job, .. } => NodeEvent::JobRefused { job, why: NotAccepted::Guest },
            Command::Migrate { unit, .. } | Command::PauseUnit { unit, .. } => {
                let why = "this node owns no jobs; ask the gateway that does".into();
                NodeEvent::MigrationFailed { unit, why }
            }
            Command::FindCapable { number, .. } => {
                NodeEvent::Capable { number, found: Vec::new(), visited: 0 }
            }
            Command::Locate { number, .. } => NodeEvent::Located { number, found: Err(Failure::Nobody) },
            Command::Quote { number, .. } => {
                NodeEvent::Quoted { number, offers: Vec::new(), shortage: None, hops: 0 }
            }
            Command::Buy { number, .. } => NodeEvent::Bought { number, taken: false },
            Command::Order { number, .. } => NodeEvent::Ordered { number, outcome: Err(Refusal::NoAccount) },
            Command::Connect(to) => {
                let why = NotConnected::Direct(NotOpened::NoDriver);
                NodeEvent::NotConnected { peer: to.id, why }
            }
            Command::Invite { number, .. } => NodeEvent::Invited { number, made: Err(NotInvited::NotBank) },
            Command::Publish { number, .. } => {
                NodeEvent::Published { number, refused: Some(Refused::NoAnswer) }
            }
            Command::ReadRecord { number, .. } => {
                NodeEvent::RecordRead { number, found: Err(Refused::NoAnswer) }
            }
            Command::PutFile { number, .. } => NodeEvent::FilePut { number, refused: Some(NotPut::NoFiles) },
            Command::DropFile { number, .. } => NodeEvent::FileDropped { number, known: false },
            Command::NameFile { number, .. } => {
                NodeEvent::FileNamed { number, refused: Some(NotNamed::NoFiles) }
            }
            _ => return None,
        })
    }
}
