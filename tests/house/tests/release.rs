//! Contents of a release.

use house_rules::{none, sources};

/// The node that lies is for `tests/hostile` alone: nothing else may ask for what makes it, by default or by name.
#[test]
fn no_release_has_the_node_that_lies() {
    let mut breaches = Vec::new();
    let manifests = sources("", &["Cargo.toml"]);
    let others = manifests.iter().filter(|manifest| manifest.path != "tests/hostile/Cargo.toml");
    for manifest in others {
        for (number, line) in manifest.text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let asks =
                line.contains("\"hostile\"") || line.contains("/hostile\"") && line != "\"tests/hostile\",";
            let by_default = manifest.path == "native/Cargo.toml" && line.starts_with("default =");
            if asks || by_default {
                breaches.push(format!("{}:{}: {line}", manifest.path, number + 1));
            }
        }
    }
    let native = manifests.iter().find(|manifest| manifest.path == "native/Cargo.toml");
    assert!(
        native.is_some_and(|native| native.text.contains("hostile = []")),
        "the feature has another name"
    );
    none(&breaches, "Only tests/hostile may ask for the feature `hostile`:");
}
