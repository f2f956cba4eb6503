//! Consequences of a policy: slots, or none; shares; terms; and what the page is told.

use super::{Clock, Fault, Known, Setting, faults_json, read};
use crate::status;
use node_core::goods::Goods;
use node_core::goods::{Kind, Market};
use node_core::money::Price;
use node_core::trust::policy::{Conditions, Decision, Policy, Reason};
use node_core::{Command, Platform};
use std::sync::Arc;

/// Slots are listed for so long (paper `market`: T), minutes. Our choice: people close a tab sooner than a
/// server is switched off, and a unit that outlives its place goes on elsewhere.
const MINUTES: u16 = 10;

/// The policy of one tab.
pub struct Tab {
    policy: Arc<Policy>,
    faults: Vec<Fault>,
    known: Known,
    /// Slots, as the slider has them.
    given: u32,
    processors: u32,
    /// Memory of one unit, bytes.
    memory_bytes: u64,
    /// Fuel a second of one slot at all of a core, once it is known: nothing is for sale before.
    speed: Option<u64>,
    /// State that the node was told last, and message that the page was told last.
    told: Option<Told>,
    shown: String,
}

struct Told {
    policy: Arc<Policy>,
    slots: u32,
    share: u32,
    lends: bool,
    goods: Option<Goods>,
}

/// Actions to take, in this order.
#[derive(Debug, Default)]
pub struct Acts {
    pub commands: Vec<Command>,
    /// Percent of the time that slots may compute.
    pub share: Option<u32>,
    /// A message for the page, as JSON.
    pub message: Option<String>,
}

impl Tab {
    pub fn new(
        set: Vec<(String, Setting)>,
        known: Known,
        given: u32,
        processors: u32,
        memory_bytes: u64,
    ) -> Tab {
        let (policy, faults) = read(set);
        let policy = Arc::new(policy);
        Tab {
            policy,
            faults,
            known,
            given,
            processors,
            memory_bytes,
            speed: None,
            told: None,
            shown: String::new(),
        }
    }

    /// These settings hold from now on, those that are any.
    pub fn set(&mut self, set: Vec<(String, Setting)>) {
        let (policy, faults) = read(set);
        (self.policy, self.faults) = (Arc::new(policy), faults);
    }

    pub fn give(&mut self, slots: u32) {
        self.given = slots;
    }

    pub fn measured(&mut self, speed: u64) {
        self.speed = Some(speed);
    }

    pub fn know(&mut self, known: Known) {
        self.known = known;
    }

    pub fn lends(&self) -> bool {
        self.told.as_ref().is_some_and(|told| told.lends)
    }

    /// Price of 10^9 fuel, micro-credits; `None` until the node has been told of goods to sell.
    pub fn sells_at(&self) -> Option<u64> {
        let goods = self.told.as_ref()?.goods.as_ref()?;
        Some(goods.cost.0)
    }

    /// Actions that are due now; none if nothing changed.
    pub fn act(&mut self, clock: Clock) -> Acts {
        let now = self.conditions(clock);
        let decision = self.policy.decide(&now);
        let lends = decision.reasons.is_empty();
        // As natively: more slots than processors are meant, and all processors take none away.
        let most = if lends && decision.slots < self.processors { decision.slots } else { u32::MAX };
        let (slots, share, policy) = (self.given.min(most), decision.cpu_pct, self.policy.clone());
        let mut acts = Acts::default();
        let was = self.told.as_ref();
        if was.is_none_or(|was| !Arc::ptr_eq(&was.policy, &policy)) {
            let (memory_bytes, policy) = (self.memory_bytes, policy.clone());
            acts.commands.push(Command::Terms { memory_bytes, policy });
        }
        if was.is_none_or(|was| was.slots != slots) {
            acts.commands.push(Command::SetSlots(slots));
        }
        acts.share = was.is_none_or(|was| was.share != share).then_some(share);
        // A node that starts lends.
        if was.is_none_or(|was| was.lends) != lends {
            acts.commands.push(Command::SetDonating(lends));
        }
        let goods = self.goods(if lends { slots } else { 0 }, share);
        if let Some(goods) = goods.filter(|_| was.is_none_or(|was| was.goods != goods)) {
            let capacity = |told: &Told| told.goods.map(|goods| goods.capacity);
            if was.and_then(capacity) != Some(goods.capacity) {
                acts.commands.push(Command::Measured { speed: goods.capacity });
            }
            acts.commands.push(Command::Sell(goods));
        }
        self.told = Some(Told { policy, slots, share, lends, goods });
        let message = self.message(&now, &decision);
        if message != self.shown {
            self.shown.clone_from(&message);
            acts.message = Some(message);
        }
        acts
    }

    /// Goods for sale; with 0 units, nothing is for sale. `None` while the speed is unknown.
    fn goods(&self, slots: u32, share: u32) -> Option<Goods> {
        let policy = &self.policy;
        let memory = policy.max_task_memory_mb.map_or(u64::MAX, u64::from).min(self.memory_bytes >> 20);
        Some(Goods {
            kind: Kind::Cycles,
            capacity: (self.speed? / 100 * u64::from(share)).clamp(Market::LEAST, Market::MOST),
            units: u16::try_from(slots).unwrap_or(u16::MAX),
            minutes: MINUTES,
            // A donor with a least price does not sell below it.
            cost: Price(policy.marginal_cost.max(policy.min_price)),
            engine: Platform::Browser,
            memory_mib: u32::try_from(memory).unwrap_or(u32::MAX),
        })
    }

    fn conditions(&self, clock: Clock) -> Conditions {
        let Known { on_battery, charge_pct, quiet_since_ms } = self.known;
        Conditions {
            day: clock.day,
            minute: clock.minute,
            processors: self.processors,
            others_cpu_pct: None,
            no_input_minutes: quiet_since_ms.map(|since| ((clock.wall_ms - since) / 60_000.0).max(0.0)),
            on_battery,
            charge_pct,
            // Browsers tell of 8 GB at most, and nothing of what is free.
            memory_bytes: None,
            disk_bytes: None,
            disk_free_bytes: None,
        }
    }

    fn message(&self, now: &Conditions, decision: &Decision) -> String {
        let each = |out: &mut String, reason: &Reason| {
            out.push_str(r#"{"reason":"#);
            status::text(out, &reason.to_string());
            out.push_str(r#","until":"#);
            status::text(out, &reason.until(&self.policy, now));
            out.push('}');
        };
        // Settings that ask for what is not known here.
        let mut unknown = Vec::new();
        if now.no_input_minutes.is_none()
            && (!self.policy.run_if_user_active || self.policy.suspend_if_no_recent_input > 0.0)
        {
            unknown.push(
                "this browser does not say whether somebody uses the computer, so nothing waits for that",
            );
        }
        let wait = decision.wait_s().map_or_else(|| "null".into(), |wait| wait.to_string());
        format!(
            r#"{{"type":"policy","works":{},"reasons":{},"wait_s":{wait},"unknown":{},"faults":{}}}"#,
            decision.reasons.is_empty(),
            status::list(&decision.reasons, each),
            status::list(&unknown, |out, words| status::text(out, words)),
            faults_json(&self.faults),
        )
    }
}
