//! What `run`, `map` and `submit --wait` do alike while their job is computed.

use super::client::Client;
use super::client::types::{Job, JobState};
use super::failure::Failure;
use super::interrupt::on_interrupt;
use super::progress::say;
use super::swarm::Swarm;
use std::sync::{Arc, Mutex, PoisonError};

/// What Ctrl-C does to the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnInterrupt {
    /// It belongs to the command: cancel it.
    Cancel,
    /// It belongs to the swarm: say how to find it again.
    Leave,
}

/// Watches for Ctrl-C; knows the job once it has been submitted.
pub(crate) struct Guard {
    job: Arc<Mutex<Option<Job>>>,
}

impl Guard {
    pub(crate) fn new(swarm: &Swarm, what: OnInterrupt) -> Guard {
        let job: Arc<Mutex<Option<Job>>> = Arc::default();
        let (seen, client) = (job.clone(), swarm.client.clone());
        let litter = swarm.embedded.as_ref().map(|embedded| embedded.litter());
        on_interrupt(move || {
            let submitted = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match (submitted, litter) {
                (_, Some(litter)) => {
                    for folder in litter {
                        drop(std::fs::remove_dir_all(folder));
                    }
                }
                (None, _) => {}
                (Some(job), None) if what == OnInterrupt::Cancel => match client.cancel(&job.id) {
                    Ok(_) => say(&format!("cancelled {}", job.short)),
                    Err(e) => say(&format!("{} could not be cancelled and goes on: {e}", job.short)),
                },
                (Some(job), None) => {
                    say(&format!("{} goes on; see it with `manyhands job {}`", job.short, job.short));
                }
            }
        });
        Guard { job }
    }

    pub(crate) fn submitted(&self, job: &Job) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job.clone());
    }
}

/// A job in a swarm that gives nothing waits for ever: say so.
pub(crate) fn warn_if_nobody_computes(client: &Client) {
    let Ok(swarm) = client.nodes() else { return };
    if swarm.nodes.iter().all(|node| node.slots == 0) {
        say(&format!(
            "nobody gives slots to this swarm now; the job waits for a node: \
             `manyhands up --join {url}`, or open {url}/ in a browser",
            url = client.url()
        ));
    }
}

/// Whether a job that is over did what it should.
pub(crate) fn verdict(job: &Job) -> Result<(), Failure> {
    match job.state {
        JobState::Done => Ok(()),
        JobState::Cancelled => Err(Failure::failed(format!("{} was cancelled: {}", job.short, job.reason))),
        _ => Err(Failure::failed(format!(
            "{}: {} of {} units failed; `manyhands job {}` lists them",
            job.short, job.units.failed, job.units.total, job.short
        ))),
    }
}
