//! The words of a browser's data channels: SDP and candidates, to and from what nodes signal.
//!
//! A page reads the SDP of its own browser only, and gives it one that is made here of fields that were checked.

use node_core::address::{Contact, Ip};
use node_core::overlay::signalling::{At, Candidate, Description, Fingerprint, Kind, Role, SessionId, Uuid};
use std::fmt::Write;
use std::net::IpAddr;

/// SDP of the peer's end (RFC 8829), for a browser that has this `role` itself.
pub fn sdp(of: &Description, role: Role) -> String {
    let Description { ufrag, password, fingerprint } = of;
    let colons: Vec<String> = fingerprint.0.iter().map(|byte| format!("{byte:02X}")).collect();
    // RFC 8842, 5: who answers begins DTLS.
    let setup = if role == Role::Offers { "active" } else { "actpass" };
    [
        "v=0",
        "o=- 1 1 IN IP4 0.0.0.0",
        "s=-",
        "t=0 0",
        "a=group:BUNDLE 0",
        "m=application 9 UDP/DTLS/SCTP webrtc-datachannel",
        "c=IN IP4 0.0.0.0",
        "a=mid:0",
        &format!("a=ice-ufrag:{ufrag}"),
        &format!("a=ice-pwd:{password}"),
        "a=ice-options:trickle",
        &format!("a=fingerprint:sha-256 {}", colons.join(":")),
        &format!("a=setup:{setup}"),
        "a=sctp-port:5000",
        // RFC 8841, 6: what Chromium and str0m take. Ends send 16 KiB.
        "a=max-message-size:262144",
        "",
    ]
    .join("\r\n")
}

/// Description of the browser's own end; `None` if its SDP lacks a field.
pub fn description(sdp: &str) -> Option<Description> {
    let field = |name: &str| sdp.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let digits = field("a=fingerprint:sha-256 ")?;
    let bytes: Option<Vec<u8>> = digits.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    let fingerprint = Fingerprint(bytes?.try_into().ok()?);
    let (ufrag, password) = (field("a=ice-ufrag:")?.into(), field("a=ice-pwd:")?.into());
    Some(Description { ufrag, password, fingerprint })
}

/// The browser's candidate, as its event has it (RFC 8839, 5.1); `None` if nodes do not signal such ones.
pub fn candidate(line: &str) -> Option<Candidate> {
    let mut words = line.strip_prefix("candidate:")?.split(' ');
    let [_foundation, _component, transport, priority, at, port, _typ, kind] =
        std::array::from_fn(|_| words.next().unwrap_or_default());
    let kind = match kind {
        "host" => Kind::Host,
        "srflx" => Kind::Reflexive,
        _ => return None,
    };
    let at = match at.strip_suffix(".local") {
        Some(name) => At::Mdns(Uuid(u128::from_str_radix(&name.replace('-', ""), 16).ok()?.to_be_bytes())),
        None => At::Ip(Ip::from(at.parse::<IpAddr>().ok()?)),
    };
    let candidate = Candidate { at, port: port.parse().ok()?, kind, priority: priority.parse().ok()? };
    transport.eq_ignore_ascii_case("udp").then_some(candidate)
}

/// The peer's candidate, for the browser.
pub fn line(candidate: &Candidate) -> String {
    let at = match candidate.at {
        At::Ip(ip) => IpAddr::from(ip).to_string(),
        At::Mdns(Uuid(name)) => {
            let mut dashed = String::new();
            for (at, byte) in name.iter().enumerate() {
                if [4, 6, 8, 10].contains(&at) {
                    dashed.push('-');
                }
                // Cannot fail on a string.
                let _ = write!(dashed, "{byte:02x}");
            }
            format!("{dashed}.local")
        }
    };
    let Candidate { port, priority, .. } = candidate;
    // An address that others saw, too, is tried as any other.
    format!("candidate:1 1 udp {priority} {at} {port} typ host")
}

/// Address of a gateway's STUN server, for the browser (RFC 7064).
pub fn stun(at: &Contact) -> String {
    match IpAddr::from(at.ip) {
        IpAddr::V4(ip) => format!("stun:{ip}:{}", at.port),
        IpAddr::V6(ip) => format!("stun:[{ip}]:{}", at.port),
    }
}

