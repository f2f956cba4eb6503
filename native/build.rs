//! Builds what the binary carries: the pages, the web node and the example tasks.
//!
//! - Each crate of `web/` is compiled for wasm32-unknown-unknown (profile `web`) and goes through
//!   wasm-bindgen, the node twice; with all of `www/` it becomes `assets.rs`, compressed.
//! - Each folder of `examples/` is compiled to a WASI preview 1 command and becomes `guests.rs`.
//!
//! The inner cargo has a target folder of its own, because the outer one has locked its. It knows
//! what changed, so this script only names the sources that it read; what it makes itself from a
//! module, bindings and compressed copies, it keeps until the module changes.
//!
//! `MANYHANDS_WEB=off` leaves the web crates out, for work on the native side alone: the gateway
//! then serves its pages without the node that they would start.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

type Result<T> = std::result::Result<T, String>;

const WEB_TARGET: &str = "wasm32-unknown-unknown";
const GUEST_TARGET: &str = "wasm32-wasip1";

fn main() -> ExitCode {
    match Build::from_environment().and_then(|mut build| build.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

struct Build {
    /// The workspace.
    root: PathBuf,
    out: PathBuf,
    /// The inner cargo's target folder.
    target: PathBuf,
    /// 11 is brotli's best and costs seconds; a debug build shall not wait for it.
    quality: i32,
    /// Files that the result depends on.
    sources: BTreeSet<PathBuf>,
}

impl Build {
    fn from_environment() -> Result<Build> {
        let out = PathBuf::from(variable("OUT_DIR")?);
        // OUT_DIR is <target>/<profile>/build/<package>/out.
        let target = out.ancestors().nth(4).ok_or("OUT_DIR is not below a target folder")?.join("wasm");
        let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
        let root = manifest.parent().ok_or("native/ has no parent folder")?.to_path_buf();
        let quality = if variable("PROFILE")? == "release" { 11 } else { 5 };
        Ok(Build { root, out, target, quality, sources: BTreeSet::new() })
    }

    fn run(&mut self) -> Result<()> {
        println!("cargo:rerun-if-env-changed=MANYHANDS_WEB");
        let with_web = env::var("MANYHANDS_WEB").as_deref() != Ok("off");
        add_missing_targets(if with_web { &[WEB_TARGET, GUEST_TARGET] } else { &[GUEST_TARGET] })?;

        let packages = self.out.join("pkg");
        if with_web {
            self.web_crates(&packages)?;
        }
        let mut assets = String::from("pub(crate) static ASSETS: &[Asset] = &[\n");
        self.assets(&self.root.join("www"), "", &mut assets)?;
        if with_web {
            self.assets(&packages, "/pkg", &mut assets)?;
        }
        write_if_new(&self.out.join("assets.rs"), format!("{assets}];\n").as_bytes())?;

        let guests = self.guests()?;
        write_if_new(&self.out.join("guests.rs"), guests.as_bytes())?;

        for folder in ["examples", "web", "www"] {
            self.sources.insert(self.root.join(folder));
        }
        self.sources.extend([self.root.join("Cargo.lock"), self.root.join("native/build.rs")]);
        for source in &self.sources {
            println!("cargo:rerun-if-changed={}", source.display());
        }
        Ok(())
    }

    /// Compiles the crates of `web/` and writes their bindings into `packages`.
    fn web_crates(&mut self, packages: &Path) -> Result<()> {
        let web = self.root.join("web");
        let mut names = Vec::new();
        for name in crates_in(&web)? {
            // The others are libraries of these.
            let manifest = read(&web.join(&name).join("Cargo.toml"))?;
            if String::from_utf8_lossy(&manifest).contains("cdylib") {
                names.push(format!("web-{name}"));
            }
        }
        self.cargo(WEB_TARGET, "web", &names, &[], "the web node")?;
        for name in names {
            let name = name.replace('-', "_");
            self.bind(&name, &name, packages)?;
        }
        // A page loads the node with all services when its person submits a job.
        let submits = ["--features", "submits"];
        self.cargo(WEB_TARGET, "web", &["web-node".into()], &submits, "the web node that submits")?;
        self.bind("web_node", "web_node_submits", packages)
    }

    /// Writes the bindings of a module under the name `made`.
    fn bind(&mut self, module: &str, made: &str, packages: &Path) -> Result<()> {
        let module = self.target.join(WEB_TARGET).join("web").join(module).with_extension("wasm");
        self.depends_on_sources_of(&module)?;
        kept(&packages.join(format!("{made}.js")), &fingerprint(&read(&module)?), || {
            wasm_bindgen_cli_support::Bindgen::new()
                .input_path(&module)
                .out_name(made)
                .web(true)
                .and_then(|bindgen| {
                    bindgen
                        .typescript(false)
                        // As a library it would otherwise leave `init()` without the module's URL.
                        .omit_default_module_path(false)
                        .remove_producers_section(true)
                        .generate(packages)
                })
                .map_err(|e| format!("wasm-bindgen could not read {}: {e:#}", module.display()))
        })
    }

    /// Adds every file below `folder` to the list, under the path that the gateway serves it at.
    fn assets(&self, folder: &Path, served_at: &str, list: &mut String) -> Result<()> {
        for path in entries(folder)? {
            let name = file_name(&path);
            let served_at = format!("{served_at}/{name}");
            if path.is_dir() {
                self.assets(&path, &served_at, list)?;
                continue;
            }
            if name.starts_with('.') || name.ends_with(KEPT) {
                continue;
            }
            let bytes = read(&path)?;
            let etag = fingerprint(&bytes);
            let smaller = self.out.join(format!("brotli{}.br", served_at.replace('/', "-")));
            kept(&smaller, &format!("{etag} {}", self.quality), || {
                let mut packed = Vec::new();
                let settings =
                    brotli::enc::BrotliEncoderParams { quality: self.quality, ..Default::default() };
                brotli::BrotliCompress(&mut &bytes[..], &mut packed, &settings)
                    .map_err(|e| format!("{} could not be compressed: {e}", path.display()))?;
                write(&smaller, if packed.len() < bytes.len() { &packed } else { &[] })
            })?;
            writeln!(
                list,
                "    Asset {{ path: {served_at:?}, mime: {:?}, bytes: include_bytes!({path:?}), \
                 brotli: include_bytes!({smaller:?}), etag: {etag:?} }},",
                mime(name)?,
            )
            .map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Compiles the example tasks and lists them by name.
    fn guests(&mut self) -> Result<String> {
        let names = crates_in(&self.root.join("examples"))?;
        let packages: Vec<String> = names.iter().map(|name| format!("example-{name}")).collect();
        self.cargo(GUEST_TARGET, "release", &packages, &[], "the example tasks")?;
        let mut list = String::from("pub(crate) static GUESTS: &[(&str, &[u8])] = &[\n");
        for name in names {
            let module = self.target.join(GUEST_TARGET).join("release").join(&name).with_extension("wasm");
            self.depends_on_sources_of(&module)?;
            writeln!(list, "    ({name:?}, include_bytes!({module:?})),").map_err(|e| e.to_string())?;
        }
        Ok(list + "];\n")
    }

    fn cargo(
        &self,
        target: &str,
        profile: &str,
        packages: &[String],
        more: &[&str],
        what: &str,
    ) -> Result<()> {
        let mut cargo = Command::new(variable("CARGO")?);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_of_the_outer_build) {
                cargo.env_remove(name);
            }
        }
        cargo.current_dir(&self.root).args(["build", "--quiet", "--locked", "--color", "never"]);
        cargo.args(["--profile", profile, "--target", target]).arg("--target-dir").arg(&self.target);
        cargo.args(packages.iter().flat_map(|package| ["--package", package])).args(more);
        let output = run(&mut cargo)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let hint =
            if target == WEB_TARGET { "\n\nTo build without it for now, set MANYHANDS_WEB=off." } else { "" };
        Err(format!("Building {what} ({target}) failed; cargo says:\n\n{}{hint}", said.trim_end()))
    }

    /// Reads the list of sources that cargo writes beside what it builds.
    fn depends_on_sources_of(&mut self, module: &Path) -> Result<()> {
        let list = module.with_extension("d");
        let text = String::from_utf8_lossy(&read(&list)?).replace("\\ ", "\0");
        let (_, sources) = text.split_once(": ").ok_or_else(|| format!("{} has no list", list.display()))?;
        for source in sources.split_whitespace() {
            let source = PathBuf::from(source.replace('\0', " "));
            let manifests = source.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
            self.sources
                .extend(manifests.map(|folder| folder.join("Cargo.toml")).filter(|path| path.exists()));
            self.sources.insert(source);
        }
        Ok(())
    }
}

/// Cargo's variables about the outer build would steer the inner one wrong:
/// its flags are for another target, its wrapper may be clippy. How to reach registries and how
/// many jobs may run stays.
fn is_of_the_outer_build(name: &str) -> bool {
    const KEPT: &[&str] =
        &["CARGO_HOME", "CARGO_MAKEFLAGS", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    const REMOVED: &[&str] = &[
        "CARGO_",
        "CLIPPY_",
        "DEBUG",
        "DEP_",
        "HOST",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC_LINKER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "TARGET",
    ];
    let begins_with = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    begins_with(REMOVED) && !begins_with(KEPT)
}

fn add_missing_targets(targets: &[&str]) -> Result<()> {
    let missing: Vec<&str> = targets.iter().copied().filter(|target| !is_installed(target)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let failure = match Command::new("rustup").args(["target", "add"]).args(&missing).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(e) => format!("rustup: {e}"),
    };
    Err(format!(
        "Rust's standard library for {names} is missing and could not be added:\n\n{failure}\n\n\
         Add it with `rustup target add {names}`, or with the package of your system that holds it, \
         and build again."
    ))
}

fn is_installed(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let found = Command::new(rustc).args(["--print", "target-libdir", "--target", target]).output();
    found.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Ends the name of the file beside a made one that says what it was made from.
const KEPT: &str = ".made-from";

/// Makes a file, unless it stands and was made from the same.
fn kept(made: &Path, from: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let note = PathBuf::from(format!("{}{KEPT}", made.display()));
    if made.exists() && fs::read_to_string(&note).is_ok_and(|noted| noted == from) {
        return Ok(());
    }
    make()?;
    write(&note, from.as_bytes())
}

fn mime(name: &str) -> Result<&'static str> {
    Ok(match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => return Err(format!("{name}: no MIME type is known for it; add one in native/build.rs")),
    })
}

/// The folders of `parent` that are crates, in order.
fn crates_in(parent: &Path) -> Result<Vec<String>> {
    let folders = entries(parent)?.into_iter().filter(|folder| folder.join("Cargo.toml").exists());
    Ok(folders.map(|folder| file_name(&folder).to_string()).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| format!("{}: {e}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn fingerprint(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// Leaves an equal file alone, so that nothing that includes it is compiled again.
fn write_if_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) { Ok(()) } else { write(path, bytes) }
}

fn run(command: &mut Command) -> Result<Output> {
    command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|e| format!("{name}: {e}; cargo sets it for build scripts"))
}
