//! Answers on their way to the node: several share a message when tasks are short.

use web_driver::slot::Answer;

/// Answers wait this long for company. Ours: a message costs a tenth of it.
const PATIENCE_MS: f64 = 2.0;

/// Bytes of output that one message gathers.
const FULL_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Reporter {
    answers: Vec<Answer>,
    bytes: usize,
    /// When something was last taken, milliseconds.
    taken_ms: f64,
}

impl Reporter {
    /// Whether it is time to take what there is.
    pub(crate) fn add(&mut self, now_ms: f64, answer: Answer) -> bool {
        if let Answer::Ended(outcome) = &answer {
            self.bytes += outcome.stdout.len() + outcome.stderr.len();
            self.bytes += outcome.files.iter().map(|f| f.path.len() + f.data.len()).sum::<usize>();
        }
        self.answers.push(answer);
        if now_ms - self.taken_ms < PATIENCE_MS && self.bytes < FULL_BYTES {
            return false;
        }
        self.taken_ms = now_ms;
        true
    }

    pub(crate) fn take(&mut self) -> Vec<Answer> {
        self.bytes = 0;
        std::mem::take(&mut self.answers)
    }
}
