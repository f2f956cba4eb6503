//! Contents of a release.

use house_rules::{none, sources};

/// The place where a program can put a liar between the native node and its peers.
const LIES: &str = "lies::";

#[test]
fn no_release_has_the_node_that_lies() {
    let all = sources("", &[".rs"]);
    let is_of_tests = |path: &str| path.starts_with("tests/hostile/") || path.starts_with("tests/house/");
    let mut asked = 0;
    let mut breaches = Vec::new();
    for source in &all {
        for (number, line) in source.text.lines().enumerate().filter(|(_, line)| line.contains(LIES)) {
            let sets = line.contains("set") && !line.trim_start().starts_with("//");
            if sets && source.path.starts_with("tests/hostile/") {
                asked += 1;
            } else if sets && !is_of_tests(&source.path) {
                breaches.push(format!("{}:{}: {line}", source.path, number + 1));
            }
        }
    }
    assert!(asked > 0, "tests/hostile sets its liar in another way: adapt this rule");
    none(&breaches, "Only tests/hostile may make a node lie:");
}
