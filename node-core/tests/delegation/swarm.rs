//! Many seeds: units on the ring while members, runners and their home come and go.

use super::*;
use node_core::content::Data;
use simulator::network::{Latency, Mischief};

fn work(task: &Task) -> (Duration, Outcome) {
    let number: u64 = task.arguments[0].parse().unwrap_or(0);
    (Duration::from_millis(5_000 + number * 37_123 % 120_000), simulator::echo(task).1)
}

struct Life {
    world: World,
    jobs: Vec<(JobId, u32)>,
    kinds: Vec<u64>,
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut world = World::seed(seed).with(work);
        world.network.latency = Latency::Uniform(500, 1_000 + world.rng.below(100_000));
        world.network.mischief_of = vec!["Work".into(), "Store".into()];
        world.network.keepalive = Some((5_000_000, 10_000_000));
        world.network.notice = (1_000, 1_000 + world.rng.below(5_000_000));
        world.add(member(true, 0));
        for _ in 0..5 + world.rng.below(5) {
            let slots = world.rng.below(3) as u32;
            let at = world.add(member(false, slots));
            world.connect(0, at);
        }
        for _ in 0..2 {
            let at = world.add(Config { slots: 2, port: Some(4001), ..Config::default() });
            world.connect(0, at);
        }
        world.run_for(A_MINUTE);
        let kinds = (0..8).filter(|_| world.rng.below(2) == 0).collect();
        let mut life = Life { world, jobs: Vec::new(), kinds };
        for _ in 0..1 + life.world.rng.below(2) {
            let units = 1 + life.world.rng.below(12) as u32;
            let mut spec = life.world.sweep(0, units);
            spec.owner = OwnedBy::Ring;
            spec.template.checkpoint = CheckpointEvery(1_000_000 + life.world.rng.below(5_000_000));
            spec.template.environment = vec![("JOB".into(), life.jobs.len().to_string())];
            let job = life.world.submit(0, spec);
            life.jobs.push((job, units));
        }
        let pause = life.world.rng.below(15_000);
        life.world.run_for(Duration::from_millis(pause));
        life
    }

    fn anybody(&mut self) -> usize {
        1 + self.world.rng.below(self.world.nodes.len() as u64 - 1) as usize
    }

    fn fault(&mut self) {
        let Some(kind) = self.world.rng.one_of(&self.kinds).copied() else { return };
        let (job, units) = *self.world.rng.one_of(&self.jobs).expect("there is one");
        let index = self.world.rng.below(units.into()) as u32;
        let circle = circle(&self.world, UnitId { job, index });
        let at = self.anybody();
        match kind {
            0 => self.world.crash(circle[0]),
            1 => circle.iter().take(3).filter(|at| **at > 0).for_each(|at| self.world.crash(*at)),
            2 => self.world.crash(0),
            3 => self.world.crash(at),
            4 => {
                let other = self.anybody();
                self.world.part(&[at, other]);
            }
            5 => {
                self.world.drive(at, NodeInput::Command(Command::Drain));
                self.world.run_for(Duration::from_secs(2));
                self.world.kill(at);
            }
            6 => {
                let mischief = Mischief { loss: 0.05, duplication: 0.05, reordering: 0.1, late: 2_000_000 };
                self.world.network.mischief = mischief;
            }
            _ => {
                let at = self.world.add(member(false, 1));
                self.world.connect(0, at);
            }
        }
        let pause = self.world.rng.below(30_000);
        self.world.run_for(Duration::from_millis(pause));
        if self.world.rng.below(2) == 0 {
            self.mend();
        }
    }

    fn mend(&mut self) {
        self.world.heal();
        self.world.network.mischief = Mischief::default();
        for at in 0..self.world.nodes.len() {
            if !self.world.lives(at) {
                self.world.start(at);
            }
        }
        self.world.run_for(Duration::from_millis(50));
        (1..self.world.nodes.len()).for_each(|at| self.world.connect(0, at));
    }

    fn live(mut self) {
        let seed = self.world.seed;
        for _ in 0..2 + self.world.rng.below(6) {
            self.fault();
            for (job, _) in &self.jobs {
                for (index, result) in self.world.results(*job) {
                    assert_eq!(
                        result.stdout,
                        Data::Inline(index.to_string().into()),
                        "seed {seed}: unit {index}"
                    );
                }
            }
        }
        self.mend();
        for (job, units) in std::mem::take(&mut self.jobs) {
            self.world.run_until(A_MINUTE * 60, "all jobs end once the faults stop", |w| w.is_over(job));
            self.world.assert_all_right(job, units);
        }
        tidy(&mut self.world);
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A checkpoint was kept for an owner that had gone (77), a row stayed for good (1148, 5304), a unit that
/// its runner ran for another owner counted as lost with it (10257).
const ONCE_FAILED: [u64; 4] = [77, 1148, 5304, 10257];

#[test]
fn no_unit_is_lost_whoever_comes_and_goes() {
    // MANYHANDS_SEEDS=N runs more, MANYHANDS_SEED=N only that one.
    match number("MANYHANDS_SEED") {
        Some(seed) => Life::new(seed).live(),
        None => {
            let seeds = 0..number("MANYHANDS_SEEDS").unwrap_or(50);
            ONCE_FAILED.into_iter().chain(seeds).for_each(|seed| Life::new(seed).live());
        }
    }
}
