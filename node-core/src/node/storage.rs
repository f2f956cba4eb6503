//! Requests to storage, and its answers on their way to the service that asked.

use super::Node;
use super::host::Host;
use crate::content::BlobRef;
use crate::disk::{Answer, Asked, StorageReply, StorageRequest, Table, What, Write};
use crate::ticket::{ServiceId, Ticket};
use bytes::Bytes;

/// Entries read from a table at a time.
pub(super) const SCAN: u32 = 1000;

pub(super) type Entries = Vec<(Vec<u8>, Bytes)>;

/// The rows of a part of a table, and the key behind which there may be more.
pub(super) fn scanned(answer: Answer) -> (Entries, Option<Vec<u8>>) {
    let entries = answer.entries();
    let last = entries.last().map(|(key, _)| key.clone());
    let more = last.filter(|_| entries.len() >= SCAN as usize);
    (entries, more)
}

pub(super) fn scan(of: ServiceId, table: Table, after: Option<Vec<u8>>, host: &mut dyn Host) {
    let token = Asked { of, what: What::Scan(table), number: 0 }.token();
    host.storage(StorageRequest::Scan { token, table, after, limit: SCAN });
}

pub(super) fn commit(by: Ticket, writes: Vec<Write>, host: &mut dyn Host) {
    let token = Asked { of: by.of, what: What::Commit, number: by.number }.token();
    host.storage(StorageRequest::Commit { token, writes });
}

/// Reads a whole blob.
pub(super) fn read(by: Ticket, blob: BlobRef, host: &mut dyn Host) {
    let token = Asked { of: by.of, what: What::Read, number: by.number }.token();
    let len = u32::try_from(blob.len).unwrap_or(u32::MAX);
    host.storage(StorageRequest::ReadBlob { token, id: blob.id, offset: 0, len });
}

impl Node {
    pub(super) fn storage(&mut self, reply: StorageReply, host: &mut dyn Host) {
        let (token, result) = reply.take();
        let Some(asked) = token.asked() else { return };
        if let Some(row) = self.row(asked.of) {
            (row.on_stored)(self, asked, result, host);
        }
    }
}
