//! Pages, as their drivers are: a page dials its gateway alone, and goes to another one if that is full.

use super::{Event, Place, World};
use node_core::elsewhere::Elsewhere;
use node_core::{NodeEvent, NodeId, Platform};

impl Place {
    /// A page: it dials nobody, and nobody dials it.
    pub fn is_page(&self) -> bool {
        self.config.platform == Platform::Browser && self.config.port.is_none()
    }
}

impl World {
    /// The page's driver hears an event of its node.
    pub(super) fn page_told(&mut self, at: usize, event: &NodeEvent) {
        if let NodeEvent::Full { peer, gateways } = event {
            self.page_goes_on(at, *peer, gateways);
        }
    }

    /// Goes to the next gateway that was named and has an address for pages.
    fn page_goes_on(&mut self, at: usize, from: NodeId, named: &[Elsewhere]) {
        let tried = self.pages_tried.entry(at as u32).or_default();
        tried.push(from);
        let for_pages = named.iter().filter(|it| it.for_pages().is_some()).map(|it| it.contact.id);
        let next = for_pages.into_iter().find(|id| !tried.contains(id));
        if let Some(to) = next.and_then(|id| self.find(id)) {
            let (page, life, time) = (at as u32, self.nodes[at].life, self.dial_time(at, to));
            self.after(time, Event::Visits { page, to: to as u32, life });
        }
    }

    pub(super) fn visits(&mut self, page: u32, to: u32, life: u32) {
        let gateway = &self.nodes[to as usize];
        let there = gateway.is_dialable() && self.answers(page, to) && self.answers(to, page);
        if there && self.nodes[page as usize].life == life {
            self.visit(page as usize, to as usize);
        }
    }
}
