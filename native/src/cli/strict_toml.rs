//! TOML that people write by hand: a mistake is answered with file, line, column and the key
//! that was probably meant.

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

/// A key that a file may hold, and the keys below it if it is a table (or a list of tables).
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) below: &'static [Key],
}

/// A key that holds a plain value.
pub(crate) const fn key(name: &'static str) -> Key {
    Key { name, below: &[] }
}

/// A mistake in a file, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Mistake(String);

impl Mistake {
    /// Line and column from 1.
    pub(crate) fn at(file: &str, line: usize, column: usize, what: &str) -> Mistake {
        Mistake(format!("{file}:{line}:{column}: {}", what.trim_end()))
    }
}

/// A file's text with the places of its top-level keys.
pub(crate) struct Document<'a> {
    file: &'a str,
    text: &'a str,
    keys: Vec<(String, usize)>,
}

impl<'a> Document<'a> {
    /// Reads the text and refuses keys that are not in `known`.
    pub(crate) fn parse<T: DeserializeOwned>(
        file: &'a str,
        text: &'a str,
        known: &[Key],
    ) -> Result<(T, Document<'a>), Mistake> {
        let mut document = Document { file, text, keys: Vec::new() };
        let table = DeTable::parse(text).map_err(|e| document.syntax(&e))?;
        document.check(table.get_ref(), "", known)?;
        document.keys = table.get_ref().keys().map(|k| (k.get_ref().to_string(), k.span().start)).collect();
        let value = document.read()?;
        Ok((value, document))
    }

    /// Reads another part of what the text says.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        toml::from_str(self.text).map_err(|e| self.syntax(&e))
    }

    fn syntax(&self, e: &toml::de::Error) -> Mistake {
        self.at(e.span().map(|s| s.start).unwrap_or(0), e.message())
    }

    fn check(&self, table: &DeTable<'_>, section: &str, known: &[Key]) -> Result<(), Mistake> {
        for (name, value) in table {
            let Some(found) = known.iter().find(|k| k.name == name.get_ref().as_ref()) else {
                let names: Vec<_> = known.iter().map(|k| k.name).collect();
                let place = if section.is_empty() { String::new() } else { format!(" in {section}") };
                let hint = match nearest(name.get_ref(), &names) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the keys there are {}", names.join(", ")),
                };
                let what = format!("unknown key `{}`{place}: {hint}", name.get_ref());
                return Err(self.at(name.span().start, &what));
            };
            if found.below.is_empty() {
                continue;
            }
            match value.get_ref() {
                DeValue::Table(inner) => self.check(inner, found.name, found.below)?,
                DeValue::Array(list) => {
                    for item in list.iter() {
                        if let DeValue::Table(inner) = item.get_ref() {
                            self.check(inner, found.name, found.below)?;
                        }
                    }
                }
                // A value of the wrong type: serde's message says so better.
                _ => {}
            }
        }
        Ok(())
    }

    /// A mistake that concerns the top-level key `name`.
    pub(crate) fn at_key(&self, name: &str, what: &str) -> Mistake {
        let start = self.keys.iter().find(|(key, _)| key == name).map(|(_, at)| *at);
        self.at(start.unwrap_or(0), what)
    }

    /// Mistake for two keys that exclude each other: it points at the one that comes later in the file.
    pub(crate) fn exclude(&self, a: &str, b: &str, why: &str) -> Mistake {
        let place = |name: &str| self.keys.iter().find(|(key, _)| key == name).map_or(0, |(_, at)| *at);
        let (first, second) = if place(a) < place(b) { (a, b) } else { (b, a) };
        let (line, _) = self.line_column(place(first));
        self.at_key(second, &format!("`{second}` contradicts `{first}` in line {line}: {why}"))
    }

    fn at(&self, offset: usize, what: &str) -> Mistake {
        let (line, column) = self.line_column(offset);
        Mistake::at(self.file, line, column, what)
    }

    fn line_column(&self, offset: usize) -> (usize, usize) {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
        (line, column)
    }
}

/// The known word that `word` was probably meant to be.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let likeness = |k: &str| strsim::jaro_winkler(&word.to_lowercase(), k);
    let best = known.iter().copied().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    // Our choice, as clap's: below it the suggestion puzzles more than it helps.
    (likeness(best) > 0.8).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Sample {
        depth: u32,
        pair: Option<Pair>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        first: u64,
    }

    const KEYS: &[Key] = &[key("depth"), Key { name: "pair", below: &[key("first")] }];

    fn mistake(text: &str) -> String {
        match Document::parse::<Sample>("a.toml", text, KEYS) {
            Ok((value, _)) => panic!("{value:?}"),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn a_good_file_is_read() {
        let (sample, _) =
            Document::parse::<Sample>("a.toml", "depth = 3\npair = { first = 7 }", KEYS).unwrap();
        assert_eq!((sample.depth, sample.pair.unwrap().first), (3, 7));
    }

    #[test]
    fn an_unknown_key_is_answered_with_its_place_and_the_likely_one() {
        assert_eq!(mistake("# ä\ndepht = 3"), "a.toml:2:1: unknown key `depht`: did you mean `depth`?");
        assert_eq!(
            mistake("depth = 1\n  pair = { fist = 7 }"),
            "a.toml:2:12: unknown key `fist` in pair: did you mean `first`?"
        );
        assert_eq!(mistake("zzz = 1"), "a.toml:1:1: unknown key `zzz`: the keys there are depth, pair");
    }

    #[test]
    fn wrong_types_and_broken_text_have_a_place_too() {
        assert!(mistake("depth = \"deep\"").starts_with("a.toml:1:9: invalid type: string"));
        assert!(mistake("depth = 1\ndepth = 2").starts_with("a.toml:2:1: duplicate key"));
        assert!(mistake("depth = ").starts_with("a.toml:1:"));
        assert!(mistake("\n\npair = {}").starts_with("a.toml:3:8: missing field `first`"));
    }

    #[test]
    fn contradictions_blame_the_later_key() {
        let (_, document) =
            Document::parse::<Sample>("a.toml", "pair = { first = 1 }\n\ndepth = 3", KEYS).unwrap();
        assert_eq!(
            document.exclude("depth", "pair", "one or the other").to_string(),
            "a.toml:3:1: `depth` contradicts `pair` in line 1: one or the other"
        );
    }
}
