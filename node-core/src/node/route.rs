//! Where the machines meet: what one of them wants of another passes through here, up as an
//! event and down as a command.

use super::alarms::Part;
use super::host::{Command, Host, NodeEvent, NodeInput};
#[cfg(feature = "roles")]
use super::money;
use super::{Node, overlays};
use crate::address::Ip;
use crate::channel::Channel;
use crate::discovery::connected::Connected;
use crate::disk::Table;
use crate::engine::{EngineReply, EngineRequest};
use crate::finding::{Query, Queue};
use crate::ids::NodeId;
#[cfg(feature = "roles")]
use crate::market::buyer;
use crate::node::message::Message;
use crate::overlay::neighbours::{self, Neighbours};
use crate::protocol::{Input, InputOf};
use crate::store::{self, Store};
use crate::ticket::ServiceId;
use crate::wire;
use crate::work::client::{self, Client};
#[cfg(feature = "roles")]
use crate::work::keeper::{self, Keeper};
use crate::work::message as work;
use crate::work::owner::{self, Owner};
use crate::work::runner::{self, Runner};
use bytes::Bytes;

/// An input on its way to a machine.
#[cfg_attr(feature = "roles", derive(Debug))]
pub(super) enum Step {
    Neighbours(InputOf<Neighbours>),
    Finder(InputOf<Connected>),
    Overlay(overlays::Step),
    #[cfg(feature = "roles")]
    Money(money::Step),
    Client(InputOf<Client>),
    Owner(InputOf<Owner>),
    Runner(InputOf<Runner>),
    #[cfg(feature = "roles")]
    Keeper(InputOf<Keeper>),
    Store(InputOf<Store>),
    /// Played to and fro for ever, by tests of the budget.
    #[cfg(test)]
    Ball(bool),
}

impl Node {
    pub(super) fn push<M, T, C>(&mut self, to: fn(Input<M, T, C>) -> Step, command: C) {
        self.steps.push_back(to(Input::Command(command)));
    }

    pub(super) fn start(&mut self, host: &mut impl Host) {
        host.engine(EngineRequest::Slots(self.config.slots));
        self.steps.push_back(Step::Finder(Input::Up(self.me)));
        if self.owner.is_some() {
            let (node, platform) = (self.me, self.config.platform);
            self.push(Step::Owner, owner::Command::Met { node, platform, contact: None });
            self.push(Step::Runner, runner::Command::OwnerUp(self.me));
            #[cfg(feature = "roles")]
            self.push(Step::Keeper, keeper::Command::OwnerUp(self.me));
            if self.config.gateway {
                self.push(Step::Client, client::Command::OwnerUp(self.me));
            }
            let first = if self.config.gateway { Table::Jobs } else { Table::Delegated };
            self.scan(ServiceId::Owner, first, None, host);
        }
        #[cfg(feature = "roles")]
        self.files_start(host);
        if self.config.limits.left_bytes > 0 {
            self.scan(ServiceId::Runner, Table::Left, None, host);
        }
        #[cfg(feature = "roles")]
        self.open_bank(host);
        #[cfg(feature = "roles")]
        self.dialback_start();
        self.alarms.set(Part::Overlays, self.overlays.deadline());
    }

