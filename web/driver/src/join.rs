//! How a page's node gets to its gateway, and back to it: ask over HTTP where it listens, dial
//! one address after the other, and begin again from the question, since a gateway that was
//! restarted may listen elsewhere.

use crate::address::Backoff;
use crate::status::State;
use node_core::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Next step of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the gateway for its addresses; answer with [`Join::asked`].
    Ask,
    /// Dial this; answer with [`Join::connected`] or [`Join::dial_failed`].
    Dial(String),
}

/// An attempt without an answer is over then. Above the links' own limit, which answers first.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(15);

/// Between attempts after the gateway said that this node may not take part: that changes only
/// when a person does something.
const AFTER_REJECTION: Duration = Duration::from_secs(60);

enum Phase {
    Waiting { until: Time },
    Asking { until: Time },
    Dialling { until: Time, address: String, left: VecDeque<String>, first: Option<String> },
    Connected,
}

/// Gateways that are full, one after the other, before the page waits. Our choice: a swarm with room has a
/// gateway with room among so many.
const FULL_MAX: u32 = 4;

/// The way into the swarm.
pub struct Join {
    gateway: String,
    phase: Phase,
    backoff: Backoff,
    state: State,
    detail: String,
    /// The gateway has no room, and named these addresses instead.
    elsewhere: Option<Vec<String>>,
    /// Gateways in a row that were full.
    full: u32,
}

impl Join {
    pub fn new(gateway: &str, now: Time) -> Join {
        Join {
            gateway: gateway.to_owned(),
            phase: Phase::Waiting { until: now },
            backoff: Backoff::default(),
            state: State::Connecting,
            detail: format!("asking {gateway} where it listens"),
            elsewhere: None,
            full: 0,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// The state in words, for the page.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    pub fn deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::Waiting { until } | Phase::Asking { until } | Phase::Dialling { until, .. } => Some(until),
            Phase::Connected => None,
        }
    }

    pub fn wake(&mut self, now: Time, random: u32) -> Option<Step> {
        if self.deadline().is_none_or(|until| until > now) {
            return None;
        }
        match &self.phase {
            Phase::Waiting { .. } => {
                self.phase = Phase::Asking { until: now + ATTEMPT_LIMIT };
                Some(Step::Ask)
            }
            Phase::Asking { .. } => {
                let error = format!("{} did not answer within 15 s", self.gateway);
                self.retry(now, random, &error);
                None
            }
            Phase::Dialling { address, .. } => {
                let address = address.clone();
                self.dial_failed(now, random, "no answer within 15 s", Some(&address))
            }
            Phase::Connected => None,
        }
    }

