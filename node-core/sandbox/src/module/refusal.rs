//! Why a program is not run, in words that say what to do next.

use std::fmt;

/// Why a program is not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("not a WebAssembly module: the file {looks}; compile the program for wasm32-wasip1")]
    NotWasm { looks: String },
    #[error(
        "a WebAssembly component, not a core module; build a WASI preview 1 command \
         (in Rust: --target wasm32-wasip1), or take the core module out of it"
    )]
    Component,
    #[error("not a valid WebAssembly module: {0}; the file may be damaged or cut off, build it again")]
    Invalid(String),
    #[error("uses {feature}, which tasks may not ({detail}); {advice}")]
    Feature { feature: &'static str, detail: String, advice: &'static str },
    #[error("imports what is not offered: {}; {}", list(.0), advice(.0))]
    Imports(Vec<BadImport>),
    #[error(
        "has no _start function{}; build it as a command with a main function (WASI preview 1)",
        if *reactor { ": it is a library (it exports _initialize)" } else { "" }
    )]
    NoStart { reactor: bool },
    #[error("its _start takes parameters or returns something; a command's takes and returns nothing")]
    StartSignature,
    #[error("exports no memory under the name \"memory\"; link it as wasm-ld does by default")]
    NoMemory,
    #[error(
        "needs {needs} bytes of memory to begin with, more than the job's limit of {limit} bytes; \
         raise memory_limit"
    )]
    MemoryOverLimit { needs: u64, limit: u64 },
    /// The words of the pass that makes programs suspendable.
    #[error("{0}")]
    OverLimits(String),
    #[error(
        "has a function (number {function}) with {what}; compilers need too much memory for it: split it, or build with less inlining (-Os)"
    )]
    TooLarge { function: u32, what: String },
    #[error("has tables of {elements} elements, more than the {max} that a task may have")]
    Tables { elements: u64, max: u64 },
}

/// An import that tasks do not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadImport {
    /// `module.name`.
    pub name: String,
    pub why: WhyNot,
}

/// Reason why an import is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// A function that nobody offers.
    Unknown,
    /// A function of preview 1, imported with another signature.
    Signature,
    /// A memory, a table, a global or a tag.
    Kind(&'static str),
}

impl BadImport {
    /// Names come from the module and can be of any length.
    pub(super) fn new(module: &str, name: &str, why: WhyNot) -> Self {
        let short = |s: &str| s.chars().take(80).collect::<String>().escape_debug().to_string();
        BadImport { name: format!("{}.{}", short(module), short(name)), why }
    }
}

impl fmt::Display for BadImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why {
            WhyNot::Unknown => f.write_str(&self.name),
            WhyNot::Signature => write!(f, "{} (with another signature than WASI's)", self.name),
            WhyNot::Kind(kind) => write!(f, "{} (a {kind})", self.name),
        }
    }
}

/// More than this many are counted, not named.
const NAMED: usize = 50;
/// [`NAMED`] where the cause is known, and says more than the names. Our choice: one line.
const NAMED_OF_CAUSE: usize = 2;

fn list(imports: &[BadImport]) -> String {
    let named = if cause(imports).is_some() { NAMED_OF_CAUSE } else { NAMED };
    let mut text: Vec<String> = imports.iter().take(named).map(BadImport::to_string).collect();
    if imports.len() > named {
        text.push(format!("and {} more", imports.len() - named));
    }
    text.join(", ")
}

fn advice(imports: &[BadImport]) -> &'static str {
    cause(imports).unwrap_or("tasks get WASI preview 1 (wasi_snapshot_preview1) and nothing else")
}

/// The usual cause of imports of this kind, and what to do about it; `None` if it is not known.
fn cause(imports: &[BadImport]) -> Option<&'static str> {
    let any = |what: &dyn Fn(&BadImport) -> bool| imports.iter().any(what);
    let known = if any(&|i| {
        i.name.starts_with("__wbindgen") || i.name.starts_with("wbg.") || i.name.contains("_bg.js")
    }) {
        "it was built for a web page with wasm-bindgen, build it for wasm32-wasip1"
    } else if any(&|i| i.name.starts_with("wasi_unstable.")) {
        "it was built for an older WASI, build it with a current toolchain for wasm32-wasip1"
    } else if any(&|i| i.name.starts_with("wasi:")) {
        "it was built for a newer WASI, build it for wasm32-wasip1"
    } else if any(&|i| i.name.starts_with("wasi.thread")) {
        "threads are not offered, build it for wasm32-wasip1 instead of wasm32-wasip1-threads"
    } else if any(&|i| i.name.starts_with("gojs.") || i.name.starts_with("go.")) {
        "it was built for JavaScript, build it with GOOS=wasip1 GOARCH=wasm"
    } else if any(&|i| i.why == WhyNot::Kind("memory")) {
        "a task brings its own memory, link without --import-memory"
    } else if any(&|i| i.name.starts_with("env.emscripten") || i.name.starts_with("env.__syscall")) {
        "it was built with Emscripten, add -sSTANDALONE_WASM or build it with wasi-sdk"
    } else {
        return None;
    };
    Some(known)
}
