//! Runs units for owners.

use crate::discovery::connected::{self, Connected};
use crate::discovery::fitting::{self, Fitting};
use crate::disk::{self, Answer, Asked, Table, What};
use crate::engine::EngineRequest;
use crate::node::Node;
use crate::node::config::Config;
use crate::node::host::{self, Host, NodeEvent};
use crate::node::notes::{Note, Reply};
use crate::node::storage::{commit, scan, scanned};
use crate::node::table::Service;
use crate::protocol::Input;
use crate::store::{self, Asker, Store, Ticket};
use crate::ticket::ServiceId;
use crate::work::owner::Owner;
use crate::work::runner::{Command, Event, Runner};

impl Service for Runner {
    const ID: ServiceId = ServiceId::Runner;
    const NAME: &'static str = "runner";
    type Beside = ();

    fn open(config: &Config) -> Option<Self> {
        Some(Runner::new(config.runner()))
    }

    fn start(node: &mut Node, host: &mut dyn Host) {
        if node.has::<Owner>() {
            node.tell::<Self>(Command::OwnerUp(node.me));
        }
        if node.config.limits.left_bytes > 0 {
            scan(ServiceId::Runner, Table::Left, None, host);
        }
    }

    fn on_note(node: &mut Node, note: &Note<'_>, _: &mut dyn Host) {
        match *note {
            Note::Up(up) if up.gateway => node.tell::<Self>(Command::OwnerUp(up.peer)),
            Note::Up(up) => node.give::<Self>(Input::Up(up.peer)),
            Note::Down(_) | Note::Unreachable(_) => node.ended::<Self>(note),
            Note::Bank(bank) => node.tell::<Self>(Command::Bank(bank)),
            Note::Drain => node.tell::<Self>(Command::Drain),
            _ => {}
        }
    }

    fn on_command(node: &mut Node, command: host::Command, host: &mut dyn Host) {
        if let host::Command::Terms { memory_bytes, policy } = &command {
            node.gives_memory(policy.memory_of_a_task(*memory_bytes), host);
            node.connects_directly(policy.direct_connections);
            node.relays_at(policy.relay_rate());
        }
        let are_terms = matches!(command, host::Command::Terms { .. });
        node.tell::<Self>(match command {
            host::Command::SetSlots(slots) => Command::SetSlots(slots),
            host::Command::SetDonating(donating) => Command::SetDonating(donating),
            host::Command::Terms { memory_bytes, policy } => Command::Terms { memory_bytes, policy },
            host::Command::Occupy { owner, slots } => Command::Occupy { owner, slots },
            _ => return,
        });
        if are_terms {
            node.tell::<Fitting>(fitting::Command::Terms);
        }
    }

    fn on_reply(node: &mut Node, ticket: u64, reply: Reply, _: &mut dyn Host) {
        if let Reply::Fetched(result) = reply {
            node.tell::<Self>(Command::Answered { ticket, result });
        }
    }

    fn on_stored(node: &mut Node, asked: Asked, result: Result<Answer, disk::Failed>, host: &mut dyn Host) {
        match (asked.what, result) {
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                node.tell::<Self>(Command::Restore(entries));
                if more.is_some() {
                    scan(ServiceId::Runner, table, more, host);
                }
            }
            (_, Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("what units leave here for after a restart is not kept: {error}"),
            }),
            _ => {}
        }
    }

    fn on_event(node: &mut Node, event: Event, host: &mut dyn Host) {
        let ticket = |number| Ticket { of: Asker::Runner, number };
        let passing = |number| Ticket { of: Asker::Snapshots, number };
        match event {
            Event::Fetch { ticket: number, blobs, from } => {
                let from = vec![from];
                node.tell::<Store>(store::Command::Fetch { ticket: ticket(number), blobs, from });
            }
            Event::FetchSnapshot { ticket: number, blobs, from } => {
                from.iter().for_each(|source| node.reach_for_now(source, host));
                let from = from.into_iter().map(|source| source.id).collect();
                node.tell::<Store>(store::Command::Fetch { ticket: passing(number), blobs, from });
            }
            Event::KeepSnapshot { ticket: number, blob, bytes } => {
                let blobs = vec![(blob, bytes)];
                node.tell::<Store>(store::Command::Keep { ticket: passing(number), blobs });
            }
            Event::ReleaseSnapshot { ticket: number } => {
                node.tell::<Store>(store::Command::Release { ticket: passing(number) });
            }
            Event::Check { blobs } => node.tell::<Store>(store::Command::Check { blobs }),
            Event::Commit { ticket: number, writes } => {
                commit(ServiceId::Runner.ticket(number), writes, host);
            }
            Event::Snapshot { run, stop } => host.engine(EngineRequest::Snapshot { run, stop }),
            Event::Letters { run, letters } => host.engine(EngineRequest::Letters { run, letters }),
            Event::Pause { run, paused } => host.engine(EngineRequest::Pause { run, paused }),
            Event::Keep { ticket: number, blobs } => {
                node.tell::<Store>(store::Command::Keep { ticket: ticket(number), blobs });
            }
            Event::Release { ticket: number } => {
                node.tell::<Store>(store::Command::Release { ticket: ticket(number) });
            }
            Event::Run { run, task } => host.engine(EngineRequest::Run { run, task: *task }),
            Event::Prepare { run, task } => host.engine(EngineRequest::Prepare { run, task: *task }),
            Event::Kill { run } => host.engine(EngineRequest::Kill { run }),
            Event::Slots(slots) => host.engine(EngineRequest::Slots(slots)),
            Event::Offer { to, offer } => node.tell::<Connected>(connected::Command::Offer { to, offer }),
            Event::Load { slots, busy, room } => node.loaded(slots, &busy, room, host),
            Event::Spare { slots, at_once } => node.of_spare(slots, at_once),
            Event::Changed => host.event(NodeEvent::WorkChanged),
        }
    }
}
