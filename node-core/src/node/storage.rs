//! Replies of storage, on their way to the service that asked.

use super::Node;
use super::host::{Host, NodeEvent};
use super::route::Step;
use crate::disk::{Answer, Asked, StorageReply, StorageRequest, Table, What};
use crate::store;
use crate::ticket::ServiceId;
use crate::work::owner;
use crate::work::runner;
use bytes::Bytes;

/// Entries read from a table at a time.
pub(super) const SCAN: u32 = 1000;

type Entries = Vec<(Vec<u8>, Bytes)>;

/// The rows of a part of a table, and the key behind which there may be more.
pub(super) fn scanned(answer: Answer) -> (Entries, Option<Vec<u8>>) {
    let entries = answer.entries();
    let last = entries.last().map(|(key, _)| key.clone());
    let more = last.filter(|_| entries.len() >= SCAN as usize);
    (entries, more)
}

impl Node {
    pub(super) fn scan(&self, of: ServiceId, table: Table, after: Option<Vec<u8>>, host: &mut impl Host) {
        let token = Asked { of, what: What::Scan(table), number: 0 }.token();
        host.storage(StorageRequest::Scan { token, table, after, limit: SCAN });
    }

    pub(super) fn storage(&mut self, reply: StorageReply, host: &mut impl Host) {
        let (token, result) = reply.take();
        let Some(asked) = token.asked() else { return };
        match asked.of {
            ServiceId::Store => self.content_stored(asked.number, result),
            ServiceId::Owner => self.jobs_stored(asked, result, host),
            ServiceId::Runner => self.left_stored(asked, result, host),
            #[cfg(feature = "roles")]
            ServiceId::Bank => self.books_stored(asked, result, host),
            #[cfg(feature = "roles")]
            ServiceId::Files | ServiceId::KeptFiles => self.files_stored(asked, result, host),
            _ => {}
        }
    }

    fn content_stored(&mut self, number: u64, result: Result<Answer, String>) {
        let command = match result {
            Ok(Answer::Blob(bytes)) => store::Command::Read { number, bytes },
            Ok(_) => store::Command::Done { number },
            Err(error) => store::Command::Failed { number, error },
        };
        self.push(Step::Store, command);
    }

    fn left_stored(&mut self, asked: Asked, result: Result<Answer, String>, host: &mut impl Host) {
        match (asked.what, result) {
            (What::Scan(table), Ok(answer)) => {
                let (entries, more) = scanned(answer);
                self.push(Step::Runner, runner::Command::Restore(entries));
                if let Some(after) = more {
                    self.scan(ServiceId::Runner, table, Some(after), host);
                }
            }
            (_, Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("what units leave here for after a restart is not kept: {error}"),
            }),
            _ => {}
        }
    }

    fn jobs_stored(&mut self, asked: Asked, result: Result<Answer, String>, host: &mut impl Host) {
        let Asked { what, number: ticket, .. } = asked;
        match (what, result) {
            (What::Scan(table), Ok(answer)) => self.jobs_scanned(table, answer, host),
            (What::Scan(_), Err(error)) => host.event(NodeEvent::Trouble {
                what: format!("the gateway's records cannot be read, and it takes no jobs: {error}"),
            }),
            (_, result) => {
                self.push(Step::Owner, owner::Command::Answered { ticket, result: result.map(drop) });
            }
        }
    }

    /// The owner's tables are read one after the other, since a later one tells of rows of an earlier one.
    fn jobs_scanned(&mut self, table: Table, answer: Answer, host: &mut impl Host) {
        let (command, next): (fn(Entries) -> owner::Command, Option<Table>) = match table {
            Table::Jobs => (owner::Command::RestoreJobs, Some(Table::Results)),
            Table::Results => (owner::Command::RestoreResults, Some(Table::Deals)),
            Table::Deals => (owner::Command::RestoreDeals, Some(Table::Delegated)),
            Table::Delegated => (owner::Command::RestoreDelegated, Some(Table::Checkpoints)),
            _ => (owner::Command::RestoreCheckpoints, None),
        };
        let (entries, more) = scanned(answer);
        if !entries.is_empty() {
            self.push(Step::Owner, command(entries));
        }
        if more.is_some() {
            return self.scan(ServiceId::Owner, table, more, host);
        }
        self.push(Step::Owner, command(Vec::new()));
        if let Some(next) = next {
            self.scan(ServiceId::Owner, next, None, host);
        }
    }
}
