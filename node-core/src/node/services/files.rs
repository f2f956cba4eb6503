//! This node's own files: their owner buys space in the market and publishes on the ring, and knows of neither.

use crate::content::BlobRef;
use crate::disk::{self, Answer, Asked, Table, What};
use crate::files::Message;
use crate::files::owner::{Command, Event, FileView, Owner};
use crate::goods::{Kind, Wanted};
use crate::ids::BlobId;
use crate::ledger::client as purse;
use crate::market::buyer::{self, Buyer};
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::storage::{commit, read, scan, scanned};
use crate::node::table::Service;
use crate::record::Refused;
use crate::records::{self, Records};
use crate::store::{self, Asker, Store, Ticket};
use crate::ticket::ServiceId;
use crate::wire::Framed;
use std::collections::BTreeSet;

use super::space::Space;

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToOwner(_) => ServiceId::Files,
            Message::ToKeeper(_) => ServiceId::KeptFiles,
        }
    }
}

impl Service for Owner {
    const ID: ServiceId = ServiceId::Files;
    const NAME: &'static str = "files";
    type Beside = Space;

    fn open(config: &Config) -> Option<Self> {
        config.files.clone().map(Owner::new)
    }

    fn start(node: &mut Node, host: &mut dyn Host) {
        node.tell::<Store>(store::Command::Wait { of: Asker::Files, wait: true });
        scan(ServiceId::Files, Table::Files, None, host);
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Me(me) => node.tell::<Self>(Command::Me(me)),
            Note::Standing => node.space_of_standing(),
            Note::Sold { kind, buyer, capacity } => node.space_sold(kind, buyer, capacity),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        node.tell::<Self>(match command {
            host::Command::PutFile { number, id, manifest, copies, max_price, shared } => {
                Command::Put { number, id, manifest, copies, max_price, shared }
            }
            host::Command::DropFile { number, file } => Command::Drop { number, file },
            host::Command::NameFile { number, file, name } => Command::Name { number, file, name },
            _ => return,
        });
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        node.tell::<Self>(match reply {
            Reply::Fetched(result) => Command::Pinned { ticket: number, result },
            Reply::Quoted { offers, shortage, .. } => {
                let shortage = shortage.map(|why| format!("space is not sold: {why}")).unwrap_or_default();
                Command::Offers { number, offers, shortage }
            }
            Reply::Taken(taken) => Command::Taken { number, taken },
            Reply::Ordered { outcome, receipt } => Command::Ordered { ticket: number, outcome, receipt },
            Reply::Published(refused) => Command::Published { number, refused },
            _ => return,
        });
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, host: &mut dyn Host) {
        let ticket = asked.number;
        match (asked.what, result) {
            (What::Commit, result) => {
                node.tell::<Self>(Command::Committed { ticket, result: result.map(drop) });
            }
            (What::Read, result) => {
                let bytes = result.ok().and_then(Answer::blob);
                node.tell::<Self>(Command::Read { ticket, bytes });
            }
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                node.tell::<Self>(Command::Restore(entries));
                if more.is_some() {
                    return scan(ServiceId::Files, table, more, host);
                }
                node.tell::<Self>(Command::Restored);
                scan(ServiceId::KeptFiles, Table::Kept, None, host);
            }
            (What::Scan(_), Err(error)) => host.event(unread(&error)),
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let fetch = |number| Ticket { of: Asker::Files, number };
        let ticket = |number| ServiceId::Files.ticket(number);
        match event {
            Event::Put { number, refused } => host.event(NodeEvent::FilePut { number, refused }),
            Event::Dropped { number, known } => host.event(NodeEvent::FileDropped { number, known }),
            Event::Named { number, refused } => host.event(NodeEvent::FileNamed { number, refused }),
            Event::Changed(file) => host.event(NodeEvent::FileChanged { file }),
            Event::Commit { ticket: number, writes } => commit(ticket(number), writes, host),
            Event::Pin { ticket, blobs, from } => {
                node.tell::<Store>(store::Command::Fetch { ticket: fetch(ticket), blobs, from });
            }
            Event::Release { ticket } => {
                node.tell::<Store>(store::Command::Release { ticket: fetch(ticket) });
            }
            Event::Forget { blobs } => node.forget_blobs(blobs),
            Event::Check { blobs } => node.tell::<Store>(store::Command::Check { blobs }),
            Event::Read { ticket: number, blob } => read(ticket(number), blob, host),
            Event::Buy { number, bytes, units, term, most, tie } => {
                if !node.has::<Buyer>() || node.bank().is_none() {
                    let (offers, shortage) = (Vec::new(), "this swarm has no market or no bank".into());
                    return node.tell::<Self>(Command::Offers { number, offers, shortage });
                }
                let wanted = Wanted {
                    kind: Kind::Files,
                    capacity: bytes,
                    minutes: u16::try_from(term.as_secs() / 60).unwrap_or(u16::MAX),
                    memory_mib: 0,
                    engine: None,
                    units,
                    quantity: bytes.saturating_mul(term.as_secs()),
                    most,
                    tie,
                };
                node.tell::<Buyer>(buyer::Command::Ask { ticket: ticket(number), wanted });
            }
            Event::Take { number, offer, receipt } => {
                node.tell::<Buyer>(buyer::Command::Take { ticket: ticket(number), offer: *offer, receipt });
            }
            Event::Order { ticket: number, order } => {
                node.tell::<purse::Client>(purse::Command::Order { ticket: ticket(number), order });
            }
            Event::Publish { number, key, value } => {
                if !node.has::<Records>() {
                    let refused = Some(Refused::NoAnswer);
                    return node.tell::<Self>(Command::Published { number, refused });
                }
                node.tell::<Records>(records::Command::Publish { ticket: ticket(number), key, value });
            }
        }
    }
}

/// The records of files cannot be read. Nothing is evicted then: some of it may be kept for somebody.
pub(super) fn unread(error: &disk::Failed) -> NodeEvent {
    let what = format!("the records of files cannot be read, and those are not looked after: {error}");
    NodeEvent::Trouble { what }
}

impl Node {
    /// Files that this node owns, or the one of this id.
    pub fn files(&self, only: Option<BlobId>) -> Vec<FileView> {
        self.state::<Owner>().map(|files| files.files(only)).unwrap_or_default()
    }

    /// Lets the store forget these blobs, except those that jobs name.
    pub(super) fn forget_blobs(&mut self, mut blobs: Vec<BlobId>) {
        let specs = self.jobs().into_iter().filter_map(|job| self.job_spec(job.id));
        let named: BTreeSet<BlobId> =
            specs.flat_map(|spec| spec.blobs()).map(|blob: BlobRef| blob.id).collect();
        blobs.retain(|blob| !named.contains(blob));
        self.tell::<Store>(store::Command::Forget { blobs });
    }
}
