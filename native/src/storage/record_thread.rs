//! Commits records for the node: everything that waits goes into one transaction, so that one
//! sync to disk pays for all.

use super::{Parts, Replies, done};
use node_core::disk::Failed;
use node_core::{StorageReply, StorageRequest, Token, Write};
use std::sync::mpsc::Receiver;

/// Bytes in one transaction. Our choice: a tenth of a second of a slow disk.
const MAX_BYTES: usize = 8 << 20;

pub(super) fn run(queue: Receiver<StorageRequest>, parts: &Parts, replies: &Replies) {
    let mut group = Group::default();
    while let Ok(first) = queue.recv() {
        let mut next = Some(first);
        while let Some(request) = next.take() {
            match request {
                StorageRequest::Commit { token, writes } => {
                    group.add(token, writes);
                    if group.bytes < MAX_BYTES {
                        next = queue.try_recv().ok();
                    }
                }
                // Sees what was committed before it.
                StorageRequest::Scan { token, table, after, limit } => {
                    group.commit(parts, replies);
                    let found = parts.records.after(table, after.as_deref(), limit as usize);
                    replies(match found {
                        Ok(entries) => StorageReply::Entries { token, entries },
                        Err(e) => StorageReply::Failed { token, error: Failed(e.0) },
                    });
                    next = queue.try_recv().ok();
                }
                // Not for this thread.
                _ => {}
            }
        }
        group.commit(parts, replies);
    }
}

#[derive(Default)]
struct Group {
    commits: Vec<(Token, Vec<Write>)>,
    bytes: usize,
}

impl Group {
    fn add(&mut self, token: Token, writes: Vec<Write>) {
        let size = |w: &Write| w.key.len() + w.value.as_ref().map_or(0, |v| v.len()) + 32;
        self.bytes += writes.iter().map(size).sum::<usize>();
        self.commits.push((token, writes));
    }

    fn commit(&mut self, parts: &Parts, replies: &Replies) {
        if self.commits.is_empty() {
            return;
        }
        let committed = parts.records.commit(self.commits.iter().flat_map(|(_, writes)| writes));
        if let Err(e) = &committed {
            tracing::error!("{e}");
        }
        self.bytes = 0;
        for (token, _) in self.commits.drain(..) {
            replies(done(token, committed.clone()));
        }
    }
}
