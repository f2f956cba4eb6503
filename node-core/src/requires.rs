//! Requirements of a job on the nodes that run it.

use crate::capability::{Capability, Words, number_of};
use crate::ids::NodeId;
use crate::platform::Platform;
use serde::{Deserialize, Serialize};

/// Labels that a job may ask for. Our choice: nobody names more by hand.
pub const LABELS_MAX: usize = 16;

/// Bytes of a key or a value of a label. Our choice: a name, not a text.
pub const LABEL_MAX: usize = 64;

/// Slots of one node that are believed. Our choice: more than a machine has processors.
pub const SLOTS_MAX: u32 = 4096;

/// Way in which jobs with requirements find nodes, the same on all nodes of a swarm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Matchmaking {
    /// Such jobs are refused.
    #[default]
    None,
    /// Jobs are marked where idle nodes look, scarce ones with nodes that a Rendezvous Node Tree finds.
    RnTree,
    /// So, and a CAN finds them.
    Can,
}

/// When a job with requirements is bound to the node that runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// When a node has a slot free: it claims a job that is marked.
    #[default]
    Pull,
    /// At its arrival, as in paper `match`: it waits in the queue of one node. For comparison.
    Early,
    /// So, and a CAN pushes it to where less waits.
    Pushed,
}

/// Requirements of a job on nodes; by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requires {
    /// Least speed of a slot, fuel a second; 0: any.
    pub speed: u64,
    /// Least space on disk, bytes; 0: any.
    pub disk_bytes: u64,
    /// The kind of engine; none: any will do.
    pub platform: Option<Platform>,
    /// Operating system and processor, as Rust names them: `linux`, `x86_64`; none: any will do.
    pub os: Option<String>,
    pub arch: Option<String>,
    /// Labels that the donor has set, key and value.
    pub labels: Vec<(String, String)>,
    /// Least memory that a unit may have, bytes; 0: what its own limit says.
    pub memory_bytes: u64,
}

/// Why nobody takes requirements: what to give instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("{0} labels are too many; give at most {LABELS_MAX}")]
    Labels(usize),
    /// The beginning of the word.
    #[error("{0:?} is no word of a label: give 1 to {LABEL_MAX} letters, digits, `-`, `_`, `.` or `/`")]
    Word(String),
    #[error("the label {0:?} is there twice; give it one value")]
    Twice(String),
}

/// Word that all nodes of a kind have.
pub fn platform_word(platform: Platform) -> Words {
    Words::of(
        "platform",
        match platform {
            Platform::Native => "native",
            Platform::Browser => "browser",
        },
    )
}

/// Word of a donor's label, which is none of the words that nodes have by themselves.
pub fn label_word(key: &str, value: &str) -> Words {
    Words::of(&label_key(key), value)
}

fn label_key(key: &str) -> String {
    format!("label {key}")
}

/// Words of a job by number, as far as they are told: of more the rest is known by their bits alone. Our choice: jobs ask
/// for one label or two.
pub type Numbers = [u32; 4];

/// An operating system as nodes state theirs: by Rust's name for it, whatever others call it.
pub fn system(word: &str) -> String {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "darwin" | "osx" | "mac" => "macos".into(),
        "win" | "win32" | "win64" => "windows".into(),
        _ => word,
    }
}

/// A processor, likewise.
pub fn processor(word: &str) -> String {
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "amd64" | "x64" | "x86-64" => "x86_64".into(),
        "arm64" => "aarch64".into(),
        "i386" | "i686" => "x86".into(),
        _ => word,
    }
}

/// Speed in the unit of [`Capability::speed`], rounded up.
pub fn in_millions(fuel_a_second: u64) -> u32 {
    u32::try_from(fuel_a_second.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

/// Bytes in the unit of [`Capability::memory`] and [`Capability::disk`], rounded up.
pub fn in_mib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX)
}

