//! Stories about a data folder.

mod blobs;
mod folder;
mod records;
mod staging;

use super::*;
use bytes::Bytes;
use node_core::Write;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

/// A node's end of a storage.
struct Keeper {
    storage: Storage,
    replies: Receiver<StorageReply>,
    next: u64,
    /// Replies that came before they were asked for.
    early: HashMap<u64, StorageReply>,
}

impl Keeper {
    fn on(dir: &Path) -> Keeper {
        Keeper::try_on(dir).unwrap()
    }

    fn try_on(dir: &Path) -> Result<Keeper, StorageError> {
        let (sender, replies) = channel();
        let storage = Storage::open(dir, move |reply| drop(sender.send(reply)))?;
        Ok(Keeper { storage, replies, next: 0, early: HashMap::new() })
    }

    fn ask(&mut self, request: impl FnOnce(Token) -> StorageRequest) -> Token {
        self.next += 1;
        let token = Token(self.next);
        self.storage.request(request(token));
        token
    }

    fn answer(&mut self, token: Token) -> StorageReply {
        loop {
            if let Some(reply) = self.early.remove(&token.0) {
                return reply;
            }
            let reply = self.replies.recv_timeout(Duration::from_secs(60)).expect("no answer");
            let of = match &reply {
                StorageReply::Done { token }
                | StorageReply::Entries { token, .. }
                | StorageReply::Blob { token, .. }
                | StorageReply::Failed { token, .. } => token.0,
            };
            assert!(self.early.insert(of, reply).is_none(), "answered twice");
        }
    }

    fn done(&mut self, request: impl FnOnce(Token) -> StorageRequest) {
        let token = self.ask(request);
        match self.answer(token) {
            StorageReply::Done { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn fails(&mut self, request: impl FnOnce(Token) -> StorageRequest) -> String {
        let token = self.ask(request);
        match self.answer(token) {
            StorageReply::Failed { error, .. } => error.0,
            other => panic!("{other:?}"),
        }
    }

    fn scan(&mut self, table: Table, after: Option<&[u8]>, limit: u32) -> Vec<(Vec<u8>, Bytes)> {
        let after = after.map(<[u8]>::to_vec);
        let token = self.ask(|token| StorageRequest::Scan { token, table, after, limit });
        match self.answer(token) {
            StorageReply::Entries { entries, .. } => entries,
            other => panic!("{other:?}"),
        }
    }
}

fn commit(writes: Vec<Write>) -> impl FnOnce(Token) -> StorageRequest {
    |token| StorageRequest::Commit { token, writes }
}

fn write(table: Table, key: &[u8], value: &[u8]) -> Write {
    Write { table, key: key.to_vec(), value: Some(Bytes::copy_from_slice(value)) }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}
