//! A short round trip through the cities of a TSPLIB file, by a memetic algorithm.

use std::process::ExitCode;
use tours::{Cities, Population, Random, answer};

const USAGE: &str = "usage: tsp [--seed N] [--generations N] [--population N] FILE.tsp";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("tsp: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let (mut seed, mut generations, mut population, mut path) = (1, 10_000, 12, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next().ok_or(format!("{argument} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{argument} {value}: not a number"))
        };
        match argument.as_str() {
            "--seed" => seed = number()?,
            "--generations" => generations = number()?,
            "--population" => population = number()?.clamp(2, 10_000),
            _ if argument.starts_with("--") => return Err(format!("unknown option {argument}\n{USAGE}")),
            _ => path = Some(argument),
        }
    }
    let path = path.ok_or(USAGE)?;
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let cities = Cities::parse(&text).map_err(|e| format!("{path}: {e}"))?;

    let mut random = Random(seed);
    let mut tours = Population::new(&cities, population, &mut random);
    for _ in 0..generations {
        tours.breed(&cities, &mut random);
    }
    println!("{}", answer(tours.best().clone()));
    Ok(())
}