impl Requires {
    /// # Errors
    /// [`Unclear`] names the first thing that is out of bounds.
    pub fn check(&self) -> Result<(), Unclear> {
        if self.labels.len() > LABELS_MAX {
            return Err(Unclear::Labels(self.labels.len()));
        }
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        for word in labels.chain(&self.os).chain(&self.arch) {
            check_word(word)?;
        }
        for (at, (key, _)) in self.labels.iter().enumerate() {
            if self.labels[..at].iter().any(|(earlier, _)| earlier == key) {
                return Err(Unclear::Twice(key.clone()));
            }
        }
        Ok(())
    }

    /// Its words by number; 0: none.
    pub fn numbers(&self) -> Numbers {
        let named = [("os", &self.os), ("arch", &self.arch)];
        let named = named.into_iter().filter_map(|(key, value)| Some(number_of(key, value.as_ref()?)));
        let labels = self.labels.iter().map(|(key, value)| number_of(&label_key(key), value));
        let mut numbers = Numbers::default();
        // Labels are what nodes differ in most.
        numbers.iter_mut().zip(labels.chain(named)).for_each(|(number, word)| *number = word);
        numbers
    }

    /// Capability that a node must have at least for units with this memory limit, bytes.
    pub fn needs(&self, memory_bytes: u64) -> Capability {
        let named = [("os", &self.os), ("arch", &self.arch)];
        let named = named.into_iter().filter_map(|(key, value)| Some(Words::of(key, value.as_ref()?)));
        let labels = self.labels.iter().map(|(key, value)| label_word(key, value));
        let words = named.chain(labels).chain(self.platform.map(platform_word));
        Capability {
            memory: in_mib(self.memory_bytes.max(memory_bytes)),
            speed: in_millions(self.speed),
            disk: in_mib(self.disk_bytes),
            words: words.fold(Words::NONE, Words::with),
        }
    }
}

/// Properties of a node that its driver states, beside its memory, speed and platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Properties {
    /// Space on disk that one unit may have, bytes.
    pub disk_bytes: u64,
    /// Operating system and processor, as Rust names them; empty: not stated.
    pub os: String,
    pub arch: String,
    /// Labels of the donor, key and value.
    pub labels: Vec<(String, String)>,
}

impl Properties {
    /// # Errors
    /// [`Unclear`] names the first thing that is out of bounds.
    pub fn check(&self) -> Result<(), Unclear> {
        let stated = |word: &String| Some(word.clone()).filter(|word| !word.is_empty());
        let (os, arch, labels) = (stated(&self.os), stated(&self.arch), self.labels.clone());
        Requires { os, arch, labels, ..Requires::default() }.check()
    }

    /// Words of a node with these properties.
    pub fn words(&self, platform: Platform) -> Words {
        let named = [("os", &self.os), ("arch", &self.arch)];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        let named = named.map(|(key, value)| Words::of(key, value));
        let labels = self.labels.iter().map(|(key, value)| label_word(key, value));
        named.chain(labels).fold(platform_word(platform), Words::with)
    }

    /// The words by number, but that of the platform.
    pub fn numbers(&self) -> Vec<u32> {
        let named = [("os", &self.os), ("arch", &self.arch)];
        let named = named.into_iter().map(|(key, value)| number_of(key, value));
        named.chain(self.labels.iter().map(|(key, value)| number_of(&label_key(key), value))).collect()
    }

    /// Whether a node with them has the words that a job requires, letter by letter.
    pub fn have_words_of(&self, requires: &Requires) -> bool {
        let is = |has: &String, asked: &Option<String>| asked.as_ref().is_none_or(|asked| asked == has);
        let labels = || requires.labels.iter().all(|label| self.labels.contains(label));
        is(&self.os, &requires.os) && is(&self.arch, &requires.arch) && labels()
    }
}

/// Statement of a node: what a slot of it can do, and the words of that in full.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stated {
    pub capability: Capability,
    pub properties: Box<Properties>,
}

impl Stated {
    /// # Errors
    /// [`Unclear`] as [`Properties::check`].
    pub fn check(&self) -> Result<(), Unclear> {
        self.properties.check()
    }

    /// Whether a node that states this may run units that need at least this, and require this.
    pub fn satisfies(&self, needs: &Capability, requires: &Requires) -> bool {
        self.capability.covers(needs) && self.properties.have_words_of(requires)
    }
}

