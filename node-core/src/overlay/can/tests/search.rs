//! Routes, searches, placing.

use super::net::{Net, grown, id, mixed};
use super::*;
use crate::ticket::ServiceId;

fn find(net: &mut Net, needs: Capability, wanted: u16) -> (Vec<Candidate>, u16) {
    let (by, number) = (net.any(), net.rng.u64());
    net.command(by, Command::Find { ticket: ServiceId::Driver.ticket(number), needs, wanted });
    let found = net.wait(|event| match event {
        Event::Found { ticket, found, visited } if ticket.number == number => Some((found.clone(), *visited)),
        _ => None,
    });
    found.expect("each search ends")
}

fn place(net: &mut Net, needs: Capability, push: bool) -> Option<Candidate> {
    let (by, number, virt) = (net.any(), net.rng.u64(), net.rng.u64() as u32);
    net.command(by, Command::Place { ticket: ServiceId::Driver.ticket(number), needs, virt, push });
    let placed = net.wait(|event| match event {
        Event::Placed { ticket, at, .. } if ticket.number == number => Some(*at),
        _ => None,
    });
    placed.expect("each placement ends")
}

fn owner(net: &Net, at: Coords) -> NodeId {
    let owners: Vec<NodeId> = net.alive().into_iter().filter(|id| net.member(*id).owns(at)).collect();
    assert_eq!(owners.len(), 1);
    owners[0]
}

#[test]
fn every_lookup_reaches_the_owner_of_its_point() {
    for seed in 0..4 {
        let mut net = grown(Net::new(seed), 80, seed % 2 == 0, Duration::from_millis(100));
        net.seconds(60);
        for _ in 0..60 {
            let (by, at) = (net.any(), net.point());
            let (found, hops) = net.owner_of(by, at);
            assert_eq!(found, Some(owner(&net, at)));
            assert!(hops <= 16, "{hops} hops");
        }
    }
}

#[test]
fn with_fingers_routes_among_equal_nodes_are_short() {
    let hops = |has_fingers: bool| {
        let net = Net::with_fingers(1, has_fingers);
        let mut net = grown(net, 300, true, Duration::from_millis(100));
        net.seconds(200);
        let all = (0..150).map(|_| {
            let (by, at) = (net.any(), net.point());
            let (found, hops) = net.owner_of(by, at);
            assert_eq!(found, Some(owner(&net, at)));
            u32::from(hops)
        });
        let mut all: Vec<u32> = all.collect();
        all.sort_unstable();
        (all.iter().sum::<u32>() as f64 / all.len() as f64, all[all.len() - 1])
    };
    let (without, with) = (hops(false), hops(true));
    assert!(with.0 < 0.6 * without.0 && with.0 < 6.0, "{with:?} {without:?}");
}

#[test]
fn a_search_finds_capable_nodes_only_and_rare_ones_too() {
    for seed in 0..3 {
        let mut net = grown(Net::new(seed), 150, false, Duration::from_millis(100));
        net.seconds(60);
        let all: Vec<(NodeId, Capability)> =
            net.alive().into_iter().map(|id| (id, net.state(id).own.unwrap())).collect();
        let (mut visits, mut missed) = (0, 0);
        for round in 0..60 {
            let witness = all[net.rng.below(150) as usize].1;
            let mut needs = witness;
            // Heavily or lightly constrained.
            (needs.disk, needs.speed) = if round % 2 == 0 { (0, 0) } else { (needs.disk, needs.speed) };
            let capable = all.iter().filter(|(_, one)| one.covers(&needs)).count();
            let (found, visited) = find(&mut net, needs, 8);
            assert!(!found.is_empty(), "there is one of {capable}");
            for one in &found {
                let real = all.iter().find(|(id, _)| *id == one.at.id).unwrap().1;
                assert!(real.covers(&needs) && one.capability == real);
            }
            let mut ids: Vec<NodeId> = found.iter().map(|one| one.at.id).collect();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), found.len(), "each once");
            missed += usize::from(found.len() < capable.min(8));
            visits += u32::from(visited);
        }
        assert!(missed <= 2, "{missed} of 60 found fewer than there are");
        assert!(visits <= 60 * 25, "{visits} visits in 60 searches");
        let impossible = Capability { memory: 1_000, ..Capability::default() };
        assert_eq!(find(&mut net, impossible, 8).0, []);
    }
}

