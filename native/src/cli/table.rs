//! Aligned columns for people.

use crate::text::printable;

/// Rows below a header, each column as wide as its widest cell, two spaces between.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
}

impl Table {
    /// `right` names the columns to align at their right edge: numbers.
    pub(crate) fn new(header: &[&str], right: &'static [usize]) -> Table {
        Table { rows: vec![header.iter().map(|h| (*h).to_owned()).collect()], right }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        // A name from another node must not move the cursor of our terminal.
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |cell: &str| cell.chars().count();
        let widths: Vec<usize> = (0..columns)
            .map(|c| self.rows.iter().filter_map(|row| row.get(c)).map(|cell| width(cell)).max().unwrap_or(0))
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (c, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - width(cell));
                match self.right.contains(&c) {
                    true => line.push_str(&format!("{pad}{cell}  ")),
                    false => line.push_str(&format!("{cell}{pad}  ")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["NODE", "UNITS", "NAME"], &[1]);
        table.row(["n-1".into(), "5".into(), "füße".into()]);
        table.row(["n-234567".into(), "12345".into(), "x\u{1b}[2J".into()]);
        let expected = "NODE      UNITS  NAME\nn-1           5  füße\nn-234567  12345  x\u{fffd}[2J\n";
        assert_eq!(table.to_string(), expected);
    }
}
