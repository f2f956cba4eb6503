//! Files as people see them.

use super::{File, Owner, State};
use crate::ids::{BlobId, NodeId};
use crate::money::{Micro, Price};

/// A file that this node owns.
#[derive(Clone, Debug, PartialEq)]
pub struct FileView {
    pub id: BlobId,
    /// For people.
    pub name: Option<String>,
    /// Bytes, as they are kept.
    pub len: u64,
    pub chunks: u32,
    pub encrypted: bool,
    /// How many others are to keep it, and how many have all of it.
    pub copies: u8,
    pub kept: u8,
    /// Milliseconds since 1970.
    pub put_ms: u64,
    /// Under which it is published.
    pub names: Vec<String>,
    pub keepers: Vec<KeeperView>,
    /// Why it stands where it stands, in words.
    pub reason: String,
    /// Keepers that went, the last one last, and why.
    pub lost: Vec<(NodeId, String)>,
    /// Most that all copies may cost for a term.
    pub max_price: Micro,
    /// Credit that the bank holds for its keepers, and credit that it has cost until now.
    pub held: Micro,
    pub paid: Micro,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeeperView {
    pub node: NodeId,
    /// Chunks that it has.
    pub chunks: u32,
    pub kept: bool,
    pub until_ms: u64,
    /// None: given for nothing.
    pub price: Option<Price>,
    /// Credit due for what the keeper has proved until now, if its space was bought.
    pub due: Micro,
}

impl Owner {
    /// Those of this id, or all, in the order in which they were put.
    pub fn files(&self, only: Option<BlobId>) -> Vec<FileView> {
        let wanted = |(id, _): &(&BlobId, &File)| only.is_none_or(|only| only == **id);
        let mut all: Vec<FileView> =
            self.files.iter().filter(wanted).map(|(_, file)| self.view(file)).collect();
        all.sort_by_key(|file| (file.put_ms, file.id));
        all
    }

    fn view(&self, file: &File) -> FileView {
        let content = &file.record.content;
        let chunks = content.chunks.len() as u32;
        let keepers = file.holders.iter().map(|(node, holder)| {
            let (here, kept) = match holder.state {
                State::Pulling(here) => (here, false),
                State::Kept => (chunks, true),
            };
            let (until_ms, price) = (holder.until_ms, holder.price);
            let due = holder.sale.map_or(Micro::ZERO, |sale| self.deals.due(sale));
            KeeperView { node: *node, chunks: here, kept, until_ms, price, due }
        });
        FileView {
            id: file.record.manifest.id,
            name: content.name.clone(),
            len: content.len,
            chunks,
            encrypted: content.encrypted,
            copies: file.record.copies,
            kept: file.kept() as u8,
            put_ms: file.record.put_ms,
            names: file.record.names.clone(),
            keepers: keepers.collect(),
            reason: file.reason.clone(),
            lost: file.lost.iter().cloned().collect(),
            max_price: self.may_cost(file),
            held: self.deals.held(file.record.manifest.id, None),
            paid: file.record.spent.paid,
        }
    }

    /// Whether some are not kept by as many as they should be.
    pub fn is_short(&self) -> bool {
        self.files.values().any(|file| file.kept() < usize::from(file.record.copies))
    }
}

impl File {
    pub(super) fn kept(&self) -> usize {
        self.holders.values().filter(|holder| holder.state == State::Kept).count()
    }
}
