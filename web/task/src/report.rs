//! Answers on their way to the node: several share a message when tasks are short.

use web_driver::slot::Answer;

/// Answers wait this long for company. Ours: a message costs a tenth of it.
const PATIENCE_MS: f64 = 2.0;

/// Bytes of output that one message gathers.
const FULL_BYTES: usize = 1 << 20;

pub(crate) struct Reporter<'a, S> {
    send: S,
    answers: Vec<Answer>,
    bytes: usize,
    /// When the slot last reported, in this batch or an earlier one.
    sent_ms: &'a mut f64,
}

impl<'a, E, S: FnMut(&[Answer]) -> Result<(), E>> Reporter<'a, S> {
    pub(crate) fn new(sent_ms: &'a mut f64, send: S) -> Self {
        Reporter { send, answers: Vec::new(), bytes: 0, sent_ms }
    }

    pub(crate) fn add(&mut self, now_ms: f64, answer: Answer) -> Result<(), E> {
        if let Answer::Ended(outcome) = &answer {
            self.bytes += outcome.stdout.len() + outcome.stderr.len();
            self.bytes += outcome.files.iter().map(|f| f.path.len() + f.data.len()).sum::<usize>();
        }
        self.answers.push(answer);
        if now_ms - *self.sent_ms >= PATIENCE_MS || self.bytes >= FULL_BYTES {
            *self.sent_ms = now_ms;
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), E> {
        if !self.answers.is_empty() {
            (self.send)(&self.answers)?;
            self.answers.clear();
            self.bytes = 0;
        }
        Ok(())
    }
}
