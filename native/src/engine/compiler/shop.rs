//! Which programs a node compiles: each once, however many slots wait for it, and few at once.

use super::super::inspect::blob_path;
use super::super::process::Launcher;
use super::super::slot::cache::{Cache, Key};
use super::super::slot::wasm::{Compiler, WasmerEngine};
use super::super::wire::{Known, NotCompiled};
use super::{Bounds, Cancel, Said, Talk, Work, order};
use bytes::Bytes;
use node_core::ids::BlobId;
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tempfile::TempDir;

/// Programs compiled at once. Our choice: the compiler uses all processors for one, and one that takes its
/// minute does not hold up the next; each may take [`Bounds::memory`].
const AT_ONCE: usize = 2;

/// Refusals kept, so that a program which ended its compiler does not do so for each unit. Our choice: more
/// than the bad programs that a node meets in a day; the oldest goes.
const REFUSALS: usize = 256;

pub(in crate::engine) struct Shop {
    tools: Arc<Tools>,
    /// In the order in which they were asked for.
    asked: Vec<Asked>,
    refused: BTreeMap<Known, String>,
    order_of_refusals: VecDeque<Known>,
}

/// The needs of every compilation.
struct Tools {
    launcher: Launcher,
    cache: Cache,
    engine: WasmerEngine,
    blob_dir: PathBuf,
    cache_dir: PathBuf,
    bounds: Bounds,
    /// Nobody waits for its tasks: programs are compiled at the lowest priority.
    background: bool,
    /// Programs that ended their compilers, the last [`REFUSALS`].
    ended: Mutex<VecDeque<(BlobId, String)>>,
    /// In place of a cache folder that cannot be used; goes with the node.
    _own: Option<TempDir>,
    /// How many processes were begun.
    #[cfg(test)]
    begun: std::sync::atomic::AtomicU32,
}

/// A program that slots wait for.
struct Asked {
    known: Known,
    /// Slots, and the run that each of them is at.
    waiting: Vec<(usize, u64)>,
    cancel: Option<Arc<Cancel>>,
}

/// The settings of a shop.
pub(in crate::engine) struct ShopOptions {
    pub(in crate::engine) launcher: Launcher,
    pub(in crate::engine) blob_dir: PathBuf,
    pub(in crate::engine) cache_dir: PathBuf,
    pub(in crate::engine) background: bool,
    pub(in crate::engine) bounds: Bounds,
}

/// Called once a compilation is over, in its thread.
pub(in crate::engine) type Over = Box<dyn FnOnce(Known, Result<(), NotCompiled>) + Send>;

impl Shop {
    pub(in crate::engine) fn open(options: ShopOptions) -> Shop {
        let ShopOptions { launcher, blob_dir, mut cache_dir, background, bounds } = options;
        let (mut cache, mut own) = (Cache::new(cache_dir.clone()), None);
        if !cache.is_usable()
            && let Ok(folder) = tempfile::Builder::new().prefix("manyhands-").tempdir()
        {
            cache_dir = folder.path().to_owned();
            cache = Cache::new(cache_dir.clone());
            own = Some(folder);
        }
        let engine = WasmerEngine::new(Compiler::Cranelift);
        let tools = Tools {
            launcher,
            cache,
            engine,
            blob_dir,
            cache_dir,
            bounds,
            background,
            ended: Mutex::default(),
            _own: own,
            #[cfg(test)]
            begun: Default::default(),
        };
        Shop {
            tools: Arc::new(tools),
            asked: Vec::new(),
            refused: BTreeMap::new(),
            order_of_refusals: VecDeque::new(),
        }
    }

    /// Where slots find what was compiled.
    pub(in crate::engine) fn cache_dir(&self) -> &Path {
        &self.tools.cache_dir
    }

    /// A slot waits for a program. The answer, if it is known.
    pub(in crate::engine) fn ask(&mut self, known: Known, at: usize, run: u64) -> Option<NotCompiled> {
        if let Some(why) = self.refused.get(&known) {
            return Some(NotCompiled::Refused(why.clone()));
        }
        match self.asked.iter_mut().find(|asked| asked.known == known) {
            Some(asked) => asked.waiting.push((at, run)),
            None => self.asked.push(Asked { known, waiting: vec![(at, run)], cancel: None }),
        }
        None
    }

    /// Begins what there is room for. `over` makes what is called when one is over.
    pub(in crate::engine) fn begin(&mut self, over: impl Fn() -> Over) {
        let begun = self.asked.iter().filter(|asked| asked.cancel.is_some()).count();
        let next = self.asked.iter_mut().filter(|asked| asked.cancel.is_none());
        for asked in next.take(AT_ONCE.saturating_sub(begun)) {
            let (cancel, tools, known, over) =
                (Arc::<Cancel>::default(), self.tools.clone(), asked.known, over());
            asked.cancel = Some(cancel.clone());
            let work = move || over(known, tools.compile(known, &cancel));
            if std::thread::Builder::new().name("compiling".into()).spawn(work).is_err() {
                // It is tried again when the next one is asked for or over.
                asked.cancel = None;
            }
        }
    }

