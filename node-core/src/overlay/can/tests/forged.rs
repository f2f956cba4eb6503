//! Messages that no correct node sends.

use super::net::{Net, contact, grown, id};
use super::*;
use crate::protocol::Rng;
use message::Errand;

fn record(net: &Net, of: NodeId) -> Record {
    net.member(of).record()
}

/// Nodes beside `of`.
fn neighbours(net: &Net, of: NodeId) -> Vec<NodeId> {
    net.member(of).view().neighbours
}

#[test]
fn a_claim_to_the_zone_of_a_node_that_is_there_does_not_last() {
    for (seed, grows) in [(0, false), (1, true), (2, false), (3, true)] {
        let mut net = grown(Net::new(seed), 40, seed % 2 == 0, Duration::from_millis(200));
        net.seconds(30);
        let eve = net.any();
        let victim = neighbours(&net, eve)[0];
        let (was, at, life) =
            (net.member(victim).zones(), net.member(victim).coords(), record(&net, victim).life);
        let (known, space) = (record(&net, eve), net.member(eve).space());
        // From now on, others hear only what she forges.
        net.parts.insert(eve, 1);
        net.dials_fail = false;
        for round in 0..60 {
            let mut forged = Record { version: known.version + 1_000 + round, ..known.clone() };
            match grows {
                // Her own zone reaches over the other's.
                true => {
                    let (mine, its) = (forged.zones[0], was[0]);
                    let lo = Coords(std::array::from_fn(|dim| mine.lo.0[dim].min(its.lo.0[dim])));
                    let hi = Coords(std::array::from_fn(|dim| mine.hi.0[dim].max(its.hi.0[dim])));
                    forged.zones = vec![Zone { lo, hi }];
                }
                false => forged.zones.extend(&was),
            }
            assert!(forged.is_valid());
            for to in net.alive().into_iter().filter(|to| *to != eve) {
                let record = Box::new(forged.clone());
                let message = Message::Zones { space, record, others: Vec::new(), asks: false };
                net.step(to, Input::Message { from: eve, message });
            }
            net.seconds(3);
        }
        assert_eq!(record(&net, victim).life, life, "it has not been driven away");
        assert!(
            was.iter().all(|zone| net
                .member(victim)
                .zones()
                .iter()
                .any(|now| now.overlap(zone) == Some(*zone)))
        );
        let others: Vec<NodeId> =
            net.alive().into_iter().filter(|one| *one != eve && *one != victim).collect();
        let mut reached = 0;
        for by in &others {
            reached += usize::from(net.owner_of(*by, at).0 == Some(victim));
        }
        assert!(reached >= others.len() * 9 / 10, "{reached} of {} find it", others.len());
        assert!(
            net.faults.iter().any(|(peer, _)| *peer == eve)
                && net.faults.iter().all(|(peer, _)| *peer == eve)
        );
    }
}

#[test]
fn absurd_zones_and_loads_are_faults_and_change_nothing() {
    let mut net = grown(Net::new(9), 10, true, Duration::from_millis(200));
    net.seconds(20);
    let (me, eve) = (id(0), neighbours(&net, id(0))[0]);
    let space = net.member(me).space();
    let good = record(&net, eve);
    let inverted = Zone { lo: Zone::WHOLE.hi, hi: Zone::WHOLE.lo };
    let twice = [good.zones.clone(), good.zones.clone()].concat();
    let elsewhere = Zone::WHOLE.minus(&good.zones[0])[0];
    let zones = [vec![], vec![inverted], twice, vec![elsewhere], vec![good.zones[0]; 17]];
    let before = net.member(me).view();
    for (count, zones) in zones.into_iter().enumerate() {
        let record = Box::new(Record { zones, version: good.version + 1, ..good.clone() });
        let message = Message::Zones { space, record, others: Vec::new(), asks: true };
        net.step(me, Input::Message { from: eve, message });
        assert_eq!(net.faults.len(), count + 1);
    }
    let other = Box::new(record(&net, id(5)));
    let message = Message::Zones { space, record: other, others: Vec::new(), asks: true };
    net.step(me, Input::Message { from: eve, message });
    assert_eq!(net.faults.len(), 6, "it speaks for another node");
    let upward = [Load { nodes: u64::MAX, waiting: 0 }; RESOURCES];
    let beat = Beat { space, life: good.life, version: good.version, waiting: 0, upward };
    net.step(me, Input::Message { from: eve, message: Message::Beat(beat) });
    assert_eq!(net.faults.len(), 7);
    assert_eq!(net.member(me).view(), before);
}

