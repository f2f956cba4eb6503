//! The part of STUN by which a node behind a router learns its outer address (RFC 8489): a binding request without
//! credentials, and its answer. `str0m` has it for ICE alone, where each message is signed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const REQUEST: [u8; 2] = [0, 1];
const SUCCESS: [u8; 2] = [1, 1];
const COOKIE: [u8; 4] = 0x2112_a442_u32.to_be_bytes();
const USERNAME: u16 = 0x0006;
const MAPPED: u16 = 0x0020;

/// Names a question; its answer has the same.
pub(super) type Id = [u8; 12];

/// The name of a binding request that is not one of ICE.
pub(super) fn question_in(packet: &[u8]) -> Option<Id> {
    let (id, attributes) = message(packet, REQUEST)?;
    attributes.into_iter().all(|(kind, _)| kind != USERNAME).then_some(id)
}

/// The answer to a question that came from `source`.
pub(super) fn answer(id: Id, source: SocketAddr) -> Vec<u8> {
    let (family, ip) = match source.ip().to_canonical() {
        IpAddr::V4(ip) => (1, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    let value = masked(id, &[&[0, family], &source.port().to_be_bytes()[..], &ip].concat());
    let length = (4 + value.len() as u16).to_be_bytes();
    let attribute = [&MAPPED.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), &value].concat();
    [&SUCCESS[..], &length, &COOKIE, &id, &attribute].concat()
}

/// A question.
pub(super) fn question(id: Id) -> Vec<u8> {
    [&REQUEST[..], &[0, 0], &COOKIE, &id].concat()
}

/// The name of the question that a packet answers, and the address that it says.
pub(super) fn answer_in(packet: &[u8]) -> Option<(Id, SocketAddr)> {
    let (id, attributes) = message(packet, SUCCESS)?;
    let (_, value) = attributes.into_iter().find(|(kind, _)| *kind == MAPPED)?;
    let value = masked(id, value);
    let (head, ip) = value.split_at_checked(4)?;
    let ip: IpAddr = match (head[1], ip.len()) {
        (1, 4) => <[u8; 4]>::try_from(ip).map(Ipv4Addr::from).ok()?.into(),
        (2, 16) => <[u8; 16]>::try_from(ip).map(Ipv6Addr::from).ok()?.into(),
        _ => return None,
    };
    Some((id, SocketAddr::new(ip, u16::from_be_bytes([head[2], head[3]]))))
}

/// Value of the attribute with port and address hidden, or shown again (RFC 8489, 14.2).
fn masked(id: Id, value: &[u8]) -> Vec<u8> {
    let mask = [&[0, 0][..], &COOKIE[..2], &COOKIE, &id].concat();
    value.iter().zip(mask).map(|(byte, mask)| byte ^ mask).collect()
}

type Attributes<'a> = Vec<(u16, &'a [u8])>;

/// Name and attributes of a well-formed message of this type.
fn message(packet: &[u8], kind: [u8; 2]) -> Option<(Id, Attributes<'_>)> {
    let (head, mut rest) = packet.split_first_chunk::<20>()?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    if head[..2] != kind || head[4..8] != COOKIE || length != rest.len() {
        return None;
    }
    let mut attributes = Vec::new();
    while let Some((about, more)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([about[2], about[3]]));
        let (value, _) = more.split_at_checked(length)?;
        attributes.push((u16::from_be_bytes([about[0], about[1]]), value));
        // Each begins at a multiple of 4 bytes.
        rest = more.get(length.next_multiple_of(4)..)?;
    }
    let id = head[8..].try_into().ok()?;
    rest.is_empty().then_some((id, attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_question_and_where_it_came_from() {
        let id = std::array::from_fn(|n| n as u8);
        assert_eq!(question_in(&question(id)), Some(id));
        for source in ["203.0.113.7:4001", "[2001:db8::7]:65535"] {
            let source: SocketAddr = source.parse().unwrap();
            assert_eq!(answer_in(&answer(id, source)), Some((id, source)));
        }
        // RFC 5769, 2.2: how 192.0.2.1:32853 is hidden.
        let hidden = [0, 1, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43];
        assert!(answer(id, "192.0.2.1:32853".parse().unwrap()).ends_with(&hidden));
    }

    #[test]
    fn what_is_no_question_is_not_answered() {
        let whole = question([7; 12]);
        for cut in 0..whole.len() {
            assert_eq!(question_in(&whole[..cut]), None);
        }
        assert_eq!(question_in(&answer([7; 12], "192.0.2.1:1".parse().unwrap())), None);
        // As ICE asks, with a user name.
        let name = [&USERNAME.to_be_bytes()[..], &[0, 3], b"a:b\0"].concat();
        let of_ice = [&REQUEST[..], &[0, 8], &COOKIE, &[7; 12], &name].concat();
        assert_eq!(question_in(&of_ice), None);
        for bad in [[0, 6, 0, 9, 0, 0, 0, 0], [0, 6, 255, 255, 0, 0, 0, 0]] {
            assert_eq!(question_in(&[&of_ice[..20], &bad].concat()), None, "an attribute longer than all");
        }
    }
}
