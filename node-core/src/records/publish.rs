//! The side of who publishes: says it to whoever owns the key, and again and again.

use super::message::Message;
use super::record::Record;
use super::{Event, For, Rcx, Records, TRIES, Timer};
use crate::circle::Located;
use crate::ids::NodeId;
use crate::record::{Key, Refused};
use crate::ticket::Ticket;
use bytes::Bytes;
use std::time::Duration;

/// Value that this node publishes under a key.
#[derive(Debug)]
pub(super) struct Publication {
    pub key: Key,
    /// None: given up.
    value: Option<Bytes>,
    number: u64,
    expires_ms: u64,
    phase: Phase,
    tries: u32,
    /// Commands that wait for the outcome.
    asked: Vec<Ticket>,
    /// Somebody has taken it.
    stands: bool,
    /// It was said once more since it changed.
    confirmed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting,
    LookingUp,
    Said(NodeId),
}

impl Records {
    pub(super) fn publish(&mut self, ticket: Ticket, key: Key, value: Option<Bytes>, cx: &mut Rcx<'_>) {
        let known = self.published.iter().find(|(_, it)| it.key == key).map(|(id, _)| *id);
        let refused = match key.check() {
            Err(refused) => Some(refused),
            Ok(()) if value.as_ref().is_some_and(|value| value.len() > super::VALUE) => {
                Some(Refused::Unreadable)
            }
            Ok(()) if known.is_none() && self.published.len() >= self.config.published => {
                Some(Refused::TooMany)
            }
            Ok(()) => None,
        };
        if let Some(refused) = refused {
            return cx.emit(Event::Published { ticket, refused: Some(refused) });
        }
        let id = known.unwrap_or_else(|| {
            self.next += 1;
            let publication = Publication {
                key,
                value: None,
                number: 0,
                expires_ms: 0,
                phase: Phase::Resting,
                tries: 0,
                asked: Vec::new(),
                stands: false,
                confirmed: false,
            };
            self.published.insert(self.next, publication);
            self.next
        });
        if let Some(publication) = self.published.get_mut(&id) {
            publication.value = value;
            publication.confirmed = false;
            publication.asked.push(ticket);
        }
        self.say(id, cx);
    }

    /// Under a new number, to whoever owns the key now.
    pub(super) fn say(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(now_ms) = self.now_ms(cx.now) else {
            // Signed when the time is known.
            return cx.set_timer(Timer::Publish(id), Duration::from_secs(1));
        };
        self.number = self.number.saturating_add(1).max(now_ms);
        let (number, life) = (self.number, self.config.life.as_millis() as u64);
        let Some(publication) = self.published.get_mut(&id) else { return };
        (publication.number, publication.expires_ms) = (number, now_ms.saturating_add(life));
        publication.tries = 0;
        self.look_for_storage(id, cx);
    }

    fn look_for_storage(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(publication) = self.published.get_mut(&id) else { return };
        publication.phase = Phase::LookingUp;
        publication.tries += 1;
        cx.cancel_timer(Timer::Publish(id));
        let point = publication.key.point();
        self.look_up(point, For::Publish(id), cx);
    }

    pub(super) fn storage_found(&mut self, id: u64, found: Option<&Located>, cx: &mut Rcx<'_>) {
        let Some(publication) = self.published.get_mut(&id) else { return };
        if publication.phase != Phase::LookingUp {
            return;
        }
        let Some(found) = found else { return self.not_said(id, cx) };
        let owner = found.owner.contact;
        publication.phase = Phase::Said(owner.id);
        let Publication { key, number, expires_ms, value, .. } = &*publication;
        let (key, number, expires_ms, value) = (key.clone(), *number, *expires_ms, value.clone());
        let signed = Record { key, number, expires_ms, value }.sign(&self.secret);
        cx.set_timer(Timer::Publish(id), self.config.answer);
        cx.send_to(owner, Message::Put { ticket: id, signed: Box::new(signed) });
    }

    pub(super) fn publish_late(&mut self, id: u64, cx: &mut Rcx<'_>) {
        match self.published.get(&id).map(|publication| publication.phase) {
            Some(Phase::Resting) => self.say(id, cx),
            Some(Phase::LookingUp | Phase::Said(_)) => self.not_said(id, cx),
            None => {}
        }
    }

    /// This try brought nothing.
    fn not_said(&mut self, id: u64, cx: &mut Rcx<'_>) {
        let Some(publication) = self.published.get_mut(&id) else { return };
        if publication.tries < TRIES {
            return self.look_for_storage(id, cx);
        }
        publication.phase = Phase::Resting;
        for ticket in std::mem::take(&mut publication.asked) {
            cx.emit(Event::Published { ticket, refused: Some(Refused::NoAnswer) });
        }
        cx.set_timer(Timer::Publish(id), self.config.again);
    }

    pub(super) fn done(&mut self, from: NodeId, id: u64, refused: Option<Refused>, cx: &mut Rcx<'_>) {
        let Some(publication) = self.published.get_mut(&id) else { return };
        if publication.phase != Phase::Said(from) {
            return;
        }
        publication.phase = Phase::Resting;
        if refused == Some(Refused::NotMine) {
            // The ring moves. A rest, so that it has.
            publication.phase = Phase::Said(from);
            return cx.set_timer(Timer::Publish(id), self.config.answer);
        }
        for ticket in std::mem::take(&mut publication.asked) {
            cx.emit(Event::Published { ticket, refused });
        }
        let (stood, given_up) = (publication.stands, publication.value.is_none());
        match refused {
            None if given_up => self.forget(id, cx),
            None => {
                publication.stands = true;
                // The node that took it may have died before the replicas had it.
                let next = match std::mem::replace(&mut publication.confirmed, true) {
                    true => self.config.refresh,
                    false => self.config.confirm,
                };
                let early = cx.rng.below(next.as_micros() as u64 / 10);
                let rest = next.saturating_sub(Duration::from_micros(early));
                cx.set_timer(Timer::Publish(id), rest);
            }
            // A record that stood once may stand again, if others give the key up.
            Some(refused) if stood => {
                publication.stands = false;
                let key = publication.key.clone();
                cx.emit(Event::Lost { key, refused });
                cx.set_timer(Timer::Publish(id), self.config.refresh);
            }
            Some(Refused::Old(_)) => cx.set_timer(Timer::Publish(id), self.config.again),
            Some(_) => self.forget(id, cx),
        }
    }

    fn forget(&mut self, id: u64, cx: &mut Rcx<'_>) {
        self.published.remove(&id);
        self.lookups.forget(For::Publish(id));
        cx.cancel_timer(Timer::Publish(id));
    }
}
