//! Looking whether a blob is still what its name says: a disk may have gone bad, or lost it.

use super::tree::{CHUNK, chunk_len, chunks};
use super::{Event, Pending, Store};
use crate::content::FetchError;
use crate::ids::BlobId;
use crate::protocol::Cx;
use std::collections::BTreeMap;

/// Blobs being looked through, and how far.
#[derive(Debug, Default)]
pub(super) struct Checks(BTreeMap<BlobId, (blake3::Hasher, u32)>);

impl Store {
    /// Somebody could do nothing with it. If it is bad, it is not here: it can come from others.
    pub(super) fn check(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        if self.here.contains_key(&id) && !self.checks.0.contains_key(&id) {
            self.checks.0.insert(id, (blake3::Hasher::new(), 0));
            self.check_next(id, cx);
        }
    }

    fn check_next(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        let len = self.here.get(&id).map(|here| here.len);
        let (Some(len), Some((_, index))) = (len, self.checks.0.get(&id)) else {
            self.checks.0.remove(&id);
            return;
        };
        let (offset, part) = (u64::from(*index) * CHUNK, chunk_len(len, *index));
        let number = self.number(Pending::ReadForCheck(id));
        cx.emit(Event::Read { number, id, offset, len: part });
    }

    pub(super) fn check_read(&mut self, id: BlobId, bytes: &[u8], cx: &mut Cx<'_, Self>) {
        let Some((hasher, index)) = self.checks.0.get_mut(&id) else { return };
        hasher.update(bytes);
        *index += 1;
        let len = self.here.get(&id).map_or(0, |here| here.len);
        if *index < chunks(len) {
            return self.check_next(id, cx);
        }
        let good = *hasher.finalize().as_bytes() == id.0;
        self.checks.0.remove(&id);
        if !good {
            self.drop_blob(id, cx);
            self.unavailable(id, &FetchError::NotStored("its copy here is bad".into()), cx);
        }
    }

    pub(super) fn check_failed(&mut self, id: BlobId, cx: &mut Cx<'_, Self>) {
        self.checks.0.remove(&id);
        self.drop_blob(id, cx);
        self.unavailable(id, &FetchError::NotStored("its copy here cannot be read".into()), cx);
    }
}
