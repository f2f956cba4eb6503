//! Whether the swarm lets this node in: the reasons of peers that do not, in words for a person.

use super::failure::Failure;
use super::progress::say;
use crate::driver::{NodeHandle, Stopped};
use node_core::node::snapshot::NodeView;
use node_core::{NodeEvent, NodeId};
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

/// For a peer to let this node in, with `--fail-fast`. Our choice: three dials of the links, each with a handshake
/// of up to 10 s.
const WELCOME: Duration = Duration::from_secs(30);

/// Rejections from the moment on at which this was made.
pub(crate) struct Admission {
    node: NodeHandle,
    events: Receiver<NodeEvent>,
}

impl Admission {
    /// Listens from now on. A rejection that comes before is missed, so nobody may have been dialled yet.
    pub(crate) fn watch(node: &NodeHandle) -> Admission {
        Admission { node: node.clone(), events: node.events() }
    }

    /// Says why peers reject this node. Returns only with `fail_fast`, and only if within [`WELCOME`] this node is
    /// rejected and has no other peer, or has found no peer at all.
    pub(crate) async fn follow(mut self, fail_fast: bool) -> Failure {
        let until = Instant::now() + WELCOME;
        let mut said = None;
        let mut begins = fail_fast;
        loop {
            let event = match begins {
                true => tokio::time::timeout_at(until, self.events.recv()).await.ok(),
                false => Some(self.events.recv().await),
            };
            let rejected = match event {
                Some(Ok(NodeEvent::Rejected { peer, reason })) => Some((peer, reason)),
                Some(Ok(_) | Err(RecvError::Lagged(_))) => continue,
                // The end of the node's thread is told elsewhere.
                Some(Err(RecvError::Closed)) => return std::future::pending().await,
                None => None,
            };
            // The peer that rejects this node is connected for a moment more.
            let parts = rejected.as_ref().map(|(peer, _)| *peer);
            let alone = begins && !self.has_peers_but(parts).await.unwrap_or(true);
            begins &= rejected.is_some();
            match rejected {
                Some((peer, reason)) if alone => return Failure::usage(words(peer, &reason)),
                Some(rejected) if said.as_ref() == Some(&rejected) => {}
                Some((peer, reason)) => {
                    let way = "trying on (Ctrl-C ends it, --fail-fast gives up at once)";
                    say(&format!("{}; {way}", words(peer, &reason)));
                    said = Some((peer, reason));
                }
                None if alone => return Failure::unreachable(nobody()),
                None => {}
            }
        }
    }

    async fn has_peers_but(&self, parts: Option<NodeId>) -> Result<bool, Stopped> {
        let stays = move |node: &NodeView| !node.me && Some(node.id) != parts;
        self.node.read(move |node, now| node.nodes(now).iter().any(stays)).await
    }
}

fn words(peer: NodeId, reason: &str) -> String {
    format!("this node is not let in by {}: {reason}", peer.short())
}

fn nobody() -> String {
    format!(
        "no node of the swarm has let this node in for {} s, though the gateway's page answers: is the gateway's \
         port for peers (--p2p-port) open to this machine?",
        WELCOME.as_secs()
    )
}
