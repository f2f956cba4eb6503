//! The end of what a failed unit wrote to its standard error, for a person who asks why it failed.

use super::client::Client;
use super::client::types::{Job, UnitResult};
use super::map::failed_unit;
use crate::text::printable;
use std::collections::VecDeque;
use std::io::Write;

/// Our choice: the message of a panic with some lines around it.
const LINES: usize = 10;
const BYTES: usize = 2 << 10;

/// Longer outputs are not brought here for their last lines. Our choice: a second over a usual line.
const MOST: u64 = 4 << 20;

/// Lines that tell the end of the unit's standard error and where all of it is; empty if the unit has no result,
/// wrote nothing or cannot be asked about: it is an addition to a message that stands without it.
pub(crate) fn of(client: &Client, job: &str, index: u32) -> String {
    let results = client.results(job, index, 1).map(|(page, _)| page.results);
    let result = results.ok().and_then(|results| results.into_iter().find(|result| result.index == index));
    result.map(|result| of_result(client, &result, &command(job))).unwrap_or_default()
}

/// [`of`] for the first of the job's units that failed; `whole` says where all of it is.
pub(crate) fn of_first_failed(client: &Client, job: &Job, whole: Option<String>) -> String {
    match failed_unit(client, job) {
        Ok(Some(result)) => of_result(client, &result, &whole.unwrap_or_else(|| command(&job.short))),
        Ok(None) | Err(_) => String::new(),
    }
}

fn command(job: &str) -> String {
    format!("`manyhands results {job} -o DIR` writes all of it into DIR")
}

fn of_result(client: &Client, result: &UnitResult, whole: &str) -> String {
    let len = result.stderr.len;
    if len == 0 {
        return String::new();
    }
    let mut end = End::default();
    let is_here = len <= MOST && client.fetch(&result.stderr, &mut end).is_ok();
    told(&if is_here { end.lines() } else { Vec::new() }, (result.index, len), whole)
}

fn told(shown: &[String], (index, len): (u32, u64), whole: &str) -> String {
    let mut text = format!("standard error of unit {index} ({len} bytes)");
    text.push_str(if shown.is_empty() { "\n" } else { " ends with:\n" });
    for line in shown {
        text.push_str(&format!("  {line}\n"));
    }
    text.push_str(&format!("{whole}\n"));
    text
}

/// The last bytes of what is written to it.
#[derive(Default)]
struct End {
    bytes: VecDeque<u8>,
    cut: bool,
}

impl End {
    /// The last lines, of which the first may lack its beginning.
    fn lines(&self) -> Vec<String> {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        // A character may have been cut in two.
        let broken = bytes.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
        let text = String::from_utf8_lossy(&bytes[if self.cut { broken } else { 0 }..]);
        let mut lines: Vec<String> = text.trim_end().lines().map(printable).collect();
        let left_out = lines.len().saturating_sub(LINES);
        lines.drain(..left_out);
        match lines.first_mut() {
            Some(first) if self.cut && left_out == 0 => first.insert(0, '…'),
            _ => {}
        }
        lines
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend(&bytes[bytes.len().saturating_sub(BYTES)..]);
        let more = self.bytes.len().saturating_sub(BYTES);
        self.cut |= more > 0 || bytes.len() > BYTES;
        self.bytes.drain(..more);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(text: &[u8]) -> Vec<String> {
        let mut end = End::default();
        for piece in text.chunks(1000) {
            end.write_all(piece).unwrap();
        }
        end.lines()
    }

    #[test]
    fn the_last_lines_are_shown_without_what_a_terminal_obeys() {
        assert_eq!(end_of(b"one\n\x1b[31mtwo\r\n\n"), ["one", "\u{fffd}[31mtwo"]);
        assert!(end_of(b"").is_empty());
        let many: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let lines = end_of(many.as_bytes());
        assert_eq!((lines.len(), &*lines[0], &*lines[9]), (LINES, "line 10", "line 19"));
    }

    #[test]
    fn one_endless_line_is_cut_at_its_beginning() {
        let lines = end_of("ä".repeat(5000).as_bytes());
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("…ä") && lines[0].len() <= BYTES + "…".len(), "{}", lines[0].len());
        let odd = format!("x{}", "ä".repeat(5000));
        assert!(end_of(odd.as_bytes())[0].starts_with("…ä"));
        assert_eq!(end_of(&[b'x'; 2 * BYTES])[0].len(), BYTES + "…".len());
    }

    #[test]
    fn the_command_that_writes_all_of_it_is_named() {
        let text = told(&["oh".into()], (7, 3), &command("j-1a2b3c4d"));
        assert_eq!(
            text,
            "standard error of unit 7 (3 bytes) ends with:\n  oh\n\
             `manyhands results j-1a2b3c4d -o DIR` writes all of it into DIR\n"
        );
    }
}
