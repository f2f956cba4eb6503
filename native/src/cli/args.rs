//! Arguments of the command line. Help, completions and the checks of single values follow from here; the
//! meaning of all arguments together is decided where each command runs.

use super::failure::EXIT_CODES;
use super::files_args::FilesArgs;
use super::job_settings::JobSettings;
use super::market::MarketArgs;
use super::policy_args::PolicyArgs;
use super::quantity::Span;
use super::requirements::label;
use super::token::TokenArgs;
use super::wallet::WalletArgs;
use super::words::sorted;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

/// A peer-to-peer computer: run WebAssembly programs on what people give.
///
/// --gateway and --token, which name a swarm, may stand before or behind the command.
#[derive(Debug, Parser)]
#[command(name = "manyhands", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Folder for this node's key, state and cache [default: the user's state folder]
    #[arg(long, global = true, env = "MANYHANDS_DATA", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Arguments as typed; ends the process on --help (0) and on wrong usage (2).
    pub(crate) fn from_words(words: impl IntoIterator<Item = OsString>) -> Cli {
        Cli::try_from_words(words).unwrap_or_else(|e| e.exit())
    }

    fn try_from_words(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
        let mut command = Cli::command();
        command.build();
        let matches = command.clone().try_get_matches_from(sorted(words.into_iter().collect(), &command))?;
        let mut cli = Cli::from_arg_matches(&matches).map_err(|e| e.format(&mut command))?;
        if let Command::Policy(args) = &mut cli.command
            && names_folder_alone(&matches)
        {
            args.swarm().gateway = None;
            // The token is that of the other gateway.
            if comes_from(&matches, "token", ValueSource::EnvVariable) {
                args.swarm().token = None;
            }
        }
        Ok(cli)
    }
}

/// Whether the words name a data folder, and the environment alone a gateway: who types a folder means the node on
/// it.
fn names_folder_alone(matches: &ArgMatches) -> bool {
    comes_from(matches, "data", ValueSource::CommandLine)
        && comes_from(matches, "gateway", ValueSource::EnvVariable)
}

fn comes_from(matches: &ArgMatches, name: &str, source: ValueSource) -> bool {
    let innermost = std::iter::successors(Some(matches), |m| Some(m.subcommand()?.1)).last();
    innermost.is_some_and(|m| m.value_source(name) == Some(source))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a node: start a swarm as its gateway, or join one and give it slots
    Up(Box<UpArgs>),
    /// Run a WebAssembly program as if it ran here
    Run(Box<RunArgs>),
    /// Run a program once for each input, outputs in input order
    Map(Box<MapArgs>),
    /// Make a program suspendable, as every node does before it runs it, and write that down
    Instrument(InstrumentArgs),
    /// Submit the job that a file describes: TOML, or the XML of a task file
    Submit(SubmitArgs),
    /// List jobs, newest first
    Jobs(JobsArgs),
    /// Show one job
    Job(JobArgs),
    /// Write a job's outputs into a folder
    Results(ResultsArgs),
    /// Cancel a job
    Cancel(CancelArgs),
    /// Show one unit: where it stands, and how it came there
    Unit(UnitArgs),
    /// List the threads of a virtual computer: where they are, and what they wait for
    Threads(JobArgs),
    /// Print partial results as they come
    Watch(JobArgs),
    /// Move a running unit to another node
    Migrate(MigrateArgs),
    /// Let a unit stand still
    Pause(UnitArgs),
    /// Let a unit go on that stands still
    Resume(UnitArgs),
    /// End the node that runs on this machine, once it has handed its units on
    Drain,
    /// List the nodes that this one is connected to
    Nodes(NodesArgs),
    /// Show the credit of this gateway, and what came and went
    Wallet(WalletArgs),
    /// Show who sells what and for how much, in all markets of the swarm
    Market(MarketArgs),
    /// What this node shares: when, how much, with whom; and why it does not work now
    Policy(PolicyArgs),
    /// Show where the token of this gateway lies; put a new one in its place
    Token(TokenArgs),
    /// Files that other nodes keep: list, put, get, remove, publish
    Files(FilesArgs),
    /// Show it all at work: a gateway, two workers and a real job on this machine
    Demo(DemoArgs),
    /// Measure this build on this machine
    Bench(BenchArgs),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// The inside of one slot; started by nodes, not by people
    #[command(hide = true)]
    EngineSlot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// What the API says
    Json,
}

