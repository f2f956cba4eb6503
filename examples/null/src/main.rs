//! Exits at once, with nothing of the standard library's start-up: what remains of a unit is what
//! the swarm costs.

#![no_main]

/// Where the C start-up code of wasm32-wasip1 goes on.
#[unsafe(no_mangle)]
extern "C" fn __main_void() -> i32 {
    0
}

/// Where that of other systems does.
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    0
}
