//! Files among the other machines: their owner buys in the market and publishes on the ring, keepers
//! pull through the store, and neither knows of the other parts.

use super::Node;
use super::alarms::Part;
use super::host::{Command, Host, NodeEvent};
use super::overlays;
use super::route;
use super::storage::scanned;
use crate::address::Contact;
use crate::content::BlobRef;
use crate::disk::{Answer, Asked, StorageRequest, Table, What};
use crate::files::keeper::{self, Keeper};
use crate::files::owner::{self, FileView, Owner};
use crate::files::{FilesConfig, Message};
use crate::goods::Goods;
use crate::goods::Kind;
use crate::goods::Wanted;
use crate::goods::{NoDeal, Offer};
use crate::ids::{BlobId, NodeId};
use crate::market::buyer;
use crate::market::seller;
use crate::platform::Platform;
use crate::protocol::{Input, InputOf, Machine, Rng};
use crate::record::Refused;
use crate::records;
use crate::store::{self, Asker, Ticket};
use crate::ticket::{self as tickets, ServiceId};
use crate::time::Time;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node's own files, and those that it keeps.
pub(super) struct Filing {
    config: Arc<FilesConfig>,
    owner: Machine<Owner>,
    keeper: Machine<Keeper>,
    /// Bytes that the market was told of, for files and for checkpoints.
    for_sale: u64,
    checkpoints_listed: u64,
    /// Room for checkpoints, sold or not.
    for_checkpoints: u64,
}

#[derive(Debug)]
pub(super) enum Step {
    Owner(InputOf<Owner>),
    Keeper(InputOf<Keeper>),
}

impl Step {
    pub(super) fn machine(&self) -> &'static str {
        match self {
            Step::Owner(_) => "file owner",
            Step::Keeper(_) => "keeper of files",
        }
    }
}

impl Filing {
    pub(super) fn new(config: &Arc<FilesConfig>, seed: &[u8; 32]) -> Box<Filing> {
        Box::new(Filing {
            config: config.clone(),
            owner: Machine::new(Owner::new(config.clone()), Rng::fork(seed, "files")),
            keeper: Machine::new(Keeper::new(config.clone()), Rng::fork(seed, "kept files")),
            for_sale: 0,
            checkpoints_listed: 0,
            for_checkpoints: 0,
        })
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        [self.owner.deadline(), self.keeper.deadline()].into_iter().flatten().min()
    }

    pub(super) fn due(&mut self, now: Time) -> Option<Step> {
        let owner = self.owner.due(now).map(|t| Step::Owner(Input::Timer(t)));
        owner.or_else(|| self.keeper.due(now).map(|t| Step::Keeper(Input::Timer(t))))
    }
}

impl Node {
    /// Files that this node owns, or the one of this id.
    pub fn files(&self, only: Option<BlobId>) -> Vec<FileView> {
        self.overlays.filing.as_ref().map(|filing| filing.owner.state().files(only)).unwrap_or_default()
    }

    /// The keeper of others' files; `None` if this node has no part in files.
    pub fn kept_files(&self) -> Option<&Keeper> {
        self.overlays.filing.as_ref().map(|filing| filing.keeper.state())
    }

    fn filing(&mut self, step: Step) {
        if self.overlays.filing.is_some() {
            self.steps.push_back(route::Step::Overlay(overlays::Step::Files(step)));
        }
    }

    pub(super) fn tell_files(&mut self, command: owner::Command) {
        self.filing(Step::Owner(Input::Command(command)));
    }

    fn tell_kept(&mut self, command: keeper::Command) {
        self.filing(Step::Keeper(Input::Command(command)));
    }

    pub(super) fn files_start(&mut self, host: &mut impl Host) {
        if self.overlays.filing.is_some() {
            self.push(route::Step::Store, store::Command::Wait(true));
            self.scan(ServiceId::Files, Table::Files, None, host);
        }
    }

    pub(super) fn files_clock(&mut self, ms: u64) {
        self.tell_files(owner::Command::WallClock(ms));
        self.tell_kept(keeper::Command::WallClock(ms));
    }

    pub(super) fn files_me(&mut self, me: Contact) {
        self.tell_files(owner::Command::Me(me));
    }

