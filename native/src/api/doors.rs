//! Which connections are open, and which has to go when there are too many.
//!
//! A connection costs its client next to nothing, so their number is bounded: all together, and
//! those of one address. At a bound, the connection that has been idle or stuck for longest makes
//! room; one whose newest request showed the token never does. Nobody's address tells whether a new
//! connection will show the token, so the last places of an address are given on trial: they are for who
//! shows it, and others have them until somebody else comes.

use link::AddressBlock;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Open connections. Our choice: every person's few tabs and tools, and well below the number
/// of files that a process may have open.
const MAX_CONNECTIONS: usize = 512;

/// The part of them that is kept for addresses that have shown the token lately. Our choice: an operator's
/// tabs, tools and monitor, with room to spare.
const RESERVED: usize = 64;

/// Connections of one address. Our choice: half, so that one address alone shuts nobody else out. It is no
/// less since a household or an office behind one router shares an address, and everybody behind a reverse
/// proxy does.
const PER_BLOCK: usize = 256;

/// The part of them that is given on trial. Our choice: an operator's tabs, tools and monitor behind the proxy
/// that everybody else comes through.
const ON_TRIAL: usize = 16;

/// Without a byte sent or taken for this long, a connection may have to make room. Our choice: longer than
/// pauses within an answer. A browser opens a connection that was closed between requests again by itself.
const STILL: Duration = Duration::from_secs(2);

/// After this a connection may have to make room even if bytes still trickle. Our choice: what needs no token
/// is read within seconds, and this happens only at a bound.
const OLD: Duration = Duration::from_secs(30);

/// How long an address counts after it has shown the token, and how many are remembered. Our choice: longer
/// than pauses in a session; more than all connections have.
const TRUSTED_FOR: Duration = Duration::from_secs(3600);
const TRUSTED: usize = 1024;

/// The connections of one server; clones share them.
#[derive(Clone)]
pub(super) struct Doors {
    began: Instant,
    bounds: Bounds,
    table: Arc<Mutex<Table>>,
}

#[derive(Clone, Copy)]
struct Bounds {
    all: usize,
    reserved: usize,
    per_block: usize,
    on_trial: usize,
}

#[derive(Default)]
struct Table {
    next: u64,
    open: BTreeMap<u64, Arc<Visit>>,
    /// When each address showed the token last.
    trusted: HashMap<AddressBlock, Instant>,
}

/// One connection, as others see it.
pub(super) struct Visit {
    from: AddressBlock,
    /// It has one of its address's last places.
    on_trial: bool,
    opened: Instant,
    began: Instant,
    /// Milliseconds from `began` to the last byte that was taken or sent.
    moved: AtomicU64,
    /// Whether its newest request showed the token.
    trusted: AtomicBool,
    cut: Notify,
}

/// A connection's place, given back when dropped.
pub(super) struct Place {
    doors: Doors,
    id: u64,
    visit: Arc<Visit>,
}

/// Why there is no place; a sentence for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    All,
    Block,
}

impl Full {
    pub(super) fn detail(self) -> &'static str {
        match self {
            Full::All => "this gateway has as many connections as it takes; try again in a moment",
            Full::Block => {
                "your address has as many connections as this gateway takes; close some, or try again in a moment"
            }
        }
    }
}

impl Doors {
    pub(super) fn new() -> Doors {
        Doors::bounded(Bounds {
            all: MAX_CONNECTIONS,
            reserved: RESERVED,
            per_block: PER_BLOCK,
            on_trial: ON_TRIAL,
        })
    }