    pub(super) fn input(&mut self, input: NodeInput, host: &mut impl Host) {
        match input {
            NodeInput::Wake => {}
            NodeInput::WallClock(ms) => {
                self.market_clock(ms);
                #[cfg(feature = "roles")]
                self.bank_clock(ms);
                #[cfg(feature = "roles")]
                self.records_clock(ms);
                #[cfg(feature = "roles")]
                self.files_clock(ms);
                self.push(Step::Owner, owner::Command::WallClock(ms));
            }
            NodeInput::Connected { peer, ip, joined } => self.connected(peer, ip, joined, host),
            NodeInput::DialFailed { peer } => {
                self.not_reached(peer);
                self.try_next_gateway(peer, host);
            }
            NodeInput::Probed { number, reached } => self.probed(number, reached),
            NodeInput::Disconnected { peer, .. } => {
                self.push(Step::Neighbours, neighbours::Command::Disconnected(peer));
            }
            NodeInput::Received { from, channel, bytes } => self.received(from, channel, &bytes, host),
            NodeInput::Storage(reply) => self.storage(reply, host),
            NodeInput::Engine(EngineReply::Ended { run, outcome }) => {
                self.push(Step::Runner, runner::Command::Ended { run, outcome });
            }
            NodeInput::Engine(EngineReply::Broken { run, error }) => {
                self.push(Step::Runner, runner::Command::Broken { run, error });
            }
            NodeInput::Engine(EngineReply::Prepared { run }) => {
                self.push(Step::Runner, runner::Command::Prepared { run });
            }
            NodeInput::Engine(EngineReply::Resumed { run }) => {
                self.push(Step::Runner, runner::Command::Resumed { run });
            }
            NodeInput::Engine(EngineReply::Inspected { number, result }) => {
                self.push(Step::Owner, owner::Command::Answered { ticket: number, result });
            }
            NodeInput::Engine(EngineReply::Snapshot { run, taken, stopped }) => {
                self.push(Step::Runner, runner::Command::Snapshot { run, taken, stopped });
            }
            NodeInput::Command(command) => match command {
                Command::Submit { job, spec } => {
                    self.push(Step::Client, client::Command::Submit { job, spec: Box::new(spec) });
                }
                Command::Cancel { job } => self.push(Step::Client, client::Command::Cancel { job }),
                Command::Migrate { unit, .. } | Command::PauseUnit { unit, .. } if self.owner.is_none() => {
                    let why = "this node owns no jobs; ask the gateway that does".into();
                    host.event(NodeEvent::MigrationFailed { unit, why });
                }
                Command::Migrate { unit, to } => {
                    let others = self.finder.state().offers().collect();
                    self.push(Step::Owner, owner::Command::Migrate { unit, to, others });
                }
                Command::PauseUnit { unit, paused } => {
                    self.push(Step::Owner, owner::Command::Pause { unit, paused });
                }
                Command::SetSlots(slots) => self.push(Step::Runner, runner::Command::SetSlots(slots)),
                Command::SetDonating(lends) => self.push(Step::Runner, runner::Command::SetDonating(lends)),
                Command::Terms { memory_bytes, policy } => {
                    self.push(Step::Runner, runner::Command::Terms { memory_bytes, policy });
                }
                Command::Occupy { owner, slots } => {
                    self.push(Step::Runner, runner::Command::Occupy { owner, slots });
                }
                Command::Find { number, units, needs } => self.find(
                    Query {
                        ticket: ServiceId::Driver.ticket(number),
                        units,
                        needs,
                        queue: Queue::No,
                        swarm: true,
                        without: Vec::new(),
                    },
                    host,
                ),
                #[cfg(feature = "roles")]
                Command::Locate { number, key } => self.locate(number, key, host),
                Command::Sell(goods) => self.sell(goods),
                Command::Balance => self.ask_balance(host),
                #[cfg(feature = "roles")]
                Command::Quote { number, wanted } => {
                    self.tell_buyer(buyer::Command::Ask { ticket: ServiceId::Driver.ticket(number), wanted });
                }
                #[cfg(feature = "roles")]
                Command::LookAround => self.tell_buyer(buyer::Command::Look),
                #[cfg(feature = "roles")]
                Command::Buy { number, offer } => {
                    let ticket = ServiceId::Driver.ticket(number);
                    self.tell_buyer(buyer::Command::Take { ticket, offer, receipt: None })
                }
                #[cfg(feature = "roles")]
                Command::Order { number, order } => self.order(number, order, host),
                #[cfg(feature = "roles")]
                Command::Statement { number, of, from, limit } => self.ask_statement(number, of, from, limit),
                #[cfg(feature = "roles")]
                Command::Invite { number, amount } => self.invite(number, amount, host),
                #[cfg(feature = "roles")]
                Command::Publish { number, key, value } => self.publish(number, key, value, host),
                #[cfg(feature = "roles")]
                Command::ReadRecord { number, key } => self.read_record(number, key, host),
                #[cfg(feature = "roles")]
                command @ (Command::PutFile { .. }
                | Command::DropFile { .. }
                | Command::NameFile { .. }
                | Command::Bring { .. }
                | Command::LetGo { .. }) => self.file_command(command, host),
                Command::Drain => {
                    self.push(Step::Runner, runner::Command::Drain);
                    self.end();
                }
                Command::BlobsStored(blobs) => self.push(Step::Store, store::Command::Stored(blobs)),
            },
        }
    }

