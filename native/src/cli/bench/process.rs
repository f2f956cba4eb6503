//! Costs of processes, as the kernel counts them: a process and all its descendants.

use crate::cli::failure::Failure;
use std::collections::BTreeMap;
use std::time::Duration;

/// Clock ticks a second in `/proc`; a constant of Linux's interface on every architecture in use.
const TICKS: u64 = 100;
const PAGE: u64 = 4096;

/// Resources that some processes and their descendants have used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Resident memory now, bytes.
    pub(super) rss: u64,
    pub(super) processes: u32,
}

struct Stat {
    parent: u32,
    /// Its own and its ended children's.
    ticks: u64,
    pages: u64,
}

/// The usage of these processes and their descendants. A process that ended and was waited for counts with
/// its parent.
pub(super) fn usage(roots: &[u32]) -> Result<Usage, Failure> {
    let stats = stats().map_err(|e| {
        Failure::failed(format!("cannot read /proc, by which the benchmarks measure: {e}; they need Linux"))
    })?;
    let mut usage = Usage::default();
    for (pid, stat) in &stats {
        if descends(*pid, roots, &stats) {
            usage.cpu += Duration::from_millis(stat.ticks * 1000 / TICKS);
            usage.rss += stat.pages * PAGE;
            usage.processes += 1;
        }
    }
    Ok(usage)
}

fn descends(mut pid: u32, roots: &[u32], stats: &BTreeMap<u32, Stat>) -> bool {
    // A bound, should a number be used again while we read.
    for _ in 0..64 {
        if roots.contains(&pid) {
            return true;
        }
        match stats.get(&pid) {
            Some(stat) if stat.parent != 0 => pid = stat.parent,
            _ => return false,
        }
    }
    false
}

fn stats() -> std::io::Result<BTreeMap<u32, Stat>> {
    let mut stats = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // It may end while we look.
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if let Some(stat) = parse(&text) {
            stats.insert(pid, stat);
        }
    }
    Ok(stats)
}

fn parse(text: &str) -> Option<Stat> {
    // The name in brackets may contain anything; the fields begin behind the last bracket.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: number(1)? as u32,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        pages: number(21)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_named_to_confuse_is_read_right() {
        let stat = parse("7 (a) b) (c) S 3 7 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 5 6 77 8").unwrap();
        assert_eq!((stat.parent, stat.ticks, stat.pages), (3, 100, 77));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_memory() {
        let usage = usage(&[std::process::id()]).unwrap();
        assert!(usage.rss > 1 << 20 && usage.processes >= 1);
    }
}
