//! Dependencies run one way: leaf types, then the protocol kernel, then the machines, then what
//! carries their messages, then the node. Machines never import their siblings: what one needs of
//! another goes up to `node` as an event and down as a command.

use house_rules::{Source, none, sources};

const CORE: &str = "node-core/src/";

/// Importable from everywhere: names and plain values, no behaviour.
const LEAVES: &[&str] = &["ids", "time", "keys"];

/// Plain data that its owner's siblings talk about.
const VOCABULARY: &[&str] = &[
    "overlay::contact",
    "overlay::dialback::Standing",
    "overlay::elsewhere",
    "overlay::swarm",
    "overlay::ring::Located",
    "overlay::ring::MemberId",
    "overlay::ring::Point",
    "overlay::ring::Range",
    "overlay::ring::RingId",
    "overlay::tree::Placement",
    "market::budget",
    "market::buyer::Offer",
    "market::commodity",
    "market::money",
    "market::pricing::NoDeal",
    "work::bounds",
    "work::message",
    "work::proof",
    "work::spec",
    "work::submission",
    "work::ward",
    "work::weight",
    "trust::policy",
    "node::config",
    "node::host",
    "node::snapshot",
];

/// Folders whose modules are machines or finders, each a world of its own. What stands directly in
/// such a folder's `mod.rs` is the interface that all of them share.
const AREAS: &[&str] =
    &["overlay", "discovery", "market", "ledger", "work", "checkpoint", "trust", "store", "records", "files"];

#[test]
fn machines_never_import_their_siblings() {
    let mut breaches = Vec::new();
    for source in core_sources() {
        for import in imports(&source) {
            if !may_import(&module_of(&source.path), &import) {
                breaches.push(format!("{}: crate::{}", source.path, import.join("::")));
            }
        }
    }
    none(
        &breaches,
        "These imports run against the layers. Pass an event up to node and a command down instead:",
    );
}

#[test]
fn the_core_does_not_know_where_it_runs() {
    let mut breaches = Vec::new();
    for source in sources("node-core", &[".rs"]) {
        let places = source.code().filter(|(_, line)| line.contains("cfg") && line.contains("target_"));
        breaches.extend(places.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())));
    }
    none(&breaches, "Platforms live in crates, not in conditions:");
}

/// `clippy.toml` refuses types; this refuses whole modules of the standard library.
#[test]
fn the_core_has_no_input_or_output_of_its_own() {
    const REFUSED: &[&str] =
        &["std::fs", "std::net", "std::thread", "std::process", "std::env", "println!", "async fn"];
    let mut breaches = Vec::new();
    for source in
        sources("node-core/src", &[".rs"]).into_iter().chain(sources("node-core/sandbox/src", &[".rs"]))
    {
        for (number, line) in source.code() {
            let words = REFUSED.iter().filter(|word| line.contains(**word));
            breaches.extend(words.map(|word| format!("{}:{number}: {word}", source.path)));
        }
    }
    none(&breaches, "The core is pure; drivers do this for it:");
}

fn core_sources() -> Vec<Source> {
    let all = sources("node-core/src", &[".rs"]);
    assert!(all.len() > 5, "the core is not where this test looks for it");
    all.into_iter().filter(|source| !source.path.ends_with("tests.rs")).collect()
}

/// `node-core/src/work/owner/lease.rs` is `["work", "owner", "lease"]`.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_start_matches(CORE).trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_string).collect()
}

fn may_import(from: &[String], import: &[String]) -> bool {
    let (from_area, to_area) = (from[0].as_str(), import[0].as_str());
    let begins_with = |path: &str| import.join("::").starts_with(path);
    if LEAVES.contains(&to_area) || from_area == "lib" || from_area == "node" {
        return true;
    }
    if LEAVES.contains(&from_area) {
        return false;
    }
    if from_area == to_area && !AREAS.contains(&to_area) {
        return true;
    }
    if from_area == "protocol" {
        return false;
    }
    if from_area == "wire" && AREAS.contains(&to_area) {
        return true;
    }
    if to_area == "protocol" || VOCABULARY.iter().any(|path| begins_with(path)) {
        return true;
    }
    let an_item_of_the_area = import.get(1).is_some_and(|name| name.starts_with(char::is_uppercase));
    let the_same_machine = from_area == to_area && from.get(1) == import.get(1);
    AREAS.contains(&to_area) && (an_item_of_the_area || the_same_machine)
}

/// Every path that begins with `crate::`, groups taken apart.
fn imports(source: &Source) -> Vec<Vec<String>> {
    let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
    let mut found = Vec::new();
    for (start, word) in code.match_indices("crate::") {
        let rest = &code[start + word.len()..];
        let is_import = code[..start].trim_end().ends_with("use");
        take_apart(&mut Vec::new(), &mut rest.chars().peekable(), is_import, &mut found);
    }
    found
}

fn take_apart(
    path: &mut Vec<String>,
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    is_import: bool,
    found: &mut Vec<Vec<String>>,
) {
    let length = path.len();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        if is_import && rest.next_if_eq(&'{').is_some() {
            while !matches!(rest.peek(), Some('}') | None) {
                take_apart(path, rest, is_import, found);
                rest.next_if_eq(&',');
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
            }
            rest.next();
            break;
        }
        let mut name = String::new();
        while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '*')) {
            name.push(c);
        }
        path.push(name);
        if rest.next_if_eq(&':').is_none() {
            if path.last().is_some_and(|name| !name.is_empty()) {
                found.push(path.clone());
            }
            // `as name` and whatever else may stand before the next one.
            if is_import {
                while rest.next_if(|c| !matches!(c, ',' | '}' | ';')).is_some() {}
            }
            break;
        }
        rest.next();
    }
    path.truncate(length);
}

#[test]
fn the_rule_sees_through_groups_and_renames() {
    let text = "use crate::{ids::{A, B as C}, work::owner};\nlet x = crate::node::Node::new();".to_string();
    let found = imports(&Source { path: String::new(), text });
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["ids::A", "ids::B", "work::owner", "node::Node::new"]);
}

#[test]
fn the_rule_tells_siblings_from_friends() {
    let path = |text: &str| text.split("::").map(str::to_string).collect::<Vec<_>>();
    let allowed = |from, to| may_import(&path(from), &path(to));
    assert!(allowed("work::owner::lease", "work::owner::Job"));
    assert!(allowed("work::owner", "discovery::Query"));
    assert!(allowed("work::owner", "work::message::Lease"));
    assert!(allowed("node::route", "work::owner::Owner"));
    assert!(!allowed("work::owner", "work::runner::Runner"));
    assert!(!allowed("work::owner", "discovery::connected::Finder"));
    assert!(!allowed("work::owner", "node::Node"));
    assert!(!allowed("protocol::timers", "work::spec::JobSpec"));
    assert!(!allowed("ids", "protocol::Cx"));
    assert!(allowed("wire::envelope", "work::message::Message"));
    assert!(!allowed("wire::envelope", "node::Node"));
}
