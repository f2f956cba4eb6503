//! The owner of jobs. On the ring, nodes that are no gateways own units of theirs.

use crate::circle::RingId;
use crate::discovery::connected::{self, Connected};
use crate::discovery::fitting::{self, Fitting};
use crate::discovery::nearest::{self, Nearest};
use crate::disk::{self, Answer, Asked, Table, What};
use crate::engine::EngineRequest;
use crate::ledger::client as purse;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::storage::{Entries, commit, scan, scanned};
use crate::node::table::Service;
use crate::overlay::guests::relay::Relay;
use crate::protocol::Input;
use crate::store::{self, Asker, Store, Ticket};
use crate::ticket::ServiceId;
use crate::wire::Framed;
use crate::work::delegation::OfRing;
use crate::work::message::Message;
use crate::work::owner::{Command, Event, Owner};

impl Service for Owner {
    const ID: ServiceId = ServiceId::Owner;
    const NAME: &'static str = "owner";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        let owns = config.owns_jobs() || config.limits.delegated_units > 0;
        owns.then(|| Owner::new(config.owner()))
    }

    fn start(node: &mut Node, host: &mut dyn Host) {
        let first = if node.config.owns_jobs() { Table::Jobs } else { Table::Delegated };
        scan(ServiceId::Owner, first, None, host);
        if node.config.submits {
            node.tell::<Store>(store::Command::Wait { of: Asker::Owner, wait: true });
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(peer) => node.give::<Self>(Input::Down(peer)),
            Note::Clock(ms) => node.tell::<Self>(Command::WallClock(ms)),
            Note::Me(me) => {
                node.tell_delegation(OfRing::Me(me));
                if node.has::<Relay>() {
                    node.tell::<Self>(Command::Relays(Some(me)));
                }
            }
            Note::Guest => node.tell::<Self>(Command::Relays(None)),
            Note::Keys(keys) => node.tell_delegation(OfRing::Keys(keys.clone())),
            Note::Room(_) => node.tell::<Self>(Command::Room),
            Note::Came(from) => node.tell::<Self>(Command::Heard(from)),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, _: &mut dyn Host) {
        node.tell::<Self>(match command {
            host::Command::Migrate { unit, to } => {
                let finder = node.state::<Connected>();
                let others = finder.map(|finder| finder.offers().collect()).unwrap_or_default();
                Command::Migrate { unit, to, others }
            }
            host::Command::PauseUnit { unit, paused } => Command::Pause { unit, paused },
            host::Command::Forget { job } => Command::Forget(job),
            _ => return,
        });
    }

    fn on_reply(node: &mut Node, number: u64, reply: Reply, _: &mut dyn Host) {
        node.tell::<Self>(match reply {
            Reply::Fetched(result) => Command::Fetched { ticket: number, result },
            Reply::Inspected(result) => Command::Inspected { ticket: number, result },
            Reply::Found(found) => Command::Found(found),
            Reply::Ordered { outcome, .. } => Command::Settled { ticket: number, outcome },
            Reply::Located(found) => {
                return node.tell_delegation(OfRing::Located { number, found: found.ok() });
            }
            _ => return,
        });
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, host: &mut dyn Host) {
        match (asked.what, result) {
            (What::Scan(table), Ok(answer)) => node.jobs_scanned(table, answer, host),
            (What::Scan(_), Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("this node's records cannot be read, and it takes no jobs: {error}"),
            }),
            (_, result) => {
                node.tell::<Self>(Command::Committed { ticket: asked.number, result: result.map(drop) });
            }
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let passing = |number| Ticket { of: Asker::Relay, number };
        match event {
            Event::Commit { ticket, writes } => commit(ServiceId::Owner.ticket(ticket), writes, host),
            Event::Fetch { ticket, blobs, from } => {
                let ticket = Ticket { of: Asker::Owner, number: ticket };
                node.tell::<Store>(store::Command::Fetch { ticket, blobs, from: vec![from] });
            }
            Event::Release { ticket: number } => {
                node.tell::<Store>(store::Command::Release { ticket: Ticket { of: Asker::Owner, number } });
            }
            Event::Discard { ticket: number } => {
                node.tell::<Store>(store::Command::Discard { ticket: Ticket { of: Asker::Owner, number } });
            }
            Event::FetchPassing { ticket, blobs, from } => {
                node.tell::<Store>(store::Command::Fetch { ticket: passing(ticket), blobs, from });
            }
            Event::ReleasePassing { ticket } => {
                node.tell::<Store>(store::Command::Release { ticket: passing(ticket) });
            }
            Event::Inspect { ticket: number, program, memory_bytes } => {
                host.engine(EngineRequest::Inspect { number, program, memory_bytes });
            }
            Event::TurnsAway { job, node: at } => {
                node.tell::<Fitting>(fitting::Command::Unfit { job, node: at });
            }
            Event::Unused { node: at, units } => {
                node.tell::<Connected>(connected::Command::Unused { node: at, units });
            }
            Event::Placed { node: at } => node.tell::<Connected>(connected::Command::Placed { node: at }),
            Event::Migrated { unit, to, standstill } => {
                host.event(NodeEvent::Migrated { unit, to, standstill });
            }
            Event::MigrationFailed { unit, why } => host.event(NodeEvent::MigrationFailed { unit, why }),
            Event::Ready => {
                // Jobs have said what they need.
                node.tell::<Store>(store::Command::Wait { of: Asker::Owner, wait: false });
                host.event(NodeEvent::Ready);
            }
            Event::Find(query) => node.tell::<Connected>(connected::Command::Find(query)),
            Event::Want { job, requires, memory_bytes, units, submitter, weight, age } => {
                node.want(job, (requires, memory_bytes), (units, age), (submitter, weight));
            }
            Event::Running(running) => node.tell::<Fitting>(fitting::Command::Running(running)),
            Event::Purchase(purchase) => node.purchase(purchase),
            Event::Settle { ticket, order } => {
                let ticket = ServiceId::Owner.ticket(ticket);
                node.tell::<purse::Client>(purse::Command::Order { ticket, order });
            }
            Event::Declined { node: by } => node.tell::<Nearest>(nearest::Command::Refused { node: by }),
            Event::JobChanged(job) => host.event(NodeEvent::JobChanged { job }),
            Event::JobEnded(job) => host.event(NodeEvent::JobEnded { job }),
            Event::Locate { number, key } => {
                node.look_up(ServiceId::Owner.ticket(number), RingId::NODES, key, host);
            }
        }
    }
}