    pub(super) fn files_met(&mut self, peer: NodeId, contact: Option<Contact>) {
        let native = self.neighbours.state().get(peer).is_some_and(|it| it.platform == Platform::Native);
        if let Some(contact) = contact.filter(|_| native) {
            self.tell_files(owner::Command::Met(contact));
        }
    }

    pub(super) fn files_down(&mut self, peer: NodeId) {
        self.filing(Step::Owner(Input::Down(peer)));
    }

    pub(super) fn files_message(&mut self, from: NodeId, message: Message) {
        self.filing(match message {
            Message::ToOwner(_) => Step::Owner(Input::Message { from, message }),
            Message::ToKeeper(_) => Step::Keeper(Input::Message { from, message }),
        });
    }

    pub(super) fn file_command(&mut self, command: Command, host: &mut impl Host) {
        let has_files = self.overlays.filing.is_some();
        let none = || "this node has no part in files".to_string();
        match command {
            Command::PutFile { number, .. } if !has_files => {
                host.event(NodeEvent::FilePut { number, refused: Some(none()) });
            }
            Command::DropFile { number, .. } if !has_files => {
                host.event(NodeEvent::FileDropped { number, known: false });
            }
            Command::NameFile { number, .. } if !has_files => {
                host.event(NodeEvent::FileNamed { number, refused: Some(none()) });
            }
            Command::PutFile { number, id, manifest, copies, max_price, shared } => {
                self.tell_files(owner::Command::Put { number, id, manifest, copies, max_price, shared });
            }
            Command::DropFile { number, file } => self.tell_files(owner::Command::Drop { number, file }),
            Command::NameFile { number, file, name } => {
                self.tell_files(owner::Command::Name { number, file, name });
            }
            Command::Bring { number, blobs, from } => {
                for contact in &from {
                    self.reach(*contact, true, host);
                }
                let from = from.iter().map(|contact| contact.id).collect();
                let ticket = Ticket { of: Asker::Driver, number };
                self.push(route::Step::Store, store::Command::Fetch { ticket, blobs, from });
            }
            Command::LetGo { number } => {
                let ticket = Ticket { of: Asker::Driver, number };
                self.push(route::Step::Store, store::Command::Release { ticket });
            }
            _ => {}
        }
    }

    pub(super) fn files_answered(
        &mut self,
        ticket: Ticket,
        result: Result<(), String>,
        host: &mut impl Host,
    ) {
        let number = ticket.number;
        match ticket.of {
            Asker::Files => self.tell_files(owner::Command::Pinned { ticket: number, result }),
            Asker::Kept => self.tell_kept(keeper::Command::Answered { ticket: number, result }),
            _ => host.event(NodeEvent::Brought { number, result }),
        }
    }

    /// Passes replies of storage to the file owner, and to the keeper of files.
    pub(super) fn files_stored(
        &mut self,
        asked: Asked,
        result: Result<Answer, String>,
        host: &mut impl Host,
    ) {
        let Asked { of, what, number: ticket } = asked;
        match (of, what, result) {
            (ServiceId::Files, What::Commit, result) => {
                self.tell_files(owner::Command::Committed { ticket, result: result.map(drop) });
            }
            (ServiceId::Files, What::Read, result) => {
                let bytes = result.ok().and_then(Answer::blob);
                self.tell_files(owner::Command::Read { ticket, bytes });
            }
            (_, What::Read, result) => {
                let bytes = result.ok().and_then(Answer::blob);
                self.tell_kept(keeper::Command::Read { ticket, bytes });
            }
            (of, What::Scan(table), Ok(answer)) => self.files_scanned(of, table, answer, host),
            // Nothing is evicted then: some of it may be kept for somebody.
            (_, What::Scan(_), Err(error)) => {
                let what =
                    format!("the records of files cannot be read, and those are not looked after: {error}");
                host.event(NodeEvent::Trouble { what });
            }
            (_, What::Commit, Err(error)) => {
                let what = format!("what is kept for others is not written down: {error}");
                host.event(NodeEvent::Trouble { what });
            }
            (_, What::Commit, Ok(_)) => {}
        }
    }