    fn connected(&mut self, peer: NodeId, ip: Option<Ip>, joined: bool, host: &mut impl Host) {
        if let Some(reason) = self.faults.refusal(peer, self.now) {
            return self.refuse(peer, reason, host);
        }
        let dial = self.dials.end(peer).unwrap_or_default();
        // The introduction goes first, also when other steps wait.
        let connected = neighbours::Command::Connected { peer, ip, joined };
        self.take(Step::Neighbours(Input::Command(connected)), host);
        if dial.spare {
            self.push(Step::Neighbours, neighbours::Command::Spare(peer, true));
        }
        if self.neighbours.state().is_leaving(peer) {
            return;
        }
        for (channel, bytes) in dial.frames {
            host.transmit(peer, channel, bytes);
        }
    }

    /// A peer with too many faults is told so, and is to this node as if nobody had connected.
    fn refuse(&mut self, peer: NodeId, reason: String, host: &mut impl Host) {
        self.not_reached(peer);
        let rejected = neighbours::Message::Rejected { reason: reason.clone() };
        self.send(peer, Message::Neighbours(rejected), host);
        host.disconnect(peer, &reason);
        self.try_next_gateway(peer, host);
    }

    /// Nobody can be dialled twice at once, nor who is connected.
    fn not_reached(&mut self, peer: NodeId) {
        let dial = self.dials.end(peer);
        dial.iter().for_each(|dial| self.dials.failed(dial, self.now));
        if dial.is_some() && !self.neighbours.state().is_connected(peer) {
            self.steps.extend([
                Step::Finder(Input::Down(peer)),
                Step::Store(Input::Down(peer)),
                Step::Runner(Input::Down(peer)),
            ]);
            self.lost(peer);
        }
    }

    fn received(&mut self, from: NodeId, channel: Channel, bytes: &Bytes, host: &mut impl Host) {
        if self.faults.is_refused(from, self.now) {
            // Its connection is being closed.
            return;
        }
        self.push(Step::Neighbours, neighbours::Command::Heard(from));
        match wire::decode(bytes, channel) {
            Ok(message @ Message::Neighbours(_)) => self.deliver(from, message, host),
            Ok(message) if self.neighbours.state().knows(from) => self.deliver(from, message, host),
            // It said this before it heard that it cannot stay.
            Ok(_) if self.neighbours.state().is_leaving(from) => {}
            Ok(_) => self.fault(from, "spoke before it was let in".into(), host),
            Err(error) => {
                // A peer whose message cannot be decoded gets no second chance.
                let fault = error.to_string();
                host.disconnect(from, &fault);
                self.faults.count(from, self.now);
                host.event(NodeEvent::PeerFault { peer: from, fault });
            }
        }
    }