    /// A slot is gone. Compilations that nobody waits for any more are given up.
    pub(in crate::engine) fn leave(&mut self, at: usize) {
        for asked in &mut self.asked {
            asked.waiting.retain(|(slot, _)| *slot != at);
            if asked.waiting.is_empty()
                && let Some(cancel) = &asked.cancel
            {
                cancel.cancel();
            }
        }
        self.asked.retain(|asked| !asked.waiting.is_empty() || asked.cancel.is_some());
    }

    /// A compilation is over: who waits for it, and is to be told.
    pub(in crate::engine) fn over(
        &mut self,
        known: Known,
        result: &Result<(), NotCompiled>,
    ) -> Vec<(usize, u64)> {
        if let Err(NotCompiled::Refused(why)) = result {
            self.remember(known, why);
        }
        let Some(at) = self.asked.iter().position(|asked| asked.known == known) else { return Vec::new() };
        let given_up = self.asked[at].cancel.take().is_some_and(|cancel| cancel.is_set());
        if given_up && matches!(result, Err(NotCompiled::Broken(_))) && !self.asked[at].waiting.is_empty() {
            // Somebody asked for it after the last one had left: it begins again.
            return Vec::new();
        }
        self.asked.remove(at).waiting
    }

    fn remember(&mut self, known: Known, why: &str) {
        if self.refused.insert(known, why.to_owned()).is_none() {
            self.order_of_refusals.push_back(known);
        }
        if self.order_of_refusals.len() > REFUSALS
            && let Some(oldest) = self.order_of_refusals.pop_front()
        {
            self.refused.remove(&oldest);
        }
    }

    /// Does in this thread what a slot has its node do.
    #[cfg(test)]
    pub(in crate::engine) fn compile(&self, known: Known) -> Result<(), NotCompiled> {
        self.tools.compile(known, &Cancel::default())
    }

    #[cfg(test)]
    pub(in crate::engine) fn begun(&self) -> u32 {
        self.tools.begun.load(std::sync::atomic::Ordering::Relaxed)
    }

    pub(in crate::engine) fn close(&mut self) {
        self.asked.drain(..).filter_map(|asked| asked.cancel).for_each(|cancel| cancel.cancel());
    }
}

impl Tools {
    /// Why a program ended its compiler before, with whatever memory for its tasks.
    fn ended_before(&self, program: BlobId) -> Option<String> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.iter().find(|(of, _)| *of == program).map(|(_, why)| why.clone())
    }

    /// Blocks until the program lies in the cache, or cannot.
    fn compile(&self, known: Known, cancel: &Cancel) -> Result<(), NotCompiled> {
        let Tools { cache, launcher, bounds, .. } = self;
        let key = Key::new(known.program, known.pages, known.form, self.engine.inner());
        if cache.holds(&key) {
            return Ok(());
        }
        if let Some(why) = self.ended_before(known.program) {
            return Err(NotCompiled::Refused(why));
        }
        // One node compiles it, the others wait and then load it.
        let _alone = cache.lock(&key);
        if cache.holds(&key) {
            return Ok(());
        }
        // Over all nodes that share a cache one compilation at a time has normal priority.
        let turn = if self.background { None } else { Some(cache.turn()) };
        if cancel.is_set() {
            return Err(NotCompiled::Broken("nobody waits for it any more".into()));
        }
        let no_file = |error: std::io::Error| {
            let dir = self.cache_dir.display();
            NotCompiled::Broken(format!(
                "compiled programs cannot be kept in {dir}: {error}; free some space"
            ))
        };
        let out = cache.temporary().map_err(no_file)?;
        let path = Bytes::copy_from_slice(out.path().as_os_str().as_bytes());
        let work = Work::Compile { known, out: path };
        let order = order(&blob_path(&self.blob_dir, known.program), work, bounds)?;
        #[cfg(test)]
        self.begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match (Talk { cancel, until: None, promptly: turn }).with(launcher, order) {
            Said::Compiled => cache.keep(&key, out).map_err(no_file),
            Said::Not(why) => Err(why),
            Said::Ended(why) => {
                let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                if ended.len() >= REFUSALS {
                    ended.pop_front();
                }
                ended.push_back((known.program, why.clone()));
                Err(NotCompiled::Refused(why))
            }
            Said::Begun | Said::Fit { .. } => {
                Err(NotCompiled::Broken("the compiler ended without a verdict".into()))
            }
        }
    }
}
