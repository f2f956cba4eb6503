//! `bench instrument`: each kernel as it is and made suspendable, in turns, in each engine.
//!
//! In wasmer it is processor time of the thread that runs it; in Chromium, where a page cannot ask
//! for that, the time of a page that does nothing else. The suspendable one runs in slices of five
//! milliseconds, as a node runs it.

use super::asyncify::asyncify;
use super::browser::{Browser, Tab};
use super::{home, median, report, rounded};
use crate::cli::args::BenchCommon;
use crate::cli::failure::Failure;
use crate::cli::processes::LocalSwarm;
use crate::cli::progress::say;
use crate::engine::slot::cache::{Cache, Key};
use crate::engine::slot::wasm::{Compiler, WasmerEngine, cpu_us};
use crate::guests::guest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use node_core::ids::BlobId;
use sandbox::instrument::Tuning;
use sandbox::module::{self, Form, Prepared, prepare};
use sandbox::{End, Engine, File, Limits, NO_OTHERS, Pace, Running, Slice, Task};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Instant;

const RUNS: u32 = 5;
const SLICE_US: u64 = 5_000;

/// How often each program is started.
const STARTS: u32 = 21;

struct Kernel {
    name: &'static str,
    guest: &'static str,
    arguments: &'static [&'static str],
    /// Under the name that its arguments give.
    file: Option<(&'static str, &'static [u8])>,
    /// Works on floats: `bit_exact` costs it something.
    floats: bool,
}

const fn kernel(name: &'static str, guest: &'static str, arguments: &'static [&'static str]) -> Kernel {
    Kernel { name, guest, arguments, file: None, floats: false }
}

const BERLIN: &[u8] = include_bytes!("../../../../examples/tsp/data/berlin52.tsp");

const KERNELS: &[Kernel] = &[
    kernel("nqueens", "nqueens", &["13"]),
    Kernel { floats: true, ..kernel("nbody", "kernels", &["nbody"]) },
    kernel("sha256", "sha256-search", &["manyhands", "0", "700000"]),
    Kernel {
        file: Some(("berlin52.tsp", BERLIN)),
        ..kernel("tsp", "tsp", &["--seed", "1", "--generations", "1500", "berlin52.tsp"])
    },
    Kernel { floats: true, ..kernel("matrix", "kernels", &["matrix"]) },
    Kernel { floats: true, ..kernel("stencil", "kernels", &["stencil"]) },
    kernel("qsort", "kernels", &["qsort"]),
    kernel("parser", "kernels", &["parser"]),
    kernel("maps", "kernels", &["maps"]),
];

/// A program in the forms that are compared.
struct Forms {
    raw: Prepared,
    suspendable: Prepared,
    bit_exact: Option<Prepared>,
    asyncify: Option<Prepared>,
    task: Task,
}

/// Results of one engine.
#[derive(Default)]
struct Column {
    ratios: Map<String, Value>,
    bit_exact: Map<String, Value>,
    asyncify: Map<String, Value>,
    all: Vec<f64>,
    all_asyncify: Vec<f64>,
}

impl Column {
    fn put(&mut self, kernel: &Kernel, times: &Times) {
        let ratio = |with: &[f64]| times.over_raw(with);
        self.all.push(ratio(&times.with));
        self.ratios.insert(kernel.name.into(), rounded(ratio(&times.with), 3));
        if !times.exact.is_empty() {
            self.bit_exact.insert(kernel.name.into(), rounded(ratio(&times.exact), 3));
        }
        if !times.asyncify.is_empty() {
            self.all_asyncify.push(ratio(&times.asyncify));
            self.asyncify.insert(kernel.name.into(), rounded(ratio(&times.asyncify), 3));
        }
    }
}

fn geomean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