    pub(super) fn deliver(&mut self, from: NodeId, message: Message, host: &mut impl Host) {
        if matches!(message, Message::Neighbours(neighbours::Message::Hello(_))) {
            self.make_way(from);
        }
        self.steps.push_back(match message {
            Message::Neighbours(message) => Step::Neighbours(Input::Message { from, message }),
            Message::Offer(message) => Step::Finder(Input::Message { from, message }),
            #[cfg(feature = "roles")]
            Message::DialBack(message) => {
                Step::Overlay(overlays::Step::DialBack(Input::Message { from, message }))
            }
            #[cfg(feature = "roles")]
            Message::Tree(message) => Step::Overlay(overlays::Step::Tree(Input::Message { from, message })),
            #[cfg(feature = "roles")]
            Message::Nearest(message) => {
                Step::Overlay(overlays::Step::Nearest(Input::Message { from, message }))
            }
            #[cfg(feature = "roles")]
            Message::Ring(message) => Step::Overlay(overlays::Step::Ring(Input::Message { from, message })),
            #[cfg(feature = "roles")]
            Message::Market(message) => return self.market_message(from, message),
            #[cfg(feature = "roles")]
            Message::Ledger(message) => return self.money_message(from, message, host),
            #[cfg(feature = "roles")]
            Message::Records(message) => {
                Step::Overlay(overlays::Step::Records(Input::Message { from, message }))
            }
            #[cfg(feature = "roles")]
            Message::Files(message) => return self.files_message(from, message),
            #[cfg(feature = "roles")]
            Message::ToHost(message) => return self.hosting_message(from, message),
            #[cfg(not(feature = "roles"))]
            Message::ToHost(_) => {
                return self.fault(from, "took a page for its host".into(), host);
            }
            Message::ToGuest(message) => return self.heard_as_guest(from, message, host),
            Message::Store(message) => Step::Store(Input::Message { from, message }),
            Message::Work(message) => match &message {
                work::Message::ToOwner(_) | work::Message::Delegated(_) if self.owner.is_some() => {
                    Step::Owner(Input::Message { from, message })
                }
                // The asker was told by a runner whom to ask.
                work::Message::ToOwner(work::ToOwner::IsGranted { .. }) => return,
                work::Message::ToOwner(_) | work::Message::Delegated(_) => {
                    return self.fault(from, "asked a node that owns no jobs".into(), host);
                }
                work::Message::ToRunner(_) => Step::Runner(Input::Message { from, message }),
                work::Message::ToClient(_) => Step::Client(Input::Message { from, message }),
                #[cfg(feature = "roles")]
                work::Message::ToKeeper(_) => Step::Keeper(Input::Message { from, message }),
                #[cfg(not(feature = "roles"))]
                work::Message::ToKeeper(_) => {
                    return self.fault(from, "asked a node that keeps nothing".into(), host);
                }
            },
        });
    }

    /// If there is room for a guest only in the place of another, an idle one goes before one that works.
    fn make_way(&mut self, to: NodeId) {
        let guests = self.neighbours.state().in_the_way_of(to);
        let offer = |guest: &&NodeId| self.finder.state().offer_of(**guest);
        let idle = guests.iter().find(|guest| offer(guest).is_none_or(|offer| offer.free >= offer.slots));
        if let Some(guest) = idle.or(guests.first()).copied() {
            self.push(Step::Neighbours, neighbours::Command::Yields { guest, to });
        }
    }

    pub(super) fn fault(&mut self, peer: NodeId, fault: String, host: &mut impl Host) {
        if let Some(count) = self.faults.count(peer, self.now) {
            host.disconnect(peer, &format!("{count} faults, the last: it {fault}"));
        }
        host.event(NodeEvent::PeerFault { peer, fault });
    }

    /// Runs all inputs under way, and those that follow from them. `false` if some are left because
    /// the budget of this drive is spent.
    pub(super) fn drain(&mut self, host: &mut impl Host) -> bool {
        while let Some(step) = self.steps.pop_front() {
            if !self.budget.take(&step) {
                self.steps.push_front(step);
                return false;
            }
            self.take(step, host);
        }
        true
    }

