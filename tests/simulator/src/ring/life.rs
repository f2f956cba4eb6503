//! Lives of small rings, drawn from their seeds: first safety under whatever happens, in any order,
//! then it stops and the ring must be the ideal one.

use super::{Above, Conditions, Rings, SECOND, Stack};
use node_core::circle::{Point, RingId};
use node_core::overlay::ring::{Command, Event, Mode, RingConfig};
use node_core::time::Time;
use std::time::Duration;

/// Until all must be well again: a death is noticed in 10 s, believed by others for 10 s more, and
/// lists of 4 are right three beats later.
pub const WELL: Duration = Duration::from_secs(90);

/// Until a death has been noticed, and lists are whole again.
const NOTICED: Duration = Duration::from_secs(25);

/// Members that may be dead and not noticed: less than the shortest list of all lives.
const DEATHS: usize = 3;

/// Faults that befall a node.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Another one joins.
    Join,
    Kill,
    Leave,
    /// It is dead for up to 12 s.
    Restart,
    /// From now on messages come twice, or do not any more.
    Double,
    /// Its connection to some other breaks.
    Cut,
}

/// Results of a life.
#[derive(Clone, Copy, Debug)]
pub struct Lived {
    /// Lookups, and those whose answer was right.
    pub asked: usize,
    pub right: usize,
    /// Until the ring was the ideal one.
    pub healed: Duration,
}

impl<X: Above> Stack<X> {
    /// One that lives.
    pub fn somebody(&mut self) -> usize {
        let alive = self.alive();
        alive[self.rng.below(alive.len() as u64) as usize]
    }

    /// Lets this befall a node, unless there are too many nodes or too few, or too many have died
    /// of late. Whether it did.
    pub fn befall(
        &mut self,
        fault: Fault,
        one: usize,
        deaths: &mut Vec<Time>,
        (fewest, most): (usize, usize),
    ) -> bool {
        let alive = self.alive();
        deaths.retain(|at| self.now.since(*at) < NOTICED);
        let may_die = deaths.len() < DEATHS && alive.len() > fewest && one != alive[0];
        match fault {
            Fault::Join if alive.len() < most => drop(self.join()),
            Fault::Kill if may_die => {
                self.kill(one);
                deaths.push(self.now);
            }
            Fault::Leave if may_die => {
                let member = self.member(one);
                self.command(one, Command::Leave(member));
                deaths.push(self.now);
            }
            Fault::Restart if may_die => {
                self.kill(one);
                deaths.push(self.now);
                let pause = self.rng.below(12_000);
                self.run(Duration::from_millis(pause));
                self.start(one);
                self.enter(one);
            }
            Fault::Double => self.conditions.double = if self.rng.chance(0.5) { 50 } else { 0 },
            Fault::Cut => {
                let other = self.somebody();
                if one != other {
                    self.cut_link(one, other);
                }
            }
            _ => return false,
        }
        true
    }

    /// Nodes that have left the ring of nodes are gone.
    pub fn bury(&mut self) {
        for (n, event) in std::mem::take(&mut self.events) {
            if event == Event::Left(self.member(n)) && self.lives(n) {
                self.kill(n);
            }
        }
    }

    /// Nothing more happens, and who leaves is gone.
    pub fn calm(&mut self) {
        self.conditions = Conditions::default();
        self.run(6 * SECOND);
        self.bury();
    }
}

/// One life. Panics if a key has two owners, or the ring is not one, or does not heal.
pub fn live(seed: u64) -> Lived {
    let mut rings = Rings::new(seed, RingConfig { successors: 4, ..RingConfig::default() });
    rings.listen = true;
    rings.grow(12, 2);
    rings.settle(120 * SECOND);
    let (mut deaths, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        let one = rings.somebody();
        let fault = match rings.rng.below(10) {
            0..3 => Some(Fault::Join),
            3 | 4 => Some(Fault::Kill),
            5 => Some(Fault::Leave),
            6 => Some(Fault::Restart),
            7 => Some(Fault::Double),
            _ => None,
        };
        let befell = fault.is_some_and(|fault| rings.befall(fault, one, &mut deaths, (6, 40)));
        let is_in = |rings: &Rings| rings.view(one)?.members().next().map(|member| member.joined());
        if !befell && is_in(&rings) == Some(true) {
            let key = Point(u128::from(rings.rng.u64()) << 64 | u128::from(rings.rng.u64()));
            let mode = if rings.rng.chance(0.5) { Mode::Iterative } else { Mode::Recursive };
            numbers.push(rings.ask(one, RingId::NODES, key, mode));
        }
        let pause = rings.rng.below(4000);
        rings.run(Duration::from_millis(pause));
        rings.bury();
        assert_eq!(rings.check(RingId::NODES, false), Vec::<String>::new(), "seed {seed}");
    }
    rings.calm();
    let healed = rings.settle(WELL);
    rings.finish();
    assert_eq!(rings.faults, Vec::new(), "seed {seed}");
    let ended: Vec<_> = numbers.iter().filter_map(|number| rings.lookups.get(number)).collect();
    let right = ended.iter().filter(|asked| asked.is_right()).count();
    Lived { asked: ended.len(), right, healed }
}