/// Name of a session between page and Worker.
pub fn name(session: SessionId) -> String {
    format!("{:032x}", u128::from_be_bytes(session.0))
}

/// The session of that name.
pub fn session(name: &str) -> Option<SessionId> {
    u128::from_str_radix(name, 16).ok().map(|id| SessionId(id.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_peer() -> Description {
        let fingerprint = Fingerprint(std::array::from_fn(|n| n as u8 * 8));
        Description { ufrag: "aB+/".into(), password: "0123456789abcdefghijkl".into(), fingerprint }
    }

    #[test]
    fn what_is_written_for_a_browser_is_read_as_it_was_meant() {
        for (role, setup) in [(Role::Offers, "a=setup:active\r\n"), (Role::Answers, "a=setup:actpass\r\n")] {
            let text = sdp(&of_peer(), role);
            assert!(text.contains(setup) && text.ends_with("\r\n") && !text.contains("\r\n\r\n"), "{text}");
            assert_eq!(description(&text), Some(of_peer()));
        }
    }

    #[test]
    fn a_browsers_own_sdp_is_read_and_one_that_lacks_a_field_is_not() {
        let fingerprint: Vec<String> = (0..32).map(|n| format!("{:02X}", n * 8)).collect();
        // As Chromium 156 writes it.
        let text = format!(
            "v=0\r\no=- 46117 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\na=extmap-allow-mixed\r\n\
             a=msid-semantic: WMS\r\nm=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 0.0.0.0\r\n\
             a=ice-ufrag:aB+/\r\na=ice-pwd:0123456789abcdefghijkl\r\na=ice-options:trickle\r\n\
             a=fingerprint:sha-256 {}\r\na=setup:actpass\r\na=mid:0\r\na=sctp-port:5000\r\n\
             a=max-message-size:262144\r\n",
            fingerprint.join(":")
        );
        assert_eq!(description(&text), Some(of_peer()));
        for field in ["a=ice-ufrag", "a=ice-pwd", "a=fingerprint"] {
            assert_eq!(description(&text.replace(field, "a=other")), None, "{field}");
        }
        assert_eq!(description(&text.replace(":F8\r\n", "\r\n")), None, "31 bytes");
    }

    #[test]
    fn candidates_are_read_and_written() {
        let hidden = "candidate:1966 1 udp 2113937151 3f2504e0-4f89-11d3-9a0c-0305e82c3301.local 56000 typ host generation 0";
        let read = candidate(hidden).expect("a candidate");
        assert_eq!((read.port, read.kind, read.priority), (56_000, Kind::Host, 2_113_937_151));
        assert_eq!(
            line(&read),
            "candidate:1 1 udp 2113937151 3f2504e0-4f89-11d3-9a0c-0305e82c3301.local 56000 typ host"
        );
        for at in ["203.0.113.9", "2001:db8::9"] {
            let seen = format!("candidate:7 1 UDP 1677729535 {at} 1024 typ srflx raddr 0.0.0.0 rport 0");
            let read = candidate(&seen).expect("a candidate");
            assert_eq!(read.kind, Kind::Reflexive);
            assert_eq!(candidate(&line(&read)).map(|again| again.at), Some(read.at));
        }
        for other in [
            "",
            "candidate:",
            "candidate:1 1 tcp 1518280447 10.0.0.1 9 typ host tcptype active",
            "candidate:1 1 udp 5 10.0.0.1 99999 typ host",
            "candidate:1 1 udp 5 example.org 9 typ host",
            "candidate:1 1 udp 5 10.0.0.1 9 typ relay",
        ] {
            assert_eq!(candidate(other), None, "{other}");
        }
    }

    #[test]
    fn sessions_have_names() {
        for id in [SessionId([0; 16]), SessionId(std::array::from_fn(|n| n as u8))] {
            assert_eq!(session(&name(id)), Some(id));
        }
        assert_eq!(session("no session"), None);
    }
}
