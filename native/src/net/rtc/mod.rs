//! Data channels natively: connections by UDP to nodes that neither side can dial (`docs/protocols/signalling.md`).
//!
//! The node says with whom ([`Request`]), `str0m` does ICE, DTLS and SCTP, and the link gets the channel as a stream of
//! bytes. Each end is a task; packets find it by where they come from, or by the words of ICE in them.

mod end;
mod introduce;
mod mirror;
mod routes;
mod sockets;
mod stun;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use introduce::introduce;

use end::{End, Net, Order};
use link::{Link, Piping};
use mirror::Mirror;
use node_core::overlay::signalling::{Reply, Request, SessionId};
use routes::Routes;
use sockets::Sockets;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Word to the node.
pub(crate) type Answer = Arc<dyn Fn(Reply) + Send + Sync>;

/// Where the node's requests go; clones share it.
#[derive(Clone)]
pub(crate) struct Channels {
    requests: mpsc::UnboundedSender<Request>,
}

impl Channels {
    /// Starts on the current runtime. `port` is the one at which the node is dialled; UDP has the same one, unless
    /// another program has it.
    pub(crate) fn start(link: Link, piping: Piping, port: Option<u16>, answer: Answer) -> Channels {
        // Bounded by who sends: the node bounds its sessions.
        let (requests, received) = mpsc::unbounded_channel();
        let routes = Routes::default();
        let keeper = Keeper {
            sockets: Sockets::new(routes.clone(), port),
            link,
            piping,
            routes,
            answer,
            ends: HashMap::new(),
        };
        tokio::spawn(keeper.run(received));
        Channels { requests }
    }

    pub(crate) fn request(&self, request: Request) {
        // A runtime that ends needs no channels.
        drop(self.requests.send(request));
    }
}

/// Makes ends and passes requests on to them.
struct Keeper {
    link: Link,
    piping: Piping,
    sockets: Sockets,
    routes: Routes,
    answer: Answer,
    /// Ends whose session is not over for the node, or that have opened.
    ends: HashMap<SessionId, mpsc::Sender<Order>>,
}

impl Keeper {
    async fn run(mut self, mut received: mpsc::UnboundedReceiver<Request>) {
        self.listen();
        while let Some(request) = received.recv().await {
            self.ends.retain(|_, end| !end.is_closed());
            match request {
                Request::Open { session, peer, role, mirror } => {
                    self.listen();
                    let sockets = self.sockets.all();
                    if sockets.is_empty() {
                        tracing::warn!("no UDP socket could be opened: this node has no data channels");
                        (self.answer)(Reply::Failed(session));
                        continue;
                    }
                    let (orders, ordered) = mpsc::channel(end::ORDERS);
                    let links = (self.link.clone(), self.piping.clone());
                    let answer = Arc::clone(&self.answer);
                    let mirror = mirror.map(|at| SocketAddr::new(at.ip.into(), at.port));
                    let mirror = mirror.and_then(|at| Mirror::new(at, self.routes.clone()));
                    let net = Net { sockets, routes: self.routes.clone(), mirror };
                    let end = End::new((session, peer, role), net, links, answer);
                    tokio::spawn(end.run(ordered));
                    self.ends.insert(session, orders);
                }
                Request::Remote(session, description) => self.order(session, Order::Remote(description)),
                Request::Try(session, candidates) => self.order(session, Order::Try(candidates)),
                // Its task ends.
                Request::Close(session) => drop(self.ends.remove(&session)),
            }
        }
    }

    fn listen(&mut self) {
        let mut ips: Vec<_> = self.link.addresses().iter().filter_map(super::ip).collect();
        if ips.is_empty() {
            // A node that only dials.
            ips = sockets::of_routes();
        }
        ips.retain(|ip| !ip.is_unspecified() && !super::is_link_local(*ip));
        self.sockets.listen(&ips);
    }

    fn order(&self, session: SessionId, order: Order) {
        if let Some(end) = self.ends.get(&session) {
            // As many as a session may have; one that does not take them is at its end.
            drop(end.try_send(order));
        }
    }
}