impl Framed for Message {
    fn service(&self) -> ServiceId {
        match self {
            Message::ToOwner(_) | Message::Delegated(_) => ServiceId::Owner,
            Message::ToRunner(_) => ServiceId::Runner,
            Message::ToClient(_) => ServiceId::Client,
            Message::ToKeeper(_) => ServiceId::Keeper,
        }
    }
}

impl Node {
    fn tell_delegation(&mut self, told: OfRing) {
        if self.config.limits.delegated_units > 0 {
            self.tell::<Owner>(Command::Ring(told));
        }
    }

    /// The owner's tables are read one after the other, since a later one tells of rows of an earlier one.
    fn jobs_scanned(&mut self, table: Table, answer: Answer, host: &mut dyn Host) {
        let (command, next): (fn(Entries) -> Command, Option<Table>) = match table {
            Table::Jobs => (Command::RestoreJobs, Some(Table::Results)),
            Table::Results => (Command::RestoreResults, Some(Table::Deals)),
            Table::Deals => (Command::RestoreDeals, Some(Table::Delegated)),
            Table::Delegated => (Command::RestoreDelegated, Some(Table::Checkpoints)),
            _ => (Command::RestoreCheckpoints, None),
        };
        let (entries, more) = scanned(answer);
        if !entries.is_empty() {
            self.tell::<Owner>(command(entries));
        }
        if more.is_some() {
            return scan(ServiceId::Owner, table, more, host);
        }
        self.tell::<Owner>(command(Vec::new()));
        if let Some(next) = next {
            scan(ServiceId::Owner, next, None, host);
        }
    }
}
