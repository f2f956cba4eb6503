//! A given amount of memory, filled with what no compression shortens, of which each round
//! changes one part in a hundred: what a task looks like that is costly to move.

use std::process::ExitCode;

/// Words of a page of 4 KiB.
const PAGE: usize = 512;

fn step(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (Some(Ok(mib @ 1..=2048)), Some(Ok(rounds)), None) = (numbers.next(), numbers.next(), numbers.next())
    else {
        eprintln!("usage: ballast MIB ROUNDS (1 to 2048 MiB)");
        return ExitCode::from(2);
    };
    let mut x = 88172645463325252;
    let mut words: Vec<u64> = (0..mib << 17).map(|_| step(&mut x)).collect();
    let pages = words.len() / PAGE;
    let hot = (pages / 100).max(1);
    let mut sum = 0u64;
    for round in 0..rounds {
        // Each round changes one page in a hundred, always the same ones, spread over the whole
        // memory.
        for i in 0..hot {
            let at = i * (pages / hot) * PAGE;
            // Far more reading than writing, as in most programs.
            for offset in 0..PAGE {
                sum = sum.rotate_left(5) ^ words[at + offset];
            }
            words[at + round % PAGE] = sum;
        }
    }
    println!("{sum:016x}");
    ExitCode::SUCCESS
}
