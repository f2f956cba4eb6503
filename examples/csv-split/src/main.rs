//! Splits a table from stdin into one file for each value of a column, and says what it wrote.
//! Fields stand between commas, without quotes.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("csv-split: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let column = std::env::args().nth(1).ok_or("usage: csv-split COLUMN < table.csv")?;
    let mut table = String::new();
    io::stdin().read_to_string(&mut table).map_err(|e| format!("stdin: {e}"))?;
    let mut lines = table.lines();
    let header = lines.next().ok_or("stdin is empty; the first line names the columns")?;
    let place = header
        .split(',')
        .position(|name| name == column)
        .ok_or_else(|| format!("no column {column:?}; there are {header}"))?;

    let mut parts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (number, line) in lines.enumerate() {
        let value = line.split(',').nth(place).ok_or_else(|| format!("line {} is short", number + 2))?;
        if value.is_empty() || value.contains(['/', '\\']) || value.starts_with('.') {
            return Err(format!("line {}: {value:?} cannot name a file", number + 2));
        }
        parts.entry(value).or_default().push(line);
    }
    std::fs::create_dir_all(&column).map_err(|e| format!("{column}: {e}"))?;
    for (value, lines) in parts {
        let path = format!("{column}/{value}.csv");
        std::fs::write(&path, format!("{header}\n{}\n", lines.join("\n")))
            .map_err(|e| format!("{path}: {e}"))?;
        println!("{path}: {} rows", lines.len());
    }
    Ok(())
}
