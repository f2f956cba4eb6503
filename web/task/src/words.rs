//! The browser's errors in the sandbox's words: results are compared between nodes.

use js_sys::{Error, WebAssembly};
use sandbox::Trap;
use wasm_bindgen::{JsCast, JsValue};

/// The trap that a thrown value stands for; `None` if the task did nothing to cause it.
pub(crate) fn trap(thrown: &JsValue) -> Option<Trap> {
    let error = thrown.dyn_ref::<Error>()?;
    let message = String::from(error.message());
    if is_deep_recursion(&message) {
        return Some(Trap::StackOverflow);
    }
    thrown.is_instance_of::<WebAssembly::RuntimeError>().then(|| trap_of(message))
}

/// An error for people.
pub(crate) fn text(thrown: &JsValue) -> String {
    match thrown.dyn_ref::<Error>() {
        Some(error) => format!("{}: {}", String::from(error.name()), String::from(error.message())),
        None => format!("{thrown:?}"),
    }
}

/// Chromium and Safari throw a RangeError, Firefox an InternalError.
fn is_deep_recursion(message: &str) -> bool {
    message.contains("call stack size exceeded") || message.contains("too much recursion")
}

/// Trap that a message means. The texts are those of Chromium, Firefox and Safari, in this order.
/// Older Chromium does not tell a null function from a wrong signature.
fn trap_of(message: String) -> Trap {
    let known: &[(Trap, &[&str])] = &[
        (Trap::Unreachable, &["unreachable", "unreachable executed", "Unreachable code"]),
        (Trap::NullFunction, &["null function", "indirect call to null", "call_indirect to a null"]),
        (Trap::SignatureMismatch, &["signature mismatch", "a signature that does not match"]),
        (
            Trap::TableOutOfBounds,
            &["table index is out of bounds", "table access out", "Out of bounds call_indirect"],
        ),
        (
            Trap::MemoryOutOfBounds,
            &["memory access out of bounds", "index out of bounds", "Out of bounds memory", "data segment"],
        ),
        (Trap::DivideByZero, &["divide by zero", "remainder by zero", "Division by zero"]),
        (Trap::IntegerOverflow, &["divide result unrepresentable", "integer overflow", "Integer overflow"]),
        (
            Trap::BadConversion,
            &["float unrepresentable", "invalid conversion to integer", "Out of bounds Trunc"],
        ),
    ];
    for (trap, phrases) in known {
        if phrases.iter().any(|phrase| message.contains(phrase)) {
            return trap.clone();
        }
    }
    Trap::Other(message)
}