/// Which swarm a command talks to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Swarm")]
pub(crate) struct SwarmArgs {
    /// The node to talk to, mostly a gateway [default: the one on this machine]
    #[arg(long, env = "MANYHANDS_GATEWAY", value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) gateway: Option<String>,
    /// What opens its API; `manyhands token` shows it
    #[arg(long, env = "MANYHANDS_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// How to print what was found
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Be a gateway: take in pages and nodes, and serve the page that browsers join by
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub(crate) gateway: Option<bool>,
    /// A swarm to join: its gateway's URL, or a multiaddress with /p2p/; may be repeated
    #[arg(long, value_name = "URL|MULTIADDR")]
    pub(crate) join: Vec<String>,
    /// Share of a processor that each unit gets, 1 to 100 percent [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) cpu_share: Option<u8>,
    /// Units to run at once; 0 gives none [default: all processors but one, at least one]
    #[arg(long, value_name = "N")]
    pub(crate) slots: Option<u32>,
    /// Address to listen at, 0.0.0.0 or :: for all [default: 127.0.0.1 for pages and API; all for peers, who
    /// prove who they are, if the swarm to join or --public-host is elsewhere, else 127.0.0.1]
    #[arg(long, value_name = "IP")]
    pub(crate) bind: Option<IpAddr>,
    /// Listen nowhere: the node is a guest of the gateways that it joins, as a tab is
    #[arg(long)]
    pub(crate) dial_only: bool,
    /// Port of the API and its pages; 0 takes any [default: 8080 for a gateway, else any]
    #[arg(long, value_name = "PORT")]
    pub(crate) http_port: Option<u16>,
    /// Port for peers over TCP; 0 takes any [default: 4001 for a gateway, else any]
    #[arg(long, value_name = "PORT")]
    pub(crate) p2p_port: Option<u16>,
    /// Port for peers over WebSocket; 0 takes any [default: the one after --p2p-port]
    #[arg(long, value_name = "PORT")]
    pub(crate) ws_port: Option<u16>,
    /// Shown to others beside the node's id [default: the machine's name]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A word that a gateway asks for, or that a worker shows
    #[arg(long, value_name = "WORD")]
    pub(crate) invite: Option<String>,
    /// A host name under which people reach this gateway; may be repeated
    #[arg(long, value_name = "HOST[:PORT]", value_hint = ValueHint::Hostname)]
    pub(crate) public_host: Vec<String>,
    /// A node that may give this gateway jobs without its token, and its weight: with twice the weight, twice the
    /// units of its jobs with requirements run; may be repeated, and name the gateway itself [default: none but
    /// itself, with a weight of 1]
    #[arg(long, value_name = "NODE-ID[=WEIGHT]")]
    pub(crate) submitter: Vec<String>,
    /// Siblings in a group of the tree of nodes, at least; the same on all nodes of a swarm [default: as
    /// the swarm that is joined, 10 in a new one]
    #[arg(long, value_name = "M")]
    pub(crate) tree_degree: Option<u8>,
    /// The node that keeps the books of the swarm; the same on all nodes [default: as the swarm that is
    /// joined; in a new one, the gateway that begins it]
    #[arg(long, value_name = "NODE-ID")]
    pub(crate) bank: Option<node_core::NodeId>,
    /// How markets are found; the same on all nodes [default: as the swarm that is joined, processor in a
    /// new one]
    #[arg(long, value_enum, value_name = "SCHEME")]
    pub(crate) market: Option<crate::config::MarketScheme>,
    /// Who sells, and at which price; the same on all nodes [default: as the swarm that is joined, vickrey
    /// in a new one]
    #[arg(long, value_enum, value_name = "RULE")]
    pub(crate) pricing: Option<crate::config::Pricing>,
    /// What a slot does, fuel a second, for markets and for jobs that require it [default: measured when the node starts]
    #[arg(long, value_name = "FUEL", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) speed: Option<u64>,
    /// A label for jobs that require it; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// How nodes are found for jobs with requirements; the same on all nodes [default: as the swarm
    /// that is joined, rn-tree in a new one]
    #[arg(long, value_enum, value_name = "WAY")]
    pub(crate) matchmaking: Option<crate::config::Matchmaking>,
    /// Settings; flags and MANYHANDS_UP_… variables win over them [default: the user's, else
    /// /etc/manyhands/config.toml]
    #[arg(long, env = "MANYHANDS_CONFIG", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Give up when the swarm to join cannot be reached at once, or does not let this node in, instead of
    /// trying on
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// Print one line of JSON when ready: node, http, addresses, and the file of the token
    #[arg(long)]
    pub(crate) ready_json: bool,
    /// End when standard input closes: for programs that start nodes
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// What the program finds when it runs.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SceneArgs {
    /// A file for the program, under the same relative path, or under NAME; may be repeated
    #[arg(long = "file", value_name = "PATH[=NAME]", value_hint = ValueHint::FilePath)]
    pub(crate) files: Vec<String>,
    /// An environment variable for the program; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE")]
    pub(crate) environment: Vec<String>,
    /// The job's name on the dashboard [default: the program's]
    #[arg(long, value_name = "NAME")]
    pub(crate) job_name: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Options of ours may stand before or after the program, and all others are the program's. What
looks like one of ours and is not goes behind `--`: `manyhands run prog.wasm -- --help`.

The program's exit code becomes ours. When it traps or reaches a limit, the reason stands on
stderr and the code is 1. Standard input is passed on unless it is a terminal.")]
pub(crate) struct RunArgs {
    /// A WASI preview 1 command
    #[arg(value_name = "PROGRAM.WASM", value_hint = ValueHint::FilePath)]
    pub(crate) program: PathBuf,
    /// Arguments of the program
    #[arg(value_name = "ARGS")]
    words: Vec<String>,
    /// One argument of the program, even if it looks like an option of ours
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) scene: SceneArgs,
    /// Do not read standard input: the program finds it empty
    #[arg(long)]
    pub(crate) no_stdin: bool,
    /// Where files that the program writes go [default: nowhere]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,
    /// Run it in this process, suspend it each time it has used so much fuel, write it down, and
    /// go on in a fresh instance: shows that a program can be moved anywhere
    #[arg(long, value_name = "FUEL", help_heading = "Moving", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) suspend_every: Option<u64>,
    /// With --suspend-every: change the compiler each time
    #[arg(long, requires = "suspend_every", help_heading = "Moving")]
    pub(crate) hop: bool,
    /// Run it in this process as a virtual computer: threads that it begins run here, too. WORKERS is the number
    /// that it is told [default: one a processor]
    #[arg(long, value_name = "WORKERS", help_heading = "Threads", num_args = 0..=1, require_equals = true,
        conflicts_with = "suspend_every", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) local_threads: Option<Option<u32>>,
    #[command(flatten)]
    pub(crate) settings: JobSettings,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InstrumentArgs {
    /// A WebAssembly program
    #[arg(value_name = "IN.WASM", value_hint = ValueHint::FilePath)]
    pub(crate) program: PathBuf,
    /// Where the suspendable one goes
    #[arg(short, long, value_name = "OUT.WASM", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// The engine that it will run in: as fast as it can be there, with the same fuel and snapshots
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: TunedFor,
    /// The same floats in every engine, at a price in speed
    #[arg(long)]
    pub(crate) bit_exact: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum TunedFor {
    /// wasmer
    #[default]
    Wasmer,
    /// Chromium and node
    V8,
}

#[derive(Debug, Args)]
#[command(after_help = "\
In ARGS, as in GNU parallel:
  {}    the input          {.}   without its extension
  {/}   its file name      {/.}  the file name without extension
  {//}  its folder         {#}   the input's number, from 1
Where the input itself has no place ({#} is none), it is appended as the last argument.

`manyhands map wordcount.wasm -- texts/*.txt`
`find data -name '*.csv' | manyhands map stats.wasm --inputs-from -`")]
pub(crate) struct MapArgs {
    /// A WASI preview 1 command
    #[arg(value_name = "PROGRAM.WASM", value_hint = ValueHint::FilePath)]
    pub(crate) program: PathBuf,
    /// Arguments of the program, with {} where the input's path belongs
    #[arg(value_name = "ARGS")]
    words: Vec<String>,
    /// One argument of the program, even if it looks like an option of ours
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
    /// Files, one unit each; `-` reads their names from standard input
    #[arg(last = true, value_hint = ValueHint::FilePath)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Read the names of inputs from FILE, one a line; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) inputs_from: Option<PathBuf>,
    /// Names in lists end with NUL, as `find -print0` writes them
    #[arg(long)]
    pub(crate) null: bool,
    /// The program reads each input from its standard input, not from a file
    #[arg(long)]
    pub(crate) stdin: bool,
    /// Go on when a unit fails
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Also keep each unit's stdout, stderr and files in DIR/<input>/
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) scene: SceneArgs,
    #[command(flatten)]
    pub(crate) settings: JobSettings,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The job's description
    #[arg(value_name = "JOB.TOML|TASK.XML", value_hint = ValueHint::FilePath)]
    pub(crate) job: PathBuf,
    /// Wait for the job to end; exit 1 if it failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: write the outputs into this folder when it ends
    #[arg(long, requires = "wait", value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    /// How many, at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
    /// Go on after an earlier page, with what it said
    #[arg(long)]
    pub(crate) cursor: Option<String>,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct JobArgs {
    /// A job's id, or its first digits
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResultsArgs {
    /// A job's id, or its first digits
    pub(crate) id: String,
    /// A folder, made if it is not there
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out_dir: PathBuf,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// A job's id, or its first digits
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UnitArgs {
    /// JOB/INDEX: a job's id or its first digits, and the unit's number; JOB alone if it has one unit
    #[arg(value_name = "UNIT")]
    pub(crate) unit: String,
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    pub(crate) unit: UnitArgs,
    /// A node's id, its first digits or its name [default: any other node with room]
    #[arg(long, value_name = "NODE")]
    pub(crate) to: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    pub(crate) swarm: SwarmArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How many seeds to try, one unit each
    #[arg(long, default_value_t = 40, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) units: u32,
    /// Print one JSON object in place of words
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the swarm until Ctrl-C
    #[arg(long)]
    pub(crate) stay: bool,
    /// Port of the demo's pages; 0 takes any [default: 8080 if it is free]
    #[arg(long, value_name = "PORT")]
    pub(crate) http_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// What every benchmark takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchCommon {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Repeat and take medians [default: as often as the benchmark needs]
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Empty units: what a unit costs besides its work
    Null {
        /// On two headless browser tabs in place of two native workers
        #[arg(long)]
        browser: bool,
        /// How many units [default: enough for some seconds]
        #[arg(long, value_name = "N")]
        units: Option<u32>,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// Units that read and write 1, 5, 20 and 100 KB each
    Data {
        /// On two headless browser tabs in place of two native workers
        #[arg(long)]
        browser: bool,
        /// How many units of each size [default: enough for a second or two]
        #[arg(long, value_name = "N")]
        units: Option<u32>,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// Units of about 50 ms beside the same module run alone
    Kernel {
        #[arg(long, value_name = "N")]
        units: Option<u32>,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// From a click on the page to the first finished unit, and what the page weighs
    Page {
        #[command(flatten)]
        common: BenchCommon,
    },
    /// What the pass that makes programs suspendable costs, beside the programs as they are
    Instrument {
        /// In wasmer only, without a browser
        #[arg(long)]
        no_browser: bool,
        /// Only these kernels
        #[arg(long, value_name = "NAME")]
        kernel: Vec<String>,
        /// Beside it Binaryen's Asyncify, made by this program
        #[arg(long, value_name = "WASM-OPT", value_hint = ValueHint::ExecutablePath)]
        asyncify: Option<PathBuf>,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// From the wish to move a task of 64 MiB to its first instruction on the other node
    Migrate {
        /// Between native nodes only
        #[arg(long)]
        no_browser: bool,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// What checkpoints cost a run and what they weigh, and for how long they hold a node's thread; no run at
    /// all with `--runs 0`
    Checkpoint {
        #[command(flatten)]
        common: BenchCommon,
    },
    /// Settlements that the bank makes durable in a second
    Ledger {
        /// How many settlements [default: enough for some seconds]
        #[arg(long, value_name = "N")]
        settlements: Option<u32>,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// What a connection carries, by what it runs over: TCP, WebSocket, a data channel, a relay
    Link {
        /// Between native nodes only
        #[arg(long)]
        no_browser: bool,
        #[command(flatten)]
        common: BenchCommon,
    },
    /// What a node costs that has nothing to do
    Idle {
        /// How long to watch
        #[arg(long, value_name = "TIME")]
        during: Option<Span>,
        #[command(flatten)]
        common: BenchCommon,
    },
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
