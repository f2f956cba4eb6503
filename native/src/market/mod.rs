//! Goods that this node sells: its free slots, at its donor's marginal cost.
//!
//! - [`speed`]: how fast a slot is, measured by a standard run in the node's own engine.
//!
//! The core ([`node_core::market`]) decides which of the goods are sold, to whom and at which price. This
//! module only states the goods: the speed that a task gets under the policy as it is now, for how long, and
//! its cost.

pub(crate) mod speed;

use crate::assemble::own_executable;
use crate::driver::NodeHandle;
use crate::policy::Enforcer;
use node_core::goods::Goods;
use node_core::goods::{Kind, Market};
use node_core::money::Price;
use node_core::{Command, Platform};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks at the policy. Our choice: the policy itself looks as often.
const LOOK: Duration = Duration::from_secs(2);

/// Slots are listed for so long, minutes, if the policy's hours do not end before. Our choice: ten
/// hours, beyond which nobody can say.
const MINUTES: u16 = 600;

/// Until a speed that could not be measured is measured again, and twice as long each time. Our choice: what
/// made it fail is mostly a machine that was busy for a while.
const MEASURE_AGAIN: Duration = Duration::from_secs(60);
const MEASURE_LATEST: Duration = Duration::from_secs(3600);

/// Measures how fast a slot is while nothing `works`, and from then on states it and lists what is free, until the
/// node stops.
pub(crate) async fn trade(
    node: NodeHandle,
    policy: Enforcer,
    cache: PathBuf,
    speed: Option<u64>,
    works: watch::Receiver<bool>,
) {
    // Jobs that require a speed wait until there is one.
    node.command(Command::Measured { speed: 0 });
    let mut wait = MEASURE_AGAIN;
    loop {
        let measured = match (speed, own_executable()) {
            (Some(speed), _) => Ok(speed),
            (None, Ok(exe)) => speed::measure(&exe, &cache, works.clone()).await,
            (None, Err(failure)) => Err(failure.message),
        };
        match measured {
            Ok(speed) => {
                tracing::info!("a slot does {:.2} times 10^9 of fuel a second", speed as f64 / 1e9);
                return sell(node, policy, speed).await;
            }
            Err(why) => tracing::warn!(
                "this node sells no cycles, and runs no job that requires a speed, since its speed could not be measured: \
                 {why}; it is measured again \
                 in {} s, or name it with --speed",
                wait.as_secs()
            ),
        }
        tokio::time::sleep(wait).await;
        if node.has_stopped() {
            return;
        }
        wait = (wait * 2).min(MEASURE_LATEST);
    }
}

/// States what the policy leaves, until the node stops.
async fn sell(node: NodeHandle, policy: Enforcer, speed: u64) {
    let mut told = None;
    let mut looks = tokio::time::interval(LOOK);
    while !node.has_stopped() {
        looks.tick().await;
        let goods = goods(&policy, speed);
        if told != Some(goods) {
            told = Some(goods);
            node.command(Command::Measured { speed: goods.capacity });
            node.command(Command::Sell(goods));
        }
    }
}

/// Goods for sale now; with 0 units, nothing is for sale.
fn goods(policy: &Enforcer, speed: u64) -> Goods {
    let terms = policy.terms();
    let capacity = speed / 100 * u64::from(terms.cpu_share);
    let units = if terms.works { terms.slots } else { 0 };
    Goods {
        kind: Kind::Cycles,
        capacity: capacity.clamp(Market::LEAST, Market::MOST),
        units: u16::try_from(units).unwrap_or(u16::MAX),
        minutes: MINUTES,
        // A donor with a least price does not sell below it.
        cost: Price(terms.marginal_cost.max(terms.min_price)),
        engine: Platform::Native,
        memory_mib: u32::try_from(terms.memory_bytes >> 20).unwrap_or(u32::MAX),
    }
}