pub(super) fn run(
    browser: bool,
    only: &[String],
    wasm_opt: Option<&Path>,
    common: &BenchCommon,
) -> Result<u8, Failure> {
    let runs = common.runs.unwrap_or(RUNS);
    let wanted = KERNELS.iter().filter(|k| only.is_empty() || only.iter().any(|name| name == k.name));
    let kernels: Vec<&Kernel> = wanted.collect();
    let all =
        |tuning| kernels.iter().map(|kernel| kernel.forms(tuning, wasm_opt)).collect::<Result<Vec<_>, _>>();
    let forms = all(Tuning::Wasmer)?;
    let (mut sizes, mut asyncify_sizes) = (Map::new(), Map::new());
    for (kernel, forms) in kernels.iter().zip(&forms) {
        let ratio = |form: &Prepared| form.bytes.len() as f64 / forms.raw.bytes.len() as f64;
        sizes.insert(kernel.name.into(), rounded(ratio(&forms.suspendable), 2));
        if let Some(asyncify) = &forms.asyncify {
            asyncify_sizes.insert(kernel.name.into(), rounded(ratio(asyncify), 2));
        }
    }
    let mut columns: Vec<(&str, Column)> = Vec::new();
    let mut fuels = Map::new();
    for (name, compiler) in [("cranelift", Compiler::Cranelift), ("singlepass", Compiler::Singlepass)] {
        let mut column = Column::default();
        for (kernel, forms) in kernels.iter().zip(&forms) {
            let (times, fuel) = in_wasmer(forms, compiler, runs)?;
            column.put(kernel, &times);
            let speed = fuel as f64 / median(times.with.clone());
            if compiler == Compiler::Cranelift {
                fuels.insert(kernel.name.into(), rounded(speed, 0));
            }
            note(common, name, kernel, &times);
        }
        columns.push((name, column));
    }
    if browser {
        let home = home()?;
        let swarm = LocalSwarm::start(home.path(), 0, 0, 1)?;
        let mut chromium = Browser::launch(home.path())?;
        let tab = chromium.open_donate_page(&swarm.gateway.url)?;
        chromium.evaluate(&tab, SHIM)?;
        let mut column = Column::default();
        for (kernel, forms) in kernels.iter().zip(&all(Tuning::V8)?) {
            let times = in_chromium(&mut chromium, &tab, forms, runs)?;
            column.put(kernel, &times);
            note(common, "chromium", kernel, &times);
        }
        columns.push(("chromium", column));
    }
    let by_engine = |value: &dyn Fn(&Column) -> Value| -> Value {
        Value::Object(columns.iter().map(|(name, column)| ((*name).to_owned(), value(column))).collect())
    };
    let mut figures = vec![
        ("ratios", by_engine(&|column| json!(column.ratios))),
        ("geomean", by_engine(&|column| rounded(geomean(&column.all), 3))),
        ("bit_exact", by_engine(&|column| json!(column.bit_exact))),
        ("size", json!(sizes)),
        ("fuel_per_us", json!(fuels)),
        ("start_us", starts(&kernels, &forms)?),
    ];
    if wasm_opt.is_some() {
        figures.push(("asyncify", by_engine(&|column| json!(column.asyncify))));
        figures.push(("asyncify_geomean", by_engine(&|column| rounded(geomean(&column.all_asyncify), 3))));
        figures.push(("asyncify_size", json!(asyncify_sizes)));
    }
    report(&figures, common)
}

fn note(common: &BenchCommon, engine: &str, kernel: &Kernel, times: &Times) {
    if !common.json {
        say(&format!(
            "{engine}: {} {:.3} ({:.0} ms as it is)",
            kernel.name,
            times.over_raw(&times.with),
            median(times.raw.clone()) / 1e3
        ));
    }
}

