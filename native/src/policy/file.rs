//! `policy.toml` in the data folder: a donor's settings, by BOINC's names.
//!
//! ```toml
//! start_hour = 22
//! end_hour = 6.5
//! days = { saturday = "all", sunday = "all" }
//! cpu_usage_limit = 50
//! refused_addresses = ["203.0.113.0/24"]
//! ```
//! A setting that is left out has its default. A missing file counts as an empty one.

use crate::cli::strict_toml::{Document, Key, Mistake, key};
use crate::paths::{DataFolder, PathError, write_private};
use node_core::trust::policy::Policy;
use std::path::PathBuf;
use std::time::SystemTime;

/// Bytes of the file, at most. Our choice: three full lists of peers.
const FILE_MAX: u64 = 4 << 20;

pub(crate) const KEYS: &[Key] = &[
    key("share_cycles"),
    key("share_space"),
    key("max_ncpus_pct"),
    key("niu_max_ncpus_pct"),
    key("cpu_usage_limit"),
    key("niu_cpu_usage_limit"),
    key("suspend_cpu_usage"),
    key("niu_suspend_cpu_usage"),
    key("run_if_user_active"),
    key("idle_time_to_run"),
    key("suspend_if_no_recent_input"),
    key("run_on_batteries"),
    key("battery_charge_min_pct"),
    key("ram_max_used_busy_pct"),
    key("ram_max_used_idle_pct"),
    key("disk_max_used_gb"),
    key("disk_max_used_pct"),
    key("disk_min_free_gb"),
    key("start_hour"),
    key("end_hour"),
    Key {
        name: "days",
        below: &[
            key("monday"),
            key("tuesday"),
            key("wednesday"),
            key("thursday"),
            key("friday"),
            key("saturday"),
            key("sunday"),
        ],
    },
    key("max_task_seconds"),
    key("max_task_memory_mb"),
    key("refused_peers"),
    key("refused_addresses"),
    key("direct_connections"),
    key("relay_mb_per_s"),
    key("allowed_submitters"),
    key("marginal_cost"),
    key("min_price"),
    key("gift_share_pct"),
];

#[derive(Clone, Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
}

/// When the file was written, and how long it is: whether it has to be read again.
pub(crate) type Stamp = Option<(SystemTime, u64)>;

/// Why settings were not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// They cannot be meant; `key` is the one to look at.
    #[error("{why}")]
    Settings { key: Option<String>, why: String },
    #[error(transparent)]
    Unwritable(#[from] PathError),
}

impl PolicyFile {
    pub(crate) fn of(folder: &DataFolder) -> PolicyFile {
        PolicyFile { path: folder.policy() }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let about = std::fs::metadata(&self.path).ok()?;
        Some((about.modified().ok()?, about.len()))
    }

    /// The policy, and what of it is set. A mistake says where it is.
    pub(crate) fn read(&self) -> Result<(Policy, toml::Table), String> {
        let shown = self.path.display().to_string();
        let cannot = |e: std::io::Error| format!("cannot read the policy in {shown}: {e}");
        let text = match std::fs::metadata(&self.path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(cannot(e)),
            Ok(about) if about.len() > FILE_MAX => {
                return Err(format!("{shown} has more than {FILE_MAX} bytes; a policy is shorter"));
            }
            Ok(_) => std::fs::read_to_string(&self.path).map_err(cannot)?,
        };
        let policy = parse(&shown, &text).map_err(|e| e.to_string())?;
        let set = toml::from_str(&text).map_err(|e| format!("{shown}: {e}"))?;
        Ok((policy, set))
    }

    /// Writes these settings, if they can be meant.
    pub(crate) fn write(&self, set: &toml::Table) -> Result<Policy, Refused> {
        let text = set.to_string();
        let policy = parse("policy", &text).map_err(|e| {
            let why = without_place(&e.to_string());
            Refused::Settings { key: at_fault(set), why }
        })?;
        write_private(&self.path, text.as_bytes(), true)?;
        Ok(policy)
    }
}

/// A policy that contradicts nothing.
pub(crate) fn parse(shown: &str, text: &str) -> Result<Policy, Mistake> {
    let (policy, document) = Document::parse::<Policy>(shown, text, KEYS)?;
    match policy.check().first() {
        None => Ok(policy),
        Some(contradiction) => {
            let said = contradiction.to_string();
            // The first word that is a key says where it stands.
            let named = KEYS.iter().map(|key| key.name).filter(|name| said.contains(name));
            let key = named.min_by_key(|name| said.find(name)).unwrap_or_default();
            Err(document.at_key(key, &said))
        }
    }
}

/// The first setting that is none by itself, or else the one that contradicts another.
fn at_fault(set: &toml::Table) -> Option<String> {
    let alone =
        |(key, value): (&String, &toml::Value)| toml::Table::from_iter([(key.clone(), value.clone())]);
    let is_none = |entry: &(&String, &toml::Value)| parse_table(&alone(*entry)).is_err();
    match set.iter().find(is_none) {
        Some((key, _)) => Some(key.clone()),
        None => parse_table(set).ok()?.check().first().map(|contradiction| contradiction.key().to_owned()),
    }
}

fn parse_table(set: &toml::Table) -> Result<Policy, toml::de::Error> {
    set.clone().try_into()
}

/// Lines of a text that nobody wrote tell nobody anything.
fn without_place(said: &str) -> String {
    said.splitn(4, ':').nth(3).unwrap_or(said).trim().to_owned()
}

