//! `manyhands wallet`: credit.

use super::args::{Format, SwarmArgs};
use super::client::types::Wallet;
use super::failure::{DONE, Failure};
use super::quantity::Credits;
use super::run::{print_json, print_text};
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct WalletArgs {
    #[command(subcommand)]
    what: Option<WalletCommand>,
    #[command(flatten)]
    swarm: SwarmArgs,
}

#[derive(Debug, Subcommand)]
enum WalletCommand {
    /// Show the balance and the newest lines of the statement
    Show {
        /// Another node's account, if the gateway is the bank
        #[arg(long, value_name = "NODE-ID")]
        node: Option<String>,
        /// How many lines
        #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
        lines: u32,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Make new credit, for whoever shows the code first; on the bank's gateway only
    Invite {
        #[arg(value_name = "CREDITS")]
        amount: Credits,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Take the credit of an invite
    Redeem {
        #[arg(value_name = "CODE")]
        code: String,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
    /// Send credit to a node
    Send {
        #[arg(value_name = "NODE-ID")]
        to: String,
        #[arg(value_name = "CREDITS")]
        amount: Credits,
        #[command(flatten)]
        swarm: SwarmArgs,
    },
}

pub(crate) fn wallet(args: &WalletArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let (swarm, (wallet, text)) = match &args.what {
        None => (&args.swarm, find(&args.swarm, folder)?.wallet(None, 20)?),
        Some(WalletCommand::Show { node, lines, swarm }) => {
            (swarm, find(swarm, folder)?.wallet(node.as_deref(), *lines)?)
        }
        Some(WalletCommand::Redeem { code, swarm }) => (swarm, find(swarm, folder)?.redeem(code)?),
        Some(WalletCommand::Send { to, amount, swarm }) => {
            (swarm, find(swarm, folder)?.send_credit(to, amount.0)?)
        }
        Some(WalletCommand::Invite { amount, swarm }) => {
            let (invite, text) = find(swarm, folder)?.invite(amount.0)?;
            match swarm.output {
                Format::Json => print_json(&text)?,
                Format::Table => {
                    // The code alone, so that a script can take it.
                    print_text(&format!("{}\n", invite.code))?;
                    eprintln!("whoever redeems it first has {amount} credits: manyhands wallet redeem CODE");
                }
            }
            return Ok(DONE);
        }
    };
    match swarm.output {
        Format::Json => print_json(&text)?,
        Format::Table => print_text(&words(&wallet))?,
    }
    Ok(DONE)
}

/// A time of the API without its milliseconds; in UTC, and it says so.
fn to_the_second(rfc3339: &str) -> String {
    let second = rfc3339.split(['.', 'Z']).next().unwrap_or(rfc3339);
    format!("{}Z", second.replace('T', " "))
}

fn words(wallet: &Wallet) -> String {
    let mut out = format!("balance  {} credits\n", Credits(wallet.balance));
    if wallet.held > 0 {
        out += &format!("held     {} credits, for places that are not settled yet\n", Credits(wallet.held));
    }
    if wallet.pending > 0 {
        let orders = if wallet.pending == 1 { "order" } else { "orders" };
        out += &format!("waiting  {} {orders} that the bank has not answered yet\n", wallet.pending);
    }
    if wallet.statement.is_empty() {
        return out + "nothing has come or gone yet\n";
    }
    let mut table = Table::new(&["TIME", "AMOUNT", "BALANCE", "WHY", "FOR"], &[1, 2]);
    for line in &wallet.statement {
        let of = match (&line.with, &line.job, line.unit) {
            (Some(node), ..) => node.chars().take(12).collect(),
            (_, Some(job), Some(unit)) => {
                format!("job {} unit {unit}", job.chars().take(8).collect::<String>())
            }
            _ => line
                .file
                .iter()
                .map(|id| format!("file {}", id.chars().take(12).collect::<String>()))
                .collect(),
        };
        let sign = if line.amount < 0 { "-" } else { "+" };
        let amount = format!("{sign}{}", Credits(line.amount.unsigned_abs()));
        let time = to_the_second(&line.at);
        table.row([time, amount, Credits(line.balance).to_string(), line.why.clone(), of]);
    }
    let shown = wallet.first + wallet.statement.len() as u64;
    if wallet.first > 0 {
        out += &format!("lines {} to {shown} of {}\n", wallet.first + 1, wallet.all);
    }
    out + "\n" + &table.to_string()
}
