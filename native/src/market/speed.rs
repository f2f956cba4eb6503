//! How fast a slot is: the standard run of a market (paper `market`, section V, has SPECjvm98 in its
//! place).
//!
//! An example task, `xorshift`, in a process of the node's own engine: what one is that sells, is
//! fuel a second of just this engine. Nobody waits for it, so it stands still while the node works.

use crate::engine::{Engine, EngineOptions};
use crate::guests::guest;
use crate::storage::Staging;
use node_core::content::Data;
use node_core::engine::{EngineReply, EngineRequest, EngineTask, RunId, SealKey};
use node_core::ids::BlobId;
use sandbox::{Limits, Outcome};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

/// Runs, of which the best counts: what disturbs a run makes it slower only. Our choice: 0.3 s of one
/// processor.
const RUNS: u64 = 5;

/// For each of them, without the time that it stands still; the program's compilation included.
const PATIENCE: Duration = Duration::from_secs(60);

/// It stands still for so long in sum; a node that works all the time measures itself beside its work.
/// Our choice: whoever started a node to try it has seen its first jobs by then.
const GIVES_WAY: Duration = Duration::from_secs(60);

/// Fuel a second of one slot at all of a processor. `cache`: of compiled programs. `works`: whether
/// the node has something to compute.
pub(crate) async fn measure(exe: &Path, cache: &Path, works: watch::Receiver<bool>) -> Result<u64, String> {
    measure_with(exe, cache, works, Engine::start).await
}

/// A place for the engine's answers.
pub(crate) type Replies = Box<dyn Fn(EngineReply) + Send + Sync>;

/// [`measure`] in an engine that `start` makes.
pub(crate) async fn measure_with(
    exe: &Path,
    cache: &Path,
    works: watch::Receiver<bool>,
    start: impl FnOnce(EngineOptions, Replies) -> Engine,
) -> Result<u64, String> {
    let program = guest("xorshift").ok_or("this build lacks the standard task `xorshift`")?;
    let home = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let id = BlobId::of(program);
    let digits = id.to_string();
    let folder = home.path().join(&digits[..2]);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(&digits), program))
        .map_err(|e| format!("the standard task cannot be written: {e}"))?;
    let (replies, replied) = unbounded_channel();
    let options = EngineOptions {
        exe: exe.to_path_buf(),
        blob_dir: home.path().to_path_buf(),
        staging: Staging::new(home.path().to_path_buf()),
        cache_dir: cache.to_path_buf(),
        slots: 1,
        cpu_share: 100,
        background: true,
    };
    let engine = start(options, Box::new(move |reply| drop(replies.send(reply))));
    let mut stage = Stage { engine, replied, works: Some(works), gives_way: GIVES_WAY };
    let best = stage.best_of(id).await;
    // Ending a process takes its time on a busy machine.
    drop(tokio::task::spawn_blocking(move || drop((stage, home))).await);
    best
}

struct Stage {
    engine: Engine,
    replied: UnboundedReceiver<EngineReply>,
    /// `None` once the node has ended.
    works: Option<watch::Receiver<bool>>,
    /// Time left of [`GIVES_WAY`].
    gives_way: Duration,
}

impl Stage {
    async fn best_of(&mut self, program: BlobId) -> Result<u64, String> {
        let mut best = 0;
        for run in 0..RUNS {
            self.engine.request(EngineRequest::Run { run: RunId(run), task: task(program) });
            let outcome = self.outcome(RunId(run)).await?;
            if !outcome.end.is_success() {
                return Err(format!("it {}", outcome.end));
            }
            let speed = u128::from(outcome.fuel) * 1_000_000 / u128::from(outcome.cpu_us.max(1));
            best = best.max(u64::try_from(speed).unwrap_or(u64::MAX));
        }
        (best > 0).then_some(best).ok_or_else(|| "it used no fuel".into())
    }

    /// The outcome of the run under way, which is paused while the node works.
    async fn outcome(&mut self, run: RunId) -> Result<Outcome, String> {
        let (mut patience, mut paused) = (PATIENCE, false);
        loop {
            let works = self.works.as_mut().is_some_and(|works| *works.borrow_and_update());
            let pause = works && !self.gives_way.is_zero();
            if pause != paused {
                paused = pause;
                self.engine.request(EngineRequest::Pause { run, paused });
            }
            let allowed = if paused { &mut self.gives_way } else { &mut patience };
            let began = Instant::now();
            tokio::select! {
                reply = self.replied.recv() => match reply {
                    Some(EngineReply::Ended { outcome, .. }) => return Ok(outcome),
                    Some(EngineReply::Broken { error, .. }) => return Err(error),
                    Some(_) => {}
                    None => return Err("the engine ended".into()),
                },
                known = changed(&mut self.works) => if known.is_err() { self.works = None },
                () = tokio::time::sleep(*allowed) => {}
            }
            *allowed = allowed.saturating_sub(began.elapsed());
            if patience.is_zero() {
                return Err(format!("a run took more than {} s", PATIENCE.as_secs()));
            }
        }
    }
}

/// Waits until the node begins or ends to work; `Err` when it is gone.
async fn changed(works: &mut Option<watch::Receiver<bool>>) -> Result<(), watch::error::RecvError> {
    match works {
        Some(works) => works.changed().await,
        None => std::future::pending().await,
    }
}

fn task(program: BlobId) -> EngineTask {
    EngineTask {
        program,
        arguments: vec!["1".into()],
        environment: Vec::new(),
        stdin: Data::EMPTY,
        files: Vec::new(),
        limits: Limits::default(),
        seed: 0,
        bit_exact: false,
        key: SealKey([0; 32]),
        from: None,
        thread: None,
    }
}
