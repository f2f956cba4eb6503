//! Messages to the page about its node, and how often they are sent.

use node_core::work::view::WorkView;
use node_core::{NodeId, Time};
use std::fmt::Write;
use std::time::Duration;

/// The node's way into the swarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Trying for the first time.
    Connecting,
    Connected,
    /// Was connected, or could not be yet; trying again.
    Offline,
    /// May not take part.
    Rejected,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Connecting => "connecting",
            State::Connected => "connected",
            State::Offline => "offline",
            State::Rejected => "rejected",
        }
    }
}

/// Sales of this node by way of its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sales {
    /// Micro-credits for 10^9 of fuel.
    pub cost: u64,
    /// A market has it.
    pub listed: bool,
    /// Micro-credits on its account, as far as is known.
    pub balance: Option<u64>,
}

/// Units listed as current; a page shows no more.
const MAX_CURRENT: usize = 64;

/// The page's `status` message as JSON.
/// No `sales`: its gateway trades nothing, or how fast it is, is not known yet.
pub fn to_json(state: State, detail: &str, node: NodeId, work: &WorkView, sales: Option<Sales>) -> String {
    let mut out = String::with_capacity(512);
    out.push_str(r#"{"type":"status","state":"#);
    text(&mut out, state.word());
    out.push_str(r#","detail":"#);
    text(&mut out, detail);
    let gateway = work.gateways.first().map(NodeId::short).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = write!(out, r#","node":"{node}","short":"{}","gateway":"{gateway}""#, node.short());
    let _ = write!(
        out,
        r#","work":{{"slots":{},"busy":{},"queued":{},"units_done":{},"units_failed":{},"cpu_us":{},"current":["#,
        work.slots, work.busy, work.queued, work.units_done, work.units_failed, work.cpu_us
    );
    for (i, (job, name, index, for_us)) in work.current.iter().take(MAX_CURRENT).enumerate() {
        if i > 0 {
            out.push(',');
        }
        let _ = write!(out, r#"{{"job":"{job}","name":"#);
        text(&mut out, name);
        let _ = write!(out, r#","index":{index},"for_us":{for_us}}}"#);
    }
    out.push_str(r#"],"idle_reason":"#);
    match &work.idle_reason {
        Some(reason) => text(&mut out, reason),
        None => out.push_str("null"),
    }
    out.push_str(r#"},"sales":"#);
    match sales {
        Some(Sales { cost, listed, balance }) => {
            let balance = balance.map_or_else(|| "null".into(), |balance| balance.to_string());
            let _ = write!(out, r#"{{"cost":{cost},"listed":{listed},"balance":{balance}}}"#);
        }
        None => out.push_str("null"),
    }
    out.push('}');
    out
}

/// A JSON list.
pub(crate) fn list<T>(items: &[T], mut each: impl FnMut(&mut String, &T)) -> String {
    let mut out = String::from("[");
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        each(&mut out, item);
    }
    out + "]"
}

/// Appends a JSON string.
pub(crate) fn text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Lets through at most one message in [`Throttle::GAP`], and the last one always.
#[derive(Default)]
pub struct Throttle {
    sent: Option<Time>,
    dirty: bool,
}

impl Throttle {
    /// Four a second: what a person can read.
    const GAP: Duration = Duration::from_millis(250);

    /// There is something new to tell.
    pub fn touch(&mut self) {
        self.dirty = true;
    }

    /// When something should be told, if anything.
    pub fn deadline(&self) -> Option<Time> {
        self.dirty.then(|| self.sent.map_or(Time::ZERO, |sent| sent + Self::GAP))
    }

    /// Whether to tell it now.
    pub fn take(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            self.sent = Some(now);
            self.dirty = false;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use node_core::JobId;

    #[test]
    fn the_page_gets_plain_json_whatever_a_job_is_called() {
        let work = WorkView {
            slots: 2,
            busy: 1,
            units_done: 3,
            cpu_us: 4_500_000,
            current: vec![(JobId([7; 16]), "a \"b\"\\\n\u{1}ü".into(), 9, 1200)],
            gateways: vec![NodeId([0xab; 32])],
            ..WorkView::default()
        };
        let sales = Some(Sales { cost: 7, listed: true, balance: Some(12) });
        let json = to_json(State::Connected, "all is well", NodeId([1; 32]), &work, sales);
        let node = "01".repeat(32);
        let job = "07".repeat(16);
        assert_eq!(
            json,
            format!(
                concat!(
                    r#"{{"type":"status","state":"connected","detail":"all is well","#,
                    r#""node":"{}","short":"n-01010101","gateway":"n-abababab","#,
                    r#""work":{{"slots":2,"busy":1,"queued":0,"units_done":3,"units_failed":0,"#,
                    r#""cpu_us":4500000,"#,
                    r#""current":[{{"job":"{}","name":"a \"b\"\\\n\u0001ü","index":9,"for_us":1200}}],"#,
                    r#""idle_reason":null}},"sales":{{"cost":7,"listed":true,"balance":12}}}}"#
                ),
                node, job
            )
        );
    }

    #[test]
    fn no_more_than_four_a_second_and_never_without_news() {
        let mut throttle = Throttle::default();
        assert!(!throttle.take(Time(5)));
        let mut told = 0;
        for ms in 0..1000 {
            throttle.touch();
            told += u32::from(throttle.take(Time(ms * 1000)));
        }
        assert_eq!(told, 4);
        assert_eq!(throttle.deadline(), Some(Time(1_000_000)));
        assert!(throttle.take(Time(1_000_000)), "the last news is told");
        assert_eq!(throttle.deadline(), None);
    }
}