impl Kernel {
    fn forms(&self, tuning: Tuning, wasm_opt: Option<&Path>) -> Result<Forms, Failure> {
        let program = guest(self.guest)
            .ok_or_else(|| Failure::failed(format!("this build lacks the example task `{}`", self.guest)))?;
        let limits = Limits::default();
        let failed = |why: module::Refusal| Failure::failed(format!("{}: {why}", self.name));
        let suspendable = |bit_exact| -> Result<Prepared, Failure> {
            let prepared =
                prepare(program, &limits, tuning, Form { bit_exact, ..Form::default() }).map_err(failed)?;
            match &prepared.layout {
                Ok(_) => Ok(prepared),
                Err(why) => Err(Failure::failed(format!("{}: {why}", self.name))),
            }
        };
        let bytes = module::limited(program, &limits).map_err(failed)?;
        let task = Task {
            arguments: self.arguments.iter().map(|word| (*word).to_owned()).collect(),
            files: self
                .file
                .iter()
                .map(|(path, data)| File { path: (*path).into(), data: (*data).into() })
                .collect(),
            limits,
            ..Task::default()
        };
        let as_it_is = |bytes| Prepared { bytes, layout: Err("it is measured as it is".into()) };
        let asyncify = wasm_opt.map(|wasm_opt| asyncify(wasm_opt, self.name, &bytes).map(as_it_is));
        Ok(Forms {
            asyncify: asyncify.transpose()?,
            raw: as_it_is(bytes),
            suspendable: suspendable(false)?,
            bit_exact: if self.floats { Some(suspendable(true)?) } else { None },
            task,
        })
    }
}

/// Microseconds of each run, in turns.
#[derive(Default)]
struct Times {
    raw: Vec<f64>,
    with: Vec<f64>,
    exact: Vec<f64>,
    asyncify: Vec<f64>,
}

impl Times {
    /// The median of each run's ratio: both of a pair saw the same machine.
    fn over_raw(&self, with: &[f64]) -> f64 {
        median(with.iter().zip(&self.raw).map(|(with, raw)| with / raw).collect())
    }
}

fn in_wasmer(forms: &Forms, compiler: Compiler, runs: u32) -> Result<(Times, u64), Failure> {
    let mut engine = WasmerEngine::new(compiler);
    let mut compiled = |prepared: &Prepared| engine.compile(prepared).map_err(Failure::failed);
    let raw = compiled(&forms.raw)?;
    let with = compiled(&forms.suspendable)?;
    let exact = forms.bit_exact.as_ref().map(&mut compiled).transpose()?;
    let asyncify = forms.asyncify.as_ref().map(&mut compiled).transpose()?;
    let mut times = Times::default();
    let mut fuel = 0;
    for _ in 0..runs {
        let once = |engine: &mut WasmerEngine, module| once(engine, module, &forms.task);
        let (us, _, alone) = once(&mut engine, &raw)?;
        times.raw.push(us);
        let (us, used, out) = once(&mut engine, &with)?;
        times.with.push(us);
        fuel = used;
        if out != alone {
            return Err(Failure::failed("a suspendable program printed something else; this is a bug"));
        }
        if let Some(exact) = &exact {
            times.exact.push(once(&mut engine, exact)?.0);
        }
        if let Some(asyncify) = &asyncify {
            times.asyncify.push(once(&mut engine, asyncify)?.0);
        }
    }
    Ok((times, fuel))
}

/// Microseconds, fuel and standard output of one run.
fn once(
    engine: &mut WasmerEngine,
    module: &crate::engine::slot::wasm::Compiled,
    task: &Task,
) -> Result<(f64, u64, bytes::Bytes), Failure> {
    let layout = module.layout.clone().ok();
    let mut running = Running::start(engine, module, layout, task)
        .map_err(|why| Failure::failed(format!("a kernel did not start: {why:?}")))?;
    let mut pace = Pace::new(SLICE_US);
    let began = cpu_us();
    let halt = loop {
        let slice_began = Instant::now();
        match running.slice(pace.fuel()) {
            Slice::Yielded => pace.took(slice_began.elapsed().as_micros() as u64),
            Slice::Ended(halt) => break halt,
            Slice::Broken(why) => return Err(Failure::failed(why)),
            Slice::Waits => return Err(Failure::failed(NO_OTHERS)),
        }
    };
    let us = cpu_us().saturating_sub(began) as f64;
    let outcome = running.finish(halt, 0);
    match outcome.end {
        End::Exited(0) => Ok((us, outcome.fuel, outcome.stdout)),
        end => Err(Failure::failed(format!("a kernel {end}"))),
    }
}

