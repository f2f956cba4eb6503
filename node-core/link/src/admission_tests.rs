use super::*;

/// Arrivals at one moment, or at moments that a story names.
struct Gate {
    admission: Admission,
    now: Instant,
    next: usize,
}

impl Gate {
    fn of(handshakes: u32, connections: u32, rate: u32) -> Gate {
        let options = LinkOptions {
            handshakes_per_block: handshakes,
            connections_per_block: connections,
            arrivals_per_block: rate,
            ..LinkOptions::default()
        };
        Gate { admission: Admission::new(&options), now: Instant::now(), next: 0 }
    }

    fn arrive(&mut self, ip: &str) -> Result<ConnectionId, Crowded> {
        let id = ConnectionId::new_unchecked(self.next);
        self.next += 1;
        self.admission.arrive(id, AddressBlock::of(ip.parse().unwrap()), self.now).map(|()| id)
    }

    fn why(&mut self, ip: &str) -> &'static str {
        self.arrive(ip).unwrap_err().what
    }
}

#[test]
fn unfinished_handshakes_of_one_address_leave_room_for_another() {
    let mut gate = Gate::of(2, 100, 1000);
    let first = gate.arrive("192.0.2.1").unwrap();
    gate.arrive("192.0.2.1").unwrap();
    assert_eq!(gate.why("192.0.2.1"), "handshakes under way");
    gate.arrive("192.0.2.2").unwrap();

    gate.admission.leave(first);
    gate.arrive("192.0.2.1").unwrap();
}

#[test]
fn connections_that_stand_count_apart_from_handshakes() {
    let mut gate = Gate::of(1, 2, 1000);
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let id = gate.arrive("2001:db8::1").unwrap();
            gate.admission.establish(id);
            id
        })
        .collect();
    assert_eq!(gate.why("2001:db8::ffff"), "connections", "they are of one network");
    gate.arrive("2001:db8:0:1::1").unwrap();
    gate.admission.leave(ids[0]);
    gate.arrive("2001:db8::2").unwrap();
}

#[test]
fn an_address_that_comes_again_and_again_has_to_wait() {
    let mut gate = Gate::of(10, 10, 10);
    let come = |gate: &mut Gate| gate.arrive("192.0.2.1").map(|id| gate.admission.leave(id)).is_ok();
    let at_once = (0..1000).filter(|_| come(&mut gate)).count();
    assert_eq!(at_once, 31, "three seconds' worth, and the one that begins them");
    gate.now += Duration::from_secs(1);
    assert_eq!((0..1000).filter(|_| come(&mut gate)).count(), 10);
    gate.arrive("192.0.2.2").unwrap();
}

#[test]
fn addresses_that_left_are_forgotten() {
    let mut gate = Gate::of(10, 10, 10);
    for n in 0..100_000_u32 {
        let id = gate.arrive(&std::net::Ipv4Addr::from_bits(n).to_string()).unwrap();
        gate.admission.leave(id);
        gate.now += Duration::from_millis(1);
    }
    assert!(gate.admission.blocks.len() <= 2 * REMEMBERED, "{}", gate.admission.blocks.len());
    assert!(gate.admission.from.is_empty());
}
