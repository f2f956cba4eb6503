//! Arguments of `manyhands policy`.

use super::args::SwarmArgs;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) what: PolicyCommand,
}

impl PolicyArgs {
    pub(crate) fn swarm(&mut self) -> &mut SwarmArgs {
        match &mut self.what {
            PolicyCommand::Show { swarm } | PolicyCommand::Explain { swarm } => swarm,
            PolicyCommand::Set { swarm, .. } => swarm,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show all settings, and which of them are set
    Show {
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Change settings; they count at once
    #[command(after_help = "\
A value is written as in TOML, and a word needs no quotes. Nothing behind the = takes a setting back
to its default.

`manyhands policy set start_hour=22 end_hour=6 days.saturday=all`
`manyhands policy set cpu_usage_limit=50 'refused_addresses=[\"203.0.113.0/24\"]'`")]
    Set {
        #[arg(value_name = "KEY=VALUE", required = true)]
        assignments: Vec<String>,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Say what may be used now; if nothing, why, and until when
    Explain {
        #[command(flatten)]
        swarm: SwarmArgs,
    },
}
