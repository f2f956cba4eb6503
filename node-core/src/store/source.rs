//! Requests to one source: a bounded number of blobs under way, the others in line.
//!
//! Patience belongs to the source, not to a blob: any answer renews it, and blobs in line have no
//! timer at all. A source answers in order: a blob of which nothing comes for three times that patience, while
//! others come, is asked for once more and then given up. Nobody holds one blob by sending another.
//! Small blobs do not wait behind large ones, so there are two lanes, each with a budget of its own.

use super::fetch::WINDOW;
use super::tree::{CHUNK, chunks};
use super::{Event, Store, Timer};
use crate::content::FetchError;
use crate::ids::{BlobId, NodeId};
use crate::protocol::Cx;
use crate::time::{Time, on_a_slow_line};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Blobs of a lane under way. Our choice: what storage makes durable in one group.
const BLOBS: usize = 64;

/// Bytes of a lane under way, at least one blob: the window of one large blob.
const BYTES: u64 = WINDOW as u64 * CHUNK;

/// Repetitions without any answer before a source is given up.
const TRIES: u32 = 3;

/// Times in a row that a source may say that it is busy. Our choice: a minute at the usual pause.
const BUSY_MAX: u32 = 20;

/// Requests to one node.
#[derive(Debug, Default)]
pub(super) struct Source {
    small: Lane,
    large: Lane,
    /// Repetitions since its last answer.
    tries: u32,
    /// Pauses in which all that was asked for was here, and storage wrote none of it.
    stuck: u32,
    /// Times that it said busy since it last sent content.
    busy: u32,
    /// When it was last looked for blobs of which nothing comes.
    looked: Time,
    /// It said just now that it is busy: nothing new is asked until it has sent something or time has passed.
    pauses: bool,
}

#[derive(Debug, Default)]
struct Lane {
    /// Each with its share of the budget.
    under_way: BTreeMap<BlobId, u64>,
    bytes: u64,
    /// In order. An entry whose fetch has ended or has another source is skipped.
    line: VecDeque<BlobId>,
}

impl Lane {
    fn has_room_for(&self, share: u64) -> bool {
        self.under_way.is_empty() || (self.under_way.len() < BLOBS && self.bytes + share <= BYTES)
    }

    fn leave(&mut self, id: BlobId) -> bool {
        let share = self.under_way.remove(&id);
        self.bytes -= share.unwrap_or(0);
        share.is_some()
    }

    fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.line.is_empty()
    }
}

impl Source {
    fn lane(&mut self, len: u64) -> &mut Lane {
        if chunks(len) > 1 { &mut self.large } else { &mut self.small }
    }

    /// How long the next answer may take with all that is under way.
    fn patience(&self, retry: Duration) -> Duration {
        retry + on_a_slow_line(self.small.bytes + self.large.bytes)
    }

    fn under_way(&self) -> Vec<BlobId> {
        self.small.under_way.keys().chain(self.large.under_way.keys()).copied().collect()
    }

    fn all(self) -> Vec<BlobId> {
        let mut all = self.under_way();
        all.extend(self.small.line);
        all.extend(self.large.line);
        all
    }

    pub(super) fn check(&self) {
        for lane in [&self.small, &self.large] {
            assert_eq!(lane.bytes, lane.under_way.values().sum::<u64>(), "bytes under way are counted");
            assert!(lane.under_way.len() <= BLOBS, "blobs under way are bounded");
            assert!(lane.bytes <= BYTES || lane.under_way.len() == 1, "bytes under way are bounded");
        }
    }
}

impl Store {
    /// Puts a fetch into the line of its source, and asks at once if there is room.
    pub(super) fn stand_in_line(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let Some((source, len)) = self.fetches.get(&id).and_then(|f| Some((f.source()?, f.len()))) else {
            return;
        };
        self.sources.entry(source).or_default().lane(len).line.push_back(id);
        self.ask_on(source, cx);
    }

    /// The fetch is not under way at this source any more.
    pub(super) fn leave_source(&mut self, source: NodeId, id: BlobId, len: u64, cx: &mut Cx<'_, Self>) {
        self.storage_answered(source);
        if self.sources.get_mut(&source).is_some_and(|state| state.lane(len).leave(id)) {
            self.ask_on(source, cx);
        }
    }

    /// Asks for the next in line, as far as the budget goes.
    fn ask_on(&mut self, source: NodeId, cx: &mut Cx<'_, Self>) {
        for large in [false, true] {
            while let Some(id) = self.next_in_line(source, large, cx) {
                self.ask(id, cx);
            }
        }
        let Some(state) = self.sources.get(&source) else { return };
        if state.small.is_empty() && state.large.is_empty() {
            self.sources.remove(&source);
            cx.cancel_timer(Timer::Retry(source));
        } else {
            // Set already if anything was asked before.
            let patience = state.patience(self.retry);
            cx.set_timer_by(Timer::Retry(source), patience);
        }
    }

