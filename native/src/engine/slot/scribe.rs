//! Writes snapshots down while their task goes on.

use super::super::wire::FromSlot;
use super::beside::{Awaited, Beside};
use super::desk::Desk;
use node_core::content::BlobRef;
use node_core::ids::BlobId;
use node_core::{SealKey, Taken};
use sandbox::snapshot::{Captured, Origin, Recorder, seal};
use std::sync::Arc;

/// Keeps the recorder of one run, or has it lent to a thread that writes.
pub(super) struct Scribe {
    run: u64,
    key: SealKey,
    origin: Origin,
    /// The blob that the next snapshot is relative to.
    base: Option<BlobId>,
    recorder: Option<Recorder>,
    writing: Option<Awaited<(Recorder, Option<BlobId>)>>,
}

impl Scribe {
    pub(super) fn new(
        run: u64,
        key: SealKey,
        origin: Origin,
        recorder: Recorder,
        base: Option<BlobRef>,
    ) -> Self {
        Scribe { run, key, origin, base: base.map(|base| base.id), recorder: Some(recorder), writing: None }
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

    fn written(&mut self, written: Option<(Recorder, Option<BlobId>)>) {
        self.writing = None;
        match written {
            Some((recorder, base)) => {
                self.recorder = Some(recorder);
                self.base = base;
            }
            // It failed: the next snapshot begins anew.
            None => {
                self.recorder = Some(Recorder::new(self.origin.clone()));
                self.base = None;
            }
        }
    }

    pub(super) fn put_back(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Writes a snapshot down here and now.
    pub(super) fn write(&self, recorder: &mut Recorder, captured: Captured, pause_us: u64) -> Taken {
        let encoded = recorder.encode(captured);
        let bytes = seal(&self.key.0, encoded.bytes);
        let base = self.base.filter(|_| encoded.base.is_some());
        Taken { bytes: bytes.into(), base, root: encoded.root, fuel: encoded.fuel, pause_us }
    }

    /// Writes it down in that thread, and sends it to the node.
    pub(super) fn begin(
        &mut self,
        (recorder, captured): (Recorder, Captured),
        pause_us: u64,
        beside: &Beside,
        desk: &Arc<Desk>,
    ) {
        let (desk, run) = (desk.clone(), self.run);
        let origin = self.origin.clone();
        let here = Scribe { run, key: self.key, origin, base: self.base, recorder: None, writing: None };
        self.writing = Some(beside.give(move || {
            let mut recorder = recorder;
            let taken = here.write(&mut recorder, captured, pause_us);
            let base = taken.base.unwrap_or_else(|| BlobId::of(&taken.bytes));
            desk.note(&FromSlot::Snapshot { run, taken: Ok(taken), stopped: false });
            (recorder, Some(base))
        }));
    }
}
