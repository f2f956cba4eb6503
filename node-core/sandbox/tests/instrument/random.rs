//! Modules that nobody would write, suspended at every turn.

use crate::driver::{FOREVER, Made, arguments, options, raw, sliced, validate};
use arbitrary::{Arbitrary, Unstructured};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use sandbox::instrument::instrument;
use wasm_smith::{Config, Module};

fn config() -> Config {
    Config {
        available_imports: None,
        bulk_memory_enabled: true,
        canonicalize_nans: true,
        custom_page_sizes_enabled: false,
        exceptions_enabled: false,
        extended_const_enabled: false,
        gc_enabled: false,
        max_data_segments: 3,
        max_funcs: 8,
        max_globals: 8,
        max_imports: 0,
        max_instructions: 150,
        max_memory32_bytes: 4 << 16,
        max_tables: 2,
        max_table_elements: 40,
        max_tags: 0,
        // The raw module knows no limit but its own.
        memory_max_size_required: true,
        memory64_enabled: false,
        min_exports: 4,
        min_funcs: 3,
        multi_value_enabled: true,
        reference_types_enabled: true,
        relaxed_simd_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: true,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..Config::default()
    }
}

/// How many modules are tried: `MODULES=100000 cargo test -p sandbox --release random`.
fn modules() -> u64 {
    std::env::var("MODULES").ok().and_then(|n| n.parse().ok()).unwrap_or(400)
}

fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut bytes = vec![0; 600 + (seed as usize * 37) % 6000];
    random.fill_bytes(&mut bytes);
    bytes
}

fn module(seed: u64) -> Option<Vec<u8>> {
    let mut config = config();
    // Modules that work on tables or drop segments are refused, and traps end a run early.
    config.reference_types_enabled = seed.is_multiple_of(8);
    config.bulk_memory_enabled = seed.is_multiple_of(4);
    config.disallow_traps = !seed.is_multiple_of(3);
    let bytes = bytes(seed);
    let mut module = Module::new(config, &mut Unstructured::new(&bytes)).ok()?;
    module.ensure_termination(300).ok()?;
    Some(module.to_bytes())
}

#[test]
fn random_modules_do_what_they_did() {
    let (mut tried, mut refused, mut suspended, mut returned) = (0, 0, 0, 0);
    for seed in 0..modules() {
        let Some(program) = module(seed) else { continue };
        tried += 1;
        let made = match Made::of(&program, &options()) {
            Ok(made) => made,
            Err(refusal) => {
                let said = refusal.to_string();
                assert!(!said.contains("not a valid"), "seed {seed}: {said}");
                refused += 1;
                continue;
            }
        };
        let parsed = wasmi::Module::new(&wasmi::Engine::default(), &program[..]).expect("valid");
        let exports: Vec<String> = parsed
            .exports()
            .filter(|export| export.ty().func().is_some())
            .map(|export| export.name().to_string())
            .collect();
        for name in exports.iter().take(3) {
            let args = arguments(&program, name, seed);
            let plain = raw(&program, name, &args);
            // Just beyond its memory a program may read and write frames instead.
            let strays = plain.end == Err("MemoryOutOfBounds".into());
            let whole = sliced(&made, name, &args, FOREVER, 0);
            let stopped = whole.done.end.is_err() && whole.state >= 3;
            if !strays && !stopped && plain.end != Err("OutOfFuel".into()) {
                assert_eq!(whole.done.end, plain.end, "seed {seed}, {name}");
            }
            returned += usize::from(plain.end.is_ok());
            for slice in [0, 1 + seed as i64 % 50, 500] {
                if whole.fuel / (slice + 1) > 5_000 {
                    continue;
                }
                let ran = sliced(&made, name, &args, slice, 0);
                suspended += ran.suspended;
                if strays {
                    continue;
                }
                assert_eq!(ran.done.end, whole.done.end, "seed {seed}, {name}, slices of {slice}");
                assert!(ran.done == whole.done, "seed {seed}, {name}, slices of {slice}: other state");
                // A trap takes the fuel of its function along.
                assert!(
                    ran.fuel == whole.fuel || whole.done.end.is_err(),
                    "seed {seed}, {name}, slices of {slice}: other fuel"
                );
            }
        }
    }
    println!("{tried} modules, {refused} refused, {returned} returned, {suspended} suspends");
    assert!(tried > modules() / 2 && refused < tried / 4 && returned > 0);
}

#[test]
fn no_change_of_bytes_makes_it_panic() {
    for seed in 0..modules() / 4 {
        let Some(program) = module(seed) else { continue };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..40 {
            let mut changed = program.clone();
            for _ in 0..1 + random.next_u32() % 3 {
                let at = random.next_u64() as usize % changed.len();
                changed[at] = random.next_u32() as u8;
            }
            if let Ok(made) = instrument(&changed, &options()) {
                validate(&made.wasm);
            }
        }
    }
}

#[test]
fn whatever_is_no_module_is_refused() {
    for seed in 0..200 {
        let bytes = bytes(seed);
        let mut input = Unstructured::new(&bytes);
        let tail = <Vec<u8>>::arbitrary(&mut input).unwrap_or_default();
        let mut program = b"\0asm\x01\0\0\0".to_vec();
        program.extend(tail);
        if let Ok(made) = instrument(&program, &options()) {
            validate(&made.wasm);
        }
    }
}
