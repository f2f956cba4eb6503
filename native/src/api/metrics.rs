//! Numbers for Prometheus.
//!
//! Everything about nodes and jobs is read off the node at the scrape, so nothing has to be kept
//! in step; only HTTP requests are counted as they come. All labels come from closed sets.

use super::ApiState;
use super::problem::Problem;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use node_core::Platform;
use node_core::node::snapshot::NodeView;
use node_core::overlay::signalling::Outcomes;
use node_core::work::view::{JobState, JobView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// The pattern, not the path.
    route: String,
    status: &'static str,
}

/// Values that this process counts itself.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        registry.register("manyhands_http_requests", "HTTP requests answered", requests.clone());
        Metrics { registry, requests }
    }
}

/// Counts a request under its route and the class of its answer.
pub(super) async fn count(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("(page)", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let status = match response.status().as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    state.metrics.requests.get_or_create(&RequestLabels { route, status }).inc();
    response
}

/// Numbers for Prometheus, in the OpenMetrics text format.
#[utoipa::path(get, operation_id = "getMetrics", path = "/metrics", tag = "operation", responses((status = 200, body = String)))]
pub(super) async fn scrape(State(state): State<ApiState>) -> Result<Response, Problem> {
    let now = state.node.read(|node, now| {
        let channels = node.data_channels().unwrap_or_default();
        let (relaying, relayed) = (node.relayed().unwrap_or_default(), node.relayed_connections());
        Sample { channels, relaying, relayed, ..Sample::of(&node.jobs(), &node.nodes(now), node.is_ready()) }
    });
    let mut sampled = Registry::default();
    let longest_us = state.node.longest_input().as_micros();
    let sample = Sample { longest_us: u64::try_from(longest_us).unwrap_or(u64::MAX), ..now.await? };
    sampled.register_collector(Box::new(sample));
    let mut page = String::new();
    let written = text::encode_registry(&mut page, &sampled)
        .and_then(|()| text::encode_registry(&mut page, &state.metrics.registry))
        .and_then(|()| text::encode_eof(&mut page));
    match written {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], page).into_response())
        }
        Err(error) => {
            let detail = format!("the metrics could not be written: {error}");
            Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail))
        }
    }
}

/// One look at the node.
#[derive(Debug, Default)]
struct Sample {
    ready: bool,
    jobs: [u64; JOB_STATES.len()],
    waiting: u64,
    placed: u64,
    done: u64,
    failed: u64,
    held: u64,
    lost: u64,
    duplicates: u64,
    cpu_us: u64,
    native: u64,
    browsers: u64,
    slots: u64,
    free: u64,
    channels: Outcomes,
    /// Circuits that it passes on, and the bytes of all since the start.
    relaying: (usize, u64),
    /// Nodes that it has reached by way of a relay.
    relayed: u64,
    /// Longest time at one input.
    longest_us: u64,
}

const JOB_STATES: [(JobState, &str); 5] = [
    (JobState::Waiting, "waiting"),
    (JobState::Running, "running"),
    (JobState::Done, "done"),
    (JobState::Failed, "failed"),
    (JobState::Cancelled, "cancelled"),
];

impl Sample {
    fn of(jobs: &[JobView], nodes: &[NodeView], ready: bool) -> Self {
        let mut sample = Sample { ready, ..Sample::default() };
        for job in jobs {
            if let Some(at) = JOB_STATES.iter().position(|(state, _)| *state == job.state) {
                sample.jobs[at] += 1;
            }
            if !job.state.is_over() {
                sample.waiting += u64::from(job.waiting);
                sample.placed += u64::from(job.placed);
                sample.held += u64::from(job.held);
            }
            sample.done += u64::from(job.done);
            sample.failed += u64::from(job.failed);
            sample.lost += job.lost_placements;
            sample.duplicates += job.duplicates;
            sample.cpu_us += job.cpu_us;
        }
        for node in nodes {
            match node.platform {
                Platform::Native => sample.native += 1,
                Platform::Browser => sample.browsers += 1,
            }
            sample.slots += u64::from(node.slots);
            sample.free += u64::from(node.free);
        }
        sample
    }
}

/// The label's name and, for each of its values, a number.
type Labelled<'a> = (&'a str, &'a [(&'a str, u64)]);

