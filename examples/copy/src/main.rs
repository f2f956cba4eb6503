//! Writes to its output what it reads from its input: what content costs beside a unit's work.

use std::io::{Read, Write};

fn main() -> std::io::Result<()> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    std::io::stdout().lock().write_all(&bytes)
}
