//! Results of a run: rows for people, for programs, and for pictures.

mod baseline;
mod plot;

pub use baseline::Baseline;
pub use plot::plot;

use std::fmt::Write;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
    /// It did not come to that.
    None,
}

impl Cell {
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(count) => Some(*count as f64),
            Cell::Number(number) => Some(*number),
            Cell::Text(_) | Cell::None => None,
        }
    }

    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number) => format!("{}", rounded(*number)),
            Cell::None => "-".into(),
        }
    }

    fn json(&self) -> String {
        match self {
            Cell::Text(text) => quoted(text),
            Cell::None => "null".into(),
            Cell::Number(number) if !number.is_finite() => "null".into(),
            other => other.shown(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.into())
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Cell {
        Cell::Count(count)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Cell {
        number.map_or(Cell::None, Cell::Number)
    }
}

/// Four digits are what a simulation knows.
fn rounded(number: f64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let digits = (3 - number.abs().log10().floor() as i32).clamp(0, 6);
    let scale = 10f64.powi(digits);
    (number * scale).round() / scale
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Values by name, in order. All rows of a report have the same names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row(pub Vec<(&'static str, Cell)>);

impl Row {
    pub fn with(mut self, name: &'static str, value: impl Into<Cell>) -> Row {
        self.0.push((name, value.into()));
        self
    }

    pub fn get(&self, name: &str) -> Option<&Cell> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, cell)| cell)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub trace_hash: u64,
    pub nodes: usize,
    pub m: u8,
    pub events: u64,
    /// Events in a second of the processor's own time; 0 where there is no clock.
    pub events_per_s: f64,
    pub bytes_per_node: f64,
    /// Errors that the checkers found, in words.
    pub violations: Vec<String>,
    pub rows: Vec<Row>,
}

impl Report {
    /// One object. The hash is a text: it has more digits than a JSON number can be trusted with.
    pub fn json(&self) -> String {
        let mut out = format!(
            "{{\"seed\":{},\"trace_hash\":\"{:016x}\",\"nodes\":{},\"m\":{},\"events\":{},\"events_per_s\":{},\
             \"bytes_per_node\":{},\"violations\":{},\"rows\":[",
            self.seed,
            self.trace_hash,
            self.nodes,
            self.m,
            self.events,
            self.events_per_s.round(),
            self.bytes_per_node.round(),
            self.violations.len(),
        );
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str(if i > 0 { ",{" } else { "{" });
            for (j, (name, cell)) in row.0.iter().enumerate() {
                let comma = if j > 0 { "," } else { "" };
                let _ = write!(out, "{comma}{}:{}", quoted(name), cell.json());
            }
            out.push('}');
        }
        out.push_str("]}");
        out
    }

    /// One report of several seeds of a scenario, whose rows are about the same: the means of their results. The hash
    /// is one of all traces.
    pub fn mean(reports: &[Report]) -> Option<Report> {
        let [first, others @ ..] = reports else { return None };
        let mut mean = first.clone();
        for report in others {
            mean.trace_hash = mean.trace_hash.rotate_left(1) ^ report.trace_hash;
            mean.events += report.events;
            mean.violations.extend(report.violations.iter().cloned());
        }
        for (at, row) in mean.rows.iter_mut().enumerate() {
            for (name, cell) in row.0.iter_mut().filter(|(name, _)| !baseline::NAMES.contains(name)) {
                let all = reports.iter().filter_map(|report| report.rows.get(at)?.get(name)?.number());
                let (sum, count) = all.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
                match cell {
                    Cell::Count(seeds) if *name == "seeds" => *seeds = sum as u64,
                    _ if reports.len() > 1 && count > 0.0 => *cell = Cell::Number(sum / count),
                    _ => {}
                }
            }
        }
        Some(mean)
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut out = format!(
            "seed {}, trace {:016x}: {} nodes, m = {}, {} events",
            self.seed, self.trace_hash, self.nodes, self.m, self.events
        );
        if self.events_per_s > 0.0 {
            let _ = write!(out, ", {:.0} a second", self.events_per_s);
        }
        if self.bytes_per_node > 0.0 {
            let _ = write!(out, ", {:.0} bytes a node", self.bytes_per_node);
        }
        out.push_str("\n\n");
        let names: Vec<&str> =
            self.rows.first().map(|row| row.0.iter().map(|(name, _)| *name).collect()).unwrap_or_default();
        let mut lines: Vec<Vec<String>> = vec![names.iter().map(ToString::to_string).collect()];
        lines.extend(self.rows.iter().map(|row| row.0.iter().map(|(_, cell)| cell.shown()).collect()));
        let width = |i: usize| lines.iter().filter_map(|l| l.get(i)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..names.len()).filter_map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "));
        }
        match self.violations.len() {
            0 => out.push_str("\nno violations\n"),
            count => {
                let _ = writeln!(out, "\n{count} violations");
                for violation in self.violations.iter().take(20) {
                    let _ = writeln!(out, "  {violation}");
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let row = |way: &str, last: f64| {
            Row::default()
                .with("way", way)
                .with("asked", 10_000u64)
                .with("last_s", last)
                .with("known_s", None)
        };
        Report {
            seed: 7,
            trace_hash: 0xab,
            nodes: 500,
            m: 10,
            events: 12,
            violations: vec!["a \"cycle\"".into()],
            rows: vec![row("paper", 1.8), row("ours", 1.234567)],
            ..Report::default()
        }
    }

    #[test]
    fn a_report_is_one_json_object_with_the_names_that_others_rely_on() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(value["trace_hash"], "00000000000000ab");
        assert_eq!((&value["violations"], &value["m"]), (&1.into(), &10.into()));
        assert_eq!(value["rows"][1]["last_s"], 1.235);
        assert!(value["rows"][1]["known_s"].is_null());
        assert_eq!(value["rows"][0]["asked"], 10_000);
    }

    #[test]
    fn a_report_of_several_seeds_has_their_means() {
        let of = |seed, last: f64| {
            let row = Row::default().with("way", "ours").with("seeds", 1u64).with("last_s", last);
            Report { seed, events: 5, rows: vec![row], ..Report::default() }
        };
        let mean = Report::mean(&[of(3, 1.0), of(4, 2.0), of(5, 6.0)]).unwrap();
        assert_eq!((mean.seed, mean.events), (3, 15));
        let row = Row::default().with("way", "ours").with("seeds", 3u64).with("last_s", 3.0);
        assert_eq!(mean.rows, [row]);
        assert_eq!(Report::mean(&[of(3, 1.0)]).unwrap().rows, of(3, 1.0).rows);
        assert!(Report::mean(&[]).is_none());
    }

    #[test]
    fn a_table_is_aligned_and_tells_what_is_wrong() {
        let table = report().table();
        assert!(table.contains("  way  asked  last_s  known_s\npaper  10000     1.8        -\n"), "{table}");
        assert!(table.contains("1 violations\n  a \"cycle\""));
    }
}
