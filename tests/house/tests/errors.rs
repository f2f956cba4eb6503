//! Errors at the core's boundaries are types: a caller matches on them, and a text is made of them where a person
//! or a peer reads it.

use house_rules::{Source, none, sources};

#[test]
fn an_error_at_a_boundary_is_a_type() {
    let mut breaches = Vec::new();
    for source in sources("node-core/src", &[".rs"]) {
        breaches.extend(texts(&source).map(|number| format!("{}:{number}", source.path)));
    }
    none(&breaches, "Name the error's type; `content::NotFetched` is a model. `Result<_, String>` is at:");
}

/// Lines at which a signature or a value names `String` or `&'static str` as an error.
fn texts(source: &Source) -> impl Iterator<Item = usize> {
    let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
    let numbers: Vec<usize> = source.code().map(|(number, _)| number).collect();
    let texts = ["String", "&'static str", "&str"];
    let results: Vec<usize> = code.match_indices("Result<").map(|(at, _)| at).collect();
    results.into_iter().filter_map(move |at| {
        let error = error_of(&code[at + "Result<".len()..])?;
        let named = texts.contains(&error.trim_end_matches(',').trim_end());
        named.then(|| numbers[code[..at].matches('\n').count()])
    })
}

/// The second parameter of a `Result<`, whose first begins here.
fn error_of(text: &str) -> Option<&str> {
    let (mut depth, mut comma) = (0, None);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            // `->`
            '>' if text[..at].ends_with('-') => {}
            '>' if depth == 0 => return Some(text[comma? + 1..at].trim()),
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 && comma.is_none() => comma = Some(at),
            _ => {}
        }
    }
    None
}

#[test]
fn the_rule_sees_the_error_of_a_result_and_nothing_else() {
    let lines = |text: &str| {
        let source = Source { path: String::new(), text: text.into() };
        texts(&source).collect::<Vec<_>>()
    };
    assert_eq!(lines("fn a() -> Result<(), String> {}"), [1]);
    assert_eq!(lines("\n// Result<(), String>\nb: Result<Vec<(u8, String)>, &'static str>,"), [3]);
    assert_eq!(lines("c: Option<\n    Result<\n        (),\n        String,\n    >,\n>"), [2]);
    assert_eq!(lines("fn d() -> Result<String, WireError> { e::<Result<fn(u8) -> String, Bad>>() }"), []);
    assert_eq!(lines("fn f() -> std::fmt::Result { g() }"), []);
}
