//! Events of a node's machines: each becomes commands for others, or something for the driver.

use super::Node;
use super::host::{Host, NodeEvent};
use super::route::Step;
use crate::discovery::connected;
use crate::disk::{Asked, StorageRequest, What};
use crate::engine::EngineRequest;
use crate::overlay::neighbours;
use crate::protocol::Input;
use crate::store::{self, Asker, Ticket};
use crate::ticket::ServiceId;
use crate::work::client;
#[cfg(feature = "roles")]
use crate::work::keeper;
use crate::work::owner;
use crate::work::runner;

impl Node {
    pub(super) fn of_neighbours(&mut self, event: neighbours::Event, host: &mut impl Host) {
        use neighbours::Event;
        match event {
            Event::Up { peer, gateway, joined, ip, seen, dialable } => {
                let contact = dialable.contact();
                self.steps.push_back(Step::Finder(Input::Up(peer)));
                let platform = self.neighbours.state().get(peer).map(|known| known.platform);
                if let Some(platform) = platform.filter(|_| self.owner.is_some()) {
                    self.push(Step::Owner, owner::Command::Met { node: peer, platform, contact });
                }
                self.steps.push_back(Step::Owner(Input::Up(peer)));
                if gateway {
                    #[cfg(feature = "roles")]
                    self.push(Step::Keeper, keeper::Command::OwnerUp(peer));
                    self.push(Step::Runner, runner::Command::OwnerUp(peer));
                    self.push(Step::Client, client::Command::OwnerUp(peer));
                } else {
                    self.steps.push_back(Step::Runner(Input::Up(peer)));
                }
                self.met(peer, (gateway, joined), (ip, seen), dialable);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Dialable { peer, dialable } => {
                let platform = self.neighbours.state().get(peer).map(|known| known.platform);
                if let Some(platform) = platform.filter(|_| self.owner.is_some()) {
                    let contact = dialable.contact();
                    self.push(Step::Owner, owner::Command::Met { node: peer, platform, contact });
                }
                self.dialable(peer, dialable);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Down { peer } => {
                self.lost(peer);
                self.steps.extend([
                    Step::Store(Input::Down(peer)),
                    Step::Finder(Input::Down(peer)),
                    Step::Owner(Input::Down(peer)),
                    Step::Runner(Input::Down(peer)),
                    Step::Client(Input::Down(peer)),
                    #[cfg(feature = "roles")]
                    Step::Keeper(Input::Down(peer)),
                ]);
                self.try_next_gateway(peer, host);
                host.event(NodeEvent::NodesChanged);
            }
            Event::Full { peer, gateways } => {
                self.sent_elsewhere(peer, &gateways, host);
                host.event(NodeEvent::Full { peer, gateways });
            }
            Event::Learnt(swarm) => self.learnt(swarm, host),
            Event::Close { peer, reason } => host.disconnect(peer, &reason),
            Event::Rejected { peer, reason } => host.event(NodeEvent::Rejected { peer, reason }),
        }
    }

    pub(super) fn of_finder(&mut self, event: connected::Event, host: &mut impl Host) {
        match event {
            connected::Event::Found(found, missing) => self.of_connected(found, missing),
            connected::Event::Room(node) => {
                self.welcome(node);
                self.push(Step::Owner, owner::Command::Room);
            }
            connected::Event::Reserve(node, slots) => self.reserve_at(node, slots),
            connected::Event::Changed(nodes) => {
                nodes.into_iter().for_each(|node| self.hosted(node));
                host.event(NodeEvent::NodesChanged);
            }
        }
    }

    pub(super) fn of_client(&mut self, event: client::Event, host: &mut impl Host) {
        match event {
            client::Event::Accepted(job) => host.event(NodeEvent::JobAccepted { job }),
            client::Event::Refused(job, reason) => host.event(NodeEvent::JobRefused { job, reason }),
            // A gateway's own owner has told already.
            client::Event::Ended(_) if self.config.gateway => {}
            client::Event::Ended(job) => host.event(NodeEvent::JobEnded { job }),
        }
    }

    pub(super) fn of_owner(&mut self, event: owner::Event, host: &mut impl Host) {
        use owner::Event;
        match event {
            Event::Commit { ticket, writes } => {
                host.storage(StorageRequest::Commit {
                    token: Asked { of: ServiceId::Owner, what: What::Commit, number: ticket }.token(),
                    writes,
                });
            }
            Event::Fetch { ticket, blobs, from } => {
                let ticket = Ticket { of: Asker::Owner, number: ticket };
                self.push(Step::Store, store::Command::Fetch { ticket, blobs, from: vec![from] });
            }
            Event::FetchPassing { ticket, blobs, from } => {
                let ticket = Ticket { of: Asker::Relay, number: ticket };
                self.push(Step::Store, store::Command::Fetch { ticket, blobs, from });
            }
            Event::ReleasePassing { ticket } => {
                let ticket = Ticket { of: Asker::Relay, number: ticket };
                self.push(Step::Store, store::Command::Release { ticket });
            }
            Event::Inspect { ticket: number, program, memory_bytes } => {
                host.engine(EngineRequest::Inspect { number, program, memory_bytes });
            }
            Event::Unused { node, units } => {
                self.push(Step::Finder, connected::Command::Unused { node, units });
            }
            Event::Placed { node } => self.push(Step::Finder, connected::Command::Placed { node }),
            Event::Migrated { unit, to, standstill } => {
                host.event(NodeEvent::Migrated { unit, to, standstill });
            }
            Event::MigrationFailed { unit, why } => host.event(NodeEvent::MigrationFailed { unit, why }),
            Event::Ready => host.event(NodeEvent::Ready),
            Event::Find(query) => self.push(Step::Finder, connected::Command::Find(query)),
            Event::Purchase(purchase) => self.purchase(purchase),
            Event::Settle { ticket, order } => self.order_of_owner(ticket, order),
            Event::Declined { node } => self.refused(node),
            Event::JobChanged(job) => host.event(NodeEvent::JobChanged { job }),
            Event::JobEnded(job) => host.event(NodeEvent::JobEnded { job }),
            Event::Locate { number, key } => self.locate_owner(number, key),
        }
    }

    pub(super) fn of_runner(&mut self, event: runner::Event, host: &mut impl Host) {
        use runner::Event;
        let ticket = |number| Ticket { of: Asker::Runner, number };
        let passing = |number| Ticket { of: Asker::Snapshots, number };
        match event {
            Event::Fetch { ticket: number, blobs, from } => {
                let from = vec![from];
                self.push(Step::Store, store::Command::Fetch { ticket: ticket(number), blobs, from });
            }
            Event::FetchSnapshot { ticket: number, blobs, from } => {
                for contact in from.iter().filter_map(|source| source.contact) {
                    self.reach(contact, true, host);
                }
                let from = from.into_iter().map(|source| source.node).collect();
                self.push(Step::Store, store::Command::Fetch { ticket: passing(number), blobs, from });
            }
            Event::KeepSnapshot { ticket: number, bytes } => {
                let blobs = vec![bytes];
                self.push(Step::Store, store::Command::Keep { ticket: passing(number), blobs });
            }
            Event::ReleaseSnapshot { ticket: number } => {
                self.push(Step::Store, store::Command::Release { ticket: passing(number) });
            }
            Event::Check { blobs } => self.push(Step::Store, store::Command::Check { blobs }),
            Event::Commit { ticket, writes } => {
                host.storage(StorageRequest::Commit {
                    token: Asked { of: ServiceId::Runner, what: What::Commit, number: ticket }.token(),
                    writes,
                });
            }
            Event::Snapshot { run, stop } => host.engine(EngineRequest::Snapshot { run, stop }),
            Event::Pause { run, paused } => host.engine(EngineRequest::Pause { run, paused }),
            Event::Keep { ticket: number, blobs } => {
                self.push(Step::Store, store::Command::Keep { ticket: ticket(number), blobs });
            }
            Event::Release { ticket: number } => {
                self.push(Step::Store, store::Command::Release { ticket: ticket(number) });
            }
            Event::Run { run, task } => host.engine(EngineRequest::Run { run, task: *task }),
            Event::Prepare { run, task } => host.engine(EngineRequest::Prepare { run, task: *task }),
            Event::Kill { run } => host.engine(EngineRequest::Kill { run }),
            Event::Slots(slots) => host.engine(EngineRequest::Slots(slots)),
            Event::Offer { to, offer } => self.push(Step::Finder, connected::Command::Offer { to, offer }),
            Event::Load { slots, busy } => self.of_load(slots, busy),
            Event::Spare { slots, at_once } => self.of_spare(slots, at_once),
            Event::Changed => host.event(NodeEvent::WorkChanged),
        }
    }

    #[cfg(feature = "roles")]
    pub(super) fn of_keeper(&mut self, event: keeper::Event) {
        let ticket = |number| Ticket { of: Asker::Keeper, number };
        match event {
            keeper::Event::Fetch { ticket: number, blobs, from } => {
                let from = vec![from];
                self.push(Step::Store, store::Command::Fetch { ticket: ticket(number), blobs, from });
            }
            keeper::Event::Room(bytes) => self.sell_checkpoints(bytes),
            keeper::Event::Release { ticket: number } => {
                self.push(Step::Store, store::Command::Release { ticket: ticket(number) });
            }
        }
    }

    pub(super) fn of_store(&mut self, event: store::Event, host: &mut impl Host) {
        use store::Event;
        let token = |number| Asked { of: ServiceId::Store, what: What::Commit, number }.token();
        match event {
            Event::Answered { ticket: Ticket { of: Asker::Owner | Asker::Relay, number }, result } => {
                self.push(Step::Owner, owner::Command::Fetched { ticket: number, result });
            }
            Event::Answered { ticket: Ticket { of: Asker::Runner | Asker::Snapshots, number }, result } => {
                self.push(Step::Runner, runner::Command::Answered { ticket: number, result });
            }
            #[cfg(feature = "roles")]
            Event::Answered { ticket: Ticket { of: Asker::Keeper, number }, result } => {
                let result = result.map_err(|error| error.to_string());
                self.push(Step::Keeper, keeper::Command::Answered { ticket: number, result });
            }
            #[cfg(feature = "roles")]
            Event::Answered { ticket, result } => {
                self.files_answered(ticket, result.map_err(|error| error.to_string()), host);
            }
            #[cfg(not(feature = "roles"))]
            Event::Answered { .. } => {}
            Event::Came { from } if self.owner.is_some() => {
                self.push(Step::Owner, owner::Command::Heard(from))
            }
            Event::Came { .. } => {}
            Event::Put { number, id, bytes } => {
                host.storage(StorageRequest::PutBlob { token: token(number), id, bytes });
            }
            Event::Append { number, id, offset, bytes, last } => {
                host.storage(StorageRequest::AppendBlob { token: token(number), id, offset, bytes, last });
            }
            Event::Read { number, id, offset, len } => {
                host.storage(StorageRequest::ReadBlob { token: token(number), id, offset, len });
            }
            Event::Drop { id } => host.storage(StorageRequest::DropBlob { id }),
            Event::Abandon { id } => host.storage(StorageRequest::AbandonBlob { id }),
        }
    }
}
