//! The rules of this repository that a tool can check: `cargo test -p house-rules`.
//!
//! The rules stand in `tests/`, one file a subject; here is only how they look at the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// A file under version control's eye: its path from the root, with `/`, and its text.
pub struct Source {
    pub path: String,
    pub text: String,
}

impl Source {
    /// Its lines without comments, each with its number from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line)).filter_map(|(number, line)| {
            // Good enough for what is looked for: `//` in a string hides the rest of its line.
            let code = line.split("//").next().unwrap_or_default();
            (!code.trim().is_empty()).then_some((number, code))
        })
    }
}

pub fn root() -> PathBuf {
    // Cargo runs a test in the folder of its package. A path that was compiled in would be another checkout's, if
    // two checkouts share a target folder.
    PathBuf::from("../..")
}

/// Every text file below `folder` whose name ends in one of `endings`, in order of path. Leaves
/// out what is built, fetched or hidden.
pub fn sources(folder: &str, endings: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    walk(&root(), folder, endings, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(root: &Path, folder: &str, endings: &[&str], found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || ["target", "node_modules", "test-results"].contains(&name.as_str()) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.path().is_dir() {
            walk(root, &path, endings, found);
        } else if endings.iter().any(|ending| path.ends_with(ending))
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(Source { path, text });
        }
    }
}

/// Fails with every breach, and with what the rule is for.
pub fn none(breaches: &[String], rule: &str) {
    assert!(breaches.is_empty(), "{rule}\n\n  {}\n", breaches.join("\n  "));
}
