//! Effects that a node asked for in one drive. One of these serves all nodes, so that its room is there
//! already.

use bytes::Bytes;
use node_core::address::Contact;
use node_core::overlay::circuits::ends as circuits;
use node_core::overlay::signalling::Request;
use node_core::{Channel, EngineRequest, Host, NodeEvent, NodeId, StorageRequest, Time};

#[derive(Default)]
pub(super) struct Wishes {
    pub(super) frames: Vec<(NodeId, Channel, Bytes)>,
    pub(super) dials: Vec<Contact>,
    pub(super) probes: Vec<(u64, Contact)>,
    pub(super) close: Vec<(NodeId, String)>,
    pub(super) wake: Option<Option<Time>>,
    pub(super) storage: Vec<StorageRequest>,
    pub(super) engine: Vec<EngineRequest>,
    pub(super) channels: Vec<Request>,
    pub(super) circuits: Vec<circuits::Request>,
    pub(super) events: Vec<NodeEvent>,
}

impl Host for Wishes {
    fn transmit(&mut self, to: NodeId, channel: Channel, bytes: Bytes) {
        self.frames.push((to, channel, bytes));
    }
    fn dial(&mut self, contact: Contact) {
        self.dials.push(contact);
    }
    fn probe(&mut self, number: u64, contact: Contact) {
        self.probes.push((number, contact));
    }
    fn disconnect(&mut self, peer: NodeId, reason: &str) {
        self.close.push((peer, reason.into()));
    }
    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = Some(at);
    }
    fn storage(&mut self, request: StorageRequest) {
        self.storage.push(request);
    }
    fn engine(&mut self, request: EngineRequest) {
        self.engine.push(request);
    }
    fn data_channel(&mut self, request: Request) {
        self.channels.push(request);
    }
    fn circuit(&mut self, request: circuits::Request) {
        self.circuits.push(request);
    }
    fn event(&mut self, event: NodeEvent) {
        self.events.push(event);
    }
}
