//! Sorting of options: behind a program's name, options of ours are ours and all others belong to the
//! program; clap alone would take either all or none. Options that name a swarm may stand before the command, too.

use super::args::SwarmArgs;
use clap::Args;
use std::ffi::OsString;

/// Brings the words into an order that leaves no doubt. Options that name a swarm come behind the command; of `run`
/// and `map` come our options, each argument of the program as `--arg=…`, the program, and a `map`'s inputs
/// behind `--`.
pub(crate) fn sorted(words: Vec<OsString>, cli: &clap::Command) -> Vec<OsString> {
    let words = behind_command(words, cli);
    let Some(at) = subcommand(&words, cli) else { return words };
    let (head, tail) = words.split_at(at + 1);
    let name = head[at].to_string_lossy();
    let Some(command) = cli.find_subcommand(name.as_ref()).filter(|_| name == "run" || name == "map") else {
        return words;
    };
    let (mut ours, mut program, mut theirs, mut inputs) = (Vec::new(), None, Vec::new(), Vec::new());
    let mut rest = tail.iter().cloned();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy().into_owned();
        if text == "--" {
            if program.is_none() && name == "run" {
                program = rest.next();
            }
            match name.as_ref() {
                "run" => theirs.extend(rest),
                _ => {
                    inputs.push(word);
                    inputs.extend(rest);
                }
            }
            break;
        }
        match known(&text, &[command, cli]) {
            Some(takes_next) => {
                ours.push(word);
                ours.extend(if takes_next { rest.next() } else { None });
            }
            // Mistyped, for it stands where only our options can: clap will say so.
            None if program.is_none() && text.len() > 1 && text.starts_with('-') => ours.push(word),
            None if program.is_none() => program = Some(word),
            None => theirs.push(word),
        }
    }
    let mut sorted = head.to_vec();
    sorted.extend(ours);
    sorted.extend(theirs.into_iter().map(|word| {
        let mut whole = OsString::from("--arg=");
        whole.push(word);
        whole
    }));
    if name == "run" && program.is_some() {
        sorted.push("--".into());
    }
    sorted.extend(program);
    sorted.extend(inputs);
    sorted
}

/// Moves the options of [`SwarmArgs`] that stand before the command, or between the two words of one, behind it. They
/// are no global options of clap: `up` has a `--gateway` that means something else. The words stay as they are if the
/// command talks to no swarm, and clap refuses them.
fn behind_command(words: Vec<OsString>, cli: &clap::Command) -> Vec<OsString> {
    let swarm = SwarmArgs::augment_args(clap::Command::new("swarm"));
    let (mut command, mut at, mut end) = (cli, 1, 1);
    let mut moves = Vec::new();
    while command.has_subcommands()
        && let Some(word) = words.get(at)
    {
        let text = word.to_string_lossy();
        if matches!(&*text, "-h" | "--help") {
            break;
        }
        let ours = known(&text, &[&swarm]);
        let Some(takes_next) = ours.or_else(|| known(&text, &[command, cli])) else {
            let Some(found) = command.find_subcommand(&*text) else { break };
            (command, at) = (found, at + 1);
            end = at;
            continue;
        };
        let next = (at + 1 + usize::from(takes_next)).min(words.len());
        if ours.is_some() {
            moves.push(at..next);
        }
        at = next;
    }
    // Those behind the last word of the command stand well.
    moves.retain(|range| range.start < end);
    let names_swarm = |option: &clap::Arg| option.get_id() == "gateway" && !option.is_require_equals_set();
    if moves.is_empty() || !command.get_arguments().any(names_swarm) {
        return words;
    }
    let is_moved = |at: usize| moves.iter().any(|range| range.contains(&at));
    let picked = |from: std::ops::Range<usize>, moved: bool| {
        let words = &words;
        let is_moved = &is_moved;
        from.filter(move |at| is_moved(*at) == moved).map(move |at| words[at].clone())
    };
    let all = words.len();
    picked(0..end, false).chain(picked(0..end, true)).chain(words[end..all].iter().cloned()).collect()
}

/// Where the subcommand stands: behind the options that all commands share.
fn subcommand(words: &[OsString], cli: &clap::Command) -> Option<usize> {
    let mut at = 1;
    loop {
        let text = words.get(at)?.to_string_lossy();
        match known(&text, &[cli]) {
            Some(true) => at += 2,
            Some(false) => at += 1,
            None if text.starts_with('-') => return None,
            None => return Some(at),
        }
    }
}

/// Whether one of these commands has this option, and if so whether its value is the next word.
fn known(text: &str, commands: &[&clap::Command]) -> Option<bool> {
    if matches!(text, "-h" | "--help") {
        return Some(false);
    }
    let name = text.strip_prefix("--").filter(|name| !name.is_empty())?;
    let (name, joined) = match name.split_once('=') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let options = commands.iter().flat_map(|command| command.get_arguments());
    let option = options.into_iter().find(|option| option.get_long() == Some(name))?;
    Some(option.get_action().takes_values() && !joined)
}
