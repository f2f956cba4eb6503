//! Programs that came over the wire are checked as the API checks those that come to it: in a process of
//! their own, one after the other and none beside one of the API's.

use super::Replies;
use super::compiler::{Bounds, Turn, Unchecked, check};
use super::process::Launcher;
use node_core::engine::NotRunnable;
use node_core::{BlobId, EngineReply};
use sandbox::module::Refusal;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Verdicts kept, the last ones. Our choice: as many as the API keeps.
const KEPT: usize = 256;

/// A program, and the memory that its job gives it. As many wait as the node takes jobs at once.
pub(super) struct Question {
    pub(super) number: u64,
    pub(super) program: BlobId,
    pub(super) memory_bytes: u64,
}

/// Where questions go. Dropped, it ends once the check under way is over.
pub(super) struct Inspector(Option<Sender<Question>>);

impl Inspector {
    pub(super) fn start(launcher: Launcher, blob_dir: PathBuf, replies: Replies) -> Inspector {
        let (questions, asked) = channel();
        let work = move || answer_all(&asked, &launcher, &blob_dir, &replies);
        let started = std::thread::Builder::new().name("inspector".into()).spawn(work);
        Inspector(started.is_ok().then_some(questions))
    }

    /// `false`: it will not be answered.
    pub(super) fn ask(&self, question: Question) -> bool {
        self.0.as_ref().is_some_and(|questions| questions.send(question).is_ok())
    }
}

fn answer_all(asked: &Receiver<Question>, launcher: &Launcher, blob_dir: &Path, replies: &Replies) {
    // A program that is submitted again is not checked again.
    let mut verdicts: VecDeque<(BlobId, Result<u64, Unchecked>)> = VecDeque::new();
    while let Ok(Question { number, program, memory_bytes }) = asked.recv() {
        let known = verdicts.iter().find(|(of, _)| *of == program).map(|(_, verdict)| verdict.clone());
        let verdict = known.unwrap_or_else(|| {
            let verdict = check(&Turn::wait(), launcher, &blob_path(blob_dir, program), &Bounds::OF_CHECKS);
            if verdicts.len() >= KEPT {
                verdicts.pop_front();
            }
            if !matches!(verdict, Err(Unchecked::Broken(_))) {
                verdicts.push_back((program, verdict.clone()));
            }
            verdict
        });
        let result = match verdict {
            Ok(needs) if needs > memory_bytes => {
                Err(NotRunnable::Refused(Refusal::MemoryOverLimit { needs, limit: memory_bytes }.to_string()))
            }
            Ok(_) => Ok(()),
            Err(Unchecked::Refused(why)) => Err(NotRunnable::Refused(why)),
            Err(Unchecked::Broken(why)) => Err(NotRunnable::Unchecked(format!("{why}; submit it again"))),
        };
        replies(EngineReply::Inspected { number, result });
    }
}

/// Where a blob's file lies.
pub(super) fn blob_path(blob_dir: &Path, blob: BlobId) -> PathBuf {
    let name = blob.to_string();
    blob_dir.join(&name[..2]).join(&name)
}
