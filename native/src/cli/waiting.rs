//! Common parts of `run`, `map` and `submit --wait` while their job is computed.

use super::client::Client;
use super::client::types::{Job, JobState};
use super::failure::{Failure, UNREACHABLE, USAGE};
use super::interrupt::on_interrupt;
use super::progress::say;
use super::swarm::Swarm;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Effect of Ctrl-C on the job.
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
    /// The swarm is this command's own, and its jobs end with it.
    ends_with_command: bool,
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
        Guard { job, ends_with_command: swarm.embedded.is_some() }
    }

    pub(crate) fn submitted(&self, job: &Job) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job.clone());
    }

    /// Why no more is heard of the job, and how to find it again: the gateway keeps it.
    pub(crate) fn unheard(&self, why: Failure) -> Failure {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*job, why.code) {
            (Some(Job { short, .. }), USAGE | UNREACHABLE) if !self.ends_with_command => {
                let message =
                    format!("{}; {short} is not lost, `manyhands job {short}` shows it", why.message);
                Failure { message, ..why }
            }
            _ => why,
        }
    }
}

/// How long a job has waited for a reason before that is said. Our choice: most places are found sooner.
const WAITS: Duration = Duration::from_secs(2);

/// Says on standard error why a job waits: once for each reason, whether or not it is a terminal.
pub(crate) struct Waits {
    last: Option<String>,
    news: mpsc::Sender<Option<String>>,
}

impl Waits {
    pub(crate) fn of(job: &Job) -> Waits {
        let (news, heard) = mpsc::channel();
        let short = job.short.clone();
        std::thread::spawn(move || tell(&heard, &|reason| say(&format!("{short} waits: {reason}"))));
        Waits { last: None, news }
    }

    /// For commands that draw the reason where standard error is a terminal.
    pub(crate) fn unless_drawn(job: &Job) -> Option<Waits> {
        (!std::io::stderr().is_terminal()).then(|| Waits::of(job))
    }

    /// To be told of each change of the job.
    pub(crate) fn show(&mut self, job: &Job) {
        let reason = (job.state == JobState::Waiting).then(|| job.reason.clone());
        if reason != self.last {
            self.last.clone_from(&reason);
            // The thread that says it lives as long as this does.
            drop(self.news.send(reason));
        }
    }
}

fn tell(heard: &mpsc::Receiver<Option<String>>, say: &dyn Fn(&str)) {
    let (mut reason, mut said) = (None, None);
    loop {
        let news = match reason != said && reason.is_some() {
            true => heard.recv_timeout(WAITS),
            false => heard.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        };
        match news {
            Ok(news) => reason = news,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                say(reason.as_deref().unwrap_or_default());
                said.clone_from(&reason);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A job in a swarm that gives nothing waits for ever: say so.
pub(crate) fn warn_if_nobody_computes(client: &Client) {
    let Ok((swarm, network)) = client.nodes().and_then(|nodes| Ok((nodes, client.network()?))) else {
        return;
    };
    // A worker does not know most of its swarm.
    if network.gateway && swarm.nodes.iter().all(|node| node.slots == 0) {
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
