//! This node's ends of data channels. Only a page may make connections (`www/peers.js`): it hands their channels over
//! to this Worker, and passes on what both browsers say.

use crate::browser;
use crate::channel::Channel;
use crate::driver::Input;
use futures::channel::mpsc::UnboundedSender;
use js_sys::{Array, Reflect};
use link::{Link, Piping};
use node_core::NodeId;
use node_core::overlay::signalling::{Reply, Request, Role, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use wasm_bindgen::prelude::*;
use web_driver::channels;
use web_sys::RtcDataChannel;

pub(crate) struct Channels {
    link: Link,
    piping: Piping,
    inputs: UnboundedSender<Input>,
    /// Ends that are not open yet. As many as the node has sessions.
    opening: BTreeMap<SessionId, End>,
    /// Peers that are connected by a channel.
    peers: BTreeSet<NodeId>,
}

struct End {
    peer: NodeId,
    role: Role,
    channel: Option<Channel>,
}

impl Channels {
    pub(crate) fn new(link: Link, piping: Piping, inputs: UnboundedSender<Input>) -> Channels {
        Channels { link, piping, inputs, opening: BTreeMap::new(), peers: BTreeSet::new() }
    }

    /// Whether the peer is connected by a data channel.
    pub(crate) fn has(&self, peer: NodeId) -> bool {
        self.peers.contains(&peer)
    }

    /// The peer is connected, `by_channel` or by another way.
    pub(crate) fn connected(&mut self, peer: NodeId, by_channel: bool) {
        match by_channel {
            true => self.peers.insert(peer),
            false => self.peers.remove(&peer),
        };
    }

    pub(crate) fn gone(&mut self, peer: NodeId) {
        self.peers.remove(&peer);
    }

    pub(crate) fn request(&mut self, request: Request) {
        match request {
            Request::Open { session, peer, role, mirror } => {
                self.opening.insert(session, End { peer, role, channel: None });
                let offers = (role == Role::Offers).into();
                let stun = mirror.map(|at| channels::stun(&at)).into();
                post("rtc_open", session, &[("offers", &offers), ("stun", &stun)]);
            }
            Request::Remote(session, description) => {
                let Some(end) = self.opening.get(&session) else { return };
                post("rtc_remote", session, &[("sdp", &channels::sdp(&description, end.role).into())]);
            }
            Request::Try(session, candidates) => {
                let lines: Array = candidates.iter().map(|it| JsValue::from(channels::line(it))).collect();
                post("rtc_try", session, &[("candidates", &lines)]);
            }
            Request::Close(session) => {
                self.opening.remove(&session);
                close(session);
            }
        }
    }

    /// Word of the page on an end: its channel, its SDP, a candidate, or that it has failed.
    pub(crate) fn said(&mut self, message: &JsValue) -> Option<Reply> {
        let field = |name: &str| Reflect::get(message, &name.into()).unwrap_or(JsValue::UNDEFINED);
        let text = |name: &str| field(name).as_string();
        let session = channels::session(&text("session")?)?;
        // Given up meanwhile, and closed; or open, and nothing that is still found counts.
        let end = self.opening.get_mut(&session)?;
        if let Ok(channel) = field("channel").dyn_into::<RtcDataChannel>() {
            let inputs = self.inputs.clone();
            let opened = move || drop(inputs.unbounded_send(Input::Opened(session)));
            end.channel = Some(Channel::new(channel, opened, move || close(session)));
            return None;
        }
        if let Some(sdp) = text("sdp") {
            return Some(match channels::description(&sdp) {
                Some(description) => Reply::Described(session, description),
                None => Reply::Failed(session),
            });
        }
        match text("candidate") {
            Some(line) => channels::candidate(&line).map(|it| Reply::Found(session, vec![it])),
            None => Some(Reply::Failed(session)),
        }
    }

    /// The channel is open: from now on it is the link's.
    pub(crate) fn opened(&mut self, session: SessionId) -> Option<Reply> {
        let End { peer, role, channel } = self.opening.remove(&session)?;
        let channel = channel?;
        let given = match role {
            Role::Offers => {
                let to = self.piping.dial(channel, None);
                let to = link::peer_id(&peer).and_then(|peer| to.with_p2p(peer).ok());
                to.is_some_and(|to| self.link.dial(to).is_ok())
            }
            Role::Answers => self.piping.accept(channel, None).is_ok(),
        };
        if !given {
            return Some(Reply::Failed(session));
        }
        Some(Reply::Opened(session))
    }
}

/// Tells the page of a session.
fn post(what: &str, session: SessionId, more: &[(&str, &JsValue)]) {
    let (what, session) = (what.into(), channels::name(session).into());
    browser::post(&[&[("type", &what), ("session", &session)], more].concat());
}

/// The page forgets the connection.
fn close(session: SessionId) {
    post("rtc_close", session, &[]);
}
