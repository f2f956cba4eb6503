//! `manyhands policy`: what a donor shares, and why its node does not work now.
//!
//! A node that runs is asked through its API. Where none runs, the settings lie in the data folder, and their effect
//! is computed here, on the same machine.

use super::args::{Format, SwarmArgs};
use super::beacon::Pid;
use super::client::Client;
use super::failure::{DONE, Failure};
use super::policy_args::{PolicyArgs, PolicyCommand};
use super::progress::say;
use super::run::{print_json, print_text};
use super::swarm::find_if_any;
use super::table::Table;
use crate::config::default_slots;
use crate::paths::DataFolder;
use crate::policy::file::{KEYS, PolicyFile, apply};
use crate::policy::machine::Machine;
use crate::policy::view::View;
use crate::policy::{Given, Measure, Sensors};
use std::time::Duration;

pub(crate) fn run(args: &PolicyArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let (swarm, assignments) = match &args.what {
        PolicyCommand::Show { swarm } | PolicyCommand::Explain { swarm } => (swarm, &[][..]),
        PolicyCommand::Set { assignments, swarm } => (swarm, &assignments[..]),
    };
    let place = Place::find(swarm, folder)?;
    if !assignments.is_empty() {
        let mut set = place.view()?.set;
        for assignment in assignments {
            apply(&mut set, assignment).map_err(Failure::usage)?;
        }
        place.replace(&set)?;
    }
    let view = place.view()?;
    if swarm.output == Format::Json {
        let text = serde_json::to_string(&view).map_err(Failure::failed)?;
        print_json(&text)?;
        return Ok(DONE);
    }
    let words = match args.what {
        PolicyCommand::Explain { .. } => view.explanation(),
        PolicyCommand::Show { .. } => settings(&view),
        PolicyCommand::Set { .. } => changed(&view, assignments),
    };
    print_text(&words)?;
    place.remark();
    Ok(DONE)
}

/// Place of the policy: a node that runs, or the data folder of one that does not.
enum Place<'a> {
    Node(Client),
    Folder { file: PolicyFile, folder: &'a DataFolder },
}

impl<'a> Place<'a> {
    fn find(swarm: &SwarmArgs, folder: &'a DataFolder) -> Result<Place<'a>, Failure> {
        Ok(match find_if_any(swarm, folder)? {
            Some(client) => Place::Node(client),
            None => Place::Folder { file: PolicyFile::of(folder), folder },
        })
    }

    fn view(&self) -> Result<View, Failure> {
        match self {
            Place::Node(client) => Ok(client.policy()?),
            Place::Folder { file, folder } => {
                let (policy, set) = file.read().map_err(Failure::usage)?;
                let mut machine = Machine::new(folder.dir());
                let mut now = machine.read();
                if policy.suspend_cpu_usage > 0.0 || policy.niu_suspend_cpu_usage.is_some() {
                    // Load is a difference.
                    std::thread::sleep(Duration::from_secs(1));
                    now = machine.read();
                }
                // Only the node knows the flags that it was started with: this assumes none.
                let usual = node_core::Config::default().memory_bytes;
                let given = Given { slots: default_slots(), cpu_share: 100, memory_bytes: usual };
                let decision = policy.decide(&now);
                let done = Measure::of(&now, &decision, &given);
                Ok(View::new(&policy, set, &now, &decision, done, None))
            }
        }
    }

    fn replace(&self, set: &toml::Table) -> Result<(), Failure> {
        match self {
            Place::Node(client) => client.set_policy(set).map(drop).map_err(Failure::from),
            Place::Folder { file, folder } => {
                folder.create()?;
                file.write(set).map(drop).map_err(Failure::usage)
            }
        }
    }

    fn remark(&self) {
        if let Place::Node(client) = self {
            say(&format!("this is the policy of the node at {}", client.url()));
        }
        if let Place::Folder { folder, .. } = self
            && Pid::see(folder).is_none()
        {
            say(&format!(
                "no node runs on {} now; this is what holds when one does (--data names another folder)",
                folder.dir().display()
            ));
        }
    }
}

fn settings(view: &View) -> String {
    let mut table = Table::new(&["SETTING", "VALUE", ""], &[]);
    for name in KEYS.iter().map(|key| key.name) {
        let value = view.policy.get(name).cloned().unwrap_or_default();
        let shown = if value.is_null() { "-".into() } else { value.to_string() };
        let origin = if view.set.contains_key(name) { "set" } else { "default" };
        table.row([name.into(), shown, origin.into()]);
    }
    table.to_string()
}

fn changed(view: &View, assignments: &[String]) -> String {
    let space = |text: &&String| text.starts_with("disk_") || text.starts_with("share_space");
    let later = match assignments.iter().any(|text| space(&text)) {
        true => "space counts from the node's next start on\n",
        false => "",
    };
    view.explanation() + later
}
