//! Jobs that the page's person submits. Their owner is this node. Where the browser keeps what the tab leaves, they go
//! on when it is loaded again.

use super::Driver;
use crate::browser::{self, object};
use bytes::Bytes;
use js_sys::{Array, Uint8Array};
use node_core::content::{BlobRef, Data};
use node_core::contract::Order;
use node_core::work::spec::{JobSpec, UnitResult};
use node_core::{Command, JobId, NodeEvent, NodeInput, Table};
use std::collections::BTreeMap;
use wasm_bindgen::JsValue;
use web_driver::jobs::{self, RESULTS};
use web_driver::policy::Setting;

/// Bytes of an input that travels with the job. Our choice: as the API has it.
const INLINE: usize = 4096;

#[derive(Default)]
pub(crate) struct Jobs {
    /// Jobs that are not accepted yet, with the page's number of each.
    submitted: BTreeMap<JobId, u32>,
    /// The page does not know how they stand.
    changed: bool,
}

/// A wish of the page; `n` comes back with the answer.
pub(crate) enum Wish {
    Submit {
        n: u32,
        job: Vec<(String, Setting)>,
        program: Bytes,
        input: Bytes,
    },
    Cancel(JobId),
    /// Keep a job that has ended no longer, nor its results.
    Forget(JobId),
    /// Results of so many units from this one on, at most so many bytes of each content.
    Results {
        n: u32,
        job: JobId,
        from: u32,
        limit: usize,
        most: usize,
    },
    /// Take the credit of an invite with this code.
    Redeem {
        n: u32,
        code: String,
    },
}

impl Jobs {
    /// The page is to be told.
    pub(super) fn change(&mut self) {
        self.changed = true;
    }
}

