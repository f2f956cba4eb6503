//! Connections of a node: what machines read follows what the neighbours do.

use node_core::address::Dialable;
use node_core::peers::{Known, Peer, Peers};
use node_core::protocol::Rng;
use node_core::ticket::ServiceId;
use node_core::{NodeId, Platform, Time};
use std::collections::BTreeMap;

fn known(guest: bool, gateway: bool) -> Known {
    Known {
        name: "".into(),
        platform: Platform::Native,
        gateway,
        dialable: if guest { Dialable::No } else { Dialable::Unknown },
        speaks: [ServiceId::Tree].into_iter().collect(),
        web: None,
    }
}

/// Beside a plain list, over random steps.
#[test]
fn what_is_read_follows_what_happened() {
    for seed in 0..100 {
        let mut rng = Rng::from_seed([seed; 32]);
        let (mut peers, mut list) = (Peers::new(), BTreeMap::new());
        for step in 0..200 {
            let id = NodeId([rng.below(8) as u8; 32]);
            let (guest, gateway) = (rng.below(2) == 0, rng.below(2) == 0);
            match rng.below(5) {
                0 => {
                    peers.insert(id, Peer::new(None, Time(step)));
                    list.insert(id, (None, false, Time(step)));
                }
                1 => {
                    assert_eq!(peers.remove(id).is_some(), list.remove(&id).is_some());
                }
                2 => {
                    peers.change(id, |peer| peer.hello = Some(known(guest, gateway)));
                    list.entry(id).and_modify(|peer| peer.0 = Some((guest, gateway)));
                }
                3 => {
                    peers.change(id, |peer| peer.leaving = true);
                    list.entry(id).and_modify(|peer| peer.1 = true);
                }
                _ => {
                    let known = list.get(&id).is_some_and(|peer| peer.0.is_some());
                    assert_eq!(peers.heard(id, Time(step)), known);
                    list.entry(id).and_modify(|peer| peer.2 = if known { Time(step) } else { peer.2 });
                }
            }
            peers.check();
            let introduced = list.iter().filter_map(|(id, peer)| Some((*id, peer.0?, peer.2)));
            let all: Vec<_> = peers.all().map(|(id, known, heard)| (id, known.gateway, heard)).collect();
            let wanted: Vec<_> = introduced.clone().map(|(id, (_, gateway), at)| (id, gateway, at)).collect();
            assert_eq!(all, wanted, "seed {seed}");
            assert_eq!(peers.gateways().count(), all.iter().filter(|(_, gateway, _)| *gateway).count());
            assert_eq!(peers.with(ServiceId::Tree).count(), all.len());
            assert_eq!(peers.with(ServiceId::Ring).count(), 0);
            let guests = list.values().filter(|peer| !peer.1 && peer.0 == Some((true, false)));
            assert_eq!(peers.guests(), guests.count(), "seed {seed}");
            for (id, peer) in &list {
                assert_eq!((peers.knows(*id), peers.is_leaving(*id)), (peer.0.is_some(), peer.1));
            }
            assert_eq!(peers.len(), list.len());
        }
    }
}
