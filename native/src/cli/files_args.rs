//! Arguments of `manyhands files`.

use super::args::SwarmArgs;
use super::quantity::Credits;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    #[command(subcommand)]
    pub(crate) what: Option<FilesCommand>,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FilesCommand {
    /// Have other nodes keep a file, and print its content id
    Put {
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How many other nodes keep it
        #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
        copies: u8,
        /// All copies together may cost at most so many credits for a term of two days; 0: only who gives the
        /// space for nothing keeps it [default: about a credit a copy for a GiB and a day]
        #[arg(long, value_name = "CREDITS", value_parser = credits_or_nothing)]
        max_price: Option<Credits>,
        /// Encrypt it with the gateway's own key before it leaves the gateway
        #[arg(long)]
        encrypt: bool,
        /// Encrypt it for the gateway and for this age recipient, too; may be repeated
        #[arg(long = "recipient", value_name = "AGE1...")]
        recipients: Vec<String>,
        /// Wait until as many keep it as should
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Read a file, whoever put it
    Get {
        /// Its content id, or a name under which it is published
        #[arg(value_name = "ID|NAME")]
        which: String,
        /// Where it goes [default: standard output]
        #[arg(short = 'o', long = "out", value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
        /// As it is kept: what is encrypted stays so
        #[arg(long)]
        raw: bool,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// List the gateway's files, and how many keep each
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Remove a file: nobody need keep it any more
    Rm {
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Publish a file under a name
    Publish {
        #[arg(value_name = "ID")]
        id: String,
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
}

fn credits_or_nothing(text: &str) -> Result<Credits, String> {
    if text.trim() == "0" { Ok(Credits(0)) } else { text.parse() }
}
