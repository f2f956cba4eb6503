//! Every example task has a known answer, and so a test: `tests/browser/examples.test.mjs` runs
//! what `cases.json` lists. Examples of virtual computers cannot be run by it, and have `threads.json` instead: a list
//! in the same form, and the number of workers. Examples without a `Cargo.toml` are clients, with tests of their own.

use house_rules::{none, root};
use serde_json::Value;
use std::fs;

#[test]
fn every_example_has_a_known_answer() {
    let mut breaches = Vec::new();
    let folders = fs::read_dir(root().join("examples")).expect("there are examples");
    let folders: Vec<_> = folders.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    assert!(folders.len() >= 5, "there are fewer examples than there were");
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !folder.join("README.md").exists() {
            breaches.push(format!("{name}: no README.md"));
        }
        if !folder.join("Cargo.toml").exists() {
            continue;
        }
        let has_threads = folder.join("threads.json").exists();
        let list = if has_threads { "threads.json" } else { "cases.json" };
        let cases = fs::read_to_string(folder.join(list)).unwrap_or_default();
        let Ok(Value::Array(cases)) = serde_json::from_str(&cases) else {
            breaches.push(format!("{name}: {list} is no list"));
            continue;
        };
        if cases.is_empty() {
            breaches.push(format!("{name}: {list} is empty"));
        }
        for case in cases {
            if has_threads && case["workers"].as_u64().is_none() {
                breaches.push(format!("{name}: a case without workers"));
            }
            let mut files: Vec<&str> =
                ["stdin", "stdout"].iter().flat_map(|key| case[key].as_str()).collect();
            files.extend(case["files"].as_array().into_iter().flatten().flat_map(Value::as_str));
            files.extend(
                case["outputs"].as_object().into_iter().flat_map(|o| o.values()).flat_map(Value::as_str),
            );
            if case["stdout"].as_str().is_none() {
                breaches.push(format!("{name}: a case without stdout"));
            }
            let missing = files.into_iter().filter(|file| !folder.join(file).exists());
            breaches.extend(missing.map(|file| format!("{name}: {file} does not exist")));
        }
    }
    none(&breaches, "An example needs a README, and cases with input that exists and the right answer:");
}