    /// Whether an answer of the gateway is waited for; one that comes later is stale.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. })
    }

    /// The gateway's addresses, best first, or why there are none.
    pub fn asked(&mut self, now: Time, random: u32, answer: Result<Vec<String>, String>) -> Option<Step> {
        if !self.is_asking() {
            return None;
        }
        match answer {
            Ok(addresses) => self.dial_next(now, random, addresses.into(), None),
            Err(error) => {
                self.retry(now, random, &error);
                None
            }
        }
    }

    /// Nobody was reached, at `address` if it is known.
    pub fn dial_failed(
        &mut self,
        now: Time,
        random: u32,
        reason: &str,
        failed: Option<&str>,
    ) -> Option<Step> {
        let Phase::Dialling { address, left, first, .. } = &mut self.phase else { return None };
        if failed.is_some_and(|failed| failed != address) {
            return None;
        }
        let first = first.take().unwrap_or_else(|| format!("{}: {reason}", without_peer(address)));
        let left = std::mem::take(left);
        self.dial_next(now, random, left, Some(first))
    }

    /// The connection stands.
    pub fn connected(&mut self) {
        self.phase = Phase::Connected;
        if self.state != State::Rejected {
            self.state = State::Connected;
            self.detail = "connected".into();
        }
    }

    /// The gateway took this node in.
    pub fn accepted(&mut self) {
        self.backoff.reset();
        if matches!(self.phase, Phase::Connected) && self.state != State::Connected {
            self.state = State::Connected;
            self.detail = "connected".into();
        }
    }

    /// The gateway will not have this node.
    pub fn rejected(&mut self, reason: &str) {
        self.state = State::Rejected;
        self.detail = reason.to_owned();
    }

    /// The gateway has no room for this node. It closes the connection; then these addresses of other
    /// gateways are dialled.
    pub fn full(&mut self, addresses: Vec<String>) {
        self.elsewhere = Some(addresses);
    }

    pub fn disconnected(&mut self, now: Time, random: u32, reason: &str) -> Option<Step> {
        match self.elsewhere.take() {
            Some(addresses) if !addresses.is_empty() && self.full < FULL_MAX => {
                self.full += 1;
                self.state = State::Connecting;
                return self.dial_next(now, random, addresses.into(), None);
            }
            Some(_) => {
                self.full = 0;
                self.state = State::Offline;
                let wait = AFTER_REJECTION.as_secs();
                self.detail = format!("the gateway has no room for more tabs; trying again in {wait} s");
                self.phase = Phase::Waiting { until: now + AFTER_REJECTION };
                return None;
            }
            None => self.full = 0,
        }
        if self.state == State::Rejected {
            self.phase = Phase::Waiting { until: now + AFTER_REJECTION };
        } else {
            self.retry(now, random, &format!("the connection to the gateway was lost: {reason}"));
        }
        None
    }

    fn dial_next(
        &mut self,
        now: Time,
        random: u32,
        mut left: VecDeque<String>,
        first: Option<String>,
    ) -> Option<Step> {
        match left.pop_front() {
            Some(address) => {
                if self.state == State::Connecting {
                    self.detail = format!("connecting to {}", without_peer(&address));
                }
                let until = now + ATTEMPT_LIMIT;
                self.phase = Phase::Dialling { until, address: address.clone(), left, first };
                Some(Step::Dial(address))
            }
            None => {
                let why = first.unwrap_or_else(|| "it named no address".into());
                self.retry(now, random, &format!("no connection to the gateway ({why})"));
                None
            }
        }
    }

    fn retry(&mut self, now: Time, random: u32, reason: &str) {
        let wait = self.backoff.next(random);
        self.phase = Phase::Waiting { until: now + wait };
        if self.state != State::Rejected {
            self.state = State::Offline;
            self.detail = format!("{reason}; trying again in {:.1} s", wait.as_secs_f64());
        }
    }
}

