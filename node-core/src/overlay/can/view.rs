//! The space as a node sees it, for people and tests.

use super::member::Member;
use super::message::SpaceId;
use super::zone::{Coords, Zone};
use crate::ids::NodeId;

/// A node's part of the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    pub space: SpaceId,
    /// The node's point.
    pub coords: Coords,
    /// Its own zone, then those that it holds for others.
    pub zones: Vec<Zone>,
    pub neighbours: Vec<NodeId>,
    /// Fingers in both directions.
    pub fingers: usize,
    /// Zones of nodes that are gone, or that others were given and have not claimed yet.
    pub vacancies: usize,
}

impl Member {
    pub fn view(&self) -> View {
        View {
            space: self.space,
            coords: self.coords,
            zones: self.zones(),
            neighbours: self.neighbours.keys().copied().collect(),
            fingers: self.fingers.contacts().count(),
            vacancies: self.vacancies.len(),
        }
    }
}