    /// Gives one input to its machine, and passes on what the machine sends and emits.
    pub(super) fn take(&mut self, step: Step, host: &mut impl Host) {
        let now = self.now;
        match step {
            Step::Neighbours(input) => {
                let effects = self.neighbours.step(self.me, now, input);
                self.alarms.set(Part::Neighbours, self.neighbours.deadline());
                self.follow(ServiceId::Neighbours, effects, Message::Neighbours, Node::of_neighbours, host);
            }
            Step::Finder(input) => {
                let effects = self.finder.step(self.me, now, input);
                self.alarms.set(Part::Finder, self.finder.deadline());
                self.follow(ServiceId::Connected, effects, Message::Offer, Node::of_finder, host);
            }
            Step::Overlay(step) => self.overlay(step, host),
            #[cfg(feature = "roles")]
            Step::Money(step) => self.money_input(step, host),
            Step::Client(input) => {
                let effects = self.client.step(self.me, now, input);
                self.alarms.set(Part::Client, self.client.deadline());
                self.follow(ServiceId::Client, effects, Message::Work, Node::of_client, host);
            }
            Step::Owner(input) => {
                let Some(owner) = &mut self.owner else { return };
                let effects = owner.step(self.me, now, input);
                self.alarms.set(Part::Owner, owner.deadline());
                self.follow(ServiceId::Owner, effects, Message::Work, Node::of_owner, host);
            }
            Step::Runner(input) => {
                let effects = self.runner.step(self.me, now, input);
                self.alarms.set(Part::Runner, self.runner.deadline());
                self.follow(ServiceId::Runner, effects, Message::Work, Node::of_runner, host);
            }
            #[cfg(feature = "roles")]
            Step::Keeper(input) => {
                let effects = self.keeper.step(self.me, now, input);
                self.alarms.set(Part::Keeper, self.keeper.deadline());
                self.follow(
                    ServiceId::Keeper,
                    effects,
                    Message::Work,
                    |node, event, _| node.of_keeper(event),
                    host,
                );
            }
            Step::Store(input) => {
                let effects = self.store.step(self.me, now, input);
                self.alarms.set(Part::Store, self.store.deadline());
                self.follow(ServiceId::Store, effects, Message::Store, Node::of_store, host);
            }
            #[cfg(test)]
            Step::Ball(way) => self.steps.push_back(Step::Ball(!way)),
        }
    }

    /// Takes one timer that is due to its machine.
    pub(super) fn fire_due(&mut self) -> bool {
        let now = self.now;
        let Some(part) = self.alarms.due(now) else { return false };
        let step = match part {
            Part::Neighbours => self.neighbours.due(now).map(|t| Step::Neighbours(Input::Timer(t))),
            Part::Finder => self.finder.due(now).map(|t| Step::Finder(Input::Timer(t))),
            Part::Overlays => self.overlays.due(now).map(Step::Overlay),
            #[cfg(feature = "roles")]
            Part::Money => self.money.as_mut().and_then(|money| money.due(now)).map(Step::Money),
            Part::Client => self.client.due(now).map(|t| Step::Client(Input::Timer(t))),
            Part::Owner => self.owner.as_mut().and_then(|o| o.due(now)).map(|t| Step::Owner(Input::Timer(t))),
            Part::Runner => self.runner.due(now).map(|t| Step::Runner(Input::Timer(t))),
            #[cfg(feature = "roles")]
            Part::Keeper => self.keeper.due(now).map(|t| Step::Keeper(Input::Timer(t))),
            Part::Store => self.store.due(now).map(|t| Step::Store(Input::Timer(t))),
        };
        let deadline = match part {
            Part::Neighbours => self.neighbours.deadline(),
            Part::Finder => self.finder.deadline(),
            Part::Overlays => self.overlays.deadline(),
            #[cfg(feature = "roles")]
            Part::Money => self.money.as_ref().and_then(|money| money.deadline()),
            Part::Client => self.client.deadline(),
            Part::Owner => self.owner.as_ref().and_then(|owner| owner.deadline()),
            Part::Runner => self.runner.deadline(),
            #[cfg(feature = "roles")]
            Part::Keeper => self.keeper.deadline(),
            Part::Store => self.store.deadline(),
        };
        self.alarms.set(part, deadline);
        let fired = step.is_some();
        self.steps.extend(step);
        fired
    }
}