/// People need not see whom exactly an address names.
fn without_peer(address: &str) -> &str {
    address.split("/p2p/").next().unwrap_or(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000);

    fn dialling(join: &mut Join, addresses: &[&str]) -> Option<Step> {
        assert_eq!(join.wake(START, 0), Some(Step::Ask));
        join.asked(START, 0, Ok(addresses.iter().map(|a| (*a).to_owned()).collect()))
    }

    #[test]
    fn the_first_address_that_answers_is_used() {
        let mut join = Join::new("http://g", START);
        assert_eq!(join.state(), State::Connecting);
        assert_eq!(dialling(&mut join, &["/a/p2p/x", "/b"]), Some(Step::Dial("/a/p2p/x".into())));
        assert_eq!(join.detail(), "connecting to /a");
        assert_eq!(join.dial_failed(START, 0, "refused", Some("/other")), None, "an old failure");
        assert_eq!(join.dial_failed(START, 0, "refused", Some("/a/p2p/x")), Some(Step::Dial("/b".into())));
        join.connected();
        assert_eq!((join.state(), join.deadline()), (State::Connected, None));
    }

    #[test]
    fn when_none_answers_it_says_why_and_asks_again_later() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a", "/b"]);
        join.dial_failed(START, 0, "refused", None);
        assert_eq!(join.dial_failed(START, 0, "no route", None), None);
        assert_eq!(join.state(), State::Offline);
        assert_eq!(join.detail(), "no connection to the gateway (/a: refused); trying again in 0.2 s");
        let at = join.deadline().expect("another attempt");
        assert_eq!(join.wake(START, 0), None, "too early");
        assert_eq!(join.wake(at, 0), Some(Step::Ask));
        assert_eq!(join.asked(at, 0, Err("http://g does not answer".into())), None);
        assert_eq!(join.detail(), "http://g does not answer; trying again in 0.5 s");
    }

    #[test]
    fn silence_is_a_failure_too() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a"]);
        let late = START + Duration::from_secs(15);
        assert_eq!(join.wake(late, 0), None);
        assert_eq!(join.state(), State::Offline);
        let mut join = Join::new("http://g", START);
        join.wake(START, 0);
        assert_eq!(join.wake(late, 0), None);
        assert!(join.detail().contains("did not answer within 15 s"));
        assert_eq!(join.asked(late, 0, Ok(vec!["/a".into()])), None, "the answer comes too late");
    }

    #[test]
    fn a_lost_connection_is_made_again_from_the_question_on() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a"]);
        join.connected();
        join.accepted();
        join.disconnected(START, 0, "closed");
        assert_eq!(join.state(), State::Offline);
        let wait = join.deadline().expect("another attempt").since(START);
        assert_eq!(wait, Duration::from_millis(250), "soon: leases are lost after two seconds");
        assert_eq!(join.wake(START + wait, 0), Some(Step::Ask));
    }

    #[test]
    fn connections_that_end_before_anybody_is_let_in_become_rarer() {
        let mut join = Join::new("http://g", START);
        let mut now = START;
        for ms in [250, 500, 1000, 2000] {
            join.wake(now, 0);
            join.asked(now, 0, Ok(vec!["/a".into()]));
            join.connected();
            join.disconnected(now, 0, "closed");
            let at = join.deadline().expect("another attempt");
            assert_eq!(at.since(now).as_millis(), ms);
            now = at;
        }
        join.wake(now, 0);
        join.asked(now, 0, Ok(vec!["/a".into()]));
        join.connected();
        join.accepted();
        join.disconnected(now, 0, "closed");
        assert_eq!(join.deadline(), Some(now + Duration::from_millis(250)), "until one is let in");
    }

    #[test]
    fn a_page_goes_from_a_full_gateway_to_those_that_it_names() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a"]);
        join.connected();
        join.accepted();
        join.full(vec!["/b".into(), "/c".into()]);
        assert_eq!(join.disconnected(START, 0, "closed"), Some(Step::Dial("/b".into())));
        assert_eq!(join.dial_failed(START, 0, "refused", Some("/b")), Some(Step::Dial("/c".into())));
        join.connected();
        assert_eq!(join.state(), State::Connected);
        assert_eq!(join.disconnected(START, 0, "closed"), None);
        assert_eq!(
            join.wake(join.deadline().expect("another attempt"), 0),
            Some(Step::Ask),
            "from the first on"
        );
    }

    #[test]
    fn where_all_are_full_a_page_waits_a_minute_and_says_so() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a"]);
        let mut dialled = 0;
        loop {
            join.connected();
            join.accepted();
            join.full(vec!["/b".into()]);
            match join.disconnected(START, 0, "closed") {
                Some(_) => dialled += 1,
                None => break,
            }
        }
        assert_eq!((dialled, join.state()), (FULL_MAX, State::Offline));
        assert!(join.detail().contains("no room"), "{}", join.detail());
        assert_eq!(join.deadline(), Some(START + AFTER_REJECTION));
        let mut alone = Join::new("http://g", START);
        dialling(&mut alone, &["/a"]);
        alone.connected();
        alone.full(Vec::new());
        assert_eq!(alone.disconnected(START, 0, "closed"), None);
        assert_eq!(alone.deadline(), Some(START + AFTER_REJECTION), "no other gateway is known");
    }

    #[test]
    fn a_refusal_stays_on_the_page_until_it_is_withdrawn() {
        let mut join = Join::new("http://g", START);
        dialling(&mut join, &["/a"]);
        join.connected();
        join.rejected("an invite is missing");
        join.disconnected(START, 0, "closed");
        assert_eq!((join.state(), join.detail()), (State::Rejected, "an invite is missing"));
        let at = START + AFTER_REJECTION;
        assert_eq!(join.deadline(), Some(at));
        assert_eq!(join.wake(at, 0), Some(Step::Ask));
        join.asked(at, 0, Ok(vec!["/a".into()]));
        join.connected();
        assert_eq!(join.state(), State::Rejected);
        join.accepted();
        assert_eq!(join.state(), State::Connected);
    }
}