/// Microseconds until a program that this machine has run before stands: `load` out of the folder
/// of compiled programs, which a slot does once, and `start` of what a slot has at hand. Beside it
/// the time to compile the program as it is.
fn starts(kernels: &[&Kernel], forms: &[Forms]) -> Result<Value, Failure> {
    let home = home()?;
    let cache = Cache::new(home.path().to_owned());
    let mut engine = WasmerEngine::new(Compiler::Cranelift);
    let mut all = Map::new();
    for (kernel, forms) in kernels.iter().zip(forms) {
        let key = |engine: &WasmerEngine, form: &Prepared| {
            Key::new(BlobId(*blake3::hash(&form.bytes).as_bytes()), 0, Form::default(), engine.inner())
        };
        let began = Instant::now();
        let compiled = engine.compile(&forms.raw).map_err(Failure::failed)?;
        let compiling = began.elapsed().as_micros() as u64;
        cache.store(&key(&engine, &forms.raw), &compiled);
        let compiled = engine.compile(&forms.suspendable).map_err(Failure::failed)?;
        cache.store(&key(&engine, &forms.suspendable), &compiled);
        let mut times = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        for _ in 0..STARTS {
            for (form, (loads, starts)) in [&forms.raw, &forms.suspendable].into_iter().zip(&mut times) {
                let key = key(&engine, form);
                let began = Instant::now();
                let loaded = cache.load(&key, engine.inner());
                loads.push(began.elapsed().as_micros() as f64);
                let loaded = loaded.ok_or_else(|| Failure::failed("a compiled program was not kept"))?;
                let began = Instant::now();
                let running = Running::start(&mut engine, &loaded, loaded.layout.clone().ok(), &forms.task);
                starts.push(began.elapsed().as_micros() as f64);
                drop(running.map_err(|why| Failure::failed(format!("a kernel did not start: {why:?}")))?);
            }
        }
        let [raw, with] = times.map(|(load, start)| json!({ "load": median(load), "start": median(start) }));
        all.insert(kernel.name.into(), json!({ "suspendable": with, "raw": raw, "raw_compiled": compiling }));
    }
    Ok(Value::Object(all))
}

fn in_chromium(browser: &mut Browser, tab: &Tab, forms: &Forms, runs: u32) -> Result<Times, Failure> {
    let text = |prepared: &Prepared| BASE64.encode(&prepared.bytes);
    let asked = json!({
        "raw": text(&forms.raw),
        "with": text(&forms.suspendable),
        "exact": forms.bit_exact.as_ref().map(text),
        "asyncify": forms.asyncify.as_ref().map(text),
        "arguments": forms.task.arguments,
        "file": forms.task.files.first().map(|file| json!({ "path": file.path, "data": BASE64.encode(&file.data) })),
        "runs": runs,
    });
    let answer = browser.evaluate(tab, &format!("manyhandsBench({asked})"))?;
    let list = |name: &str| -> Vec<f64> {
        answer[name].as_array().into_iter().flatten().filter_map(Value::as_f64).map(|ms| ms * 1e3).collect()
    };
    let [raw, with, exact, asyncify] = ["raw", "with", "exact", "asyncify"].map(list);
    let times = Times { raw, with, exact, asyncify };
    if times.raw.len() != runs as usize || times.with.len() != runs as usize {
        return Err(Failure::failed(format!("the page answered {answer}")));
    }
    Ok(times)
}

/// As little of a host as the kernels call, and the loop that gives slices.
const SHIM: &str = include_str!("instrument.js");
