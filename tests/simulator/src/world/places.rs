//! Places of the world, and the nodes that live there.

use super::{NEVER, Place, World};
use crate::disk::Disk;
use crate::engine::{Engine, MIPS};
use crate::network::Line;
use node_core::address::Ip;
use node_core::keys::Secret;
use node_core::{Command, Config, Node, NodeId, NodeInput};
use std::net::IpAddr;
use std::sync::Arc;

impl World {
    /// Most nodes share their bounds, so they are copied only to be changed.
    fn decide_overruns(&self, config: &mut Config) {
        if config.limits.overrun_panics == self.overruns_wait {
            config.limits_mut().overrun_panics = !self.overruns_wait;
        }
    }

    /// Adds a node and starts it.
    pub fn add(&mut self, mut config: Config) -> usize {
        self.decide_overruns(&mut config);
        let at = self.place(Arc::new(config));
        self.start(at);
        at
    }

    /// Adds a node that has a key, so that it can sign, and starts it.
    pub fn add_keyed(&mut self, mut config: Config, secret: &Secret) -> usize {
        self.decide_overruns(&mut config);
        let at = self.place_keyed(Arc::new(config), secret);
        self.start(at);
        at
    }

    /// Adds a place for a node that has a key and is started later.
    pub fn place_keyed(&mut self, config: Arc<Config>, secret: &Secret) -> usize {
        let (at, id) = (self.place(config), secret.node());
        self.nodes[at].id = id;
        self.ids[at] = id;
        self.keyed.insert(id, at);
        at
    }

    /// Adds a place for a node that is started later.
    pub fn place(&mut self, config: Arc<Config>) -> usize {
        let at = self.nodes.len();
        self.ids.push(id_of(at));
        self.nodes.push(Place {
            id: id_of(at),
            node: None,
            config,
            disk: Disk::default(),
            engine: Engine::default(),
            links: Vec::new(),
            line: Line::default(),
            wake: NEVER,
            armed: NEVER,
            life: 0,
            mips: MIPS,
            ip: ip_of(at),
            unreachable: false,
            v4_only: false,
            machine: at as u32,
            region: 0,
            bandwidth: 0,
            part: 0,
            frozen: false,
        });
        at
    }

    /// (Re)starts a node with what its disk has kept.
    pub fn start(&mut self, at: usize) {
        let seed = self.node_rng.seed();
        let place = &mut self.nodes[at];
        place.life += 1;
        let snapshot_bytes = std::mem::take(&mut place.engine).snapshot_bytes;
        place.engine.snapshot_bytes = snapshot_bytes;
        (place.wake, place.armed, place.line) = (NEVER, NEVER, Line::default());
        // A page runs what pages run.
        // A page that submits has all services, as `web/node` builds it.
        let lends_only = place.is_page() && !place.config.submits;
        let new = if lends_only { Node::guest } else { Node::new };
        place.node = Some(new(place.id, place.config.clone(), seed, self.now));
        let blobs: Vec<_> = place.disk.blobs().collect();
        self.drive(at, NodeInput::WallClock(1_700_000_000_000 + self.now.0 / 1000));
        if !blobs.is_empty() {
            self.drive(at, NodeInput::Command(Command::BlobsStored(blobs)));
        }
    }

    /// The node of that id, if this world has one.
    pub fn find(&self, id: NodeId) -> Option<usize> {
        let at = u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]]) as usize;
        match self.ids.get(at) {
            Some(there) if *there == id => Some(at),
            // A key says nothing about the place.
            _ => self.keyed.get(&id).copied(),
        }
    }

    pub fn lives(&self, at: usize) -> bool {
        self.nodes[at].node.is_some()
    }

    /// A node that is known to live.
    pub fn node(&self, at: usize) -> &Node {
        self.nodes[at].node.as_ref().expect("the node lives")
    }
}

/// The id of the node at that index, unless it has a key.
pub fn id_of(at: usize) -> NodeId {
    let mut id = [at as u8; 32];
    id[..4].copy_from_slice(&(at as u32).to_be_bytes());
    NodeId(id)
}

/// Where a node is that nothing else is said of: in 10.0.0.0/8, in the order of indexes.
fn ip_of(at: usize) -> Ip {
    Ip::from(IpAddr::from(((10 << 24) + at as u32).to_be_bytes()))
}

pub(super) fn index_in(id: NodeId) -> u32 {
    u32::from_be_bytes([id.0[0], id.0[1], id.0[2], id.0[3]])
}
