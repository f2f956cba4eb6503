//! Counts words in the files named, or in stdin: the most frequent first, equals by the alphabet.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("wordcount: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let mut counts = HashMap::new();
    if paths.is_empty() {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|e| format!("stdin: {e}"))?;
        count(&text, &mut counts);
    }
    for path in paths {
        count(&std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?, &mut counts);
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));

    let mut out = BufWriter::new(io::stdout().lock());
    for (word, count) in counts {
        writeln!(out, "{count}\t{word}").map_err(|e| format!("stdout: {e}"))?;
    }
    out.flush().map_err(|e| format!("stdout: {e}"))
}

/// A word is a run of letters; an apostrophe inside it belongs to it.
fn count(text: &str, counts: &mut HashMap<String, u64>) {
    for word in text.to_lowercase().split(|c: char| !c.is_alphabetic() && c != '\'') {
        let word = word.trim_matches('\'');
        if !word.is_empty() {
            *counts.entry(word.to_string()).or_default() += 1;
        }
    }
}
