//! Dependencies run one way. One rule says how: *a machine is imported by its own folder and by the node.*
//!
//! A module with an `impl Protocol` is a machine, and a folder of `node-core/src` that holds one is a
//! service. All other folders and files there are the ground floor: plain data and pure functions. They
//! import each other without circles, and anybody imports them. `node` imports everything, and nothing
//! imports `node`. Needs of one machine of another go up to `node` as an event and down as a command.

use house_rules::{Source, none, sources};
use std::collections::{BTreeMap, BTreeSet};

const CORE: &str = "node-core/src/";

#[test]
fn a_machine_is_imported_by_its_own_folder_and_by_the_node() {
    let core = Core::read();
    let mut breaches = Vec::new();
    for source in &core.sources {
        for import in imports(source) {
            if !core.may_import(&module_of(&source.path), &import) {
                breaches.push(format!("{}: crate::{}", source.path, import.join("::")));
            }
        }
    }
    none(
        &breaches,
        "These imports run against the layers. Pass an event up to node and a command down instead, or move \
         plain data to the ground floor:",
    );
}

#[test]
fn modules_of_the_core_import_each_other_without_circles() {
    let mut uses = BTreeMap::<String, BTreeSet<String>>::new();
    for source in core_sources() {
        let from = module_of(&source.path)[0].clone();
        if from != "lib" {
            let others =
                imports(&source).into_iter().map(|import| import[0].clone()).filter(|to| *to != from);
            uses.entry(from.clone()).or_default().extend(others);
        }
    }
    // Whatever imports only what is gone, goes; a circle stays.
    while let Some(free) = uses.iter().find(|(_, to)| !to.iter().any(|to| uses.contains_key(to))) {
        let free = free.0.clone();
        uses.remove(&free);
    }
    let rest: Vec<String> = uses.into_iter().map(|(from, to)| format!("{from} imports {to:?}")).collect();
    none(&rest, "These modules import each other in a circle, or one that does:");
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

/// Facts about the core that the rule needs.
struct Core {
    sources: Vec<Source>,
    /// Modules with an `impl Protocol`: `["work", "owner"]`.
    machines: BTreeSet<Vec<String>>,
}

impl Core {
    fn read() -> Core {
        Core::of(core_sources())
    }

    fn of(sources: Vec<Source>) -> Core {
        let is_machine = |source: &&Source| {
            source.code().any(|(_, line)| line.starts_with("impl") && line.contains(" Protocol for "))
        };
        let machines = sources.iter().filter(is_machine).map(|source| module_of(&source.path)).collect();
        Core { sources, machines }
    }

    fn may_import(&self, from: &[String], to: &[String]) -> bool {
        match (from[0].as_str(), to[0].as_str()) {
            ("node" | "lib", _) => true,
            (_, "node") => false,
            (from_service, to_service) if from_service != to_service => {
                !self.machines.iter().any(|machine| machine[0] == to_service)
            }
            // Within a service, each machine is a room that only its own modules enter.
            _ => self.machines.iter().all(|machine| {
                machine.len() < 2 || !to.starts_with(machine) || from.starts_with(machine) || from.len() == 1
            }),
        }
    }
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

/// Every path that begins with `crate::`, and those that `use super::` names, groups taken apart.
fn imports(source: &Source) -> Vec<Vec<String>> {
    let code: String = source.code().map(|(_, line)| format!("\n{line}")).collect();
    let mut found = Vec::new();
    for (start, word) in code.match_indices("crate::") {
        let rest = &code[start + word.len()..];
        let is_import = code[..start].trim_end().ends_with("use");
        take_apart(&mut Vec::new(), &mut rest.chars().peekable(), is_import, &mut found);
    }
    // Only at the beginning of a line: within a module of tests `super` is the file itself.
    for (start, word) in code.match_indices("\nuse super::") {
        let mut rest = &code[start + word.len()..];
        let mut path = module_of(&source.path);
        path.pop();
        while let Some(further) = rest.strip_prefix("super::") {
            (rest, _) = (further, path.pop());
        }
        take_apart(&mut path, &mut rest.chars().peekable(), true, &mut found);
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
    let text = "//! About.\nuse super::super::{message::Lease, runner};\nuse super::job;".to_string();
    let found = imports(&Source { path: format!("{CORE}work/owner/lease.rs"), text });
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["work::message::Lease", "work::runner", "work::owner::job"]);
}

#[test]
fn the_rule_tells_machines_from_the_ground_floor() {
    let source = |path: &str, text: &str| Source { path: format!("{CORE}{path}"), text: text.to_string() };
    let core = Core::of(vec![
        source("work/owner/mod.rs", "impl Protocol for Owner {"),
        source("work/runner/mod.rs", "impl Protocol for Runner {"),
        source("store/mod.rs", "impl Protocol for Store {"),
        source("content.rs", "pub struct BlobRef;"),
    ]);
    let path = |text: &str| text.split("::").map(str::to_string).collect::<Vec<_>>();
    let allowed = |from, to| core.may_import(&path(from), &path(to));
    assert!(allowed("work::owner::lease", "work::owner::Job"));
    assert!(allowed("work::owner", "work::message::Lease"));
    assert!(allowed("work::owner", "content::BlobRef"));
    assert!(allowed("store", "content::BlobRef"));
    assert!(allowed("node::route", "work::owner::Owner"));
    assert!(!allowed("work::owner", "work::runner::Runner"));
    assert!(!allowed("work::message", "work::owner::Job"));
    assert!(!allowed("work::owner", "store::Store"));
    assert!(!allowed("content", "store::Store"));
    assert!(!allowed("work::owner", "node::Node"));
    assert!(!allowed("content", "node::Node"));
}
