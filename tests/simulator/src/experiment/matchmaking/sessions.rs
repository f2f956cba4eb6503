//! Donors and gateways that come and go while jobs wait and run. The first gateway stays: whoever comes back joins there.

use crate::experiment::session::{draw, draw_rest, minutes, shape};
use crate::rng::Rng;
use crate::scenario::Session;
use crate::world::World;
use node_core::{Command, NodeInput};
use std::time::Duration;

/// Until the process of a node ends that has said that it goes.
const GOODBYE: Duration = Duration::from_secs(3);

pub(super) struct Sessions<'a> {
    session: &'a Session,
    /// Calls from here on are for a node each: its session begins or ends, or its process ends.
    first: u32,
    rng: Rng,
    /// Sessions that have ended.
    pub(super) ended: u64,
}

impl<'a> Sessions<'a> {
    pub(super) fn begin(session: &'a Session, first: u32, world: &mut World) -> Sessions<'a> {
        let rng = Rng::fork(world.seed, 301);
        let mut all = Sessions { session, first, rng, ended: 0 };
        for at in 1..world.nodes.len() {
            let rest = draw_rest(minutes(session.median_min), shape(session), &mut all.rng);
            all.call(world, at, rest, false);
        }
        all
    }

    fn call(&self, world: &mut World, at: usize, after: Duration, ends: bool) {
        world.call_at(world.now + after, self.first + 2 * at as u32 + u32::from(ends));
    }

    /// Whether the call was for a node.
    pub(super) fn called(&mut self, token: u32, world: &mut World) -> bool {
        let Some(turn) = token.checked_sub(self.first) else { return false };
        let at = turn as usize / 2;
        if turn % 2 == 1 {
            world.kill(at);
        } else if world.lives(at) {
            self.ended += 1;
            if self.rng.chance(self.session.polite.0) {
                world.drive(at, NodeInput::Command(Command::Drain));
                self.call(world, at, GOODBYE, true);
            } else {
                world.crash(at);
            }
            let away = draw(minutes(self.session.away_min), 1.0, &mut self.rng).max(GOODBYE * 2);
            self.call(world, at, away, false);
        } else {
            world.start(at);
            world.connect(at, 0);
            let next = draw(minutes(self.session.median_min), shape(self.session), &mut self.rng);
            self.call(world, at, next, false);
        }
        true
    }
}