impl Collector for Sample {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        let jobs: Vec<_> = JOB_STATES.iter().zip(self.jobs).map(|((_, name), n)| (*name, n)).collect();
        gauges(&mut to, "manyhands_jobs", "Jobs kept, by state", ("state", &jobs))?;
        let units = [("waiting", self.waiting), ("placed", self.placed), ("held", self.held)];
        gauges(&mut to, "manyhands_units", "Units of jobs that go on, by state", ("state", &units))?;
        let nodes = [("native", self.native), ("browser", self.browsers)];
        gauges(&mut to, "manyhands_nodes", "Nodes known, this one included", ("platform", &nodes))?;
        let slots = [("free", self.free), ("busy", self.slots.saturating_sub(self.free))];
        gauges(&mut to, "manyhands_slots", "Slots of these nodes", ("state", &slots))?;
        let Outcomes { opened, unreached, unanswered, refused, failed } = self.channels;
        let channels = [
            ("opened", opened),
            ("unreached", unreached),
            ("unanswered", unanswered),
            ("refused", refused),
            ("failed", failed),
        ];
        let help = "Attempts at data channels since the start, by how they ended";
        counters(&mut to, "manyhands_data_channels", help, ("outcome", &channels))?;
        let (circuits, bytes) = self.relaying;
        let help = "Connections of others that this node passes on now";
        gauges(&mut to, "manyhands_relay_circuits", help, ("state", &[("standing", circuits as u64)]))?;
        for (name, help, n) in [
            ("manyhands_units_done", "Units of kept jobs that ended well", self.done),
            ("manyhands_units_failed", "Units of kept jobs that ended otherwise", self.failed),
            ("manyhands_relay_bytes", "Bytes of others that were passed on since the start", bytes),
            (
                "manyhands_relayed_connections",
                "Nodes reached by way of a relay since the start",
                self.relayed,
            ),
            ("manyhands_placements_lost", "Placements lost with their node", self.lost),
            ("manyhands_results_duplicate", "Results that came again and were not counted", self.duplicates),
        ] {
            counter(&mut to, name, help, ConstCounter::new(n))?;
        }
        let cpu = self.cpu_us as f64 / 1e6;
        counter(
            &mut to,
            "manyhands_units_cpu_seconds",
            "Processor time of counted results",
            ConstCounter::new(cpu),
        )?;
        gauge(&mut to, "manyhands_ready", "1 when everything kept has been read", u64::from(self.ready))?;
        let longest = ConstGauge::new(self.longest_us as f64 / 1e6);
        let help = "Longest time since the start for which one input has held the node's thread";
        longest.encode(to.encode_descriptor(
            "manyhands_input_longest_seconds",
            help,
            None,
            MetricType::Gauge,
        )?)?;
        if let Some(process) = Process::now() {
            gauge(&mut to, "process_resident_memory_bytes", "Memory of this process", process.rss)?;
            let cpu = ConstCounter::new(process.cpu_s);
            counter(&mut to, "process_cpu_seconds", "Processor time of this process", cpu)?;
        }
        Ok(())
    }
}

fn gauges(to: &mut DescriptorEncoder, name: &str, help: &str, (label, values): Labelled) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, n) in values {
        ConstGauge::new(*n).encode(family.encode_family(&[(label, *value)])?)?;
    }
    Ok(())
}

fn counters(to: &mut DescriptorEncoder, name: &str, help: &str, (label, values): Labelled) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, n) in values {
        ConstCounter::new(*n).encode(family.encode_family(&[(label, *value)])?)?;
    }
    Ok(())
}

fn gauge(to: &mut DescriptorEncoder, name: &str, help: &str, n: u64) -> fmt::Result {
    ConstGauge::new(n).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(to: &mut DescriptorEncoder, name: &str, help: &str, counter: impl EncodeMetric) -> fmt::Result {
    counter.encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)
}

/// The kernel's figures for this process. Tasks run in children and are not in them.
struct Process {
    rss: u64,
    cpu_s: f64,
}

impl Process {
    fn now() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let rss: u64 = rss.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Behind the command's name, which may hold anything: utime and stime are the 12th and
        // 13th, in hundredths of a second on every Linux (USER_HZ).
        let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Process { rss: rss * 1024, cpu_s: (ticks()? + ticks()?) as f64 / 100.0 })
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
