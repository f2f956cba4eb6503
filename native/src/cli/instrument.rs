//! `manyhands instrument`: what every node does with a program before it runs it.

use super::args::{InstrumentArgs, TunedFor};
use super::failure::{DONE, Failure};
use super::progress::say;
use crate::text::io_error;
use sandbox::instrument::{self, INSTRUMENT_VERSION, Options, Tuning};

pub(crate) fn run(args: &InstrumentArgs) -> Result<u8, Failure> {
    let program = &args.program;
    let bytes = std::fs::read(program)
        .map_err(|e| Failure::usage(format!("cannot read {}: {}", program.display(), io_error(&e))))?;
    let tuning = match args.engine {
        TunedFor::Wasmer => Tuning::Wasmer,
        TunedFor::V8 => Tuning::V8,
    };
    let options = Options { bit_exact: args.bit_exact, tuning, ..Options::default() };
    let made = instrument::instrument(&bytes, &options)
        .map_err(|refusal| Failure::usage(format!("{} {refusal}", program.display())))?;
    std::fs::write(&args.output, &made.wasm).map_err(|e| {
        Failure::failed(format!(
            "cannot write {}: {}; make room or name another file",
            args.output.display(),
            io_error(&e)
        ))
    })?;
    say(&format!(
        "{}: {} bytes, {:.2} times the program's {} (version {INSTRUMENT_VERSION} of the pass)",
        args.output.display(),
        made.wasm.len(),
        made.wasm.len() as f64 / bytes.len().max(1) as f64,
        bytes.len(),
    ));
    Ok(DONE)
}
