//! A fixed amount of arithmetic that nothing can shorten: xorshift64, a step needing the one before.

use std::process::ExitCode;

const STEPS: u32 = 34_000_000;

fn main() -> ExitCode {
    let Some(seed) = std::env::args().nth(1).and_then(|seed| seed.parse::<u64>().ok()) else {
        eprintln!("usage: xorshift SEED");
        return ExitCode::from(2);
    };
    let mut x = seed.wrapping_mul(0x9E3779B97F4A7C15) | 1;
    for _ in 0..STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    println!("{x}");
    ExitCode::SUCCESS
}
