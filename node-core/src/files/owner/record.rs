//! What is written down of a file.

use super::super::manifest::Manifest;
use super::{Event, Holder, Ocx, Owner, State};
use crate::ids::{BlobId, NodeId};
use crate::market::money::Price;
use crate::node::host::{Table, Write};
use crate::overlay::contact::Contact;
use crate::time::Time;
use crate::work::spec::BlobRef;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub manifest: BlobRef,
    pub content: Manifest,
    pub copies: u8,
    /// Milliseconds since 1970.
    pub put_ms: u64,
    pub names: Vec<String>,
    /// Chunks that are here for another reason, too.
    pub shared: Vec<u32>,
    pub at: Vec<Known>,
}

/// A keeper that has all of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Known {
    contact: Contact,
    until_ms: u64,
    price: Option<Price>,
}

impl Known {
    pub(super) fn holder(&self, now: Time) -> (NodeId, Holder) {
        let Known { contact, until_ms, price } = *self;
        // It has to prove itself at once: much may have happened meanwhile.
        let holder =
            Holder { contact, state: State::Kept, until_ms, price, heard: now, audit_at: now, silent: 0 };
        (contact.id, holder)
    }
}

pub(super) fn removed(id: BlobId) -> Write {
    Write { table: Table::Files, key: id.0.to_vec(), value: None }
}

impl Owner {
    /// Writes a file down; the ticket by which that is answered.
    pub(super) fn write(&mut self, id: BlobId, cx: &mut Ocx<'_>) -> u64 {
        let ticket = self.number();
        let Some(file) = self.files.get_mut(&id) else { return ticket };
        let kept = file.holders.values().filter(|holder| holder.state == State::Kept);
        let known = |holder: &Holder| Known {
            contact: holder.contact,
            until_ms: holder.until_ms,
            price: holder.price,
        };
        file.record.at = kept.map(known).collect();
        // Plain data: rmp cannot fail on it.
        let value = rmp_serde::to_vec(&file.record).map(Bytes::from).ok();
        let writes = vec![Write { table: Table::Files, key: id.0.to_vec(), value }];
        cx.emit(Event::Commit { ticket, writes });
        cx.emit(Event::Changed(id));
        ticket
    }

    pub(super) fn restore(&mut self, rows: Vec<(Vec<u8>, Bytes)>, cx: &mut Ocx<'_>) {
        for (_, value) in rows {
            let Ok(record) = rmp_serde::from_slice::<Record>(&value) else { continue };
            if self.files.len() >= self.config.owned {
                return;
            }
            let (id, names) = (record.manifest.id, record.names.clone());
            self.take_up(record, cx);
            names.into_iter().for_each(|name| self.publish_name(id, name, None, cx));
            self.say_where(id, true, cx);
        }
    }
}