#[test]
fn zones_are_neither_given_nor_granted_by_those_that_have_none() {
    let mut net = grown(Net::new(9), 10, true, Duration::from_millis(200));
    net.seconds(20);
    let me = id(0);
    let own = net.member(me).zones()[0];
    let before = net.member(me).view();
    let space = before.space;
    for eve in neighbours(&net, me) {
        let its = net.member(eve).zones()[0];
        // Her own zone is hers to stay in.
        for zone in [its, own, Zone::WHOLE] {
            let message = Message::Give { space, zone, others: Vec::new() };
            net.step(me, Input::Message { from: eve, message });
        }
        let message = Message::Welcome { id: 7, space, zone: Zone::WHOLE, others: Vec::new() };
        net.step(me, Input::Message { from: eve, message });
        let other = net.alive().into_iter().find(|one| *one != eve).unwrap();
        let left = Message::Leave { space, record: Box::new(record(&net, other)), others: Vec::new() };
        net.step(me, Input::Message { from: eve, message: left });
    }
    net.seconds(60);
    assert_eq!(net.member(me).view().zones, before.zones);
    assert_eq!(net.broken(), None);
}

#[test]
fn no_message_makes_a_node_panic() {
    let mut net = grown(Net::new(11), 12, false, Duration::from_millis(200));
    net.seconds(20);
    let mut rng = Rng::from_seed([3; 32]);
    let zone = |rng: &mut Rng, net: &Net| {
        let all = net.alive();
        let zones =
            net.state(all[rng.below(12) as usize]).member().map(Member::zones).unwrap_or(vec![Zone::WHOLE]);
        let mut zone = zones[0];
        for dim in 0..DIMS {
            match rng.below(6) {
                0 => zone.lo.0[dim] = rng.below(1 << 32) as u32,
                1 => zone.hi.0[dim] = rng.below(1 << 32) as u32,
                2 => zone.hi.0[dim] = EDGE,
                3 => zone.lo.0[dim] = 0,
                _ => {}
            }
        }
        zone
    };
    for round in 0..20_000_u64 {
        let all = net.alive();
        let (me, eve) = (all[rng.below(12) as usize], all[rng.below(12) as usize]);
        let Some(member) = net.state(me).member() else {
            net.seconds(1);
            continue;
        };
        let (space, coords) = (member.space(), member.coords());
        let mut record = net.state(eve).member().map_or_else(|| member.record(), Member::record);
        record.version += rng.below(3);
        match rng.below(4) {
            0 => record.zones = (0..rng.below(4)).map(|_| zone(&mut rng, &net)).collect(),
            1 => record.zones.push(zone(&mut rng, &net)),
            2 => record.takers = vec![me, eve],
            _ => {}
        }
        let others = (0..rng.below(3))
            .map(|_| Record { contact: contact(id(rng.below(20) as usize)), ..record.clone() });
        let (others, slab) = (others.collect(), zone(&mut rng, &net));
        let needs = net.state(eve).own.unwrap_or_default();
        let to = Coords(std::array::from_fn(|dim| coords.0[dim] ^ (rng.below(2) << 20) as u32));
        let errand = match rng.below(5) {
            0 => Errand::Locate,
            1 => Errand::Meet,
            2 => Errand::Find(Finding::new(needs, rng.below(70) as u16)),
            3 => Errand::Place(Placing::new(needs, true)),
            _ => Errand::Join { capability: Some(needs), salt: rng.below(3) as u8 },
        };
        let walk = Walk {
            id: round,
            origin: contact(eve),
            space: Some(space),
            to,
            hops: 300,
            arrived: true,
            errand,
        };
        let message = match rng.below(12) {
            0 => Message::Zones { space, record: Box::new(record), others, asks: true },
            1 => Message::Leave { space, record: Box::new(record), others },
            2 => Message::Give { space, zone: slab, others },
            3 => Message::Return { space, zone: slab },
            4 => Message::Disputed { space, record: Box::new(record) },
            5 => Message::Welcome { id: round, space, zone: slab, others },
            6 => Message::Walk(Box::new(walk)),
            7 => Message::AskFinger { up: true, level: rng.below(256) as u8 },
            8 => Message::Finger { up: true, level: rng.below(3) as u8, at: Some((contact(eve), slab)) },
            9 => Message::Steal { contact: contact(eve), capability: needs },
            10 => Message::Zones {
                space: SpaceId { drawn: 0, ..space },
                record: Box::new(record),
                others,
                asks: true,
            },
            _ => {
                let upward = [Load { nodes: rng.u64() >> 10, waiting: rng.u64() >> 5 }; RESOURCES];
                Message::Beat(Beat {
                    space,
                    life: record.life,
                    version: record.version,
                    waiting: u32::MAX,
                    upward,
                })
            }
        };
        net.step(me, Input::Message { from: eve, message });
        if round % 50 == 0 {
            net.run(Duration::from_millis(500));
        }
    }
    net.seconds(200);
    net.settle(400);
}
