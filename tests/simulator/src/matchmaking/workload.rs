//! The eight workloads: nodes and jobs in classes or mixed, light or heavy needs. The paper gives numbers of nodes and
//! jobs, three resources, the mean run, the mean gap between arrivals and the chance of a need (section 3.3); the
//! classes and the generator are our choice, fixed to the bit so that two programs agree.

/// Resources. Their unit is a share of the best there is, 1 to 100; 0 as a need is none.
pub const RESOURCES: usize = 3;

/// Capabilities of a node, or needs of a job.
pub type Vector = [u32; RESOURCES];

/// Whether a node with these capabilities can run a job with these needs.
pub fn can(node: &Vector, needs: &Vector) -> bool {
    node.iter().zip(needs).all(|(has, need)| has >= need)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Ten classes of equal ones.
    Clustered,
    /// Each drawn by itself.
    Mixed,
}

/// How much jobs ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// 1.2 of the three resources in the mean.
    Light,
    /// 2.4 of them.
    Heavy,
}

/// One of the eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    pub nodes: Kind,
    pub jobs: Kind,
    pub needs: Needs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub needs: Vector,
    pub arrival_us: u64,
    pub run_us: u64,
}

#[derive(Clone, Debug)]
pub struct Workload {
    pub nodes: Vec<Vector>,
    /// In the order of their arrival.
    pub jobs: Vec<Job>,
}

const NODE_CLASSES: [Vector; 10] = [
    [20, 20, 20],
    [20, 60, 40],
    [40, 20, 80],
    [40, 40, 40],
    [40, 80, 60],
    [60, 40, 20],
    [60, 60, 100],
    [80, 80, 40],
    [80, 100, 80],
    [100, 100, 100],
];

const LIGHT_CLASSES: [Vector; 10] = [
    [0, 0, 0],
    [0, 0, 0],
    [40, 0, 0],
    [60, 0, 0],
    [0, 40, 0],
    [0, 80, 0],
    [0, 0, 60],
    [40, 60, 0],
    [0, 40, 60],
    [60, 40, 40],
];

const HEAVY_CLASSES: [Vector; 10] = [
    [50, 50, 50],
    [40, 40, 40],
    [30, 30, 30],
    [20, 20, 20],
    [10, 10, 10],
    [60, 40, 0],
    [30, 0, 40],
    [0, 40, 20],
    [10, 20, 0],
    [20, 0, 0],
];

/// Shortest run, microseconds, and how much longer the longest is: 200 s in the mean.
const RUN: u64 = 100_000_000;
const RUN_SPREAD: u64 = 200_000_000;

/// Streams of the generator, so that one part does not change what another draws.
const NODES: u64 = 1;
const NEEDS: u64 = 2;
const ARRIVALS: u64 = 3;
const RUNS: u64 = 4;
pub(super) const SCHEDULER: u64 = 5;

/// SplitMix64, in the form on which the workloads agree.
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    pub fn new(seed: u64, stream: u64) -> Draws {
        Draws(seed << 8 | stream)
    }

    fn next(&mut self) -> u64 {
        crate::rng::splitmix(&mut self.0)
    }

    /// Uniform in `0..1`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..bound`; `bound` below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}

impl Mix {
    /// In the order of the paper's figure 2.
    pub const ALL: [Mix; 8] = {
        use Kind::{Clustered, Mixed};
        use Needs::{Heavy, Light};
        [
            Mix { nodes: Clustered, jobs: Clustered, needs: Light },
            Mix { nodes: Clustered, jobs: Clustered, needs: Heavy },
            Mix { nodes: Clustered, jobs: Mixed, needs: Light },
            Mix { nodes: Clustered, jobs: Mixed, needs: Heavy },
            Mix { nodes: Mixed, jobs: Clustered, needs: Light },
            Mix { nodes: Mixed, jobs: Clustered, needs: Heavy },
            Mix { nodes: Mixed, jobs: Mixed, needs: Light },
            Mix { nodes: Mixed, jobs: Mixed, needs: Heavy },
        ]
    };

