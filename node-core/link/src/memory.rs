//! Memory that connections take together: frames that wait for peers that read slowly, and frames that have
//! come in part.

use crate::block::AddressBlock;
use crate::events::locked;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Bytes that every connection may have in any case. Our choice: heartbeats and small messages pass while
/// others use up the rest, and 6,000 connections of one network have 400 MB of it.
const FLOOR: usize = 64 << 10;

/// The bytes that wait at all connections.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    per_block: usize,
    used: AtomicUsize,
    blocks: Mutex<HashMap<AddressBlock, Weak<AtomicUsize>>>,
}

/// The bytes that wait at one connection.
#[derive(Debug)]
pub(crate) struct Share {
    of: Memory,
    /// Bytes of all connections of its network.
    block: Arc<AtomicUsize>,
    own: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Memory {
        let per_block = limit / 2;
        Memory(Arc::new(Shared { limit, per_block, used: AtomicUsize::new(0), blocks: Mutex::default() }))
    }

    /// The share of a connection with a peer of this network. A peer without an address, such as one behind a
    /// name, has a network of its own.
    pub(crate) fn share(&self, block: Option<AddressBlock>) -> Share {
        let block = block.map_or_else(Arc::default, |block| {
            let mut blocks = locked(&self.0.blocks);
            let known = blocks.get(&block).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                // Networks without connections are dropped when a new one comes.
                blocks.retain(|_, used| used.strong_count() > 0);
                let used = Arc::default();
                blocks.insert(block, Arc::downgrade(&used));
                used
            })
        });
        Share { of: self.clone(), block, own: 0 }
    }
}

impl Share {
    /// Counts these bytes as waiting, if there is room for them.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        let Shared { limit, per_block, used, .. } = &*self.of.0;
        let fits = |used: &AtomicUsize, limit: usize| used.load(Ordering::Acquire) + bytes <= limit;
        let takes = self.own + bytes <= FLOOR || fits(&self.block, *per_block) && fits(used, *limit);
        if takes {
            self.own += bytes;
            self.block.fetch_add(bytes, Ordering::AcqRel);
            used.fetch_add(bytes, Ordering::AcqRel);
        }
        takes
    }

    /// These bytes do not wait any more.
    pub(crate) fn give(&mut self, bytes: usize) {
        let bytes = bytes.min(self.own);
        self.own -= bytes;
        self.block.fetch_sub(bytes, Ordering::AcqRel);
        self.of.0.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Counts so many bytes as waiting in place of those before, if there is room for them.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes <= self.own {
            self.give(self.own - bytes);
            return true;
        }
        self.take(bytes - self.own)
    }

    pub(crate) fn own(&self) -> usize {
        self.own
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give(self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Option<AddressBlock> {
        Some(AddressBlock::of(text.parse().unwrap()))
    }

    #[test]
    fn one_network_leaves_half_to_the_others() {
        let memory = Memory::new(8 << 20);
        let mut here: Vec<Share> = (0..8).map(|_| memory.share(block("192.0.2.1"))).collect();
        let taken = here.iter_mut().filter_map(|share| share.take(1 << 20).then_some(())).count();
        assert_eq!(taken, 4);
        assert!(memory.share(block("192.0.2.2")).take(4 << 20));
        assert!(here[7].take(FLOOR), "a small message passes");
        assert!(!here[7].take(1), "and no more");
    }

    #[test]
    fn what_a_connection_had_is_free_when_it_ends() {
        let memory = Memory::new(8 << 20);
        let mut share = memory.share(block("192.0.2.1"));
        assert!(share.take(4 << 20));
        share.give(1 << 20);
        assert!(share.set(2 << 20) && share.own() == 2 << 20);
        drop(share);
        assert!(memory.share(block("192.0.2.1")).take(4 << 20));
        assert_eq!(memory.0.used.load(Ordering::Acquire), 0);
        drop(memory.share(block("192.0.2.9")));
        assert_eq!(locked(&memory.0.blocks).len(), 1);
    }
}
