//! Whether keepers keep: proofs, silence, and what is done about them.

use super::super::message::ToKeeper;
use super::super::proof;
use super::{Event, LOST, Ocx, Owner, State, TICK, Timer, to_keeper};
use crate::ids::{BlobId, NodeId};
use bytes::Bytes;
use std::time::Duration;

/// Proofs in vain before a keeper is given up. Our choice: one may be lost, one late.
const SILENT: u8 = 3;

/// Proofs under way at a time; more wait for the next look. Our choice: keepers read 4 MiB for each.
const PROOFS: usize = 64;

/// Reasons as peers give them are cut to so much.
const REASON: usize = 200;

/// A proof that was asked for.
#[derive(Debug)]
pub(super) struct Proof {
    file: BlobId,
    node: NodeId,
    index: u32,
    nonce: [u8; 32],
    /// Proof that came, and waits for this node's own chunk.
    came: Option<Bytes>,
}

impl Owner {
    pub(super) fn tick(&mut self, cx: &mut Ocx<'_>) {
        if self.files.is_empty() && self.deals.is_empty() {
            return;
        }
        cx.set_timer(Timer::Tick, TICK);
        self.look_at_deals(cx);
        let (now_ms, term) = (self.wall.now(cx.now), self.config.term);
        let (mut late, mut due, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
        for (id, file) in &self.files {
            for (node, holder) in &file.holders {
                match holder.state {
                    _ if holder.until_ms <= now_ms => late.push((*id, *node, "its time was over")),
                    State::Pulling(_) if cx.now.since(holder.heard) > self.config.pull => {
                        late.push((*id, *node, "it did not get it in time"));
                    }
                    State::Kept if holder.silent >= SILENT && holder.audit_at <= cx.now => {
                        late.push((*id, *node, "it does not answer any more"));
                    }
                    State::Kept if holder.audit_at <= cx.now => due.push((*id, *node)),
                    _ => {}
                }
            }
            if !file.looking && file.look_at <= cx.now && file.lacks(now_ms, term) > 0 {
                lacking.push(*id);
            }
        }
        late.into_iter().for_each(|(id, node, why)| self.lose(id, node, why, cx));
        due.into_iter().for_each(|(id, node)| self.ask_for_proof(id, node, cx));
        lacking.into_iter().for_each(|id| self.place(id, cx));
    }

    fn ask_for_proof(&mut self, id: BlobId, node: NodeId, cx: &mut Ocx<'_>) {
        self.proofs.retain(|_, proof| (proof.file, proof.node) != (id, node));
        if self.proofs.len() >= PROOFS {
            return;
        }
        let ticket = self.number();
        let answer = self.config.answer;
        let Some(file) = self.files.get_mut(&id) else { return };
        let chunks = file.record.content.chunks.len() as u64;
        let Some(holder) = file.holders.get_mut(&node) else { return };
        holder.silent += 1;
        holder.audit_at = cx.now + answer;
        let index = if chunks > 0 { cx.rng.below(chunks) as u32 } else { 0 };
        let nonce: [u8; 32] = std::array::from_fn(|_| cx.rng.below(256) as u8);
        to_keeper(
            &holder.contact,
            ToKeeper::Audit { ticket, file: id, index, nonce: Bytes::copy_from_slice(&nonce) },
            cx,
        );
        self.proofs.insert(ticket, Proof { file: id, node, index, nonce, came: None });
    }

    pub(super) fn proven(&mut self, from: NodeId, ticket: u64, came: Option<Bytes>, cx: &mut Ocx<'_>) {
        let Some(asked) = self.proofs.get_mut(&ticket).filter(|asked| asked.node == from) else { return };
        let (id, index) = (asked.file, asked.index);
        let Some(file) = self.files.get(&id) else { return drop(self.proofs.remove(&ticket)) };
        match (came, file.record.content.chunk(index as usize)) {
            (Some(came), Some(blob)) => {
                asked.came = Some(came);
                cx.emit(Event::Read { ticket, blob });
            }
            // A file without content.
            (_, None) => {
                self.proofs.remove(&ticket);
                self.has_proved(id, from, cx);
            }
            (None, Some(_)) => {
                self.proofs.remove(&ticket);
                let fault = "lost a chunk of a file that it keeps".into();
                cx.fault(from, fault);
                self.lose(id, from, "it lost a part of it", cx);
            }
        }
    }

    /// Against this node's own chunk.
    pub(super) fn compare(&mut self, ticket: u64, bytes: Option<Bytes>, cx: &mut Ocx<'_>) {
        let Some(Proof { file: id, node, index, nonce, came: Some(came) }) = self.proofs.remove(&ticket)
        else {
            return;
        };
        let Some(blob) = self.files.get(&id).and_then(|file| file.record.content.chunk(index as usize))
        else {
            return;
        };
        match bytes.filter(|bytes| BlobId::of(bytes) == blob.id) {
            Some(bytes) if proof(&nonce, &bytes) == came => self.has_proved(id, node, cx),
            Some(_) => {
                let fault = "gave a wrong proof of a file that it keeps".into();
                cx.fault(node, fault);
                self.lose(id, node, "its proof was wrong", cx);
            }
            // It is this node that cannot tell. The keeper lives, and has the chunk that is missing.
            None => {
                cx.emit(Event::Check { blobs: vec![blob.id] });
                self.mend(id, cx);
                self.holds(id, node, cx);
            }
        }
    }

    /// Brings what is missing here back from keepers.
    fn mend(&mut self, id: BlobId, cx: &mut Ocx<'_>) {
        let ticket = self.number();
        let Some(file) = self.files.get_mut(&id) else { return };
        let old = std::mem::replace(&mut file.pinned, ticket);
        let blobs = std::iter::once(file.record.manifest).chain(file.record.content.parts()).collect();
        let from = file.holders.keys().copied().collect();
        cx.emit(Event::Release { ticket: old });
        cx.emit(Event::Pin { ticket, blobs, from });
    }

    fn has_proved(&mut self, id: BlobId, node: NodeId, cx: &mut Ocx<'_>) {
        self.holds(id, node, cx);
        let holder = self.files.get(&id).and_then(|file| file.holders.get(&node));
        if let Some(sale) = holder.and_then(|holder| holder.sale) {
            self.deals.proved(sale, self.wall.now(cx.now));
            self.write_deals(id, cx);
        }
    }

    fn holds(&mut self, id: BlobId, node: NodeId, cx: &mut Ocx<'_>) {
        let audit = self.config.audit.as_micros() as u64;
        let rest = Duration::from_micros(audit / 2 + cx.rng.below(audit.max(1)));
        let file = self.files.get_mut(&id);
        if let Some(holder) = file.and_then(|file| file.holders.get_mut(&node)) {
            (holder.silent, holder.heard, holder.audit_at) = (0, cx.now, cx.now + rest);
        }
    }

    pub(super) fn keeping(&mut self, from: NodeId, id: BlobId, chunks: u32, cx: &mut Ocx<'_>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let most = file.record.content.chunks.len() as u32;
        let Some(holder) = file.holders.get_mut(&from) else { return };
        if holder.state != State::Kept {
            (holder.state, holder.heard) = (State::Pulling(chunks.min(most)), cx.now);
            cx.emit(Event::Changed(id));
        }
    }

    pub(super) fn kept(&mut self, from: NodeId, id: BlobId, until_ms: u64, cx: &mut Ocx<'_>) {
        let Some(holder) = self.files.get_mut(&id).and_then(|file| file.holders.get_mut(&from)) else {
            return cx.send(from, super::Message::ToKeeper(ToKeeper::Drop { file: id }));
        };
        let new = holder.state != State::Kept;
        holder.state = State::Kept;
        // Not for longer than was agreed.
        holder.until_ms = holder.until_ms.min(until_ms);
        if new {
            // Its first word is not its proof.
            (holder.silent, holder.audit_at) = (0, cx.now);
        }
        if let Some(sale) = holder.sale {
            self.deals.kept(sale, self.wall.now(cx.now));
        }
        self.write(id, cx);
        self.say_where(id, false, cx);
    }

    pub(super) fn refused(&mut self, from: NodeId, id: BlobId, why: &str, cx: &mut Ocx<'_>) {
        let why: String = why.chars().take(REASON).collect();
        self.lose(id, from, &why, cx);
    }

    pub(super) fn gone(&mut self, peer: NodeId, cx: &mut Ocx<'_>) {
        let grace = cx.now + self.config.grace;
        for file in self.files.values_mut() {
            if let Some(holder) = file.holders.get_mut(&peer) {
                holder.audit_at = holder.audit_at.min(grace);
            }
        }
    }

    /// One that does not keep it any more. Another does, soon.
    fn lose(&mut self, id: BlobId, node: NodeId, why: &str, cx: &mut Ocx<'_>) {
        let Some(file) = self.files.get_mut(&id) else { return };
        let Some(holder) = file.holders.remove(&node) else { return };
        if file.lost.len() >= LOST {
            file.lost.pop_front();
        }
        file.lost.push_back((node, why.to_string()));
        file.reason = format!("{} went: {why}", node.short());
        // Not at once to the same one again.
        file.look_at = file.look_at.max(cx.now + TICK);
        to_keeper(&holder.contact, ToKeeper::Drop { file: id }, cx);
        if let Some(sale) = holder.sale {
            self.end_deal(sale);
        }
        self.write(id, cx);
        self.say_where(id, false, cx);
    }

    /// Takes a keeper's list of the files that it keeps for this node: some of them may be over.
    pub(super) fn holding(&mut self, from: NodeId, files: Vec<BlobId>, cx: &mut Ocx<'_>) {
        for id in files {
            let known = self.files.get(&id).is_some_and(|file| file.holders.contains_key(&from));
            if !known {
                cx.send(from, super::Message::ToKeeper(ToKeeper::Drop { file: id }));
            }
        }
    }
}
