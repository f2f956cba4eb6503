//! How fast a slot is: the standard run of a market (paper 002, section IV-A, has SPECjvm98 in its
//! place).
//!
//! An example task, `xorshift`, in a process of the node's own engine: what one is that sells, is
//! fuel a second of just this engine.

use crate::engine::{Engine, EngineOptions};
use crate::guests::guest;
use node_core::ids::BlobId;
use node_core::node::host::{EngineReply, EngineRequest, EngineTask, RunId, SealKey};
use node_core::work::spec::Data;
use sandbox::Limits;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

/// Runs, of which the best counts: what disturbs a run makes it slower only. Our choice: 0.3 s of one
/// processor.
const RUNS: u64 = 5;

/// For all of them, the program's compilation included.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fuel a second of one slot at all of a processor. `cache`: of compiled programs.
pub(crate) fn measure(exe: &Path, cache: &Path) -> Result<u64, String> {
    let program = guest("xorshift").ok_or("this build lacks the standard task `xorshift`")?;
    let home = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let id = BlobId::of(program);
    let digits = id.to_string();
    let folder = home.path().join(&digits[..2]);
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(&digits), program))
        .map_err(|e| format!("the standard task cannot be written: {e}"))?;
    let (replies, replied) = mpsc::channel();
    let options = EngineOptions {
        exe: exe.to_path_buf(),
        blob_dir: home.path().to_path_buf(),
        cache_dir: cache.to_path_buf(),
        slots: 1,
        cpu_share: 100,
    };
    let engine = Engine::start(options, move |reply| drop(replies.send(reply)));
    for run in 0..RUNS {
        engine.request(EngineRequest::Run { run: RunId(run), task: task(id) });
    }
    let mut best = 0;
    for _ in 0..RUNS {
        match replied.recv_timeout(PATIENCE) {
            Ok(EngineReply::Ended { outcome, .. }) if outcome.end.is_success() => {
                let speed = u128::from(outcome.fuel) * 1_000_000 / u128::from(outcome.cpu_us.max(1));
                best = best.max(u64::try_from(speed).unwrap_or(u64::MAX));
            }
            Ok(EngineReply::Ended { outcome, .. }) => return Err(format!("it {}", outcome.end)),
            Ok(EngineReply::Broken { error, .. }) => return Err(error),
            Ok(_) => {}
            Err(_) => return Err(format!("it took more than {} s", PATIENCE.as_secs())),
        }
    }
    (best > 0).then_some(best).ok_or_else(|| "it used no fuel".into())
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
    }
}
