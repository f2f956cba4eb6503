//! Jobs of an earlier life of this node, as their rows tell of them.

use super::job::{Job, Phase};
use super::{Event, Owner};
use crate::content::BlobRef;
use crate::ids::{JobId, UnitId};
use crate::protocol::Cx;
use crate::work::book::Units;
use crate::work::rows::{self, EndRecord, JobRecord, JobRow};
use crate::work::spec::UnitResult;
use bytes::Bytes;
use sandbox::End;
use std::collections::BTreeSet;

impl Owner {
    pub(super) fn restore_jobs(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in entries {
            let known = match rows::job_key(&key) {
                Some((id, JobRow::Job)) => {
                    sandbox::unpack::from_slice(&value).is_ok_and(|record: JobRecord| {
                        let mut job =
                            Job::new(record.spec, record.client, record.submitted_ms, record.secret);
                        (job.phase, job.restored) = (Phase::Active, true);
                        let blobs = job.spec.blobs();
                        self.keep_job(id, job);
                        self.pin(id, blobs, cx);
                        true
                    })
                }
                Some((id, JobRow::End)) => sandbox::unpack::from_slice(&value).is_ok_and(|end: EndRecord| {
                    if let Some(job) = self.jobs.get_mut(&id) {
                        job.phase = Phase::Over { cancelled: end.cancelled };
                        job.ended_ms = Some(end.ended_ms);
                    }
                    true
                }),
                Some((id, JobRow::Threads)) => self.restore_threads(id, &value),
                Some((id, JobRow::Partial)) => self.restore_partial(id, &value),
                None => false,
            };
            if !known {
                let what =
                    "a job's record cannot be read and is left as it is; was it written by a newer version?";
                cx.trouble(what.into());
            }
        }
    }

    pub(super) fn restore_results(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in &entries {
            let Some(unit) = rows::unit_of(key) else { continue };
            if !self.jobs.contains_key(&unit.job) {
                continue;
            }
            match sandbox::unpack::from_slice::<UnitResult>(value) {
                Ok(result) => {
                    self.restore_result(unit, &result, cx);
                    self.pin(unit.job, result.blobs(), cx);
                }
                Err(_) => cx.trouble(format!("the result of {unit} cannot be read; the unit runs again")),
            }
        }
    }

    /// From the disk, at start: the unit had ended before.
    fn restore_result(&mut self, unit: UnitId, result: &UnitResult, cx: &mut Cx<'_, Self>) {
        if self.book.state(unit).is_some_and(|state| !state.has_ended()) {
            self.book.attempted(unit, result.attempts);
            if let Some(job) = self.jobs.get_mut(&unit.job) {
                job.refusals.runs |= !matches!(result.end, End::Refused(_));
            }
            self.end_unit(unit, result);
            self.thread_ended(unit, result, cx);
        }
    }

    pub(super) fn restore_checkpoints(&mut self, entries: Vec<(Vec<u8>, Bytes)>, cx: &mut Cx<'_, Self>) {
        for (key, value) in &entries {
            if let Some(unit) = rows::unit_of(key) {
                self.restore_record(unit, value, cx);
            }
        }
        if !entries.is_empty() {
            return;
        }
        self.ready = true;
        cx.emit(Event::Ready);
        let ids: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in ids {
            let job = &self.jobs[&id];
            let is_over = self.first_has_ended(id) || self.book.units(id).is_some_and(Units::all_ended);
            if job.is_active() && is_over {
                // The crash came between the last result and the end record.
                self.finish(id, false, cx);
            } else {
                self.touch(id, cx);
            }
        }
        self.flush_records(cx);
        self.settle_ended();
        self.look(cx);
        self.look_after_delegated(cx);
    }

    /// A job of an earlier life needs these. One that has been lost is missed when it is needed.
    fn pin(&mut self, id: JobId, blobs: impl IntoIterator<Item = BlobRef>, cx: &mut Cx<'_, Self>) {
        if self.config.pins {
            blobs.into_iter().for_each(|blob| self.keep_content(id, BTreeSet::from([blob]), cx));
        }
    }
}
