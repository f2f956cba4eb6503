//! Requirements of a job on nodes, as people write them: `--requires memory=1GiB,label.site=graz`, or the table
//! `[requires]` of a job file; and labels that a donor gives a node.

use super::quantity::Size;
use super::strict_toml::{Key, key, nearest};
use node_core::requires::check_word;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Requirements on a node, in the same words as the API has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requirements {
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<PlatformWord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PlatformWord {
    Either,
    Native,
    Browser,
}

/// Keys of the table in a job file.
pub(crate) const KEYS: &[Key] = &[
    key("memory"),
    key("speed"),
    key("disk"),
    key("platform"),
    key("os"),
    key("arch"),
    // Its keys are the donors' business.
    key("labels"),
];

impl FromStr for Requirements {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Requirements::default();
        let mut seen = Vec::new();
        for part in text.split(',') {
            let (key, value) = pair(part)?;
            if seen.contains(&key) {
                return Err(format!("{key} is there twice"));
            }
            seen.push(key);
            let named = |e: String| format!("{key}: {e}");
            match key {
                "memory" => all.memory = Some(value.parse().map_err(named)?),
                "speed" => {
                    let why = || format!("speed: {value:?} is no whole number; give fuel a second");
                    all.speed = Some(value.parse().map_err(|_| why())?);
                }
                "disk" => all.disk = Some(value.parse().map_err(named)?),
                "platform" => all.platform = Some(platform(value)?),
                "os" => all.os = Some(word(value).map_err(named)?),
                "arch" => all.arch = Some(word(value).map_err(named)?),
                key => {
                    let label = key.strip_prefix("label.").ok_or_else(|| unknown(key))?;
                    all.labels.insert(word(label)?, word(value)?);
                }
            }
        }
        Ok(all)
    }
}

fn platform(text: &str) -> Result<PlatformWord, String> {
    match text {
        "either" => Ok(PlatformWord::Either),
        "native" => Ok(PlatformWord::Native),
        "browser" => Ok(PlatformWord::Browser),
        _ => Err(format!("platform: {text:?} is none; give native, browser or either")),
    }
}

fn unknown(word: &str) -> String {
    let names: Vec<&str> = KEYS.iter().map(|key| key.name).filter(|name| *name != "labels").collect();
    let hint = nearest(word, &names).map_or_else(String::new, |near| format!(" did you mean {near}?"));
    format!("{word} is nothing that is required:{hint} A donor's label is label.{word}")
}

fn word(text: &str) -> Result<String, String> {
    check_word(text).map(|()| text.to_owned()).map_err(|e| e.to_string())
}

fn pair(text: &str) -> Result<(&str, &str), String> {
    let split = text.trim().split_once('=');
    split.ok_or_else(|| format!("{text:?} is no requirement: write it as KEY=VALUE"))
}

/// A label that a donor gives a node: `KEY=VALUE`.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is no label: write it as KEY=VALUE"))?;
    Ok((word(key)?, word(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_option_says_what_the_table_of_a_job_file_says() {
        let option: Requirements =
            "memory=1GiB,speed=5,disk=2kB, platform=native,os=linux,arch=x86_64,label.site=graz"
                .parse()
                .unwrap();
        let table = "memory = '1GiB'\nspeed = 5\ndisk = 2000\nplatform = 'native'\nos = 'linux'\narch = 'x86_64'\n\
                     labels = { site = 'graz' }";
        assert_eq!(toml::from_str::<Requirements>(table).unwrap(), option);
        let sent = json!({
            "memory": 1 << 30, "speed": 5, "disk": 2000, "platform": "native", "os": "linux", "arch": "x86_64",
            "labels": {"site": "graz"},
        });
        assert_eq!(serde_json::to_value(&option).unwrap(), sent, "as the API takes it");
    }

    #[test]
    fn a_mistake_is_answered_with_what_was_meant() {
        for (text, words) in [
            ("memori=1GiB", "did you mean memory?"),
            ("site=graz", "label.site"),
            ("memory=lots", "no size"),
            ("speed=fast", "fuel a second"),
            ("platform=phone", "native, browser or either"),
            ("os=a b", "1 to 64"),
            ("label.=x", "1 to 64"),
            ("memory", "KEY=VALUE"),
            ("os=linux,os=macos", "twice"),
            ("", "KEY=VALUE"),
        ] {
            let why = text.parse::<Requirements>().unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
        assert!(label("gpu").unwrap_err().contains("KEY=VALUE"));
        assert_eq!(label("site=graz"), Ok(("site".into(), "graz".into())));
    }
}
