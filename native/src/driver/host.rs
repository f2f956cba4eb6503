//! The node's wishes, carried out.

use super::refusals::Refusals;
use crate::engine::Engine;
use crate::net::Channels;
use crate::storage::Storage;
use bytes::Bytes;
use link::{Circuits, Link};
use node_core::address::Contact;
use node_core::ids::JobId;
use node_core::overlay::circuits::ends as circuits;
use node_core::overlay::signalling::Request;
use node_core::work::client::NotAccepted;
use node_core::{Channel, EngineRequest, Host, NodeEvent, NodeId, StorageRequest, Time};
use std::collections::HashMap;
use tokio::sync::{broadcast, oneshot};

pub(super) struct NativeHost {
    pub(super) storage: Storage,
    pub(super) engine: Engine,
    pub(super) link: Option<Link>,
    pub(super) channels: Option<Channels>,
    pub(super) circuits: Option<Circuits>,
    pub(super) events: broadcast::Sender<NodeEvent>,
    pub(super) wake: Option<Time>,
    /// Peers that could not even be tried; told to the node after the input that it works on.
    pub(super) not_dialled: Vec<NodeId>,
    /// Dials back that could not even be tried, likewise.
    pub(super) not_probed: Vec<u64>,
    pub(super) refusals: Refusals,
    /// Senders for callers that wait to hear whether a job was taken. Several may wait: submission is
    /// idempotent.
    pub(super) submitting: HashMap<JobId, Vec<oneshot::Sender<Result<(), NotAccepted>>>>,
}

impl Host for NativeHost {
    fn transmit(&mut self, to: NodeId, channel: Channel, bytes: Bytes) {
        let Some(link) = &self.link else { return };
        super::lies::send(link, to, channel, bytes);
    }

    fn dial(&mut self, contact: Contact) {
        let asked = match (&self.link, crate::net::address(&contact)) {
            _ if self.refusals.forbids(&contact) => false,
            (Some(link), Some(address)) => link.dial(address).is_ok(),
            _ => false,
        };
        if !asked {
            self.not_dialled.push(contact.id);
        }
    }

    fn probe(&mut self, number: u64, contact: Contact) {
        let asked = match (&self.link, crate::net::address(&contact)) {
            (Some(link), Some(address)) => link.probe(number, address).is_ok(),
            _ => false,
        };
        if !asked {
            self.not_probed.push(number);
        }
    }

    fn disconnect(&mut self, peer: NodeId, reason: &str) {
        tracing::warn!(peer = %peer.short(), reason, "closing a connection");
        if let Some(link) = &self.link {
            link.disconnect(peer, reason);
        }
    }

    fn wake_at(&mut self, at: Option<Time>) {
        self.wake = at;
    }

    fn storage(&mut self, request: StorageRequest) {
        self.storage.request(request);
    }

    fn engine(&mut self, request: EngineRequest) {
        self.engine.request(request);
    }

    fn data_channel(&mut self, request: Request) {
        if let Some(channels) = &self.channels {
            channels.request(request);
        }
    }

    fn circuit(&mut self, request: circuits::Request) {
        if let Some(circuits) = &mut self.circuits {
            circuits.request(request);
        }
    }

    fn event(&mut self, event: NodeEvent) {
        match &event {
            NodeEvent::JobAccepted { job } => self.answer(*job, Ok(())),
            NodeEvent::JobRefused { job, why } => self.answer(*job, Err(why.clone())),
            NodeEvent::PeerFault { peer, fault } => {
                tracing::warn!(peer = %peer.short(), fault, "a peer's fault")
            }
            NodeEvent::Rejected { peer, reason } => {
                // The command says it to a person, once for each reason.
                tracing::debug!(gateway = %peer.short(), reason, "not let in");
            }
            NodeEvent::Full { peer, gateways } => {
                let others = gateways.len();
                tracing::info!(gateway = %peer.short(), others, "the gateway has as many peers as it takes");
                if let Some(link) = &self.link {
                    link.rest(*peer);
                }
            }
            NodeEvent::Trouble { what } => tracing::error!("{what}"),
            NodeEvent::Standing(standing) => tracing::debug!(?standing, "whether others can dial this node"),
            _ => {}
        }
        // Nobody listening is fine.
        drop(self.events.send(event));
    }
}

impl NativeHost {
    fn answer(&mut self, job: JobId, result: Result<(), NotAccepted>) {
        for waiting in self.submitting.remove(&job).into_iter().flatten() {
            drop(waiting.send(result.clone()));
        }
    }
}
