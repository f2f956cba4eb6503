//! The side of who owns keys, and of who keeps copies.
//!
//! As with markets: the owner tells its copies at once what changes, digests are compared now and
//! then, and who becomes the owner has the copy, or pulls it from whoever was. Nothing is written
//! down here: who published says it again.

use super::message::{COPIES, Copied, Message};
use super::record::Record;
use super::table::From;
use super::{PULLED, PULLS, PULLS_OF_ONE, Rcx, Records};
use crate::address::Contact;
use crate::circle::{Point, Range};
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::record::{Key, Refused};

impl Records {
    pub(super) fn owns(&self, point: Point) -> bool {
        self.arc.is_some_and(|arc| arc.contains(point))
    }

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
        if !self.owns(record.key.point()) {
            return Err(Refused::NotMine);
        }
        let copied = Copied { signed: signed.clone(), since_ms: now_ms };
        if self.table.put(signed, record, now_ms, From::Publisher, self.arc, cx.now)? {
            self.tell_heirs(vec![copied], cx);
        }
        Ok(())
    }

    pub(super) fn get(&self, from: NodeId, ticket: u64, key: &Key, cx: &mut Rcx<'_>) {
        let now_ms = self.now_ms(cx.now).unwrap_or(0);
        let good = self.table.get(key).iter().filter(|it| !it.given_up && it.expires_ms > now_ms);
        let found: Vec<Signed> = good.map(|entry| entry.signed.clone()).collect();
        let found = (self.owns(key.point()) || !found.is_empty()).then_some(found);
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
            let new = self.table.put(signed, record, since_ms, whose, self.arc, cx.now);
            if mine && new == Ok(true) {
                news.push(copied);
            }
        }
        self.tell_heirs(news, cx);
    }

    fn tell_heirs(&self, news: Vec<Copied>, cx: &mut Rcx<'_>) {
        self.heirs.iter().for_each(|heir| send_copies(heir, &news, cx));
    }

    fn copied_within(&self, range: Range) -> Vec<Copied> {
        self.table.within(range).map(super::table::Entry::copied).collect()
    }

    /// This node's arc ends where it stands, so that changes are at its beginning.
    pub(super) fn gained(&mut self, range: Range, from: Option<Contact>, cx: &mut Rcx<'_>) {
        self.arc = Some(match self.arc {
            Some(arc) if arc.after == range.upto => Range { after: range.after, upto: arc.upto },
            _ => range,
        });
        self.tell_heirs(self.copied_within(range), cx);
        if let Some(from) = from.filter(|from| from.id != cx.me) {
            self.hands_over(from.id, range, cx.now);
            cx.send_to(from, Message::Pull(range));
        }
        cx.set_timer_by(super::Timer::Sweep, self.config.settle);
    }

    pub(super) fn lost(&mut self, range: Range, to: Option<Contact>, cx: &mut Rcx<'_>) {
        let upper = |arc: &Range| arc.after == range.after && arc.upto != range.upto;
        self.arc = self.arc.filter(upper).map(|arc| Range { after: range.upto, upto: arc.upto });
        self.table.hear(range, cx.now);
        if let Some(to) = to.filter(|to| to.id != cx.me) {
            send_copies(&to, &self.copied_within(range), cx);
        }
    }

    pub(super) fn successors(&mut self, list: Vec<Contact>, cx: &mut Rcx<'_>) {
        let mut heirs: Vec<Contact> = list.into_iter().filter(|heir| heir.id != cx.me).collect();
        heirs.truncate(self.config.copies);
        let old = std::mem::replace(&mut self.heirs, heirs);
        let Some(arc) = self.arc else { return };
        let all = self.copied_within(arc);
        for heir in self.heirs.iter().filter(|heir| !old.contains(heir)) {
            send_copies(heir, &all, cx);
        }
        cx.set_timer_by(super::Timer::Sweep, self.config.settle);
    }

    /// Compares the copies, and drops what is over.
    pub(super) fn sweep(&mut self, cx: &mut Rcx<'_>) {
        cx.set_timer(super::Timer::Sweep, self.config.compare);
        let Some(now_ms) = self.now_ms(cx.now) else { return };
        let (arc, stale, now) = (self.arc, self.config.stale, cx.now);
        self.table.retain(|key, entry| {
            let mine = arc.is_some_and(|arc| arc.contains(key.point()));
            entry.expires_ms > now_ms && (mine || now.since(entry.heard) <= stale)
        });
        self.pulled.retain(|(_, _, at)| now.since(*at) < PULLED);
        let Some(range) = self.arc else { return };
        let (count, digest) = self.table.digest(range);
        for heir in &self.heirs {
            cx.send_to(*heir, Message::Compare { range, count, digest });
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
        let its = self.pulled.iter().filter(|(who, ..)| *who == from).count();
        let again = self.pulled.iter().any(|(who, what, _)| (*who, *what) == (from, range));
        if again || its >= PULLS_OF_ONE || self.pulled.len() >= PULLS {
            return;
        }
        self.pulled.push((from, range, cx.now));
        for part in self.copied_within(range).chunks(COPIES) {
            cx.send(from, Message::Copies(part.to_vec()));
        }
    }
}

fn send_copies(to: &Contact, copies: &[Copied], cx: &mut Rcx<'_>) {
    for part in copies.chunks(COPIES) {
        cx.send_to(*to, Message::Copies(part.to_vec()));
    }
}
