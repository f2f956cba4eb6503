//! PageRank of a graph, on a virtual computer: each member of a team has the edges of a part of the nodes. In each
//! iteration the members add up what their parts give to every node, and have the new ranks of all nodes.

mod graph;

use graph::{Graph, Part};
use std::process::ExitCode;
use task_sdk::{Team, report};

const USAGE: &str = "usage: pagerank [--threads N] [--damping D] [--bound B] [--iterations N] [--top N] FILE";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagerank: {error}");
            ExitCode::from(2)
        }
    }
}

struct Settings {
    /// Workers of the job unless told.
    threads: Option<u32>,
    /// Chance to follow an edge.
    damping: f64,
    /// Change of all ranks together below which the iterations end.
    bound: f64,
    /// Iterations at most.
    iterations: usize,
    /// Nodes of the answer.
    top: usize,
    path: String,
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let settings = Settings::read(&arguments)?;
    let threads = match settings.threads {
        Some(threads) => threads,
        None => task_sdk::workers()?,
    };
    let mut team = Team::of(threads, &arguments)?;
    // Only the first thread needs to have the file.
    let graph = if team.is_first() { Some(read(&settings.path)?) } else { None };
    let part = team.scatter(graph.as_ref().map(|graph| graph.parts(team.size())))?;
    let (ranks, iterations) = iterate(&settings, &mut team, &part)?;
    if let Some(graph) = graph {
        println!("{} nodes, {} edges, {iterations} iterations", graph.names.len(), graph.edges());
        let mut order: Vec<usize> = (0..ranks.len()).collect();
        // The sort is stable: nodes of one rank keep the order of their names.
        order.sort_by(|&a, &b| ranks[b].total_cmp(&ranks[a]));
        for node in order.into_iter().take(settings.top) {
            println!("{:.8} {}", ranks[node], graph.names[node]);
        }
    }
    Ok(())
}

/// Ranks of all nodes, and the number of iterations.
fn iterate(settings: &Settings, team: &mut Team, part: &Part) -> task_sdk::Result<(Vec<f64>, usize)> {
    let nodes = part.nodes as f64;
    let mut ranks = vec![1.0 / nodes; part.nodes];
    for iteration in 1..=settings.iterations {
        let (given, kept) = team.all_reduce(given(part, &ranks), |(mut sum, kept), (other, more)| {
            sum.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
            (sum, kept + more)
        })?;
        // Nodes without edges give their rank to all.
        let base = (1.0 - settings.damping + settings.damping * kept) / nodes;
        let next: Vec<f64> = given.iter().map(|given| base + settings.damping * given).collect();
        let residual: f64 = next.iter().zip(&ranks).map(|(next, rank)| (next - rank).abs()).sum();
        ranks = next;
        if team.is_first() {
            report(&format!("iteration {iteration} residual {residual:.3e}\n"))?;
        }
        // All members have the same sums, and so end in the same iteration.
        if residual < settings.bound {
            return Ok((ranks, iteration));
        }
    }
    Ok((ranks, settings.iterations))
}

/// Rank that the nodes of this part give to each node, and that of nodes without edges.
fn given(part: &Part, ranks: &[f64]) -> (Vec<f64>, f64) {
    let (mut given, mut kept) = (vec![0.0; part.nodes], 0.0);
    for (targets, rank) in part.targets.iter().zip(&ranks[part.first..]) {
        if targets.is_empty() {
            kept += rank;
        }
        for &target in targets {
            given[target as usize] += rank / targets.len() as f64;
        }
    }
    (given, kept)
}

impl Settings {
    fn read(arguments: &[String]) -> Result<Settings, String> {
        let mut settings = Settings {
            threads: None,
            damping: 0.85,
            bound: 1e-10,
            iterations: 1_000,
            top: 10,
            path: String::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().ok_or(format!("{argument} needs a number"))?;
                let number = value.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number));
                number.ok_or(format!("{argument} {value}: not a number"))
            };
            match argument.as_str() {
                "--threads" => settings.threads = Some(number()?.clamp(1.0, 1e3) as u32),
                "--damping" => settings.damping = number()?.min(1.0),
                "--bound" => settings.bound = number()?,
                "--iterations" => settings.iterations = number()? as usize,
                "--top" => settings.top = number()? as usize,
                _ if argument.starts_with("--") => return Err(format!("unknown option {argument}\n{USAGE}")),
                _ => settings.path.clone_from(argument),
            }
        }
        if settings.path.is_empty() { Err(USAGE.into()) } else { Ok(settings) }
    }
}

fn read(path: &str) -> Result<Graph, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Graph::parse(&text).map_err(|error| format!("{path}: {error}"))
}