/// Slots of a guest, as it states them to its gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSlots {
    pub stated: Stated,
    pub slots: u32,
    /// How many are busy for whom.
    pub busy: Vec<(NodeId, u32)>,
}

/// A word that a donor or a submitter may use.
///
/// # Errors
/// [`Unclear::Word`] if it is none.
pub fn check_word(word: &str) -> Result<(), Unclear> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match (1..=LABEL_MAX).contains(&word.len()) && word.chars().all(allowed) {
        true => Ok(()),
        false => Err(Unclear::Word(word.chars().take(LABEL_MAX).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(all: &[(&str, &str)]) -> Requires {
        let labels = all.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Requires { labels, ..Requires::default() }
    }

    #[test]
    fn requirements_are_what_a_node_must_have_at_least() {
        let requires = Requires {
            speed: 1_500_000,
            disk_bytes: 1,
            platform: Some(Platform::Native),
            os: Some("linux".into()),
            ..labels(&[("site", "graz")])
        };
        assert_eq!(requires.check(), Ok(()));
        let needs = requires.needs(64 << 10);
        assert_eq!(needs.sizes(), [1, 2, 1]);
        let all = [platform_word(Platform::Native), Words::of("os", "linux"), label_word("site", "graz")];
        assert_eq!(needs.words, all.into_iter().fold(Words::NONE, Words::with));
        assert_eq!(Requires::default().needs(2 << 20), Capability { memory: 2, ..Capability::default() });
        let more = Requires { memory_bytes: 3 << 20, ..Requires::default() };
        assert_eq!([more.needs(2 << 20).memory, more.needs(5 << 20).memory], [3, 5], "whichever is more");
    }

    #[test]
    fn a_node_has_the_words_that_it_states_and_no_others() {
        let linux = Properties { os: "linux".into(), ..Properties::default() };
        let node = Properties { labels: labels(&[("site", "graz"), ("gpu", "no")]).labels, ..linux };
        assert_eq!(node.check(), Ok(()));
        let os = |os: &str| Requires { os: Some(os.into()), ..Requires::default() };
        let arch = Requires { arch: Some("x86_64".into()), ..Requires::default() };
        for has in [Requires::default(), os("linux"), labels(&[("gpu", "no")]), labels(&[("site", "graz")])] {
            assert!(node.have_words_of(&has), "{has:?}");
            assert!(node.words(Platform::Native).has(has.needs(0).words));
        }
        let vienna = labels(&[("gpu", "no"), ("site", "vienna")]);
        for other in [os("macos"), arch, vienna, labels(&[("linux", "os")])] {
            assert!(!node.have_words_of(&other), "{other:?}");
        }
        let twice = Properties { labels: labels(&[("a", "b"), ("a", "c")]).labels, ..node };
        assert_eq!(twice.check(), Err(Unclear::Twice("a".into())));
    }

    #[test]
    fn systems_and_processors_have_the_names_that_nodes_state() {
        let systems = ["Linux", "macOS", "Darwin", "Windows", "freebsd"].map(system);
        assert_eq!(systems, ["linux", "macos", "macos", "windows", "freebsd"]);
        let processors = ["amd64", "x86-64", "X86_64", "arm64", "riscv64"].map(processor);
        assert_eq!(processors, ["x86_64", "x86_64", "x86_64", "aarch64", "riscv64"]);
    }

    #[test]
    fn words_that_nobody_could_set_are_refused() {
        let many: Vec<(String, String)> = (0..17).map(|at| (format!("k{at}"), "v".into())).collect();
        assert_eq!(Requires { labels: many, ..Requires::default() }.check(), Err(Unclear::Labels(17)));
        assert_eq!(labels(&[("a b", "c")]).check(), Err(Unclear::Word("a b".into())));
        assert_eq!(labels(&[("a", "")]).check(), Err(Unclear::Word(String::new())));
        assert_eq!(labels(&[("a", "b"), ("a", "c")]).check(), Err(Unclear::Twice("a".into())));
        let os = Requires { os: Some("x".repeat(65)), ..Requires::default() };
        assert_eq!(os.check(), Err(Unclear::Word("x".repeat(64))));
    }
}
