//! `jobs`, `job`, `cancel` and `nodes`: what there is, for people or as the API says it.

use super::args::{CancelArgs, Format, JobArgs, JobsArgs, NodesArgs};
use super::client::types::{FittingWaits, Job, Node, Unit};
use super::failure::Failure;
use super::quantity::seconds;
use super::run::{print_json, print_text};
use super::stderr_end;
use super::swarm::find;
use super::table::Table;
use crate::paths::DataFolder;
use crate::text::printable;
use serde_json::Value;
use std::fmt::Write as _;

pub(crate) fn jobs(args: JobsArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (page, text) = client.jobs(args.limit, args.cursor.as_deref())?;
    if args.swarm.output == Format::Json {
        return raw(&text);
    }
    if page.jobs.is_empty() {
        print_text("no jobs yet; submit one with `manyhands run`, `map` or `submit`\n")?;
        return Ok(0);
    }
    let mut table = Table::new(&["JOB", "NAME", "STATE", "UNITS", "FAILED", "CPU", "REASON"], &[3, 4, 5]);
    for job in &page.jobs {
        table.row([
            job.short.clone(),
            clipped(&job.name, 32),
            job.state.word().into(),
            format!("{}/{}", job.units.done + job.units.failed, job.units.total),
            job.units.failed.to_string(),
            seconds(job.cpu_s),
            clipped(&job.reason, 60),
        ]);
    }
    let mut shown = table.to_string();
    let next =
        page.next.as_ref().and_then(|next| next.as_str().map(str::to_owned).or(Some(next.to_string())));
    if let Some(next) = next.filter(|next| next != "null") {
        let _ = writeln!(shown, "more: manyhands jobs --cursor {next}");
    }
    print_text(&shown)?;
    Ok(0)
}

pub(crate) fn job(args: JobArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (job, text) = client.job_and_text(&args.id)?;
    if args.swarm.output == Format::Json {
        return raw(&text);
    }
    let troubled = match job.units.failed + job.units.held {
        0 => Vec::new(),
        _ => {
            let mut units = client.units(&job.id, 0, 1000)?.units;
            units.retain(|unit| unit.state == "failed" || unit.state == "held");
            units
        }
    };
    let mut text = about(&job, &troubled);
    if let Some(failed) = troubled.iter().find(|unit| unit.state == "failed") {
        let end = stderr_end::of(&client, &job.short, failed.index);
        let _ = write!(text, "{}{end}", if end.is_empty() { "" } else { "\n" });
    }
    print_text(&text)?;
    Ok(0)
}

pub(crate) fn cancel(args: CancelArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    let (job, text) = client.cancel(&args.id)?;
    if args.swarm.output == Format::Json {
        return raw(&text);
    }
    let ended = job.units.done + job.units.failed;
    let line =
        format!("{} is {}; {ended} of {} units had ended\n", job.short, job.state.word(), job.units.total);
    print_text(&line)?;
    Ok(0)
}

pub(crate) fn nodes(args: NodesArgs, folder: &DataFolder) -> Result<u8, Failure> {
    let client = find(&args.swarm, folder)?;
    if args.swarm.output == Format::Json {
        return raw(&client.nodes_text()?);
    }
    let nodes = client.nodes()?.nodes;
    let mut text = node_table(&nodes).to_string();
    if nodes.iter().any(|node| node.guest && !node.gateway) {
        text.push_str(
            "guests cannot be dialled by others; they connect by data channels, or by way of a relay\n",
        );
    }
    text.push_str("UNITS and CPU are those of this node's own jobs\n");
    print_text(&text)?;
    Ok(0)
}

fn node_table(nodes: &[Node]) -> String {
    let header =
        ["NODE", "NAME", "KIND", "STANDING", "LINK", "SLOTS", "FREE", "HELD", "UNITS", "CPU", "HEARD OF"];
    let mut table = Table::new(&header, &[5, 6, 7, 8, 9]);
    for node in nodes {
        let kind = if node.gateway { "gateway" } else { &node.platform };
        let standing = match (node.guest, node.gateway) {
            (false, _) => "member",
            (true, false) => "guest",
            // Nobody has dialled it yet, but it is no gateway's guest.
            (true, true) => "-",
        };
        table.row([
            node.short.clone(),
            clipped(&node.name, 32),
            kind.to_owned(),
            standing.to_owned(),
            link_of(node, nodes),
            node.slots.to_string(),
            node.free.to_string(),
            node.held.to_string(),
            node.units_done.to_string(),
            seconds(node.cpu_s),
            if node.me { "now".into() } else { format!("{} ago", seconds(node.silent_s)) },
        ]);
    }
    table.to_string()
}

/// How the gateway is connected to the node; a relay by its name.
fn link_of(node: &Node, all: &[Node]) -> String {
    let relay = node.via.as_ref().and_then(|via| all.iter().find(|other| other.id == *via));
    match (relay, &node.connection) {
        (Some(relay), _) => format!("by {}", clipped(&relay.name, 16)),
        (None, Some(connection)) => connection.clone(),
        (None, None) => "-".into(),
    }
}

