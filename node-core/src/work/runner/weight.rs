//! How much of this node's memory and disk units may take by being held here, whatever their owners say:
//! a grant is a promise of content to come, and what a unit needs stays until it has ended.

use super::queue::{blobs_of_template, blobs_of_unit};
use super::{Job, Runner, Unit};
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

/// What a unit keeps here, each content once.
#[derive(Default)]
struct Weight {
    texts: u64,
    content: BTreeMap<BlobId, u64>,
}

impl Weight {
    fn add_job(&mut self, name: &str, it: &Template) {
        self.texts += name.len() as u64 + weight::of_template(it);
        self.content.extend(blobs_of_template(it).into_iter().map(|blob| (blob.id, blob.len)));
    }

    fn add_unit(&mut self, spec: Option<&UnitSpec>, resume: Option<&crate::checkpoint::Resume>) {
        self.texts += spec.map_or(0, weight::of_unit);
        let parts = resume.map(|resume| resume.checkpoint.parts()).unwrap_or_default();
        let blobs = spec.map(blobs_of_unit).unwrap_or_default().into_iter().chain(parts);
        self.content.extend(blobs.map(|blob| (blob.id, blob.len)));
    }

    fn bytes(&self) -> u64 {
        self.content.values().fold(0, |sum, len| sum.saturating_add(*len))
    }
}

impl Runner {
    /// Why the units of a batch do not fit beside what is held here.
    pub(super) fn too_heavy(&self, batch: &Batch) -> Option<String> {
        let mut new = Weight::default();
        new.add_job(&batch.name, &batch.template);
        for UnitGrant { spec, resume, .. } in &batch.units {
            new.add_unit(spec.as_ref(), resume.as_deref());
        }
        let bound = self.config.limits.content_bytes;
        // What is light was weighed with the first of its job.
        let known = self.jobs.contains_key(&batch.job);
        if new.texts < LIGHT && (new.content.is_empty() || known && new.content.len() == 1) {
            return None;
        }
        for Job { name, template, .. } in self.jobs.values() {
            new.add_job(name, template);
        }
        for Unit { spec, resume, .. } in self.units.values() {
            new.add_unit(spec.as_ref(), resume.as_ref().map(|(resume, _)| &**resume));
        }
        let bytes = new.bytes();
        if bytes > bound {
            return Some(format!(
                "with it, units would need {bytes} bytes of content here, and it holds {bound} at most"
            ));
        }
        (new.texts > TEXTS).then(|| {
            format!(
                "with it, descriptions of units would take {} bytes of memory, and {TEXTS} are their bound",
                new.texts
            )
        })
    }
}
