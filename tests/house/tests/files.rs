//! Files: short, documented, reachable, and with links that lead somewhere.

use house_rules::{none, root, sources};
use std::collections::BTreeSet;
use std::path::Path;

/// We aim at 100 to 500; what is longer than this is two ideas.
const MOST_LINES: usize = 600;

const EVERYWHERE: &str = "";

#[test]
fn no_file_gathers_everything() {
    let long = sources(EVERYWHERE, &[".rs", ".js", ".mjs", ".css", ".html"]);
    let long = long.iter().map(|source| (source, source.text.lines().count()));
    let long = long.filter(|(_, lines)| *lines > MOST_LINES);
    let breaches: Vec<String> =
        long.map(|(source, lines)| format!("{}: {lines} lines", source.path)).collect();
    none(&breaches, "Split these by concern; aim at 100 to 500 lines:");
}

#[test]
fn every_crate_and_folder_says_what_it_is_for() {
    let mut breaches = Vec::new();
    for source in sources(EVERYWHERE, &["mod.rs", "lib.rs", "main.rs", "build.rs"]) {
        if !source.text.starts_with("//!") {
            breaches.push(source.path);
        }
    }
    none(&breaches, "These begin without `//!` and a sentence on what the part is for:");
}

/// A module that nothing declares is not compiled, and nobody notices.
#[test]
fn every_source_is_part_of_its_crate() {
    let all = sources(EVERYWHERE, &[".rs"]);
    let mut breaches = Vec::new();
    for source in all.iter().filter(|source| source.path.contains("src/")) {
        let path = Path::new(&source.path);
        let (Some(folder), Some(name)) = (path.parent(), path.file_stem().and_then(|name| name.to_str()))
        else {
            continue;
        };
        let (name, home) = match name {
            "lib" | "main" => continue,
            "mod" => (folder.file_name().and_then(|name| name.to_str()).unwrap_or_default(), folder.parent()),
            name => (name, Some(folder)),
        };
        let Some(home) = home else { continue };
        let declared = format!("mod {name};");
        let by_path = path.file_name().and_then(|name| name.to_str()).map(|file| format!("/{file}\"]"));
        let neighbours = all.iter().filter(|other| {
            let other = Path::new(&other.path);
            // `mod.rs`, `lib.rs` or `main.rs` beside it, a file that names it by `#[path]`, or the
            // file that the folder is called after.
            other.parent() == Some(home) || other == home.with_extension("rs")
        });
        let is_declared = |text: &str| {
            text.contains(&declared)
                || by_path.as_ref().is_some_and(|by_path| {
                    text.contains(by_path) || text.contains(&by_path.replace('/', "\""))
                })
        };
        if !neighbours.filter(|other| other.path != source.path).any(|other| is_declared(&other.text)) {
            breaches.push(source.path.clone());
        }
    }
    none(&breaches, "No module declares these files:");
}

#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for source in sources(EVERYWHERE, &[".md"]) {
        let home = root().join(&source.path);
        for (line, link) in links(&source.text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { home.clone() } else { home.with_file_name("").join(file) };
            let found = match std::fs::read_to_string(&target) {
                Ok(text) => anchor.is_empty() || anchors(&text).contains(anchor),
                Err(_) => target.is_dir() && anchor.is_empty(),
            };
            if !found {
                breaches.push(format!("{}:{line}: {link}", source.path));
            }
        }
    }
    none(&breaches, "These links lead nowhere:");
}

fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(i, line)| {
        line.split("](").skip(1).filter_map(move |rest| Some((i + 1, rest.split_once(')')?.0)))
    })
}

/// The names that GitHub gives to headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let kept = line.trim_start_matches('#').trim().to_lowercase();
        kept.chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(name).collect()
}
