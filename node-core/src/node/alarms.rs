//! When each service of a node wants to be woken, side by side: most inputs concern one service,
//! and asking all of them for their timers would cost more than the input itself.

use crate::ticket::ServiceId;
use crate::time::Time;

const NEVER: Time = Time(u64::MAX);

/// By the number of the service.
pub(super) struct Alarms([Time; ServiceId::ALL.len()]);

impl Default for Alarms {
    fn default() -> Self {
        Alarms([NEVER; ServiceId::ALL.len()])
    }
}

impl Alarms {
    pub(super) fn set(&mut self, of: ServiceId, at: Option<Time>) {
        if let Some(alarm) = self.0.get_mut(of as usize) {
            *alarm = at.unwrap_or(NEVER);
        }
    }

    /// The first service that is due.
    pub(super) fn due(&self, now: Time) -> Option<ServiceId> {
        let due = |at: &Time| *at <= now && *at != NEVER;
        ServiceId::ALL.get(self.0.iter().position(due)?).copied()
    }

    pub(super) fn earliest(&self) -> Option<Time> {
        self.0.into_iter().min().filter(|at| *at != NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_that_are_due_the_first_service_comes_first() {
        let mut alarms = Alarms::default();
        assert_eq!((alarms.due(NEVER), alarms.earliest()), (None, None));
        alarms.set(ServiceId::Store, Some(Time(1)));
        alarms.set(ServiceId::Connected, Some(Time(5)));
        assert_eq!((alarms.due(Time(0)), alarms.earliest()), (None, Some(Time(1))));
        assert_eq!(alarms.due(Time(4)), Some(ServiceId::Store));
        assert_eq!(alarms.due(Time(5)), Some(ServiceId::Connected));
        alarms.set(ServiceId::Connected, None);
        assert_eq!(alarms.due(Time(5)), Some(ServiceId::Store));
    }
}
