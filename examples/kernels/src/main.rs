//! Small programs, each of a kind of its own: loops over floats, short loops behind function
//! pointers, a large switch, strings in maps. They measure the cost of the pass that makes programs
//! suspendable.

mod maps;
mod matrix;
mod nbody;
mod parser;
mod qsort;
mod stencil;

use std::process::ExitCode;

/// Runs so many rounds and gives a digest.
type Kernel = fn(u32) -> i64;

/// Each with rounds that take about half a second in a fast engine.
const KERNELS: &[(&str, Kernel, u32)] = &[
    ("maps", maps::run, 1_600_000),
    ("matrix", matrix::run, 560),
    ("nbody", nbody::run, 4_000_000),
    ("parser", parser::run, 20_000),
    ("qsort", qsort::run, 1_800_000),
    ("stencil", stencil::run, 6_000),
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let rounds = words.next().map(|text| text.parse::<u32>());
    let kernel = KERNELS.iter().find(|(known, ..)| *known == name);
    let (Some((_, kernel, usual)), None | Some(Ok(_))) = (kernel, &rounds) else {
        let names: Vec<&str> = KERNELS.iter().map(|(name, ..)| *name).collect();
        eprintln!("usage: kernels {} [ROUNDS]", names.join("|"));
        return ExitCode::from(2);
    };
    println!("{}", kernel(rounds.and_then(Result::ok).unwrap_or(*usual)));
    ExitCode::SUCCESS
}
