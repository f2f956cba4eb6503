//! Writes snapshots down while their task goes on.

use super::super::wire::{FromSlot, SlotSnapshot};
use super::beside::{Awaited, Beside};
use super::desk::Desk;
use super::files;
use node_core::SealKey;
use sandbox::snapshot::{Captured, Origin, Recorder, seal};
use sandbox::swarm::Marks;
use std::sync::Arc;

/// State of a run, captured and not written down yet.
pub(super) struct Frozen {
    pub(super) captured: Captured,
    pub(super) pause_us: u64,
    /// Set of a thread: messages and questions that it covers.
    pub(super) marks: Option<Marks>,
}

/// Keeps the recorder of one run, or has it lent to a thread that writes.
pub(super) struct Scribe {
    run: u64,
    key: SealKey,
    origin: Origin,
    recorder: Option<Recorder>,
    writing: Option<Awaited<Recorder>>,
}

impl Scribe {
    pub(super) fn new(run: u64, key: SealKey, origin: Origin, recorder: Recorder) -> Self {
        Scribe { run, key, origin, recorder: Some(recorder), writing: None }
    }

    /// The recorder, if it is not in use.
    pub(super) fn poll(&mut self) -> Option<Recorder> {
        if let Some(writing) = &self.writing {
            let written = writing.poll()?;
            self.written(written);
        }
        self.recorder.take()
    }

    /// The recorder, when it is not in use any more.
    pub(super) fn wait(&mut self) -> Option<Recorder> {
        if let Some(writing) = self.writing.take() {
            self.written(writing.wait());
        }
        self.recorder.take()
    }

    fn written(&mut self, written: Option<Recorder>) {
        self.writing = None;
        // If that failed, the next snapshot begins anew.
        self.recorder = Some(written.unwrap_or_else(|| Recorder::new(self.origin.clone())));
    }

    pub(super) fn put_back(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Writes a snapshot down here and now. If that fails, the next one is whole: nobody has got this one, which
    /// it would be relative to.
    pub(super) fn write(&self, recorder: &mut Recorder, frozen: Frozen) -> SlotSnapshot {
        let Frozen { captured, pause_us, marks } = frozen;
        let encoded = recorder.encode(captured);
        let written = files::write(&[&seal(&self.key.0, encoded.bytes)]);
        if written.is_err() {
            *recorder = Recorder::new(self.origin.clone());
        }
        let relative = encoded.base.is_some();
        SlotSnapshot { written, relative, root: encoded.root, fuel: encoded.fuel, pause_us, marks }
    }

    /// Writes it down in that thread, and sends it to the node.
    pub(super) fn begin(
        &mut self,
        (recorder, frozen): (Recorder, Frozen),
        beside: &Beside,
        desk: &Arc<Desk>,
    ) {
        let (desk, run) = (desk.clone(), self.run);
        let origin = self.origin.clone();
        let here = Scribe { run, key: self.key, origin, recorder: None, writing: None };
        self.writing = Some(beside.give(move || {
            let mut recorder = recorder;
            let taken = here.write(&mut recorder, frozen);
            desk.note(&FromSlot::Snapshot { run, taken: Ok(taken), stopped: false });
            recorder
        }));
    }
}
