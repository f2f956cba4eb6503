//! The result: whether this node is a member or a guest, and why.

use super::{Contact, Dcx, DialBack, Dialable, Event, Ip, Scope, ask::Candidate};
use core::net::{IpAddr, SocketAddr};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No peer has answered yet.
    Unknown,
    Guest(Why),
    /// Peers have dialled it back there.
    Member(Contact),
}

impl Standing {
    pub fn dialable(self) -> Dialable {
        match self {
            Standing::Unknown => Dialable::Unknown,
            Standing::Guest(_) => Dialable::No,
            Standing::Member(contact) => Dialable::At(contact),
        }
    }
}

/// Why a node is a guest; its text says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It listens nowhere.
    NoPort,
    /// It listens on loopback, and a peer is elsewhere.
    LoopbackOnly { seen: Ip },
    /// Peers see it there, and did not reach it.
    NotReached { ip: Ip, port: u16 },
    /// Peers have reached it there, and the swarm is wider.
    TooNear { ip: Ip, needed: Scope },
    /// Nobody who was asked could try.
    Unanswered,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::NoPort => f.write_str("it takes no connections"),
            Why::LoopbackOnly { seen } => write!(
                f,
                "it listens on this machine's loopback address only, and the swarm sees it at {seen:?}; \
                 start it with --bind 0.0.0.0 to listen to other machines"
            ),
            Why::NotReached { ip, port } => write!(
                f,
                "peers cannot connect to {}; open that TCP port in the firewall, or forward it on the router \
                 (--p2p-port PORT keeps it the same)",
                SocketAddr::new(IpAddr::from(ip), port)
            ),
            Why::TooNear { ip, needed } => {
                let who = match needed {
                    Scope::World => "on the internet",
                    Scope::Site | Scope::Machine => "on other machines",
                };
                write!(
                    f,
                    "peers reach it only at {ip:?}, and the swarm has members {who}; join by an address of the \
                     gateway that they use, too"
                )
            }
            Why::Unanswered => f.write_str("no peer could try to connect to it yet; it asks again by itself"),
        }
    }
}

impl DialBack {
    /// Brings the standing up to date with what is known.
    pub(super) fn decide(&mut self, cx: &mut Dcx<'_>) {
        let here = self.needed();
        // A node that has lost its gateways knows no better than before.
        let knows = self.listening.gateway || self.gateways > 0;
        self.width = if knows { here } else { here.max(self.width) };
        let standing = self.standing_now(cx.me);
        if standing != self.standing {
            self.standing = standing;
            cx.emit(Event::Standing(standing));
        }
    }

    fn standing_now(&self, me: crate::ids::NodeId) -> Standing {
        let Some(port) = self.listening.port else { return Standing::Guest(Why::NoPort) };
        let needed = self.width;
        let good = |c: &&Candidate| c.confirmed.is_some() && c.ip.scope() >= needed;
        let current = self.standing.dialable().contact();
        let kept = self.candidates.iter().filter(good).find(|c| Some(c.ip) == current.map(|at| at.ip));
        if let Some(at) = current.filter(|at| Some(at.ip) == self.listening.first && at.ip.scope() >= needed)
        {
            return Standing::Member(at);
        }
        // The narrowest that is wide enough, so that no member becomes a guest before another one needs it.
        let best = kept.or_else(|| self.candidates.iter().filter(good).min_by_key(|c| c.ip.scope()));
        if let Some(best) = best {
            return Standing::Member(Contact { ip: best.ip, id: me, port });
        }
        let pending = self.candidates.iter().any(|c| c.ip.scope() >= needed && self.is_pending(c));
        if let Some(at) = current {
            let confirmed = self.candidates.iter().any(|c| c.ip == at.ip && c.confirmed.is_some());
            // A node that founded the swarm has no gateway whose guest it could be, and stays where it is.
            let stays = self.listening.first.is_some_and(|first| confirmed || first == at.ip);
            if stays || confirmed && pending {
                return self.standing;
            }
        } else if pending || self.candidates.is_empty() || self.listening.first.is_some() {
            // A founder that nobody has reached begins at its own address, when it has waited long enough.
            return self.standing;
        }
        Standing::Guest(self.why(port, needed))
    }

    fn why(&self, port: u16, needed: Scope) -> Why {
        let widest = |wanted: &dyn Fn(&Candidate) -> bool| {
            self.candidates.iter().filter(|c| wanted(c)).max_by_key(|c| c.ip.scope()).map(|c| c.ip)
        };
        if let Some(seen) = widest(&|c| !self.may_be_dialled(c.ip)) {
            return Why::LoopbackOnly { seen };
        }
        if let Some(ip) = widest(&|c| c.failures > 0) {
            return Why::NotReached { ip, port };
        }
        match widest(&|c| c.confirmed.is_some()) {
            Some(ip) => Why::TooNear { ip, needed },
            None => Why::Unanswered,
        }
    }
}
