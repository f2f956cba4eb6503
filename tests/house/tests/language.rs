//! Sentences: comments are for an engineer in another country, who knows distributed systems and not us.

use house_rules::{none, sources};

/// Relative clauses as nouns, and sentences without a subject, begin with these.
const BEGINNINGS: &[&str] = &["Who ", "Whose ", "Whom ", "Whoever ", "What ", "Of ", "The same ", "And "];

/// Doc comments in these are help texts and descriptions of the API.
const TEXTS: &[&str] = &[
    "native/src/cli/args",
    "native/src/cli/job_settings.rs",
    "native/src/api/",
    "native/src/policy/view.rs",
    "tests/simulator/src/main.rs",
];

#[test]
fn a_comment_begins_with_its_subject() {
    let mut breaches = Vec::new();
    for source in sources("", &[".rs", ".js", ".mjs"]) {
        if TEXTS.iter().any(|text| source.path.starts_with(text)) {
            continue;
        }
        let mut before = "";
        for (number, line) in source.text.lines().enumerate() {
            let comment = comment_of(line);
            // The second line of a sentence begins as it must.
            let goes_on = comment_of(before)
                .is_some_and(|text| !text.is_empty() && !text.ends_with(['.', ':', '`', '|']));
            if let Some(text) = comment.filter(|_| !goes_on)
                && BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
            {
                breaches.push(format!("{}:{}: {text}", source.path, number + 1));
            }
            before = line;
        }
    }
    none(&breaches, "Name the subject first:");
}

/// A line of comment without its marks.
fn comment_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text =
        line.strip_prefix("//").or_else(|| line.strip_prefix("/**")).or_else(|| line.strip_prefix("* "))?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

#[test]
fn the_rule_sees_comments_and_nothing_else() {
    assert_eq!(comment_of("    /// What it costs."), Some("What it costs."));
    assert_eq!(comment_of("//! Of a job:"), Some("Of a job:"));
    assert_eq!(comment_of("let who = 1; // Who"), None);
}
