//! The side of who reads: asks who owns the key, and if that one is silent or knows nothing, those
//! who keep copies.

use super::message::Message;
use super::record::Record;
use super::{Event, For, Found, Rcx, Records, TRIES, Timer};
use crate::address::Contact;
use crate::circle::Located;
use crate::ids::NodeId;
use crate::keys::Signed;
use crate::record::{Key, Refused};

/// How many have to say that there is nothing before it is believed. Our choice: an owner that has
/// just become one may still be waiting for its records.
const NOTHING: u32 = 3;

#[derive(Debug)]
pub(super) struct Read {
    number: u64,
    key: Key,
    /// Nodes that may know, the next one first.
    candidates: Vec<Contact>,
    asked: Option<NodeId>,
    tries: u32,
    /// How many said that there is nothing.
    nothing: u32,
}

impl Records {
    pub(super) fn read(&mut self, number: u64, key: Key, cx: &mut Rcx<'_>) {
        if let Err(refused) = key.check() {
            return cx.emit(Event::Read { number, found: Err(refused) });
        }
        if self.reads.len() >= self.config.reads {
            return cx.emit(Event::Read { number, found: Err(Refused::Full) });
        }
        self.next += 1;
        let read = Read { number, key, candidates: Vec::new(), asked: None, tries: 0, nothing: 0 };
        self.reads.insert(self.next, read);
        self.look_for_readable(self.next, cx);
    }

    fn look_for_readable(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        if read.tries >= TRIES || read.nothing > 0 {
            let found = if read.nothing > 0 { Ok(Vec::new()) } else { Err(Refused::NoAnswer) };
            return self.end(id, found, cx);
        }
        read.tries += 1;
        let point = read.key.point();
        self.look_up(point, For::Read(id), cx);
    }

    pub(super) fn readable_found(&mut self, id: u64, found: Option<&Located>, cx: &mut Rcx<'_>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        let Some(found) = found else { return self.look_for_readable(id, cx) };
        let all = std::iter::once(&found.owner).chain(found.replicas.iter().take(self.config.copies));
        read.candidates = all.map(|peer| peer.contact).collect();
        self.ask_next(id, cx);
    }

    pub(super) fn ask_next(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        if read.candidates.is_empty() || read.nothing >= NOTHING {
            return self.look_for_readable(id, cx);
        }
        let next = read.candidates.remove(0);
        read.asked = Some(next.id);
        cx.set_timer(Timer::Read(id), self.config.answer);
        cx.send_to(next, Message::Get { ticket: id, key: read.key.clone() });
    }

    pub(super) fn have(&mut self, from: NodeId, id: u64, found: Option<Vec<Signed>>, cx: &mut Rcx<'_>) {
        let now_ms = self.now_ms(cx.now).unwrap_or(0);
        let Some(read) = self.reads.get_mut(&id).filter(|read| read.asked == Some(from)) else { return };
        let said = found.is_some();
        let mut good = Vec::new();
        for signed in found.unwrap_or_default().into_iter().take(self.config.per_key) {
            match Record::open(&signed, &self.config, now_ms) {
                Ok(Record { key, number, value: Some(value), .. }) if key == read.key => {
                    good.push(Found { by: signed.by, number, value });
                }
                Ok(_) | Err(Refused::Expired | Refused::TooFar) => {}
                Err(_) => {
                    let fault = "answered with a forged record".into();
                    cx.fault(from, fault);
                    return self.ask_next(id, cx);
                }
            }
        }
        match (good.is_empty(), said) {
            (false, _) => self.end(id, Ok(good), cx),
            (true, true) => {
                read.nothing += 1;
                self.ask_next(id, cx);
            }
            (true, false) => self.ask_next(id, cx),
        }
    }

    pub(super) fn asked_in_vain(&mut self, peer: NodeId, cx: &mut Rcx<'_>) {
        let its = self.reads.iter().filter(|(_, read)| read.asked == Some(peer)).map(|(id, _)| *id);
        let its: Vec<u64> = its.collect();
        its.into_iter().for_each(|id| self.ask_next(id, cx));
    }

    fn end(&mut self, id: u64, found: Result<Vec<Found>, Refused>, cx: &mut Rcx<'_>) {
        cx.cancel_timer(Timer::Read(id));
        self.lookups.forget(For::Read(id));
        if let Some(read) = self.reads.remove(&id) {
            cx.emit(Event::Read { number: read.number, found });
        }
    }
}