    fn files_scanned(&mut self, of: ServiceId, table: Table, answer: Answer, host: &mut impl Host) {
        let (entries, more) = scanned(answer);
        if of == ServiceId::Files {
            self.tell_files(owner::Command::Restore(entries));
        } else {
            self.tell_kept(keeper::Command::Restore(entries));
        }
        match (more, of) {
            (Some(after), of) => self.scan(of, table, Some(after), host),
            (None, ServiceId::Files) => {
                self.tell_files(owner::Command::Restored);
                self.scan(ServiceId::KeptFiles, Table::Kept, None, host);
            }
            (None, _) => self.tell_kept(keeper::Command::Restored),
        }
    }

    pub(super) fn files_step(&mut self, step: Step, host: &mut impl Host) {
        let (now, me) = (self.now, self.me);
        let Some(filing) = &mut self.overlays.filing else { return };
        match step {
            Step::Owner(input) => {
                let effects = filing.owner.step(me, now, input);
                self.follow(
                    ServiceId::Files,
                    effects,
                    crate::node::message::Message::Files,
                    Node::of_files,
                    host,
                );
            }
            Step::Keeper(input) => {
                let effects = filing.keeper.step(me, now, input);
                self.follow(
                    ServiceId::KeptFiles,
                    effects,
                    crate::node::message::Message::Files,
                    Node::of_kept,
                    host,
                );
            }
        }
        self.alarms.set(Part::Overlays, self.overlays.deadline());
    }

    fn of_files(&mut self, event: owner::Event, host: &mut impl Host) {
        use owner::Event;
        let ticket = |number| Ticket { of: Asker::Files, number };
        match event {
            Event::Put { number, refused } => host.event(NodeEvent::FilePut { number, refused }),
            Event::Dropped { number, known } => host.event(NodeEvent::FileDropped { number, known }),
            Event::Named { number, refused } => host.event(NodeEvent::FileNamed { number, refused }),
            Event::Changed(file) => host.event(NodeEvent::FileChanged { file }),
            Event::Commit { ticket, writes } => {
                host.storage(StorageRequest::Commit {
                    token: Asked { of: ServiceId::Files, what: What::Commit, number: ticket }.token(),
                    writes,
                });
            }
            Event::Pin { ticket: number, blobs, from } => {
                self.push(route::Step::Store, store::Command::Fetch { ticket: ticket(number), blobs, from });
            }
            Event::Release { ticket: number } => {
                self.push(route::Step::Store, store::Command::Release { ticket: ticket(number) });
            }
            Event::Forget { blobs } => self.forget_blobs(blobs),
            Event::Check { blobs } => self.push(route::Step::Store, store::Command::Check { blobs }),
            Event::Read { ticket, blob } => read(ServiceId::Files.ticket(ticket), blob, host),
            Event::Buy { number, bytes, units, term, most, tie } => {
                let minutes = u16::try_from(term.as_secs() / 60).unwrap_or(u16::MAX);
                let quantity = bytes.saturating_mul(term.as_secs());
                let (kind, capacity) = (Kind::Files, bytes);
                let (memory_mib, engine) = (0, None);
                let wanted =
                    Wanted { kind, capacity, minutes, memory_mib, engine, units, quantity, most, tie };
                if self.overlays.trade.is_none() || self.bank().is_none() {
                    let (offers, shortage) = (Vec::new(), "this swarm has no market or no bank".into());
                    return self.tell_files(owner::Command::Offers { number, offers, shortage });
                }
                self.tell_buyer(buyer::Command::Ask { ticket: ServiceId::Files.ticket(number), wanted });
            }
            Event::Take { number, offer, receipt } => {
                let ticket = ServiceId::Files.ticket(number);
                self.tell_buyer(buyer::Command::Take { ticket, offer, receipt });
            }
            Event::Order { ticket, order } => self.order_of_files(ticket, order),
            Event::Publish { number, key, value } => {
                if self.overlays.records.is_none() {
                    let refused = Some(Refused::NoAnswer);
                    return self.tell_files(owner::Command::Published { number, refused });
                }
                let ticket = ServiceId::Files.ticket(number);
                self.records_command(records::Command::Publish { ticket, key, value });
            }
        }
    }

