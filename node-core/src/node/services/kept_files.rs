//! Files of others that this node keeps: their keeper pulls through the store.

use crate::disk::{self, Answer, Asked, What};
use crate::files::keeper::{Command, Event, Keeper};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::storage::{commit, read, scan, scanned};
use crate::node::table::Service;
use crate::store::{self, Asker, Store, Ticket};
use crate::ticket::ServiceId;

impl Service for Keeper {
    const ID: ServiceId = ServiceId::KeptFiles;
    const NAME: &'static str = "kept files";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        config.files.clone().map(Keeper::new)
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        if let Note::Clock(ms) = *note {
            node.tell::<Self>(Command::WallClock(ms));
        }
    }

    fn on_reply(node: &mut Node, ticket: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Fetched(result) = reply {
            node.tell::<Self>(Command::Answered { ticket, result });
        }
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, host: &mut dyn Host) {
        match (asked.what, result) {
            (What::Read, result) => {
                let bytes = result.ok().and_then(Answer::blob);
                node.tell::<Self>(Command::Read { ticket: asked.number, bytes });
            }
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                node.tell::<Self>(Command::Restore(entries));
                match more {
                    Some(after) => scan(ServiceId::KeptFiles, table, Some(after), host),
                    None => node.tell::<Self>(Command::Restored),
                }
            }
            (What::Scan(_), Err(error)) => host.event(super::files::unread(&error)),
            (What::Commit, Err(error)) => {
                let what = format!("what is kept for others is not written down: {error}");
                host.event(NodeEvent::Trouble { what });
            }
            (What::Commit, Ok(_)) => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let fetch = |number| Ticket { of: Asker::Kept, number };
        match event {
            Event::Fetch { ticket, blob, from } => {
                node.tell::<Store>(store::Command::Fetch { ticket: fetch(ticket), blobs: vec![blob], from });
            }
            Event::Release { ticket } => {
                node.tell::<Store>(store::Command::Release { ticket: fetch(ticket) });
            }
            Event::Forget { blobs } => node.forget_blobs(blobs),
            Event::Read { ticket, blob } => read(ServiceId::KeptFiles.ticket(ticket), blob, host),
            Event::Commit { writes } => commit(ServiceId::KeptFiles.ticket(0), writes, host),
            Event::Room(bytes) => node.sell_space(bytes),
            Event::Settled => node.tell::<Store>(store::Command::Wait { of: Asker::Files, wait: false }),
        }
    }
}

impl Node {
    /// The keeper of others' files; `None` if this node has no part in files.
    pub fn kept_files(&self) -> Option<&Keeper> {
        self.state()
    }
}
