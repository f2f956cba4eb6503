//! The node's wishes, carried out.

use crate::channels::Channels;
use crate::driver::Input;
use crate::left::Save;
use crate::workers::{Heard, Workers};
use bytes::Bytes;
use futures::channel::mpsc::UnboundedSender;
use link::{Circuits, Link};
use node_core::address::Contact;
use node_core::overlay::circuits::ends as circuits;
use node_core::overlay::signalling::Request;
use node_core::{
    BlobId, Channel, EngineReply, EngineRequest, Host, NodeEvent, NodeId, NodeInput, RunId, StorageRequest,
    Time,
};
#[cfg(feature = "submits")]
use node_core::{StorageReply, Table, Token};
use std::collections::VecDeque;
use web_driver::pool::{ModuleId, Pool, SlotId, World};
use web_driver::slot::{Form, Job, Order};
use web_driver::speed;
use web_driver::storage::Storage;

pub(crate) struct WebHost {
    /// Time of the input that is being worked on.
    pub(crate) now: Time,
    pub(crate) link: Link,
    pub(crate) channels: Channels,
    circuits: Circuits,
    /// Answers on their way back into the node, and what happened: fed and told between two
    /// inputs.
    pub(crate) inputs: VecDeque<NodeInput>,
    pub(crate) events: VecDeque<NodeEvent>,
    pub(crate) wake: Option<Time>,
    /// Results of standard runs.
    pub(crate) measured: VecDeque<EngineReply>,
    /// Keeps what outlives the page, and tells who hears of it.
    save: Option<(Save, UnboundedSender<Input>)>,
    pool: Pool,
    shell: Shell,
}

/// This node's ends of connections that it does not dial.
pub(crate) struct Ends {
    pub(crate) channels: Channels,
    pub(crate) circuits: Circuits,
}

/// Everything that the pool decides about.
struct Shell {
    storage: Storage,
    workers: Workers,
    replies: Vec<EngineReply>,
}

impl WebHost {
    pub(crate) fn new(
        link: Link,
        Ends { channels, circuits }: Ends,
        storage: Storage,
        save: Option<(Save, UnboundedSender<Input>)>,
        workers: Workers,
    ) -> WebHost {
        WebHost {
            now: Time::ZERO,
            link,
            channels,
            circuits,
            inputs: VecDeque::new(),
            events: VecDeque::new(),
            wake: None,
            measured: VecDeque::new(),
            save,
            pool: Pool::default(),
            shell: Shell { storage, workers, replies: Vec::new() },
        }
    }

    pub(crate) fn heard(&mut self, now: Time, heard: Heard) {
        let (slot, said) = self.shell.workers.take_in(heard);
        self.pool.said(now, slot, said, &mut self.shell);
        self.take_replies();
    }

    pub(crate) fn wake_pool(&mut self, now: Time) {
        if self.pool.deadline().is_some_and(|at| at <= now) {
            self.pool.wake(now, &mut self.shell);
            self.take_replies();
        }
    }

