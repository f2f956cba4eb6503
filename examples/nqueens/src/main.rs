//! Counts the ways to put n queens on an n×n board so that none attacks another; with a column,
//! only those whose first queen stands there, so that n units share one board.

use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Option<Vec<u32>> = std::env::args().skip(1).map(|argument| argument.parse().ok()).collect();
    let count = match numbers.as_deref() {
        Some(&[n @ 1..=24]) => solutions(n, 0, 0, 0, 0),
        Some(&[n @ 1..=24, column]) if column < n => {
            let queen = 1 << column;
            solutions(n, 1, queen, queen << 1, queen >> 1)
        }
        _ => {
            eprintln!("usage: nqueens N [COLUMN]   with N from 1 to 24 and COLUMN from 0 to N-1");
            return ExitCode::from(2);
        }
    };
    println!("{count}");
    ExitCode::SUCCESS
}

/// `columns` and the two diagonals have a bit for each square of this row that is attacked.
fn solutions(n: u32, row: u32, columns: u32, left: u32, right: u32) -> u64 {
    if row == n {
        return 1;
    }
    let mut free = !(columns | left | right) & ((1 << n) - 1);
    let mut count = 0;
    while free != 0 {
        let queen = free & free.wrapping_neg();
        free ^= queen;
        count += solutions(n, row + 1, columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
    count
}