impl Driver {
    pub(super) fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::Submit { n, job, program, input } => match self.prepare(job, program, input) {
                Ok((id, spec)) => {
                    self.jobs.submitted.insert(id, n);
                    self.drive(NodeInput::Command(Command::Submit { job: id, spec }));
                }
                Err(why) => answer(n, "refused", &why.into()),
            },
            Wish::Cancel(job) => self.drive(NodeInput::Command(Command::Cancel { job })),
            Wish::Forget(job) => self.drive(NodeInput::Command(Command::Forget { job })),
            Wish::Results { n, job, from, limit, most } => {
                answer(n, "results", &self.results(job, from, limit.min(RESULTS), most));
            }
            Wish::Redeem { n, code } => match self.redeem(&code) {
                Ok(order) => self.drive(NodeInput::Command(Command::Order { number: n.into(), order })),
                Err(why) => answer(n, "refused", &why.into()),
            },
        }
    }

    fn redeem(&self, code: &str) -> Result<Order, &'static str> {
        let code = jobs::code(code).ok_or("a code has 32 hexadecimal digits")?;
        self.node
            .bank()
            .ok_or("no bank of this swarm is known here yet; try again once this tab is connected")?;
        Ok(Order::Redeem { code })
    }

    /// Stores what the job needs.
    fn prepare(
        &mut self,
        job: Vec<(String, Setting)>,
        program: Bytes,
        input: Bytes,
    ) -> Result<(JobId, JobSpec), String> {
        crate::workers::check(&program).map_err(|why| format!("The program {why}."))?;
        let program = self.store(program)?;
        let input = match input.len() {
            0..=INLINE => Data::Inline(input),
            _ => Data::Blob(self.store(input)?),
        };
        let spec = jobs::job(job, program, input)?;
        let [id @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = browser::random_bytes()?;
        Ok((JobId(id), spec))
    }

    fn store(&mut self, bytes: Bytes) -> Result<BlobRef, String> {
        let blob = BlobRef::of(&bytes);
        self.host.put(blob.id, bytes)?;
        self.drive(NodeInput::Command(Command::BlobsStored(vec![(blob.id, blob.len)])));
        Ok(blob)
    }

    /// Whether the event is about a job of the page's person; then the page is told.
    pub(super) fn is_of_a_job(&mut self, event: &NodeEvent) -> bool {
        match event {
            NodeEvent::JobAccepted { job } => {
                if let Some(n) = self.jobs.submitted.remove(job) {
                    answer(n, "accepted", &job.to_string().into());
                }
            }
            NodeEvent::JobRefused { job, why } => {
                if let Some(n) = self.jobs.submitted.remove(job) {
                    answer(n, "refused", &why.to_string().into());
                }
            }
            NodeEvent::Ordered { number, outcome } => {
                let n = *number as u32;
                match outcome {
                    Ok(()) => answer(n, "accepted", &"redeemed".into()),
                    Err(why) => answer(n, "refused", &why.to_string().into()),
                }
            }
            // The bank is here just now. A gateway tells the balance only now and then.
            NodeEvent::CreditChanged => {
                let of = self.node.id();
                let statement = Command::Statement { number: 0, of, from: 0, limit: 0 };
                self.host.inputs.push_back(NodeInput::Command(statement));
            }
            NodeEvent::Statement { page, .. } => self.balance = Some(page.balance),
            NodeEvent::Ready | NodeEvent::JobChanged { .. } | NodeEvent::JobEnded { .. } => {}
            _ => return false,
        }
        self.jobs.changed = true;
        true
    }

    /// Tells the page how its jobs stand, if that changed.
    pub(super) fn show_jobs(&mut self) {
        if std::mem::take(&mut self.jobs.changed) {
            let balance = self.balance.map(|balance| balance.0);
            browser::post_json(&jobs::to_json(&self.node.jobs(), balance));
        }
    }

    /// Results of units from this number on, in order.
    fn results(&self, job: JobId, from: u32, limit: usize, most: usize) -> JsValue {
        let before = from.checked_sub(1).map(|index| [&job.0[..], &index.to_be_bytes()].concat());
        // Rows of earlier jobs come first; those of a later one are none of this job's.
        let after = before.unwrap_or_else(|| job.0.to_vec());
        let rows = self.host.rows(Table::Results, &after, limit);
        let read = rows.iter().map_while(|(key, row)| jobs::result(job, key, row));
        let list: Array = read.map(|(index, result)| self.result(index, &result, most)).collect();
        list.into()
    }

    fn result(&self, index: u32, result: &UnitResult, most: usize) -> JsValue {
        let bytes = |data: &Data| -> JsValue {
            let content = match data {
                Data::Inline(bytes) => Some(bytes.clone()),
                Data::Blob(blob) => self.host.blob(&blob.id),
            };
            let first = content.map(|bytes| Uint8Array::from(&bytes[..bytes.len().min(most)]));
            first.map_or(JsValue::NULL, JsValue::from)
        };
        let len = |data: &Data| JsValue::from(data.len() as f64);
        let file = |path: &str, data: &Data| Array::of3(&path.into(), &len(data), &bytes(data));
        let files: Array = result.files.iter().map(|it| file(&it.path, &it.data)).collect();
        object(&[
            ("index", &index.into()),
            ("ok", &result.end.is_success().into()),
            ("end", &result.end.to_string().into()),
            ("node", &result.runner.to_string().into()),
            ("stdout", &bytes(&result.stdout)),
            ("stdout_len", &len(&result.stdout)),
            ("stderr", &bytes(&result.stderr)),
            ("files", &files),
        ])
        .into()
    }
}

/// The answer to the wish of this number.
fn answer(n: u32, what: &str, value: &JsValue) {
    browser::post(&[("type", &"answer".into()), ("n", &n.into()), (what, value)]);
}

/// The job of that id in digits.
pub(crate) fn id(digits: &str) -> Option<JobId> {
    digits.parse().ok()
}

/// Content of the page, copied: the page keeps its own.
pub(crate) fn content(given: &Uint8Array) -> Bytes {
    given.to_vec().into()
}
