//! The side of who owns keys, and of who keeps copies.
//!
//! As with markets: the owner tells its copies at once what changes, digests are compared now and
//! then, and who becomes the owner has the copy, or pulls it from whoever was. Nothing is written
//! down here: who published says it again.

use super::message::{COPIES, Copied, Message};
use super::record::Record;
use super::table::From;
use super::{Rcx, Records};
use crate::address::Contact;
use crate::circle::Range;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::record::{Key, Refused};

impl Records {
    pub(super) fn put(&mut self, from: NodeId, ticket: u64, signed: Signed, cx: &mut Rcx<'_>) {
        let refused = self.take(signed, cx).err();
        if refused == Some(Refused::Forged) {
            cx.fault(from, "sent a forged record".into());
        }
        cx.send(from, Message::Done { ticket, refused });
    }

    fn take(&mut self, signed: Signed, cx: &mut Rcx<'_>) -> Result<(), Refused> {
        let now_ms = self.now_ms(cx.now).ok_or(Refused::NotMine)?;
        let record = Record::open(&signed, &self.config, now_ms)?;
        if !self.share.owns(record.key.point()) {
            return Err(Refused::NotMine);
        }
        let copied = Copied { signed: signed.clone(), since_ms: now_ms };
        if self.table.put(signed, record, now_ms, From::Publisher, self.share.range(), cx.now)? {
            self.tell_replicas(&[copied], cx);
        }
        Ok(())
    }

    pub(super) fn get(&self, from: NodeId, ticket: u64, key: &Key, cx: &mut Rcx<'_>) {
        let now_ms = self.now_ms(cx.now).unwrap_or(0);
        let good = self.table.get(key).iter().filter(|it| !it.given_up && it.expires_ms > now_ms);
        let found: Vec<Signed> = good.map(|entry| entry.signed.clone()).collect();
        let found = (self.share.owns(key.point()) || !found.is_empty()).then_some(found);
        cx.send(from, Message::Have { ticket, found });
    }

    pub(super) fn copies(&mut self, from: NodeId, copies: Vec<Copied>, cx: &mut Rcx<'_>) {
        let Some(now_ms) = self.now_ms(cx.now) else { return };
        if !self.has_a_role(from, cx) {
            return; // the ring has moved, or a stranger
        }
        if copies.len() > COPIES {
            return cx.fault(from, "sent too many records".into());
        }
        let mut news = Vec::new();
        for Copied { signed, since_ms } in copies {
            let record = match Record::open(&signed, &self.config, now_ms) {
                Ok(record) => record,
                Err(Refused::Forged | Refused::Unreadable | Refused::BadName) => {
                    let fault = "sent a copy of a record that is none".into();
                    return cx.fault(from, fault);
                }
                // Clocks differ.
                Err(_) => continue,
            };
            let Some(whose) = self.role(from, record.key.point(), cx) else { continue };
            let mine = whose != From::Owner;
            // Nobody took it before it could be signed, nor later than now.
            let since_ms = since_ms.min(now_ms);
            let copied = Copied { signed: signed.clone(), since_ms };
            let new = self.table.put(signed, record, since_ms, whose, self.share.range(), cx.now);
            if mine && new == Ok(true) {
                news.push(copied);
            }
        }
        self.tell_replicas(&news, cx);
    }

    fn tell_replicas(&self, news: &[Copied], cx: &mut Rcx<'_>) {
        self.share.replicas().iter().for_each(|replica| send_copies(replica, news, cx));
    }

    fn copied_within(&self, range: Range) -> Vec<Copied> {
        self.table.within(range).map(super::table::Entry::copied).collect()
    }

    pub(super) fn gained(&mut self, range: Range, from: Option<Contact>, cx: &mut Rcx<'_>) {
        self.share.gained(range);
        self.tell_replicas(&self.copied_within(range), cx);
        if let Some(from) = from.filter(|from| from.id != cx.me) {
            self.hands_over(from.id, range, cx.now);
            cx.send_to(from, Message::Pull(range));
        }
        cx.set_timer_by(super::Timer::Sweep, self.config.settle);
    }

    pub(super) fn lost(&mut self, range: Range, to: Option<Contact>, cx: &mut Rcx<'_>) {
        self.share.lost(range);
        self.table.hear(range, cx.now);
        if let Some(to) = to.filter(|to| to.id != cx.me) {
            send_copies(&to, &self.copied_within(range), cx);
        }
    }

    pub(super) fn successors(&mut self, list: Vec<Contact>, cx: &mut Rcx<'_>) {
        let new = self.share.follow(list, cx.me, self.config.copies).unwrap_or_default();
        let Some(range) = self.share.range() else { return };
        let all = self.copied_within(range);
        new.iter().for_each(|replica| send_copies(replica, &all, cx));
        cx.set_timer_by(super::Timer::Sweep, self.config.settle);
    }

    /// Compares the copies, and drops what is over.
    pub(super) fn sweep(&mut self, cx: &mut Rcx<'_>) {
        cx.set_timer(super::Timer::Sweep, self.config.compare);
        let Some(now_ms) = self.now_ms(cx.now) else { return };
        let (arc, stale, now) = (self.share.range(), self.config.stale, cx.now);
        self.table.retain(|key, entry| {
            let mine = arc.is_some_and(|arc| arc.contains(key.point()));
            entry.expires_ms > now_ms && (mine || now.since(entry.heard) <= stale)
        });
        for (to, range) in self.pulls.due(now) {
            self.give(to, range, cx);
        }
        self.wake_for_pulls(cx);
        let Some(range) = self.share.range() else { return };
        let (count, digest) = self.table.digest(range);
        for replica in self.share.replicas() {
            cx.send_to(*replica, Message::Compare { range, count, digest });
        }
    }

    pub(super) fn compared(&mut self, from: NodeId, range: Range, count: u32, digest: u64, cx: &mut Rcx<'_>) {
        let arc = self.arc_of(from, cx.me);
        if arc.is_none_or(|arc| arc.upto != range.upto || arc.width() < range.width()) {
            return; // the ring moves, two rings become one, or a stranger
        }
        self.table.hear(range, cx.now);
        if self.table.digest(range) != (count, digest) {
            cx.send(from, Message::Pull(range));
            // It may lack some that are here.
            self.pull(from, range, cx);
        }
    }

    pub(super) fn pull(&mut self, from: NodeId, range: Range, cx: &mut Rcx<'_>) {
        if self.pulls.asks(from, range, cx.now) {
            self.give(from, range, cx);
        }
        self.wake_for_pulls(cx);
    }

    fn wake_for_pulls(&self, cx: &mut Rcx<'_>) {
        if let Some(at) = self.pulls.next_due() {
            cx.set_timer_by(super::Timer::Sweep, at.since(cx.now));
        }
    }

    fn give(&self, to: NodeId, range: Range, cx: &mut Rcx<'_>) {
        for part in self.copied_within(range).chunks(COPIES) {
            cx.send(to, Message::Copies(part.to_vec()));
        }
    }
}

fn send_copies(to: &Contact, copies: &[Copied], cx: &mut Rcx<'_>) {
    for part in copies.chunks(COPIES) {
        cx.send_to(*to, Message::Copies(part.to_vec()));
    }
}
