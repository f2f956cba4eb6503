//! Content of this node, and what it brings from others.

use crate::disk::{self, Answer, Asked, StorageRequest, What};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host};
use crate::node::notes::{Note, Reply};
use crate::node::table::Service;
use crate::protocol::Input;
use crate::store::{Asker, Command, Event, Message, Store, Ticket};
use crate::ticket::ServiceId;
use crate::wire::Framed;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        ServiceId::Store
    }
}

/// The service that waits for it.
fn service_of(asker: Asker) -> ServiceId {
    match asker {
        Asker::Owner | Asker::Relay => ServiceId::Owner,
        Asker::Runner | Asker::Snapshots => ServiceId::Runner,
        Asker::Keeper => ServiceId::Keeper,
        Asker::Files => ServiceId::Files,
        Asker::Kept => ServiceId::KeptFiles,
        Asker::Driver => ServiceId::Driver,
    }
}

impl Service for Store {
    const ID: ServiceId = ServiceId::Store;
    const NAME: &'static str = "store";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let limits = &config.limits;
        let cache = (!config.gateway).then_some(limits.cache_bytes);
        Some(Store::new(cache, limits.blob_bytes, config.timing.retry))
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match note {
            // Pages keep no messages for peers that are on their way.
            Note::Up(up) if node.dials.is_none() => node.give::<Self>(Input::Up(up.peer)),
            _ => node.ended::<Self>(note),
        }
    }

    fn on_command(node: &mut Node, command: host::Command, host: &mut dyn Host) {
        let ticket = |number| Ticket { of: Asker::Driver, number };
        let command = match command {
            host::Command::Bring { number, blobs, from } => {
                from.iter().for_each(|contact| node.reach(*contact, true, host));
                let from = from.iter().map(|contact| contact.id).collect();
                Command::Fetch { ticket: ticket(number), blobs, from }
            }
            host::Command::LetGo { number } => Command::Release { ticket: ticket(number) },
            host::Command::BlobsStored(blobs) => Command::Stored(blobs),
            _ => return,
        };
        node.tell::<Self>(command);
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, _: &mut dyn Host) {
        let number = asked.number;
        node.tell::<Self>(match result {
            Ok(Answer::Blob(bytes)) => Command::Read { number, bytes },
            Ok(_) => Command::Done { number },
            Err(error) => Command::Failed { number, error },
        });
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let token = |number| Asked { of: ServiceId::Store, what: What::Commit, number }.token();
        match event {
            Event::Answered { ticket: Ticket { of, number }, result } => {
                node.answer(service_of(of).ticket(number), Reply::Fetched(result), host);
            }
            Event::Came { from } => node.note_to(ServiceId::Owner, Note::Came(from), host),
            Event::Put { number, id, bytes } => {
                host.storage(StorageRequest::PutBlob { token: token(number), id, bytes });
            }
            Event::Append { number, id, offset, bytes, last } => {
                host.storage(StorageRequest::AppendBlob { token: token(number), id, offset, bytes, last });
            }
            Event::Read { number, id, offset, len } => {
                host.storage(StorageRequest::ReadBlob { token: token(number), id, offset, len });
            }
            Event::Drop { id } => host.storage(StorageRequest::DropBlob { id }),
            Event::Abandon { id } => host.storage(StorageRequest::AbandonBlob { id }),
        }
    }
}