/// Everything about one job that fits a screen.
pub(crate) fn about(job: &Job, troubled: &[Unit]) -> String {
    let units = &job.units;
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "{name:<9} {}", printable(&value));
    };
    line("job", job.id.clone());
    line("name", job.name.clone());
    let reason = if job.reason.is_empty() { String::new() } else { format!(": {}", job.reason) };
    line("state", format!("{}{reason}", job.state.word()));
    let mut counts = vec![format!("{} of {} done", units.done, units.total)];
    for (count, word) in
        [(units.placed, "placed"), (units.waiting, "waiting"), (units.held, "held"), (units.failed, "failed")]
    {
        if count > 0 {
            counts.push(format!("{count} {word}"));
        }
    }
    line("units", counts.join(", "));
    line("cpu", seconds(job.cpu_s));
    if let Some(fitting) = &job.fitting {
        line("requires", requirements(&fitting.requires));
        if let Some(FittingWaits { nodes, able, running, weight }) = fitting.waits {
            line("able", format!("about {able} of {nodes} nodes had it when units began to wait"));
            line("share", format!("its submitter has {running} units running, and a weight of {weight}"));
        }
    }
    if job.lost_placements + job.duplicates > 0 {
        line(
            "mended",
            format!(
                "{} placements lost with their node, {} late results not counted",
                job.lost_placements, job.duplicates
            ),
        );
    }
    if !job.by_node.is_empty() {
        let mut table = Table::new(&["BY NODE", "NAME", "UNITS", "CPU"], &[2, 3]);
        for share in &job.by_node {
            table.row([
                share.short.clone(),
                clipped(&share.name, 32),
                share.units.to_string(),
                seconds(share.cpu_s),
            ]);
        }
        let _ = write!(out, "\n{table}");
    }
    if !troubled.is_empty() {
        // Our choice: the first ones tell what is wrong.
        let mut table = Table::new(&["UNIT", "STATE", "TRIES", "NODE", "REASON"], &[0, 2]);
        for unit in troubled.iter().take(10) {
            table.row([
                unit.index.to_string(),
                unit.state.clone(),
                unit.attempts.to_string(),
                unit.runner.as_deref().map(short_node).unwrap_or_default(),
                clipped(&unit.reason, 100),
            ]);
        }
        let _ = write!(out, "\n{table}");
    }
    out
}

/// Requirements as `--requires` takes them.
fn requirements(asked: &serde_json::Map<String, Value>) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words = asked.iter().flat_map(|(key, value)| match value {
        Value::Object(labels) => {
            labels.iter().map(|(label, value)| format!("label.{label}={}", plain(value))).collect()
        }
        value if value == "either" => Vec::new(),
        value => vec![format!("{key}={}", plain(value))],
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing more than its limits".into() } else { words.join(",") }
}

/// A node as the other lists name it.
pub(crate) fn short_node(id: &str) -> String {
    format!("n-{}", id.get(..8).unwrap_or(id))
}

fn raw(text: &str) -> Result<u8, Failure> {
    print_json(text)?;
    Ok(0)
}

/// At most `max` characters, an ellipsis for the rest.
fn clipped(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::requirements::Requirements;

    fn sample() -> Job {
        serde_json::from_value(serde_json::json!({
            "id": "ab".repeat(16), "short": "j-abababab", "name": "berlin", "state": "failed",
            "reason": "2 units failed", "cpu_s": 75.2, "lost_placements": 3,
            "units": {"total": 10, "done": 8, "failed": 2},
            "by_node": [{"node": "cd".repeat(32), "short": "n-cdcdcdcd", "name": "w1", "units": 8, "cpu_s": 70.0}],
            "a_field_of_the_future": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_job_is_told_in_full() {
        let unit = Unit {
            index: 7,
            state: "failed".into(),
            reason: "trapped: unreachable".into(),
            runner: Some("cd".repeat(32)),
            attempts: 1,
            ..Unit::default()
        };
        let text = about(&sample(), &[unit]);
        assert_eq!(
            text,
            "job       abababababababababababababababab\n\
             name      berlin\n\
             state     failed: 2 units failed\n\
             units     8 of 10 done, 2 failed\n\
             cpu       75 s\n\
             mended    3 placements lost with their node, 0 late results not counted\n\
             \n\
             BY NODE     NAME  UNITS   CPU\n\
             n-cdcdcdcd  w1        8  70 s\n\
             \n\
             UNIT  STATE   TRIES  NODE        REASON\n   \
                7  failed      1  n-cdcdcdcd  trapped: unreachable\n"
        );
    }

    #[test]
    fn requirements_are_told_as_they_are_typed() {
        let fitting = serde_json::json!({
            "requires": {"memory": 1024, "os": "linux", "platform": "either", "labels": {"site": "graz"}},
            "waits": {"nodes": 12, "able": 2, "meetings": [], "capable": [], "running": 3, "weight": 2},
        });
        let job = Job { fitting: serde_json::from_value(fitting).unwrap(), ..sample() };
        let text = about(&job, &[]);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| ["requires", "able", "share"].iter().any(|word| line.starts_with(word)))
            .collect();
        let words = lines[0].strip_prefix("requires  ").unwrap();
        assert_eq!(
            words.parse::<Requirements>().unwrap(),
            "memory=1024,os=linux,label.site=graz".parse().unwrap()
        );
        assert_eq!(lines[1], "able      about 2 of 12 nodes had it when units began to wait");
        assert_eq!(lines[2], "share     its submitter has 3 units running, and a weight of 2");
    }

    #[test]
    fn nodes_line_up_and_long_names_are_clipped() {
        let node = |me: bool, name: &str| Node {
            id: "ab".repeat(32),
            short: "n-abababab".into(),
            name: name.into(),
            platform: "browser".into(),
            gateway: me,
            guest: !me,
            connection: (!me).then(|| "webrtc".into()),
            via: None,
            me,
            slots: 2,
            free: 1,
            held: 4,
            units_done: 12_345,
            cpu_s: 0.5,
            silent_s: 1.25,
        };
        let text = node_table(&[node(true, "home"), node(false, &"x".repeat(40))]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("gateway  member    -") && lines[1].ends_with("now"), "{text}");
        assert!(
            lines[2].contains("x…  browser  guest     webrtc") && lines[2].ends_with("1.2 s ago"),
            "{text}"
        );
    }
}
