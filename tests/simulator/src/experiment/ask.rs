//! One request, and what becomes of it.

use super::stage::{Play, Stage};
use node_core::finding::{Needs, Place};
use node_core::{Command, NodeEvent, NodeInput, Time};
use std::time::Duration;

/// State of a request.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) origin: usize,
    pub(super) id: u64,
    pub(super) at: Time,
    pub(super) found: Option<u32>,
    /// When the last taker was reached, and the most hops that one was away.
    pub(super) last: Option<Time>,
    pub(super) hops: u8,
    pub(super) known: Option<Time>,
}

impl Ask {
    /// Lets a node ask for so many places.
    pub(super) fn new(stage: &mut Stage, origin: usize, id: u64, units: u32) -> Ask {
        let at = stage.world.now;
        let mut ask = Ask { origin, id, at, found: None, last: None, hops: 0, known: None };
        stage
            .world
            .drive(origin, NodeInput::Command(Command::Find { number: id, units, needs: Needs::default() }));
        // Events that came at once.
        for (_, at, event) in std::mem::take(&mut stage.world.told) {
            ask.told(stage, at, event);
        }
        ask
    }

    /// Runs until it is answered.
    pub(super) fn finish(&mut self, stage: &mut Stage, within: Duration) {
        let end = self.at + within;
        while self.found.is_none() && stage.world.now < end {
            stage.run_for(Duration::from_millis(100), self);
        }
    }

    pub(super) fn last_s(&self) -> Option<f64> {
        Some(self.last?.since(self.at).as_secs_f64())
    }

    pub(super) fn known_s(&self) -> Option<f64> {
        Some(self.known?.since(self.at).as_secs_f64())
    }
}

impl Play for Ask {
    fn told(&mut self, stage: &mut Stage, at: usize, event: NodeEvent) {
        match event {
            NodeEvent::Reserved { owner, hops, .. } if stage.world.find(owner) == Some(self.origin) => {
                self.last = Some(stage.world.now);
                self.hops = self.hops.max(hops);
            }
            NodeEvent::Found { number, places, .. } if at == self.origin && number == self.id => {
                self.known = Some(stage.world.now);
                self.found = Some(sum(&places));
            }
            _ => {}
        }
    }
}

pub(super) fn sum(places: &[Place]) -> u32 {
    places.iter().map(|place| place.units).sum()
}
