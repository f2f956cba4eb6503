//! Settings of a job: each stands here once, and is an option of `run` and `map`, a key of job files, and a
//! field of the request that the client sends.
//!
//! A new one also has to be read and checked by `api/request.rs`, and carried by the job's specification.

use super::quantity::{Credits, Every, OnLoss, Size, Span};
use super::requirements::Requirements;
use super::threads_setting::ThreadsSetting;
use clap::{Args, ValueEnum};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};

/// What a unit may use, and how hard to try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Limits")]
#[serde(default)]
pub(crate) struct JobSettings {
    /// Memory of the program [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory_limit: Option<Size>,
    /// Time from start to end [default: 1h]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_limit: Option<Span>,
    /// All that it writes: stdout, stderr and files [default: 64MiB]
    #[arg(long, value_name = "SIZE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_limit: Option<Size>,
    /// Fuel that it may use, about an instruction a unit [default: no limit]
    #[arg(long, value_name = "FUEL", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fuel_limit: Option<u64>,
    /// How much of its work may be lost with its node; `none` takes no checkpoints [default: 30s]
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<Every>,
    /// When its node goes silent: `recover` it elsewhere, or `wait 10m` for the node first
    /// [default: recover]
    #[arg(long, value_name = "WHAT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) on_loss: Option<OnLoss>,
    /// Floats are the same on every node, NaNs included, at a price in speed
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) bit_exact: bool,
    /// Run it again this often after it failed [default: 0]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_retries: Option<u32>,
    /// Before jobs with a lower one [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<i32>,
    /// Buy its place of who sells for least; one unit may cost at most so many credits. Needs
    /// --fuel-limit
    #[arg(long, value_name = "CREDITS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_price: Option<Credits>,
    /// The whole job may cost at most so many [default: as much as its units]
    #[arg(long, value_name = "CREDITS", requires = "max_price")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_price_job: Option<Credits>,
    /// Least speed of a place, fuel a second [default: any]
    #[arg(long, value_name = "FUEL", requires = "max_price")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_speed: Option<u64>,
    /// What a node must have to run it: memory, speed (fuel a second), disk, platform (native or browser), os,
    /// arch, or label.KEY that its donor gave it; several with commas between [default: nothing]
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "max_price")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) requires: Option<Requirements>,
    /// Owner of the units: the gateway, or for each the successor of its id on the ring, so that they
    /// go on without the gateway [default: gateway]
    #[arg(long, value_enum, value_name = "WHO", conflicts_with = "max_price")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<OwnerWord>,
    /// Run it as a virtual computer: its program begins threads on other nodes, and is told of so many workers
    #[arg(long, value_name = "WORKERS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<ThreadsSetting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OwnerWord {
    Gateway,
    Ring,
}

/// Names of the settings, as job files and the API have them.
pub(crate) fn names() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It reads nothing: what is looked for are the fields that are asked for.
    let _ = JobSettings::deserialize(Names(&mut names));
    names
}

struct Names<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(de::Error::custom("names only"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("names only"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A message about a job that options describe, with its settings called as the options are.
pub(crate) fn with_options(message: &str) -> String {
    let call = |message: String, key: &&str| {
        let option = format!("--{}", key.replace('_', "-"));
        let named = message.replace(&format!("`{key}`"), &option);
        named.replace(&format!("raise {key}"), &format!("raise {option}"))
    };
    names().iter().fold(message.to_owned(), call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use serde_json::json;
    use std::time::Duration;

    #[derive(clap::Parser)]
    struct Command {
        #[command(flatten)]
        settings: JobSettings,
    }

    #[test]
    fn each_setting_is_an_option_of_the_same_name() {
        let command = Command::command();
        let options: Vec<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        assert_eq!(options, names());
        assert!(names().contains(&"memory_limit") && names().len() > 10);
    }

    #[test]
    fn settings_are_sent_as_the_api_takes_them() {
        let settings: JobSettings = toml::from_str(
            "memory_limit = '1KiB'\ntime_limit = '90s'\ncheckpoint = 'none'\non_loss = 'wait 2m'\n\
             max_price = 0.25\nbit_exact = true\nowner = 'ring'",
        )
        .unwrap();
        let sent = json!({
            "memory_limit": 1024, "time_limit": 90.0, "checkpoint": 0.0, "on_loss": {"wait": 120.0},
            "max_price": 250_000, "bit_exact": true, "owner": "ring",
        });
        assert_eq!(serde_json::to_value(&settings).unwrap(), sent);
        let recover = JobSettings {
            on_loss: Some(OnLoss::Recover),
            checkpoint: Some(Every(Some(Duration::from_millis(1500)))),
            ..JobSettings::default()
        };
        let sent = json!({"on_loss": "recover", "checkpoint": 1.5});
        assert_eq!(serde_json::to_value(&recover).unwrap(), sent);
        assert_eq!(serde_json::to_value(JobSettings::default()).unwrap(), json!({}));
    }
}
