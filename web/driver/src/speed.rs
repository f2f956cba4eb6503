//! How fast a slot is: the standard run of a market (paper `market`, section V, has SPECjvm98 in its
//! place), in this browser's own engine.
//!
//! It is the loop of the example `xorshift`, with which servers measure theirs, without the program
//! around it: 114 bytes in place of a download.

use node_core::content::Data;
use node_core::engine::{EngineReply, EngineRequest, EngineTask, RunId, SealKey};
use node_core::ids::BlobId;
use sandbox::Limits;

/// Runs, of which the best counts: what disturbs a run makes it slower only, and browsers compile a
/// program well once it has run a while. Our choice: as on a server, 0.3 s of one core.
const RUNS: u64 = 5;

/// The node's own runs are counted from 1; JavaScript has whole numbers up to 2^53.
const FIRST: u64 = 1 << 52;

/// Bytes of memory that it may have.
const MEMORY: u64 = 1 << 20;

/// Stores what 34,000,000 steps of xorshift64 make of 1, so that no compiler leaves them out.
const PROGRAM: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01`\0\0\x03\x02\x01\0\x05\x03\x01\0\x01\x07\x13\x02\
\x06memory\x02\0\x06_start\0\0\x0aD\x01B\x02\x01~\x01\x7fB\x01!\0A\x80\x99\x9b\x10!\x01\x03@ \0 \0B\x0d\x86\x85!\0 \0 \0B\
\x07\x88\x85!\0 \0 \0B\x11\x86\x85!\0 \x01A\x01k\x22\x01\x0d\0\x0bA\0 \x007\x03\0\x0b";

/// The standard program, if that is its name.
pub fn program(id: &BlobId) -> Option<&'static [u8]> {
    (*id == BlobId::of(PROGRAM)).then_some(PROGRAM)
}

/// Whether a reply of the engine is one of these runs'.
pub fn is_its(run: RunId) -> bool {
    run.0 >= FIRST
}

/// The runs that are to come, and the best of those that were.
#[derive(Debug, Default)]
pub struct Measure {
    begun: u64,
    best: u64,
}

impl Measure {
    /// Whether nothing has been run yet.
    pub fn is_new(&self) -> bool {
        self.begun == 0
    }

    /// One more run.
    pub fn again(&mut self) -> EngineRequest {
        self.begun += 1;
        let task = EngineTask {
            program: BlobId::of(PROGRAM),
            arguments: Vec::new(),
            environment: Vec::new(),
            stdin: Data::EMPTY,
            files: Vec::new(),
            limits: Limits { memory_bytes: MEMORY, ..Limits::default() },
            seed: 0,
            bit_exact: false,
            key: SealKey([0; 32]),
            from: None,
            thread: None,
        };
        EngineRequest::Run { run: RunId(FIRST + self.begun), task }
    }

    /// A run has ended: fuel a second of one slot at all of a core, or what is to be run next, or why
    /// neither.
    pub fn ended(&mut self, reply: &EngineReply) -> Result<Result<u64, EngineRequest>, String> {
        match reply {
            EngineReply::Ended { outcome, .. } if outcome.end.is_success() => {
                let speed = u128::from(outcome.fuel) * 1_000_000 / u128::from(outcome.cpu_us.max(1));
                self.best = self.best.max(u64::try_from(speed).unwrap_or(u64::MAX));
            }
            EngineReply::Ended { outcome, .. } => return Err(format!("it {}", outcome.end)),
            EngineReply::Broken { error, .. } => return Err(error.clone()),
            _ => return Err("it did not end".into()),
        }
        Ok(if self.begun < RUNS { Err(self.again()) } else { Ok(self.best) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::instrument::Tuning;
    use sandbox::{End, Outcome};

    #[test]
    fn the_standard_program_is_fit_to_run_and_can_be_suspended() {
        let limits = Limits { memory_bytes: MEMORY, ..Limits::default() };
        let prepared =
            sandbox::module::prepare(PROGRAM, &limits, Tuning::V8, sandbox::module::Form::default())
                .expect("fit to run");
        assert!(prepared.layout.is_ok());
        assert!(program(&BlobId::of(PROGRAM)).is_some() && program(&BlobId::of(b"another")).is_none());
    }

    #[test]
    fn the_best_of_five_runs_counts_and_a_run_that_fails_measures_nothing() {
        let mut measure = Measure::default();
        let mut next = measure.again();
        for cpu_us in [500_000, 400_000, 100_000, 300_000] {
            let EngineRequest::Run { run, .. } = next else { panic!("a run") };
            assert!(is_its(run) && !is_its(RunId(1_000_000)));
            let outcome = Outcome { fuel: 100_000_000, cpu_us, ..Outcome::of(End::Exited(0)) };
            next = measure.ended(&EngineReply::Ended { run, outcome }).unwrap().unwrap_err();
        }
        let outcome = Outcome { fuel: 100_000_000, cpu_us: 200_000, ..Outcome::of(End::Exited(0)) };
        let run = RunId(FIRST + 5);
        assert!(matches!(measure.ended(&EngineReply::Ended { run, outcome }), Ok(Ok(1_000_000_000))));
        let error = "no memory".to_owned();
        let failed = Measure::default().ended(&EngineReply::Broken { run, error });
        assert!(failed.is_err_and(|why| why == "no memory"));
    }
}
