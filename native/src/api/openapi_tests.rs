use super::*;
use serde_json::Value;
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(&DOCUMENT).unwrap()
}

/// Every operation with its path and method.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (path.clone(), method.clone(), operation))
        })
        .collect()
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        found.insert(target);
                    }
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn everything_that_the_document_refers_to_is_in_it() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.contains("#/components/schemas/Problem"));
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target} is missing");
    }
}

#[test]
fn operations_say_what_they_do_and_answer_with_problems() {
    let document = document();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let at = format!("{method} {path}");
        assert!(operation["summary"].as_str().is_some_and(|s| !s.is_empty()), "{at} has no summary");
        assert!(operation["tags"][0].is_string(), "{at} has no tag");
        assert!(ids.insert(operation["operationId"].to_string()), "{at} has another's operationId");
        let in_path = path.matches('{').count();
        let parameters = operation["parameters"].as_array().map_or(0, |list| {
            list.iter()
                .filter(|p| p["in"] == "path")
                .inspect(|p| assert_eq!(p["required"], true, "{at}"))
                .count()
        });
        assert_eq!(in_path, parameters, "{at}: parameters of the path");
    }
}

/// A route is described because it is served: a batch of blobs once was not.
#[test]
fn what_is_served_is_described() {
    let document = document();
    let all: BTreeSet<_> =
        operations(&document).into_iter().map(|(path, method, _)| (method, path)).collect();
    for (method, path) in [
        ("post", "/api/v1/blobs/batch"),
        ("get", "/api/v1/jobs"),
        ("delete", "/api/v1/jobs/{id}"),
        ("get", "/api/v1/jobs/{id}/results/{index}/files/{path}"),
        ("get", "/healthz"),
    ] {
        assert!(all.contains(&(method.to_string(), path.to_string())), "{method} {path}");
    }
    assert!(all.iter().all(|(_, path)| !path.contains('*')), "paths are as OpenAPI writes them");
}
