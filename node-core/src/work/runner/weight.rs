//! How much of this node's memory and disk units may take by being held here, whatever their owners say:
//! a grant is a promise of content to come, and what a unit needs stays until it has ended.

use super::declined::Declined;
use super::{Job, Runner, Unit};
use crate::content::BlobRef;
use crate::ids::BlobId;
use crate::work::message::{Batch, UnitGrant};
use crate::work::spec::{Template, UnitSpec};
use crate::work::weight;
use std::collections::BTreeMap;

/// Bytes of descriptions that units held here may have in memory: names, arguments, content that came with
/// them. Our choice: what a page can spare, and 32 KB for each of the units that a node holds.
const TEXTS: u64 = 64 << 20;

/// A batch below this has no need to be weighed: held units are bounded, and as many of these fit.
const LIGHT: u64 = 4 << 10;

/// The weight of jobs and units that are here, each content once.
#[derive(Clone, Debug, Default)]
pub(super) struct Weight {
    texts: u64,
    content: BTreeMap<BlobId, u64>,
}

impl Weight {
    /// Adds content. The larger of two lengths of one blob counts.
    fn add_content(&mut self, blobs: impl IntoIterator<Item = (BlobId, u64)>) {
        for (id, len) in blobs {
            let known = self.content.entry(id).or_default();
            *known = len.max(*known);
        }
    }

    fn add_job(&mut self, name: &str, it: &Template) {
        self.texts += name.len() as u64 + weight::of_template(it);
        self.add_content(it.blobs().into_iter().map(|blob| (blob.id, blob.len)));
    }

    fn add_unit(&mut self, spec: Option<&UnitSpec>, resume: Option<&crate::progress::Resume>) {
        self.texts += spec.map_or(0, weight::of_unit);
        let parts = resume.map(|resume| resume.checkpoint.parts()).unwrap_or_default();
        let blobs = spec.map(UnitSpec::blobs).unwrap_or_default().into_iter().chain(parts);
        self.add_content(blobs.map(|blob| (blob.id, blob.len)));
    }

    fn add(&mut self, other: &Weight) {
        self.texts += other.texts;
        self.add_content(other.content.iter().map(|(id, len)| (*id, *len)));
    }

    fn bytes(&self) -> u64 {
        self.content.values().fold(0, |sum, len| sum.saturating_add(*len))
    }
}

impl Runner {
    /// Weighs a batch, and content besides; or says why it does not fit beside what is held here.
    pub(super) fn weigh(&self, batch: &Batch, besides: Option<&BlobRef>) -> Result<Weight, Declined> {
        let mut new = Weight::default();
        new.add_job(&batch.name, &batch.template);
        for UnitGrant { spec, resume, .. } in &batch.units {
            new.add_unit(spec.as_ref(), resume.as_deref());
        }
        new.add_content(besides.map(|blob| (blob.id, blob.len)));
        let bound = self.config.limits.content_bytes;
        // A light one was weighed with the first of its job.
        let known = self.jobs.contains_key(&batch.job);
        if new.texts < LIGHT && (new.content.is_empty() || known && new.content.len() == 1) {
            return Ok(new);
        }
        let mut all = new.clone();
        for Job { name, template, .. } in self.jobs.values() {
            all.add_job(name, template);
        }
        for Unit { spec, resume, .. } in self.units.values() {
            all.add_unit(spec.as_ref(), resume.as_ref().map(|(resume, _)| &**resume));
        }
        self.coming.values().for_each(|coming| all.add(&coming.weight));
        let bytes = all.bytes();
        if bytes > bound {
            return Err(Declined::Content { bytes, most: bound });
        }
        if all.texts > TEXTS {
            return Err(Declined::Texts { bytes: all.texts, most: TEXTS });
        }
        Ok(new)
    }
}
