//! How fast so many free slots are found (paper `tree`, figure 1).

use super::Watch;
use super::ask::Ask;
use super::stage::{Idle, Stage};
use crate::meter::Meter;
use crate::report::{Report, Row};
use crate::scenario::{Discovery, Scenario};
use std::time::Duration;

/// How long a request may take altogether.
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) fn run(scenario: &Scenario, part: &Discovery, report: &mut Report, watch: &mut dyn Watch) {
    for way in &part.ways {
        let (m, k) = (scenario.tree.m.0 as u8, scenario.k());
        let mut stage = Stage::grown(scenario, *way, m, k, report, watch);
        let rest = Duration::from_micros(part.rest_s.seconds_as_micros());
        let nodes = stage.world.nodes.len();
        for asked in &part.asked {
            let asked = asked.of(nodes);
            if asked as usize > nodes {
                continue;
            }
            let mut worst: Option<Row> = None;
            for repeat in 0..part.repeat.0 {
                stage.run_for(rest, &mut Idle);
                let origin = stage.some_leaf();
                if let Some(kbps) = part.origin_kbps {
                    stage.world.nodes[origin].bandwidth = kbps.0 * 1000;
                }
                stage.world.meter = Some(Meter::new(nodes));
                let mut ask = Ask::new(&mut stage, origin, repeat, asked);
                ask.finish(&mut stage, PATIENCE);
                // Acknowledgements that are still on their way count too.
                stage.run_for(Duration::from_secs(3), &mut Idle);
                let meter = stage.world.meter.take().unwrap_or_default();
                // Each message was sent by one and received by another.
                let messages: u64 = meter.nodes.iter().map(|t| u64::from(t.messages)).sum::<u64>() / 2;
                let row = Row::default()
                    .with("way", way.name())
                    .with("asked", u64::from(asked))
                    .with("found", u64::from(ask.found.unwrap_or(0)))
                    .with("last_s", ask.last_s())
                    .with("known_s", ask.known_s())
                    .with("hops_max", u64::from(ask.hops))
                    .with("messages", messages);
                watch.say(&format!("{}: {asked} asked, {:?} found", way.name(), ask.found));
                let late = |row: &Row| row.get("last_s").and_then(crate::report::Cell::number);
                if worst.as_ref().is_none_or(|worst| late(worst) < late(&row)) {
                    worst = Some(row);
                }
            }
            report.rows.extend(worst);
        }
        stage.note_all(stage.check(true), "after all requests");
        stage.close(report);
    }
}
