//! `bench kernel`: units of about 50 ms, beside the same module run alone in wasmer.
//!
//! The bare runs use as many threads as the swarm has slots, before and after it, so that
//! both sides see the same machine: two hardware threads of one core share it.

use super::process::usage;
use super::{home, least, median, most, report, rounded, sweep};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use crate::guests::guest;
use std::time::{Duration, Instant};
use wasmer::{
    Function, FunctionEnv, FunctionEnvMut, Imports, Instance, Memory, Module, RuntimeError, Store, Value,
};

const UNITS: u32 = 200;
const RUNS: u32 = 3;
const WORKERS: usize = 2;
/// Bare runs a thread, before and after each run of the swarm.
const BARE: u32 = 20;

pub(super) fn run(units: Option<u32>, common: &BenchCommon) -> Result<u8, Failure> {
    let units = units.unwrap_or(UNITS);
    let home = home()?;
    let swarm = LocalSwarm::start(home.path(), 0, WORKERS, 1)?;
    let pids: Vec<u32> = swarm.workers.iter().chain([&swarm.gateway]).map(|node| node.pid()).collect();
    let client = swarm.client();
    // Compiled and cached on both sides before it counts.
    let (job, _) = sweep("xorshift", &["{}"], 1, WORKERS as u32 * 4)?.submit(&client)?;
    client.follow(&job.id, |_| swarm.check())?;
    let (mut ratios, mut efficiencies) = (Vec::new(), Vec::new());
    for run in 1..=common.runs.unwrap_or(RUNS) {
        let mut bare = bare_runs()?;
        let before = usage(&pids)?;
        let start = Instant::now();
        let (job, _) = sweep("xorshift", &["{}"], 1, units)?.submit(&client)?;
        let job = client.follow(&job.id, |_| swarm.check())?;
        let wall = start.elapsed();
        let cpu = usage(&pids)?.cpu.saturating_sub(before.cpu);
        bare.extend(bare_runs()?);
        if job.units.done != units {
            return Err(Failure::failed(format!("the kernel's job did not end well: {}", job.reason)));
        }
        let alone = median(bare);
        let each = cpu.as_secs_f64() / f64::from(units);
        ratios.push(each / alone);
        efficiencies.push(alone * f64::from(units) / WORKERS as f64 / wall.as_secs_f64());
        if !common.json {
            say(&format!(
                "run {run}: {:.2} ms a unit, {:.2} ms alone, {:.2} s in all",
                each * 1e3,
                alone * 1e3,
                wall.as_secs_f64()
            ));
        }
    }
    let (dearest, slowest) = (most(&ratios), least(&efficiencies));
    report(
        &[
            ("cpu_ratio", rounded(median(ratios), 4)),
            ("cpu_ratio_max", rounded(dearest, 4)),
            ("wall_efficiency", rounded(median(efficiencies), 4)),
            ("wall_efficiency_min", rounded(slowest, 4)),
            ("units", units.into()),
        ],
        common,
    )
}

/// Processor seconds of each bare run.
fn bare_runs() -> Result<Vec<f64>, Failure> {
    let threads: Vec<_> = (0..WORKERS).map(|_| std::thread::spawn(bare_thread)).collect();
    let mut all = Vec::new();
    for thread in threads {
        let runs = thread.join().map_err(|_| Failure::failed("a bare run of the kernel panicked"))?;
        all.extend(runs?);
    }
    Ok(all)
}

fn bare_thread() -> Result<Vec<f64>, Failure> {
    let failed = |what: String| Failure::failed(format!("the kernel cannot be run alone: {what}"));
    let bytes = guest("xorshift").ok_or_else(|| failed("this build lacks the example `xorshift`".into()))?;
    let mut store = Store::default();
    let module = Module::new(&store, bytes).map_err(|e| failed(e.to_string()))?;
    (0..BARE).map(|_| bare(&mut store, &module).map_err(&failed)).collect()
}

/// Runs `_start` with the argument 1 and as little of WASI as the module calls.
fn bare(store: &mut Store, module: &Module) -> Result<f64, String> {
    let env = FunctionEnv::new(store, None);
    let mut imports = Imports::new();
    for import in module.imports() {
        let wasmer::ExternType::Function(kind) = import.ty() else {
            return Err("it imports no function".into());
        };
        let (name, results) = (import.name().to_owned(), kind.results().len());
        let function = Function::new_with_env(store, &env, kind.clone(), move |env, arguments| {
            wasi(&env, &name, arguments).map(|errno| vec![Value::I32(errno); results])
        });
        imports.define(import.module(), import.name(), function);
    }
    let instance = Instance::new(store, module, &imports).map_err(|e| e.to_string())?;
    *env.as_mut(store) = Some(instance.exports.get_memory("memory").map_err(|e| e.to_string())?.clone());
    let start = instance.exports.get_function("_start").map_err(|e| e.to_string())?;
    let before = thread_cpu()?;
    start.call(store, &[]).map_err(|e| e.to_string())?;
    Ok((thread_cpu()? - before).as_secs_f64())
}

fn wasi(
    env: &FunctionEnvMut<'_, Option<Memory>>,
    name: &str,
    arguments: &[Value],
) -> Result<i32, RuntimeError> {
    let memory = env.data().as_ref().ok_or_else(|| RuntimeError::new("no memory yet"))?.view(env);
    let at = |n: usize| arguments.get(n).and_then(Value::i32).map_or(0, |v| u64::from(v.cast_unsigned()));
    let number =
        |at, v: u32| memory.write(at, &v.to_le_bytes()).map_err(|e| RuntimeError::new(e.to_string()));
    const ARGV: &[u8] = b"x\x001\0";
    match name {
        "args_sizes_get" => {
            number(at(0), 2)?;
            number(at(1), ARGV.len() as u32)?;
        }
        "args_get" => {
            number(at(0), at(1) as u32)?;
            number(at(0) + 4, at(1) as u32 + 2)?;
            memory.write(at(1), ARGV).map_err(|e| RuntimeError::new(e.to_string()))?;
        }
        "environ_sizes_get" => {
            number(at(0), 0)?;
            number(at(1), 0)?;
        }
        "fd_write" => {
            let mut length = [0; 4];
            let mut total = 0;
            for vector in 0..at(2) {
                memory
                    .read(at(1) + vector * 8 + 4, &mut length)
                    .map_err(|e| RuntimeError::new(e.to_string()))?;
                total += u32::from_le_bytes(length);
            }
            number(at(3), total)?;
        }
        "proc_exit" => return Err(RuntimeError::new(format!("it exited with {}", at(0)))),
        _ => {}
    }
    Ok(0)
}

/// Processor time of this thread.
fn thread_cpu() -> Result<Duration, String> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|e| e.to_string())?;
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok()).ok_or("schedstat is odd")?;
    Ok(Duration::from_nanos(nanos))
}
