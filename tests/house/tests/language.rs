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

/// Sentences of the pages, in paragraphs, bullets and cells of tables. Headings and code are left out.
#[test]
fn a_sentence_of_the_docs_begins_with_its_subject() {
    let mut breaches = Vec::new();
    for source in sources("", &[".md"]) {
        let mut is_code = false;
        for (number, line) in source.text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            if is_code || line.starts_with('#') {
                continue;
            }
            let found = sentences_of(line).find(|text| BEGINNINGS.iter().any(|with| text.starts_with(with)));
            if let Some(text) = found {
                breaches.push(format!("{}:{}: {text}", source.path, number + 1));
            }
        }
    }
    none(&breaches, "Name the subject first:");
}

/// Longer ones are read as paragraphs, or not at all.
const BULLET: usize = 300;

#[test]
fn a_bullet_is_short() {
    let mut breaches = Vec::new();
    for source in sources("", &[".md"]).iter().filter(|source| source.path != "CHANGELOG.md") {
        for (number, line) in source.text.lines().enumerate() {
            let length = line.trim_start().strip_prefix("- ").map_or(0, |text| text.chars().count());
            if length > BULLET {
                breaches.push(format!("{}:{}: {length} characters", source.path, number + 1));
            }
        }
    }
    none(&breaches, "Split these bullets; one has at most 300 characters:");
}

/// Beginnings of sentences in a line of Markdown, each with the rest of the line.
fn sentences_of(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim_start();
    let number = line.split_once(". ").filter(|(number, _)| number.parse::<u8>().is_ok());
    let first = number.map_or(line, |(_, rest)| rest).trim_start_matches(['-', '|', ' ', '*']);
    let within = [". ", "; ", "| "].into_iter().flat_map(move |end| line.split(end).skip(1));
    std::iter::once(first).chain(within)
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

#[test]
fn the_rule_sees_each_sentence_of_a_line() {
    let sees = |line| sentences_of(line).any(|text| BEGINNINGS.iter().any(|with| text.starts_with(with)));
    assert!(["- What it costs.", "One. What two?", "| a | Who asks |", "3. Of a job"].into_iter().all(sees));
    assert!(!sees("It says what it costs, and of what."));
}
