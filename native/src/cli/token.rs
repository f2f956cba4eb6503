//! `manyhands token`: where a gateway's token lies, and a new one in its place.
//!
//! The token itself is printed to a terminal only: what is written to a file or a pipe is kept, and read by
//! others than those that may use the gateway.

use super::failure::{DONE, Failure};
use super::progress::say;
use super::run::print;
use crate::paths::DataFolder;
use crate::token;
use clap::{Args, Subcommand};
use std::io::IsTerminal;

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) what: Option<TokenCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a new token; the old one counts no more, also for a gateway that runs
    Rotate,
}

pub(crate) fn run(args: &TokenArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let path = folder.token();
    let token = match args.what {
        Some(TokenCommand::Rotate) if path.exists() => {
            let token = token::rotate(folder)?;
            say("the token is a new one, and the old one counts no more; a running node knows it already");
            token
        }
        None if path.exists() => token::read(&path)?,
        Some(TokenCommand::Rotate) | None => {
            return Err(Failure::failed(format!(
                "there is no token in {}: a node makes it at its first start (`manyhands up`); name its folder with \
                 --data DIR, on the node's own machine",
                folder.dir().display()
            )));
        }
    };
    print(format!("{}\n", path.display()).as_bytes())?;
    match std::io::stdout().is_terminal() {
        true => print(format!("{token}\n").as_bytes())?,
        false => say("the token lies in that file; it is printed to a terminal only"),
    }
    Ok(DONE)
}
