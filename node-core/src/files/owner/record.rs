//! Row that is written for a file.

use super::super::manifest::Manifest;
use super::deals::{Spent, sale_of};
use super::{Event, Holder, Ocx, Owner, State};
use crate::address::Contact;
use crate::content::BlobRef;
use crate::disk::{Table, Write};
use crate::ids::{BlobId, NodeId};
use crate::money::{Micro, Price};
use crate::time::Time;
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
    /// Most that all copies may cost for a term; `None`: the usual.
    #[serde(default)]
    pub max_price: Option<Micro>,
    #[serde(default)]
    pub spent: Spent,
}

/// A keeper that has all of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Known {
    contact: Contact,
    until_ms: u64,
    price: Option<Price>,
    /// The number of the sale.
    #[serde(default)]
    sale: Option<u32>,
}

impl Known {
    pub(super) fn holder(&self, file: BlobId, now: Time) -> (NodeId, Holder) {
        let Known { contact, until_ms, price, sale } = *self;
        let (state, sale) = (State::Kept, sale.map(|index| sale_of(file, index)));
        // It has to prove itself at once: much may have happened meanwhile.
        let (heard, audit_at, silent) = (now, now, 0);
        (contact.id, Holder { contact, state, until_ms, price, sale, heard, audit_at, silent })
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
            sale: holder.sale.map(|sale| sale.unit.index),
        };
        file.record.at = kept.map(known).collect();
        // Plain data: rmp cannot fail on it.
        let value = rmp_serde::to_vec(&file.record).map(Bytes::from).ok();
        let mut writes = self.deals.take_writes(id, ticket);
        writes.push(Write { table: Table::Files, key: id.0.to_vec(), value });
        cx.emit(Event::Commit { ticket, writes });
        cx.emit(Event::Changed(id));
        ticket
    }

    pub(super) fn restore(&mut self, rows: Vec<(Vec<u8>, Bytes)>, cx: &mut Ocx<'_>) {
        for (key, value) in rows {
            if key.len() > 32 {
                self.restore_deal(&key, &value, cx);
                continue;
            }
            let Ok(record) = sandbox::unpack::from_slice::<Record>(&value) else { continue };
            if self.files.len() >= self.config.owned {
                continue;
            }
            let (id, names) = (record.manifest.id, record.names.clone());
            self.take_up(record, cx);
            names.into_iter().for_each(|name| self.publish_name(id, name, None, cx));
            self.say_where(id, true, cx);
        }
    }
}
