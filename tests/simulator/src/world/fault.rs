//! Faults that can happen, by name.

use super::{Event, World};
use node_core::NodeInput;

impl World {
    /// The machine stops without a word. Writes that were not synced are lost.
    pub fn crash(&mut self, at: usize) {
        self.nodes[at].disk.forget_unsynced();
        self.end(at);
    }

    /// The process ends without a word; the machine still writes what it was given.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].disk.flush();
        self.end(at);
    }

    fn end(&mut self, at: usize) {
        self.nodes[at].node = None;
        self.nodes[at].engine.end(self.now);
        self.account(at);
        self.nodes[at].frozen = false;
        self.held.remove(&(at as u32));
        self.drop_links(at);
    }

    /// It neither hears nor acts, until it is thawed.
    pub fn freeze(&mut self, at: usize) {
        self.nodes[at].frozen = true;
        self.held.entry(at as u32).or_default();
        self.sever_later(at as u32);
    }

    /// It goes on, and what came meanwhile comes at once.
    pub fn thaw(&mut self, at: usize) {
        self.nodes[at].frozen = false;
        for event in self.held.remove(&(at as u32)).into_iter().flatten() {
            self.after(0, event);
        }
        self.drive(at, NodeInput::Wake);
        // A wake-up that came meanwhile was dropped, and the node tells its deadline only once.
        self.arm(at);
    }

    /// The network falls apart: these nodes reach each other, and nobody else.
    pub fn part(&mut self, nodes: &[usize]) {
        self.network.parted = true;
        for &at in nodes {
            self.nodes[at].part = 1;
        }
        for &at in nodes {
            self.sever_later(at as u32);
        }
    }

    /// Nothing of what `from` says gets to `to` any more; the other way round all does.
    pub fn cut_one_way(&mut self, from: usize, to: usize) {
        self.network.cuts.insert((from as u32, to as u32));
        self.sever_later(from as u32);
    }

    /// Partitions and one-way cuts end.
    pub fn heal(&mut self) {
        self.network.parted = false;
        self.network.cuts.clear();
        self.nodes.iter_mut().for_each(|place| place.part = 0);
    }

    /// Connections whose other end does not answer any more break after a while.
    fn sever_later(&mut self, at: u32) {
        let Some((low, high)) = self.network.keepalive else { return };
        for link in self.nodes[at as usize].links.clone() {
            let unheard = !self.answers(at, link.peer) || !self.answers(link.peer, at);
            if !link.dead && unheard {
                let time = self.net_rng.between(low, high);
                // They wonder before, in the real link after half of the time.
                let quiet = NodeInput::Quiet { peer: self.nodes[at as usize].id };
                self.answer(link.peer as usize, self.nodes[link.peer as usize].life, time / 2, quiet);
                self.after(time, Event::Cut { a: at, b: link.peer, epoch: link.epoch, severed: true });
            }
        }
    }

    /// Breaks a node's engine, or mends it.
    pub fn break_engine(&mut self, at: usize, broken: bool) {
        self.nodes[at].engine.broken = broken;
    }
}