    fn next_in_line(&mut self, source: NodeId, large: bool, cx: &mut Cx<'_, Self>) -> Option<BlobId> {
        let state = self.sources.get_mut(&source).filter(|state| !state.pauses)?;
        let lane = if large { &mut state.large } else { &mut state.small };
        loop {
            let id = *lane.line.front()?;
            let fetch = self.fetches.get_mut(&id).filter(|fetch| fetch.source() == Some(source));
            let Some(fetch) = fetch.filter(|_| !lane.under_way.contains_key(&id)) else {
                lane.line.pop_front();
                continue;
            };
            if !self.holders.contains_key(&id) {
                // Everybody who wanted it has let go of it meanwhile.
                lane.line.pop_front();
                let fetch = self.fetches.remove(&id);
                if fetch.is_some_and(|fetch| fetch.has_begun()) {
                    cx.emit(Event::Abandon { id });
                }
                continue;
            }
            let share = fetch.len().min(BYTES);
            if !lane.has_room_for(share) {
                return None;
            }
            fetch.heard(cx.now);
            lane.line.pop_front();
            lane.under_way.insert(id, share);
            lane.bytes += share;
            return Some(id);
        }
    }

    /// The source has sent content that was asked for.
    pub(super) fn source_answered(&mut self, source: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        (state.tries, state.busy) = (0, 0);
        let patience = state.patience(self.retry);
        cx.set_timer(Timer::Retry(source), patience);
        let look = cx.now.since(state.looked) >= patience;
        if look {
            state.looked = cx.now;
        }
        if std::mem::take(&mut state.pauses) {
            self.ask_on(source, cx);
        }
        if look {
            self.look_for_silent(source, patience, cx);
        }
    }

    /// The source sends content, but nothing of some blobs.
    fn look_for_silent(&mut self, source: NodeId, patience: Duration, cx: &mut Cx<'_, Self>) {
        let under_way = self.sources.get(&source).map(Source::under_way).unwrap_or_default();
        under_way.into_iter().for_each(|id| self.look_whether_silent(id, patience * TRIES, cx));
    }

    /// Storage has written something of what the source sent.
    pub(super) fn storage_answered(&mut self, source: NodeId) {
        if let Some(state) = self.sources.get_mut(&source) {
            state.stuck = 0;
        }
    }

    /// The source has too much to do: it is asked again after a pause.
    pub(super) fn source_busy(&mut self, source: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        state.tries = 0;
        state.busy += u32::from(!state.pauses);
        state.pauses = true;
        cx.set_timer(Timer::Retry(source), self.retry);
    }

    /// The source is connected: what it was asked before was lost.
    pub(super) fn source_up(&mut self, source: NodeId, cx: &mut Cx<'_, Self>) {
        let under_way = self.sources.get(&source).map(Source::under_way).unwrap_or_default();
        under_way.into_iter().for_each(|id| self.repeat(id, cx));
    }

    /// Nothing has come from the source for a while.
    pub(super) fn source_silent(&mut self, source: NodeId, cx: &mut Cx<'_, Self>) {
        let Some(state) = self.sources.get_mut(&source) else { return };
        let under_way = state.under_way();
        let waiting: Vec<BlobId> = under_way
            .iter()
            .copied()
            .filter(|id| self.fetches.get(id).is_some_and(|fetch| fetch.is_outstanding()))
            .collect();
        let paused = std::mem::take(&mut state.pauses);
        if paused && state.busy >= BUSY_MAX {
            return self.give_up(source, "its source is busy", cx);
        }
        if !paused && !waiting.is_empty() {
            state.tries += 1;
            if state.tries >= TRIES {
                return self.give_up(source, "its source does not answer", cx);
            }
        }
        if waiting.is_empty() && !under_way.is_empty() {
            state.stuck += 1;
            if state.stuck >= TRIES {
                let error = FetchError::NotStored("this node's storage does not answer".into());
                return under_way.into_iter().for_each(|id| self.unavailable(id, &error, cx));
            }
        }
        let patience = state.patience(self.retry);
        cx.set_timer(Timer::Retry(source), patience);
        waiting.into_iter().for_each(|id| self.repeat(id, cx));
        self.ask_on(source, cx);
    }

    /// All that is wanted of this source is wanted of the next one.
    pub(super) fn give_up(&mut self, source: NodeId, reason: &str, cx: &mut Cx<'_, Self>) {
        cx.cancel_timer(Timer::Retry(source));
        let Some(state) = self.sources.remove(&source) else { return };
        for id in state.all() {
            if self.fetches.get(&id).is_some_and(|fetch| fetch.source() == Some(source)) {
                self.next_source(id, FetchError::NoAnswer(reason.into()), cx);
            }
        }
    }
}