    fn of_kept(&mut self, event: keeper::Event, host: &mut impl Host) {
        use keeper::Event;
        let ticket = |number| Ticket { of: Asker::Kept, number };
        match event {
            Event::Fetch { ticket: number, blob, from } => {
                let blobs = vec![blob];
                self.push(route::Step::Store, store::Command::Fetch { ticket: ticket(number), blobs, from });
            }
            Event::Release { ticket: number } => {
                self.push(route::Step::Store, store::Command::Release { ticket: ticket(number) });
            }
            Event::Forget { blobs } => self.forget_blobs(blobs),
            Event::Read { ticket, blob } => read(ServiceId::KeptFiles.ticket(ticket), blob, host),
            Event::Commit { writes } => {
                host.storage(StorageRequest::Commit {
                    token: Asked { of: ServiceId::KeptFiles, what: What::Commit, number: 0 }.token(),
                    writes,
                });
            }
            Event::Room(bytes) => self.sell_space(bytes),
            Event::Settled => self.push(route::Step::Store, store::Command::Wait(false)),
        }
    }

    /// Lets the store forget these blobs, except those that jobs name.
    fn forget_blobs(&mut self, mut blobs: Vec<BlobId>) {
        let named = self.named_by_jobs();
        blobs.retain(|blob| !named.contains(blob));
        self.push(route::Step::Store, store::Command::Forget { blobs });
    }

    fn named_by_jobs(&self) -> BTreeSet<BlobId> {
        let specs = self.jobs().into_iter().filter_map(|job| self.job_spec(job.id));
        specs.flat_map(|spec| spec.blobs()).map(|blob| blob.id).collect()
    }

    /// Offers the free space for sale, in a swarm that has a market for it.
    fn sell_space(&mut self, bytes: u64) {
        let Some(filing) = &mut self.overlays.filing else { return };
        if std::mem::replace(&mut filing.for_sale, bytes) != bytes {
            self.offer_space(Kind::Files, bytes);
        }
    }

    /// Offers free space for checkpoints for sale, at the cost of space for files. Only a member sells it: a
    /// runner has to dial its keepers.
    pub(super) fn sell_checkpoints(&mut self, bytes: u64) {
        if let Some(filing) = &mut self.overlays.filing {
            filing.for_checkpoints = bytes;
            self.space_of_standing();
        }
    }

    /// A guest sells no room for checkpoints.
    pub(super) fn space_of_standing(&mut self) {
        let member = self.contact().is_some();
        let Some(filing) = &mut self.overlays.filing else { return };
        let bytes = if member { filing.for_checkpoints } else { 0 };
        if std::mem::replace(&mut filing.checkpoints_listed, bytes) != bytes {
            self.offer_space(Kind::Checkpoints, bytes);
        }
    }

    fn offer_space(&mut self, kind: Kind, capacity: u64) {
        let Some(filing) = &self.overlays.filing else { return };
        let minutes = u16::try_from(filing.config.term.as_secs() / 60).unwrap_or(u16::MAX);
        let (cost, engine) = (filing.config.cost, self.config.platform);
        let goods = Goods { kind, capacity, units: 1, minutes, cost, engine, memory_mib: 0 };
        self.tell_seller(seller::Command::Offer(goods));
    }

    pub(super) fn space_sold(&mut self, kind: Kind, buyer: NodeId, bytes: u64) {
        let Some(filing) = &mut self.overlays.filing else { return };
        let term = filing.config.term;
        // The seller has taken it off already.
        match kind {
            Kind::Cycles => {}
            Kind::Files => {
                filing.for_sale = filing.for_sale.saturating_sub(bytes);
                self.tell_kept(keeper::Command::Sold { buyer, bytes, term });
            }
            Kind::Checkpoints => {
                filing.for_checkpoints = filing.for_checkpoints.saturating_sub(bytes);
                filing.checkpoints_listed = filing.checkpoints_listed.saturating_sub(bytes);
                self.push(route::Step::Keeper, crate::work::keeper::Command::Sold { buyer, bytes });
            }
        }
    }

    /// Passes the markets' offers of space to the file owner.
    pub(super) fn space_offered(&mut self, number: u64, offers: Vec<Offer>, shortage: Option<NoDeal>) {
        let shortage = shortage.map(|why| format!("space is not sold: {why}")).unwrap_or_default();
        self.tell_files(owner::Command::Offers { number, offers, shortage });
    }
}

fn read(ticket: tickets::Ticket, blob: BlobRef, host: &mut impl Host) {
    let tickets::Ticket { of, number } = ticket;
    let (token, BlobRef { id, len }) = (Asked { of, what: What::Read, number }.token(), blob);
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    host.storage(StorageRequest::ReadBlob { token, id, offset: 0, len });
}