    fn bounded(bounds: Bounds) -> Doors {
        Doors { began: Instant::now(), bounds, table: Arc::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection, if need be that of another one, which is then cut.
    pub(super) fn admit(&self, ip: IpAddr) -> Result<Place, Full> {
        self.admit_at(AddressBlock::of(ip), Instant::now())
    }

    fn admit_at(&self, from: AddressBlock, now: Instant) -> Result<Place, Full> {
        let mut table = self.table();
        let Bounds { all, reserved, per_block, on_trial: trials } = self.bounds;
        let (ordinary, tried) = table.count(from);
        let mut on_trial = false;
        let mut replaced = None;
        if ordinary >= per_block.saturating_sub(trials) {
            replaced = table.make_room(now, Some(from));
            on_trial = replaced.is_none();
            if on_trial && tried >= trials {
                replaced = Some(table.end_trial(from).ok_or(Full::Block)?);
            }
        }
        if replaced.is_none() {
            let reserved = if table.trusts(from, now) { 0 } else { reserved };
            if table.open.len() + reserved >= all {
                table.make_room(now, None).ok_or(Full::All)?;
            }
        }
        let visit = Arc::new(Visit {
            from,
            on_trial,
            opened: now,
            began: self.began,
            moved: AtomicU64::new(0),
            trusted: AtomicBool::new(false),
            cut: Notify::new(),
        });
        visit.moved_at(now);
        let id = table.next;
        table.next += 1;
        table.open.insert(id, visit.clone());
        Ok(Place { doors: self.clone(), id, visit })
    }

    /// The newest request of `visit` showed the token.
    pub(super) fn trust(&self, visit: &Visit) {
        self.trust_at(visit, Instant::now());
    }

    fn trust_at(&self, visit: &Visit, now: Instant) {
        visit.trusted.store(true, Relaxed);
        let mut table = self.table();
        if table.trusted.len() >= TRUSTED && !table.trusted.contains_key(&visit.from) {
            let oldest = table.trusted.iter().min_by_key(|(_, at)| **at).map(|(block, _)| *block);
            oldest.and_then(|oldest| table.trusted.remove(&oldest));
        }
        table.trusted.insert(visit.from, now);
    }
}

impl Table {
    fn trusts(&self, block: AddressBlock, now: Instant) -> bool {
        self.trusted.get(&block).is_some_and(|at| now.duration_since(*at) < TRUSTED_FOR)
    }

    /// Connections of a block: ordinary ones, and those on trial.
    fn count(&self, block: AddressBlock) -> (usize, usize) {
        let of_block = || self.open.values().filter(|visit| visit.from == block);
        let tried = of_block().filter(|visit| visit.on_trial).count();
        (of_block().count() - tried, tried)
    }

    /// Cuts the connection, of all or of the ordinary ones of a block, that is the smallest loss. `None` if
    /// there is none to cut.
    fn make_room(&mut self, now: Instant, of: Option<AddressBlock>) -> Option<Cut> {
        let loss = |visit: &Visit| {
            let still = visit.still_for(now);
            let goes = still >= STILL || now.duration_since(visit.opened) >= OLD;
            (goes && !visit.trusted.load(Relaxed)).then_some(still)
        };
        let fits = |visit: &Visit| of.is_none_or(|block| visit.from == block && !visit.on_trial);
        let visits = self.open.iter().filter(|(_, visit)| fits(visit));
        let losses = visits.filter_map(|(id, visit)| Some((loss(visit)?, *id)));
        let (_, id) = losses.max_by_key(|(still, id)| (*still, std::cmp::Reverse(*id)))?;
        self.cut(id)
    }

    /// Cuts the connection that has been on trial for longest and does not show the token. `None` if all do.
    fn end_trial(&mut self, of: AddressBlock) -> Option<Cut> {
        let tried = |visit: &Visit| visit.from == of && visit.on_trial && !visit.trusted.load(Relaxed);
        // The first is the oldest.
        let (id, _) = self.open.iter().find(|(_, visit)| tried(visit))?;
        self.cut(*id)
    }

    fn cut(&mut self, id: u64) -> Option<Cut> {
        self.open.remove(&id)?.cut.notify_one();
        Some(Cut)
    }
}

/// A connection had to go, and its place is free.
struct Cut;

impl Visit {
    /// A byte was taken or sent.
    pub(super) fn moved(&self) {
        self.moved_at(Instant::now());
    }

    fn moved_at(&self, now: Instant) {
        self.moved.store(now.duration_since(self.began).as_millis() as u64, Relaxed);
    }

    /// A request begins, which has not shown the token yet.
    pub(super) fn asks(&self) {
        self.trusted.store(false, Relaxed);
    }

    fn still_for(&self, now: Instant) -> Duration {
        now.duration_since(self.began).saturating_sub(Duration::from_millis(self.moved.load(Relaxed)))
    }
}

impl Place {
    pub(super) fn visit(&self) -> &Arc<Visit> {
        &self.visit
    }

    /// Ready when the connection has to make room.
    pub(super) async fn cut(&self) {
        self.visit.cut.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doors.table().open.remove(&self.id);
    }
}

#[cfg(test)]
#[path = "doors_tests.rs"]
mod tests;
