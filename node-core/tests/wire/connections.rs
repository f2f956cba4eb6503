//! Examples of the messages by which nodes that cannot dial each other are connected.

use super::*;

pub(super) fn signalling_examples() -> Vec<node_core::node::message::Message> {
    use node_core::node::message::Message as Frame;
    use node_core::overlay::signalling::{Message as M, *};
    let secret = node_core::keys::Secret::from_bytes(&[5; 32]);
    let (to, session) = (NodeId([6; 32]), SessionId([7; 16]));
    let description = Description {
        ufrag: "frag".into(),
        password: "a+password/of22+letters".into(),
        fingerprint: Fingerprint([8; 32]),
    };
    let at = [At::Ip(contact().ip), At::Mdns(Uuid([9; 16]))];
    let found = at.map(|at| Candidate { at, port: 10, kind: Kind::Host, priority: 11 });
    let reflexive = Candidate { kind: Kind::Reflexive, ..found[0] };
    let said = [
        What::Offer(description.clone()),
        What::Answer(description),
        What::Candidates(vec![found[0], found[1], reflexive]),
    ];
    let said = said.map(|what| Said { to, session, what }.sign(&secret).expect("it is short"));
    let over = [Over::Refused, Over::Busy, Over::Failed].map(|why| M::Over { session, why });
    said.into_iter().chain(over).map(Frame::Signalling).collect()
}

pub(super) fn circuits_examples() -> Vec<node_core::node::message::Message> {
    use node_core::node::message::Message as Frame;
    use node_core::overlay::circuits::{Message as M, *};
    let (circuit, to) = (3, NodeId([6; 32]));
    let pieces = || [Piece::Data(Bytes::from_static(b"piece")), Piece::Room(70_000), Piece::Close];
    let refused = [Refusal::NotRelaying, Refusal::NotHere, Refusal::Full];
    let to_end = [ToEnd::Opened { circuit, to }, ToEnd::Incoming { circuit, from: to }].into_iter();
    let to_end = to_end.chain(refused.map(|why| ToEnd::Refused { to, why }));
    let to_end = to_end.chain(pieces().map(|piece| ToEnd::On { circuit, piece })).map(M::ToEnd);
    let to_relay = pieces().map(|piece| ToRelay::On { circuit, piece }).into_iter();
    let to_relay = [ToRelay::Open { to }].into_iter().chain(to_relay).map(M::ToRelay);
    to_relay.chain(to_end).map(Frame::Circuits).collect()
}