#[test]
fn guests_are_found_at_their_host() {
    let mut net = grown(Net::new(3), 20, true, Duration::from_millis(200));
    let (host, guest) = (id(9), id(1_000));
    let capability = Capability { memory: 100, speed: 100, disk: 100, ..net.state(host).own.unwrap() };
    net.command(host, Command::Guest { guest, capability: Some(capability) });
    let found = find(&mut net, capability, 8).0;
    assert!(
        found.iter().any(|one| one.at.id == guest && one.at.relay().is_some_and(|relay| relay.id == host))
    );
    net.command(host, Command::Guest { guest, capability: None });
    assert!(find(&mut net, capability, 8).0.iter().all(|one| one.at.id != guest));
}

#[test]
fn a_node_knows_about_how_many_others_there_are_and_which_share_is_capable() {
    for (seed, nodes) in [(1, 20), (2, 150)] {
        let mut net = grown(Net::new(seed), nodes, false, Duration::from_millis(100));
        net.seconds(180);
        let needs = Capability { memory: 50, ..Capability::default() };
        for _ in 0..10 {
            let one = net.any();
            let state = net.state(one);
            assert!(
                state.nodes().abs_diff(nodes as u32) <= nodes as u32 * 2 / 5,
                "{} for {nodes}",
                state.nodes()
            );
            let capable = net.alive().iter().filter(|id| net.state(**id).own.unwrap().covers(&needs)).count();
            let (share, real) = (state.share(&needs).unwrap(), capable as f64 / nodes as f64);
            assert!((share - real).abs() < 0.3, "{share} for {real}");
        }
    }
}

/// Places jobs of no needs, of which none ends: how many the fullest node has, and how many nodes have none.
fn fill(seed: u64, push: bool) -> (u32, usize) {
    let mut net = grown(Net::new(seed), 100, false, Duration::from_millis(100));
    net.seconds(60);
    let mut loads: BTreeMap<NodeId, u32> = BTreeMap::new();
    for _ in 0..400 {
        let at = place(&mut net, Capability::default(), push).expect("all nodes are capable").at.id;
        let load = loads.entry(at).or_default();
        *load += 1;
        let waiting = *load;
        net.command(at, Command::Load { waiting });
        net.run(Duration::from_millis(500));
    }
    (loads.values().copied().max().unwrap_or(0), 100 - loads.len())
}

#[test]
fn light_jobs_pile_up_on_few_nodes_unless_they_are_pushed() {
    for seed in 0..2 {
        let (basic, pushed) = (fill(seed, false), fill(seed, true));
        // With the same number of jobs at each node there are 4.
        assert!(basic.0 >= 12 && basic.1 >= 50, "basic placing fails here: {basic:?}");
        assert!(pushed.0 <= 9 && pushed.1 <= 10, "{pushed:?}");
    }
}

#[test]
fn placed_jobs_are_at_nodes_that_can_run_them() {
    for seed in 0..2 {
        let mut net = grown(Net::new(seed), 100, false, Duration::from_millis(100));
        net.seconds(60);
        for round in 0..60 {
            let witness = net.any();
            let needs = net.state(witness).own.unwrap();
            let at = place(&mut net, needs, round % 2 == 0).expect("one can");
            assert!(net.state(at.at.id).own.unwrap().covers(&needs));
        }
        let more = Capability { disk: 500, ..mixed(&mut net.rng) };
        assert_eq!(place(&mut net, more, true), None);
    }
}

#[test]
fn an_idle_node_asks_a_neighbour_with_a_queue_for_a_job() {
    let mut net = grown(Net::new(5), 30, true, Duration::from_millis(200));
    net.seconds(20);
    let busy = id(4);
    for one in net.alive() {
        net.command(one, Command::Load { waiting: u32::from(one != id(7)) });
    }
    net.events.clear();
    net.seconds(20);
    let asked =
        |net: &Net| net.events.iter().filter(|(_, event)| matches!(event, Event::Steal { .. })).count();
    assert_eq!(asked(&net), 0, "one job each is no queue");
    net.command(busy, Command::Load { waiting: 5 });
    net.command(id(7), Command::Load { waiting: 1 });
    let idle = net.member(busy).view().neighbours[0];
    net.command(idle, Command::Load { waiting: 0 });
    net.seconds(10);
    let (at, event) =
        net.events.iter().find(|(_, event)| matches!(event, Event::Steal { .. })).expect("it has asked");
    let Event::Steal { by, capability } = event else { return };
    assert_eq!((*at, by.id, Some(*capability)), (busy, idle, net.state(idle).own));
}
