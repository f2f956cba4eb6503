//! Paths of this machine, as a program on another one sees them.

use std::path::{Component, Path};

/// Where a file lies for the program: relative to its root, without `.` and `..`. Steps above
/// the current folder are left out, for the program has nothing there.
pub(crate) fn task_path(path: &Path) -> Result<String, String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => {
                let part = part.to_str().ok_or_else(|| {
                    format!("{} is not UTF-8, which programs need; rename it", path.display())
                })?;
                parts.push(part);
            }
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    match parts.is_empty() {
        true => Err(format!("{:?} names no file", path.display().to_string())),
        false => Ok(parts.join("/")),
    }
}

/// The path to hand to the program: as the person wrote it where that leads to the file.
pub(crate) fn path_argument(path: &Path) -> Result<String, String> {
    let inside = task_path(path)?;
    match path.to_str() {
        Some(text) if !path.components().any(|c| c == Component::ParentDir) && cfg!(unix) => {
            Ok(text.to_owned())
        }
        _ => Ok(inside),
    }
}

/// Fills GNU parallel's replacement strings into one argument. `number` counts from 1.
pub(crate) fn fill(template: &str, input: &str, number: usize) -> String {
    let mut out = String::with_capacity(template.len() + input.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let tail = &rest[open..];
        let hit = PATTERNS.iter().find(|(pattern, _)| tail.starts_with(pattern));
        match hit {
            Some((pattern, part)) => {
                out.push_str(&part(input, number));
                rest = &tail[pattern.len()..];
            }
            None => {
                out.push('{');
                rest = &tail[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Whether an argument has a place for the input's name (its number alone is none).
pub(crate) fn has_place(template: &str) -> bool {
    PATTERNS.iter().any(|(pattern, _)| *pattern != "{#}" && template.contains(pattern))
}

type Part = fn(&str, usize) -> String;

const PATTERNS: &[(&str, Part)] = &[
    ("{}", |input, _| input.into()),
    ("{.}", |input, _| without_extension(input).into()),
    ("{/}", |input, _| base(input).into()),
    ("{/.}", |input, _| without_extension(base(input)).into()),
    ("{//}", |input, _| folder(input).into()),
    ("{#}", |_, number| number.to_string()),
];

fn base(input: &str) -> &str {
    input.rsplit('/').next().unwrap_or(input)
}

fn folder(input: &str) -> &str {
    match input.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
        None => ".",
    }
}

fn without_extension(input: &str) -> &str {
    let name = input.len() - base(input).len();
    match input[name..].rfind('.') {
        Some(dot) => &input[..name + dot],
        None => input,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replacement_strings_are_those_of_gnu_parallel() {
        let fill = |template: &str| fill(template, "data/2024.q1/sales.tar.gz", 7);
        assert_eq!(fill("{}"), "data/2024.q1/sales.tar.gz");
        assert_eq!(fill("{.}"), "data/2024.q1/sales.tar");
        assert_eq!(fill("{/}"), "sales.tar.gz");
        assert_eq!(fill("{/.}"), "sales.tar");
        assert_eq!(fill("{//}"), "data/2024.q1");
        assert_eq!(
            fill("--in={} --out={/.}-{#}.txt"),
            "--in=data/2024.q1/sales.tar.gz --out=sales.tar-7.txt"
        );
    }

    #[test]
    fn other_braces_stay_as_they_are() {
        assert_eq!(fill("{a} {{}} {", "x", 1), "{a} {x} {");
        assert_eq!(fill("ä{}ö", "ü", 1), "äüö");
        assert_eq!(fill("{}", "{}", 1), "{}", "what was filled in is not filled again");
    }

    #[test]
    fn names_without_folder_or_extension_work_too() {
        assert_eq!(fill("{.}|{/}|{//}", "plain", 1), "plain|plain|.");
        assert_eq!(fill("{.}|{//}", "a.b/c", 1), "a.b/c|a.b");
        assert_eq!(fill("{//}", "/c", 1), "/");
        assert!(has_place("x{/.}") && !has_place("x{#}y"));
    }

    #[test]
    fn programs_see_relative_paths_without_detours() {
        let seen = |path: &str| task_path(Path::new(path)).unwrap();
        assert_eq!(seen("a/b.txt"), "a/b.txt");
        assert_eq!(seen("./a//b.txt"), "a/b.txt");
        assert_eq!(seen("/var/a.txt"), "var/a.txt");
        assert_eq!(seen("../../up/a.txt"), "up/a.txt");
        assert_eq!(seen("a/../b"), "b");
        assert!(task_path(Path::new("..")).is_err() && task_path(Path::new("/")).is_err());
    }

    #[test]
    fn arguments_keep_the_words_of_the_person_where_they_lead_to_the_file() {
        let given = |path: &str| path_argument(Path::new(path)).unwrap();
        assert_eq!(given("./a.txt"), "./a.txt");
        assert_eq!(given("/var/a.txt"), "/var/a.txt");
        assert_eq!(given("../a.txt"), "a.txt");
    }
}
