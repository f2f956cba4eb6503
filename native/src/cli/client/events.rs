//! Following a job: server-sent events, picked up again when the stream breaks.

use super::types::Job;
use super::{ApiError, Client, authorized, escape, transport};
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

/// The gateway says something at least every 15 s; three times that is silence.
const SILENCE: Duration = Duration::from_secs(45);
/// A line of an event. Our choice: a job's record with the shares of ten thousand nodes.
const MAX_LINE: u64 = 4 << 20;

impl Client {
    /// Calls `at_change` with each state of the job that the gateway tells, the first and the
    /// last included, and returns the last.
    pub(crate) fn follow<E: From<ApiError>>(
        &self,
        id: &str,
        mut at_change: impl FnMut(&Job) -> Result<(), E>,
    ) -> Result<Job, E> {
        let mut pause = Duration::from_millis(100);
        loop {
            let job = self.job(id)?;
            at_change(&job)?;
            if job.state.is_over() {
                return Ok(job);
            }
            let mut events = self.events(id)?;
            loop {
                match events.next() {
                    Ok(Some(job)) => {
                        pause = Duration::from_millis(100);
                        at_change(&job)?;
                        if job.state.is_over() {
                            return Ok(job);
                        }
                    }
                    // It ended or broke: a restart, a time-out. Ask for the state and go on.
                    Ok(None) | Err(ApiError::Unreachable { .. }) => break,
                    Err(e) => return Err(e.into()),
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    fn events(&self, id: &str) -> Result<Events<'_>, ApiError> {
        self.patiently(|at| {
            let request = self
                .agent
                .get(format!("{}/api/v1/jobs/{}/events", at.url, escape(id)))
                .config()
                .timeout_per_read(Some(SILENCE))
                .build()
                .header("accept", "text/event-stream");
            let answer = self.accepted(at, authorized(request, at).call())?;
            Ok(Events { client: self, lines: BufReader::new(Box::new(answer.into_body().into_reader())) })
        })
    }
}

struct Events<'c> {
    client: &'c Client,
    lines: BufReader<Box<dyn Read>>,
}

impl Events<'_> {
    /// The next state of the job; none when the stream is over.
    fn next(&mut self) -> Result<Option<Job>, ApiError> {
        let broken = |e: std::io::Error| transport(&self.client.endpoint(), &ureq::Error::Io(e));
        match next_event(&mut self.lines, "job").map_err(broken)? {
            Some(data) => self.client.parse(&data).map(Some),
            None => Ok(None),
        }
    }
}

/// Reads up to the end of the next event of this name and returns its data.
pub(super) fn next_event(lines: &mut impl BufRead, wanted: &str) -> std::io::Result<Option<String>> {
    let (mut name, mut data) = (String::new(), String::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == MAX_LINE || data.len() as u64 > MAX_LINE {
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, "an event without an end"));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            if name == wanted && !data.is_empty() {
                return Ok(Some(data));
            }
            name.clear();
            data.clear();
            continue;
        }
        // A line that starts with a colon is a comment: the sign of life.
        match text.split_once(':').unwrap_or((text, "")) {
            ("event", value) => name = value.trim_start().into(),
            ("data", value) => {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(value.strip_prefix(' ').unwrap_or(value));
            }
            _ => {}
        }
    }
}
