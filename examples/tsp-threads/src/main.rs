//! A short round trip through the cities of a TSPLIB file, on a virtual computer: each thread breeds a population of its
//! own. At intervals the best tour of all threads, which is in one global, is bred with each of them.

use std::process::ExitCode;
use task_sdk::{Global, Team, report};
use tours::{Cities, Population, Random, Tour, answer};

const USAGE: &str = "usage: tsp-threads [--threads N] [--generations N] [--interval N] [--seed N] [--population N] \
                     FILE.tsp";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tsp-threads: {error}");
            ExitCode::from(2)
        }
    }
}

struct Settings {
    /// Workers of the job unless told.
    threads: Option<u64>,
    /// Generations that each thread breeds.
    generations: u64,
    /// Generations between two looks at the global.
    interval: u64,
    seed: u64,
    /// Tours that each thread has.
    population: u64,
    path: String,
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let settings = Settings::read(&arguments)?;
    let threads = match settings.threads {
        Some(threads) => threads as u32,
        None => task_sdk::workers()?,
    };
    let mut team = Team::of(threads, &arguments)?;
    // Only the first thread needs to have the file.
    let text = if team.is_first() { Some(read(&settings.path)?) } else { None };
    let text = team.broadcast(text)?;
    let cities = Cities::parse(&text).map_err(|error| format!("{}: {error}", settings.path))?;

    let best = evolve(&settings, &cities, team.rank())?;
    if let Some(best) = team.reduce(best, Tour::min)? {
        println!("{}", answer(best));
    }
    Ok(())
}

/// The shortest tour that this thread comes to.
fn evolve(settings: &Settings, cities: &Cities, rank: usize) -> task_sdk::Result<Tour> {
    let mut random = Random(settings.seed.wrapping_add(rank as u64 * 0x5851_F42D_4C95_7F2D));
    let mut tours = Population::new(cities, settings.population, &mut random);
    let mut best = Global::<Tour>::new("best");
    for generation in 0..settings.generations {
        if generation % settings.interval == 0 {
            exchange(&mut tours, &mut best)?;
        }
        tours.breed(cities, &mut random);
    }
    exchange(&mut tours, &mut best)?;
    Ok(directed(tours.best()))
}

/// Puts this thread's best tour into the global if it is the best of all, and takes that of the others if it is not.
fn exchange(tours: &mut Population, best: &mut Global<Tour>) -> task_sdk::Result<()> {
    let ours = directed(tours.best());
    if let Some(theirs) = best.get()?.filter(|theirs| *theirs <= ours) {
        tours.add(theirs);
        return Ok(());
    }
    let mut is_ours = false;
    let all = best.update(|theirs| {
        let theirs = theirs.filter(|theirs| *theirs <= ours);
        is_ours = theirs.is_none();
        theirs.unwrap_or_else(|| ours.clone())
    })?;
    if is_ours {
        report(&format!("length {}\n", all.0))?;
    }
    tours.add(all);
    Ok(())
}

/// A tour from the first city on, the way round that has the lower number second: two threads that find one tour agree.
fn directed((length, tour): &Tour) -> Tour {
    let mut tour = tour.clone();
    let start = tour.iter().position(|&city| city == 0).unwrap_or(0);
    tour.rotate_left(start);
    if tour[1] > tour[tour.len() - 1] {
        tour[1..].reverse();
    }
    (*length, tour)
}

impl Settings {
    fn read(arguments: &[String]) -> Result<Settings, String> {
        let mut settings = Settings {
            threads: None,
            generations: 1_000,
            interval: 50,
            seed: 1,
            population: 12,
            path: String::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().ok_or(format!("{argument} needs a number"))?;
                value.parse::<u64>().map_err(|_| format!("{argument} {value}: not a number"))
            };
            match argument.as_str() {
                "--threads" => settings.threads = Some(number()?.clamp(1, 1_000)),
                "--generations" => settings.generations = number()?,
                "--interval" => settings.interval = number()?.max(1),
                "--seed" => settings.seed = number()?,
                "--population" => settings.population = number()?.clamp(2, 10_000),
                _ if argument.starts_with("--") => return Err(format!("unknown option {argument}\n{USAGE}")),
                _ => settings.path.clone_from(argument),
            }
        }
        if settings.path.is_empty() { Err(USAGE.into()) } else { Ok(settings) }
    }
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}
