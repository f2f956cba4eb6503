//! Until when nothing runs, in words; and which setting a contradiction is about.

use super::{Conditions, Contradiction, Decision, Policy, Reason};

impl Reason {
    /// The event that would end it, for a person: goes on after "until".
    pub fn until(&self, policy: &Policy, now: &Conditions) -> String {
        match *self {
            Reason::NotShared => "you say share_cycles = true".into(),
            Reason::Hours { wait: Some(wait) } => {
                let minute = u32::from(now.minute) + wait;
                let (mut day, days) = (now.day, minute / (24 * 60));
                (0..days).for_each(|_| day = day.next());
                let at = minute % (24 * 60);
                let day = match days {
                    0 => "today".into(),
                    1 => "tomorrow".into(),
                    _ => format!("{day:?}"),
                };
                format!("its hours begin, {day} at {}:{:02} local time", at / 60, at % 60)
            }
            Reason::Hours { wait: None } => "you set hours: start_hour, end_hour or days".into(),
            Reason::OnBattery => "it is plugged in, or you say run_on_batteries = true".into(),
            Reason::Charge { least, .. } => format!("it is plugged in, or its battery is at {least:.0} %"),
            Reason::InUse { .. } => {
                format!("nobody has used it for {} min (idle_time_to_run)", policy.idle_time_to_run)
            }
            Reason::NoInput { .. } => "somebody uses it again".into(),
            Reason::Load { most, .. } => format!("other programs take {most:.0} % or less, for about 10 s"),
        }
    }
}

impl Decision {
    /// Seconds until something runs again, if time alone brings it about.
    pub fn wait_s(&self) -> Option<u64> {
        let waits = self.reasons.iter().map(|reason| match reason {
            Reason::Hours { wait } => wait.map(|minutes| u64::from(minutes) * 60),
            _ => None,
        });
        waits.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

impl Contradiction {
    /// The setting to look at first; of two that exclude each other, the one that is usually left out.
    pub fn key(&self) -> &'static str {
        match self {
            Contradiction::Percent { name, .. }
            | Contradiction::Amount { name, .. }
            | Contradiction::TooLong { name, .. }
            | Contradiction::NoTask { name } => name,
            Contradiction::Hours { .. } => "start_hour",
            Contradiction::Never => "days",
            Contradiction::IdleAndAsleep { .. } => "suspend_if_no_recent_input",
            Contradiction::AtALoss { .. } => "min_price",
            Contradiction::NoCost => "marginal_cost",
            Contradiction::NoGifts { .. } => "gift_share_pct",
            Contradiction::AllowedAndRefused { .. } => "allowed_submitters",
            Contradiction::Nothing => "share_cycles",
        }
    }
}
