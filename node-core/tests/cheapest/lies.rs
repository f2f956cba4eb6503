//! Sellers that lie about units that others have sold.

use crate::cheapest::support::*;
use node_core::NodeEvent;
use simulator::liar::{Liar, Lie};

#[test]
fn who_did_the_work_is_paid_although_another_seller_reported_it() {
    for seed in 0..5 {
        for lie in [Lie::Forge, Lie::Fail] {
            let (honest, liar) = (1, 2);
            let mut world = swarm(seed, 3);
            endow(&mut world, 0, 10 * CREDIT);
            let job = job(&mut world, 0, 2, CREDIT);
            world.liars.insert(liar, Liar::new(lie, job, 2));
            world.run_until(A_MINUTE * 5, "the job is done", |w| w.is_over(job));
            world.assert_all_right(job, 2);
            assert_settled(&mut world, 0);
            let liars_id = id(&world, liar);
            let blamed = world.told.iter().any(|(_, at, event)| {
                *at == 0 && matches!(event, NodeEvent::PeerFault { peer, .. } if *peer == liars_id)
            });
            assert!(blamed, "seed {seed}: it reported what the other had sold");
            // Both sell at the cost of the third, one unit each.
            let wage = 3000 * FUEL / 1_000_000_000;
            let wages = [honest, liar].map(|at| balance(&world, at) - fees(&mut world, at));
            assert_eq!(wages, [wage, wage], "seed {seed}, {lie:?}");
            assert_eq!(earned(&mut world, honest), wage, "seed {seed}, {lie:?}");
        }
    }
}