/// Takes `KEY=VALUE` into settings: a value as TOML has it, or a bare word; nothing behind `=` takes
/// the setting out. `days.monday=none` names one of a group.
pub(crate) fn apply(set: &mut toml::Table, assignment: &str) -> Result<(), String> {
    let (name, value) = assignment
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| format!("{assignment:?}: write it as KEY=VALUE, as in start_hour=22"))?;
    let value = match value {
        "" => None,
        text => Some(value_of(text)),
    };
    let (table, name) = match name.split_once('.') {
        None => (set, name),
        Some((group, name)) => {
            let inner = set.entry(group).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            let inner = inner.as_table_mut().ok_or_else(|| format!("{group} has no settings of its own"))?;
            (inner, name)
        }
    };
    match value {
        Some(value) => drop(table.insert(name.into(), value)),
        None => drop(table.remove(name)),
    }
    Ok(())
}

fn value_of(text: &str) -> toml::Value {
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value").filter(|_| table.is_empty()));
    // "yes" and "no" are what pages and `policy show` say.
    value.unwrap_or_else(|| match text {
        "yes" => toml::Value::Boolean(true),
        "no" => toml::Value::Boolean(false),
        text => toml::Value::String(text.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        parse("policy.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_of_a_policy_is_known_here_and_no_other() {
        let all = serde_json::to_value(Policy::default()).unwrap();
        let names: std::collections::BTreeSet<_> =
            all.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, KEYS.iter().map(|key| key.name).collect());
    }

    #[test]
    fn whole_numbers_do_where_fractions_may_stand() {
        let text = "start_hour = 22\nend_hour = 6.5\ndays = { saturday = 'all' }\n\
                    refused_addresses = ['203.0.113.0/24']\ncpu_usage_limit = 50";
        let policy = parse("policy.toml", text).unwrap();
        assert_eq!((policy.start_hour, policy.end_hour, policy.cpu_usage_limit), (22.0, 6.5, 50.0));
        assert_eq!(policy.refused_addresses.len(), 1);
        assert_eq!(parse("policy.toml", "").unwrap(), Policy::default());
    }

    #[test]
    fn mistakes_and_contradictions_are_told_where_they_stand() {
        assert_eq!(
            mistake("share_space = true\nstart_huor = 3"),
            "policy.toml:2:1: unknown key `start_huor`: did you mean `start_hour`?"
        );
        assert!(mistake("days = { monday = 'later' }").starts_with("policy.toml:1:"));
        assert!(mistake("days = { funday = 'all' }").contains("unknown key `funday` in days"));
        let e = mistake("share_cycles = true\ncpu_usage_limit = 0");
        assert!(e.starts_with("policy.toml:2:1: cpu_usage_limit is 0"), "{e}");
        let e = mistake("\nstart_hour = 25");
        assert!(e.starts_with("policy.toml:2:1: start_hour = 25"), "{e}");
        let none = "days = { monday = 'none', tuesday = 'none', wednesday = 'none', thursday = 'none', \
                    friday = 'none', saturday = 'none', sunday = 'none' }";
        assert!(mistake(none).contains("the hours exclude every day"));
    }

    #[test]
    fn settings_are_typed_as_people_type_them() {
        let mut set = toml::Table::new();
        for text in [
            "start_hour=22",
            " end_hour = 6.5",
            "days.monday=none",
            "days.sunday=22:00-6:00",
            "run_on_batteries=yes",
            "refused_addresses=[\"10.0.0.0/8\"]",
            "max_task_seconds=60",
            "max_task_seconds=",
        ] {
            apply(&mut set, text).unwrap();
        }
        let policy = parse("policy.toml", &set.to_string()).unwrap();
        assert_eq!((policy.start_hour, policy.end_hour, policy.run_on_batteries), (22.0, 6.5, true));
        assert_eq!((policy.days.0.len(), policy.max_task_seconds), (2, None));
        assert!(apply(&mut set, "start_hour").unwrap_err().contains("KEY=VALUE"));
        assert!(apply(&mut set, "start_hour.x=1").unwrap_err().contains("no settings of its own"));
    }

    #[test]
    fn what_cannot_be_meant_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let file = PolicyFile { path: dir.path().join("policy.toml") };
        assert_eq!(file.read().unwrap(), (Policy::default(), toml::Table::new()));
        let mut set = toml::Table::new();
        apply(&mut set, "cpu_usage_limit=40").unwrap();
        assert_eq!(file.write(&set).unwrap().cpu_usage_limit, 40.0);
        let before = file.stamp();
        apply(&mut set, "cpu_usage_limit=140").unwrap();
        let refused = |set: &toml::Table| match file.write(set).unwrap_err() {
            Refused::Settings { key, why } => (key.unwrap_or_default(), why),
            other => panic!("{other}"),
        };
        let (key, why) = refused(&set);
        assert_eq!(key, "cpu_usage_limit");
        assert!(why.starts_with("cpu_usage_limit is 140: it is a percentage"), "{why}");
        for (wrong, key) in [
            ("days = { monday = 'later' }", "days"),
            ("share_space = true\nrefused_addresses = ['10.0.0.0/99']", "refused_addresses"),
            ("start_hour = 1\nfunday = 1", "funday"),
            ("cpu_usage_limit = 50\nmin_price = 3\nmarginal_cost = 4", "min_price"),
        ] {
            let (told, why) = refused(&toml::from_str(wrong).unwrap());
            assert_eq!(told, key, "{why}");
        }
        assert_eq!(file.stamp(), before);
        assert_eq!(file.read().unwrap().0.cpu_usage_limit, 40.0);
    }
}
