//! When each machine of a node wants to be woken, side by side: most inputs concern one machine,
//! and asking all of them for their timers would cost more than the input itself.

use crate::time::Time;

/// The machines, in the order in which timers of the same moment fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Neighbours,
    Finder,
    Overlays,
    #[cfg(feature = "roles")]
    Money,
    Client,
    Owner,
    Runner,
    #[cfg(feature = "roles")]
    Keeper,
    Store,
}

const PARTS: &[Part] = &[
    Part::Neighbours,
    Part::Finder,
    Part::Overlays,
    #[cfg(feature = "roles")]
    Part::Money,
    Part::Client,
    Part::Owner,
    Part::Runner,
    #[cfg(feature = "roles")]
    Part::Keeper,
    Part::Store,
];

const NEVER: Time = Time(u64::MAX);

pub(super) struct Alarms([Time; PARTS.len()]);

impl Default for Alarms {
    fn default() -> Self {
        Alarms([NEVER; PARTS.len()])
    }
}

impl Alarms {
    pub(super) fn set(&mut self, part: Part, at: Option<Time>) {
        if let Some(alarm) = self.0.get_mut(part as usize) {
            *alarm = at.unwrap_or(NEVER);
        }
    }

    /// The first machine that is due.
    pub(super) fn due(&self, now: Time) -> Option<Part> {
        let due = |(_, at): &(Part, Time)| *at <= now && *at != NEVER;
        PARTS.iter().copied().zip(self.0).find(due).map(|(part, _)| part)
    }

    pub(super) fn earliest(&self) -> Option<Time> {
        self.0.into_iter().min().filter(|at| *at != NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_that_are_due_the_first_machine_comes_first() {
        let mut alarms = Alarms::default();
        assert_eq!((alarms.due(NEVER), alarms.earliest()), (None, None));
        alarms.set(Part::Store, Some(Time(1)));
        alarms.set(Part::Finder, Some(Time(5)));
        assert_eq!((alarms.due(Time(0)), alarms.earliest()), (None, Some(Time(1))));
        assert_eq!(alarms.due(Time(4)), Some(Part::Store));
        assert_eq!(alarms.due(Time(5)), Some(Part::Finder));
        alarms.set(Part::Finder, None);
        assert_eq!(alarms.due(Time(5)), Some(Part::Store));
    }

    #[test]
    fn every_machine_has_its_place() {
        for (at, part) in PARTS.iter().copied().enumerate() {
            assert_eq!(part as usize, at);
        }
    }
}
