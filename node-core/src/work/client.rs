//! The client: submits jobs to an owner and hears how they ended.

use super::message::{Message, ToClient, ToOwner};
use super::spec::JobSpec;
use crate::ids::{JobId, NodeId};
use crate::protocol::{Cx, Input, InputOf, Protocol};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a submission looks for an owner, at first and when its owner has gone. Our choice: longer than a
/// reconnection.
const NO_OWNER: Duration = Duration::from_secs(10);

/// Submissions that may wait for an answer at once. Our choice: far more than people make in the 10 s that one
/// waits.
const PENDING_MAX: usize = 1000;

#[derive(Debug)]
pub struct Client {
    retry: Duration,
    /// This node owns jobs itself.
    owns_jobs: bool,
    pending: BTreeMap<JobId, Pending>,
    /// Jobs of this node that an owner accepted and that have not ended, and the owner. No more than its user has
    /// submitted.
    accepted: BTreeMap<JobId, NodeId>,
}

#[derive(Debug)]
struct Pending {
    spec: Box<JobSpec>,
    owner: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    Retry(JobId),
    NoOwner(JobId),
}

#[derive(Clone, Debug)]
pub enum Command {
    /// A gateway has come.
    OwnerUp,
    Submit {
        job: JobId,
        spec: Box<JobSpec>,
    },
    Cancel {
        job: JobId,
    },
}

/// Why a job was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    #[error("this node is a guest and submits nothing; submit at a gateway")]
    Guest,
    #[error(
        "others cannot dial this node, so that no node of the ring could bring it results; leave `owner` out, or \
         submit at a node that others can dial"
    )]
    NotOnRing,
    #[error(
        "this node fits no jobs to nodes: submit a job with requirements at a node of a swarm that does (`manyhands up`, \
         without --matchmaking none), or without them"
    )]
    NoMatchmaking,
    #[error("{PENDING_MAX} submissions wait for an answer already; try again in a moment")]
    Busy,
    #[error("no gateway is connected that could own the job; is --join right?")]
    NoOwner,
    /// The owner does not take it, in the owner's words.
    #[error("{0}")]
    Refused(String),
    /// The owner could not write it down.
    #[error("the gateway could not write it down: {0}")]
    NotStored(String),
}

#[derive(Clone, Debug)]
pub enum Event {
    Accepted(JobId),
    Refused(JobId, NotAccepted),
    Ended(JobId),
}

impl Protocol for Client {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;

    fn handle(&mut self, input: InputOf<Self>, cx: &mut Cx<'_, Self>) {
        match input {
            Input::Command(Command::OwnerUp) => {
                let waiting: Vec<JobId> =
                    self.pending.iter().filter(|(_, p)| p.owner.is_none()).map(|(id, _)| *id).collect();
                waiting.into_iter().for_each(|job| self.send(job, cx));
            }
            Input::Down(peer) => {
                for (job, pending) in self.pending.iter_mut().filter(|(_, p)| p.owner == Some(peer)) {
                    pending.owner = None;
                    cx.set_timer(Timer::NoOwner(*job), NO_OWNER);
                }
            }
            // It was not connected.
            Input::Unreachable(_) => {}
            Input::Command(Command::Submit { job, spec }) => self.submit(job, spec, cx),
            Input::Command(Command::Cancel { job }) => {
                let owner = self.accepted.get(&job).copied().unwrap_or(cx.me);
                cx.send(owner, Message::ToOwner(ToOwner::Cancel { job }));
            }
            Input::Timer(Timer::Retry(job)) => self.send(job, cx),
            Input::Timer(Timer::NoOwner(job)) => {
                if self.pending.get(&job).is_some_and(|p| p.owner.is_none()) {
                    self.over(job, cx);
                    cx.emit(Event::Refused(job, NotAccepted::NoOwner));
                }
            }
            Input::Message { from, message: Message::ToClient(message) } => self.heard(from, message, cx),
            // The route gives a client nothing else.
            Input::Message { .. } | Input::Up(_) => {}
        }
    }
}

impl Client {
    pub fn new(retry: Duration, owns_jobs: bool) -> Client {
        Client { retry, owns_jobs, pending: BTreeMap::new(), accepted: BTreeMap::new() }
    }

    fn submit(&mut self, job: JobId, spec: Box<JobSpec>, cx: &mut Cx<'_, Self>) {
        if self.pending.len() >= PENDING_MAX {
            return cx.emit(Event::Refused(job, NotAccepted::Busy));
        }
        self.pending.insert(job, Pending { spec, owner: None });
        cx.set_timer(Timer::NoOwner(job), NO_OWNER);
        self.send(job, cx);
    }

    /// To the owner that has it, else to the first there is, oneself before others.
    fn send(&mut self, job: JobId, cx: &mut Cx<'_, Self>) {
        let Some(pending) = self.pending.get_mut(&job) else { return };
        let me = self.owns_jobs.then_some(cx.me);
        let first = || cx.peers.gateways().next().map(|(id, _)| id);
        let Some(owner) = pending.owner.or(me).or_else(first) else { return };
        pending.owner = Some(owner);
        let spec = pending.spec.clone();
        cx.send(owner, Message::ToOwner(ToOwner::Submit { job, spec }));
        if owner != cx.me {
            cx.set_timer(Timer::Retry(job), self.retry);
        }
    }

    fn heard(&mut self, from: NodeId, message: ToClient, cx: &mut Cx<'_, Self>) {
        match message {
            ToClient::Accepted { job } if self.asked(job, from) => {
                self.over(job, cx);
                self.accepted.insert(job, from);
                cx.emit(Event::Accepted(job));
            }
            ToClient::Refused { job, reason } if self.asked(job, from) => {
                self.over(job, cx);
                cx.emit(Event::Refused(job, NotAccepted::Refused(reason)));
            }
            ToClient::NotStored { job, reason } if self.asked(job, from) => {
                self.over(job, cx);
                cx.emit(Event::Refused(job, NotAccepted::NotStored(reason)));
            }
            ToClient::Ended { job } => {
                if self.accepted.get(&job) == Some(&from) {
                    self.accepted.remove(&job);
                    cx.emit(Event::Ended(job));
                }
            }
            ToClient::Accepted { .. } | ToClient::Refused { .. } | ToClient::NotStored { .. } => {}
        }
    }

    fn asked(&self, job: JobId, owner: NodeId) -> bool {
        self.pending.get(&job).is_some_and(|p| p.owner == Some(owner))
    }

    fn over(&mut self, job: JobId, cx: &mut Cx<'_, Self>) {
        self.pending.remove(&job);
        cx.cancel_timer(Timer::Retry(job));
        cx.cancel_timer(Timer::NoOwner(job));
    }
}