    /// Nodes, jobs and needs in words, as `mixed/clustered/light`.
    pub fn name(self) -> String {
        let kind = |kind| match kind {
            Kind::Clustered => "clustered",
            Kind::Mixed => "mixed",
        };
        let needs = match self.needs {
            Needs::Light => "light",
            Needs::Heavy => "heavy",
        };
        format!("{}/{}/{needs}", kind(self.nodes), kind(self.jobs))
    }

    /// Draws nodes and jobs; `gap_s`: the mean gap between two arrivals, seconds.
    pub fn draw(self, seed: u64, nodes: usize, jobs: usize, gap_s: f64) -> Workload {
        let nodes = self.draw_nodes(seed, nodes);
        let mut draws = [NEEDS, ARRIVALS, RUNS].map(|stream| Draws::new(seed, stream));
        let mut at = 0.0;
        let jobs = (0..jobs).map(|_| {
            let [needs, arrivals, runs] = &mut draws;
            at += -(1.0 - arrivals.unit()).ln() * gap_s;
            let arrival_us = (at * 1e6 + 0.5).floor() as u64;
            Job { needs: self.draw_needs(&nodes, needs), arrival_us, run_us: RUN + runs.below(RUN_SPREAD) }
        });
        let jobs = jobs.collect();
        Workload { nodes, jobs }
    }

    fn draw_nodes(self, seed: u64, count: usize) -> Vec<Vector> {
        let mut draws = Draws::new(seed, NODES);
        let node = |at: usize| match self.nodes {
            Kind::Clustered => NODE_CLASSES[at % NODE_CLASSES.len()],
            Kind::Mixed => std::array::from_fn(|_| 1 + draws.below(100) as u32),
        };
        (0..count).map(node).collect()
    }

    fn draw_needs(self, nodes: &[Vector], draws: &mut Draws) -> Vector {
        let (classes, chance) = match self.needs {
            Needs::Light => (&LIGHT_CLASSES, 0.4),
            Needs::Heavy => (&HEAVY_CLASSES, 0.8),
        };
        if self.jobs == Kind::Clustered {
            return classes[draws.below(classes.len() as u64) as usize];
        }
        let wanted: [bool; RESOURCES] = std::array::from_fn(|_| draws.unit() < chance);
        // Some node can run each job: this one.
        let witness = &nodes[draws.below(nodes.len() as u64) as usize];
        std::array::from_fn(|i| if wanted[i] { witness[i] } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum<'a>(vectors: impl Iterator<Item = &'a Vector>) -> u64 {
        vectors.flatten().map(|value| u64::from(*value)).sum()
    }

    #[test]
    fn workloads_are_those_that_other_programs_draw() {
        let needs = [622_980, 728_670, 693_780, 1_369_040, 622_980, 728_670, 609_881, 1_209_320];
        for (mix, needs) in Mix::ALL.into_iter().zip(needs) {
            let drawn = mix.draw(1, 1000, 10_000, 0.1);
            let nodes = if mix.nodes == Kind::Clustered { 172_000 } else { 150_541 };
            assert_eq!(sum(drawn.nodes.iter()), nodes, "{}", mix.name());
            assert_eq!(sum(drawn.jobs.iter().map(|job| &job.needs)), needs, "{}", mix.name());
            let arrivals: u64 = drawn.jobs.iter().map(|job| job.arrival_us).sum();
            let runs: u64 = drawn.jobs.iter().map(|job| job.run_us).sum();
            assert_eq!((arrivals, runs), (4_945_861_944_851, 2_013_474_528_390));
            let slower = mix.draw(1, 1000, 10_000, 0.25);
            assert_eq!(slower.jobs.iter().map(|job| job.arrival_us).sum::<u64>(), 12_364_654_862_145);
        }
    }

    #[test]
    fn each_job_fits_some_node() {
        for mix in Mix::ALL {
            let drawn = mix.draw(3, 300, 1000, 0.1);
            assert!(drawn.jobs.iter().all(|job| drawn.nodes.iter().any(|node| can(node, &job.needs))));
        }
    }
}