    /// To be called when all inputs have been fed.
    pub(crate) fn settle(&mut self, now: Time) {
        self.pool.settle(now, &mut self.shell);
        self.take_replies();
    }

    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.wake, self.pool.deadline()].into_iter().flatten().min()
    }

    /// Lets tasks compute this many percent of the time.
    pub(crate) fn set_share(&mut self, percent: u32) {
        self.pool.set_share(percent, &mut self.shell);
    }

    /// Whether tasks run or wait to.
    pub(crate) fn is_busy(&self) -> bool {
        !self.pool.is_empty()
    }

    /// Nothing computes any more when this returns.
    pub(crate) fn end_workers(&mut self) {
        self.shell.workers.terminate_all();
    }

    /// Keeps content that the page brings.
    #[cfg(feature = "submits")]
    pub(crate) fn put(&mut self, id: BlobId, bytes: Bytes) -> Result<(), String> {
        // The node asks for nothing by this token.
        let request = StorageRequest::PutBlob { token: Token(u64::MAX), id, bytes };
        match self.shell.storage.handle(request) {
            Some(StorageReply::Failed { error, .. }) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    #[cfg(feature = "submits")]
    pub(crate) fn blob(&self, id: &BlobId) -> Option<Bytes> {
        self.shell.storage.blob(id)
    }

    /// Rows of a table behind this key.
    #[cfg(feature = "submits")]
    pub(crate) fn rows(&self, table: Table, after: &[u8], limit: usize) -> Vec<(Vec<u8>, Bytes)> {
        self.shell.storage.rows(table, Some(after), limit)
    }

    fn take_replies(&mut self) {
        for reply in self.shell.replies.drain(..) {
            match reply.run().is_some_and(speed::is_its) {
                true => self.measured.push_back(reply),
                false => self.inputs.push_back(NodeInput::Engine(reply)),
            }
        }
    }

    /// Beside the node's own runs.
    pub(crate) fn measure(&mut self, now: Time, run: EngineRequest) {
        self.pool.request(now, run, &mut self.shell);
        self.take_replies();
    }
}

impl Host for WebHost {
    fn transmit(&mut self, to: NodeId, channel: Channel, bytes: Bytes) {
        self.link.send(to, channel, bytes);
    }

    /// A page dials the gateway that it came from, and nobody else.
    fn dial(&mut self, contact: Contact) {
        self.inputs.push_back(NodeInput::DialFailed { peer: contact.id });
    }

    fn probe(&mut self, number: u64, _: Contact) {
        self.inputs.push_back(NodeInput::Probed { number, reached: false });
    }

    fn disconnect(&mut self, peer: NodeId, reason: &str) {
        self.link.disconnect(peer, reason);
    }

    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = at;
    }

    fn storage(&mut self, request: StorageRequest) {
        let reply = self.shell.storage.handle(request);
        match (self.save.as_ref().zip(self.shell.storage.changes()), reply) {
            // Answered once they are durable.
            (Some(((save, inputs), changes)), Some(reply)) => save.save(changes, reply, inputs),
            (_, reply) => self.inputs.extend(reply.map(NodeInput::Storage)),
        }
    }

    fn engine(&mut self, request: EngineRequest) {
        self.pool.request(self.now, request, &mut self.shell);
        self.take_replies();
    }

    fn data_channel(&mut self, request: Request) {
        self.channels.request(request);
    }

    fn circuit(&mut self, request: circuits::Request) {
        self.circuits.request(request);
    }

    fn event(&mut self, event: NodeEvent) {
        self.events.push_back(event);
    }
}

impl World for Shell {
    fn blob(&self, id: &BlobId) -> Option<Bytes> {
        self.storage.blob(id).or_else(|| speed::program(id).map(Bytes::from_static))
    }
    fn spawn(&mut self, slot: SlotId) {
        self.workers.spawn(slot);
    }
    fn terminate(&mut self, slot: SlotId) {
        self.workers.terminate(slot);
    }
    fn prepare(&mut self, slot: SlotId, module: ModuleId, program: Bytes, form: &Form) {
        self.workers.prepare(slot, module, &program, form);
    }
    fn teach(&mut self, slot: SlotId, module: ModuleId) {
        self.workers.teach(slot, module);
    }
    fn run(&mut self, slot: SlotId, module: ModuleId, tasks: &[Job]) {
        self.workers.run(slot, module, tasks);
    }
    fn order(&mut self, slot: SlotId, run: RunId, order: Order) {
        self.workers.order(slot, run, order);
    }
    fn share(&mut self, slot: SlotId, percent: u32) {
        self.workers.share(slot, percent);
    }
    fn forget(&mut self, module: ModuleId, slots: &[SlotId]) {
        self.workers.forget(module, slots);
    }
    fn reply(&mut self, reply: EngineReply) {
        self.replies.push(reply);
    }
}
