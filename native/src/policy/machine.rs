//! Conditions of the machine, as Linux reports them. Values that a system does not report are unknown, and
//! stop nothing.

use super::Sensors;
use node_core::trust::policy::{Conditions, Day};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Samples that the load is a mean of. Our choice: at one every 2 s, a compiler's pause or a page
/// that loads decides nothing.
const SAMPLES: usize = 6;

/// Local time, as a day and its minute.
pub(crate) type Clock = fn() -> (Day, u16);

pub(crate) struct Machine {
    /// `/`, but in tests.
    root: PathBuf,
    clock: Clock,
    processors: u32,
    load: VecDeque<Load>,
    disk: Disk,
}

/// The disk, when the node started.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    bytes: Option<u64>,
    free_bytes: Option<u64>,
}

/// Processor time since the machine started, in ticks.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Ticks of programs of ordinary priority.
    ordinary: u64,
    /// Ticks of this process, a part of `ordinary`. (Its tasks have the lowest priority, as those of other
    /// nodes here.)
    own: u64,
    all: u64,
}

impl Machine {
    /// `data` is where things are kept for others.
    pub(crate) fn new(data: &Path) -> Machine {
        let disk = rustix::fs::statvfs(data).ok();
        let kept = folder_bytes(&data.join("blobs"));
        let disk = Disk {
            bytes: disk.as_ref().map(|disk| disk.f_blocks.saturating_mul(disk.f_frsize)),
            free_bytes: disk.as_ref().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) + kept),
        };
        Machine { disk, ..Machine::at("/".into(), local_time, crate::config::processors()) }
    }

    fn at(root: PathBuf, clock: Clock, processors: u32) -> Machine {
        Machine { root, clock, processors, load: VecDeque::new(), disk: Disk::default() }
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// Share of the processors that other programs take, percent, over the last samples.
    fn others(&mut self) -> Option<f64> {
        let sample = self.sample()?;
        if self.load.len() == SAMPLES {
            self.load.pop_front();
        }
        self.load.push_back(sample);
        let first = self.load.front()?;
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let all = since(sample.all, first.all);
        let others = since(sample.ordinary, first.ordinary) - since(sample.own, first.own);
        (all > 0.0).then(|| (others / all * 100.0).clamp(0.0, 100.0))
    }

    fn sample(&self) -> Option<Load> {
        let stat = self.text("proc/stat")?;
        // user nice system idle iowait irq softirq steal
        let words = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let times: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        let [user, nice, system, idle, iowait, irq, softirq, ref rest @ ..] = times[..] else { return None };
        let steal = rest.first().copied().unwrap_or(0);
        let ordinary = user + system + irq + softirq + steal;
        let own = self.text("proc/self/stat")?;
        // The name, in brackets, may hold anything.
        let fields: Vec<&str> = own.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        let own = ticks(11)? + ticks(12)?;
        Some(Load { ordinary, own, all: ordinary + nice + idle + iowait })
    }

    /// Whether no mains is there while a battery empties, and the mean charge; none of both without
    /// a battery.
    fn battery(&self) -> (Option<bool>, Option<f64>) {
        let Ok(supplies) = fs::read_dir(self.root.join("sys/class/power_supply")) else {
            return (None, None);
        };
        let (mut plugged, mut emptying, mut charges) = (false, false, Vec::new());
        for supply in supplies.flatten() {
            let read = |name: &str| {
                fs::read_to_string(supply.path().join(name)).ok().map(|text| text.trim().to_owned())
            };
            match read("type").as_deref() {
                // A mouse has a battery too.
                Some("Battery") if read("scope").as_deref() != Some("Device") => {
                    emptying |= read("status").as_deref() == Some("Discharging");
                    charges.extend(read("capacity").and_then(|text| text.parse::<f64>().ok()));
                }
                Some("Mains" | "USB") => plugged |= read("online").as_deref() == Some("1"),
                _ => {}
            }
        }
        if charges.is_empty() {
            return (None, None);
        }
        (Some(emptying && !plugged), Some(charges.iter().sum::<f64>() / charges.len() as f64))
    }

    /// Minutes since somebody typed at a terminal. In a graphical session nobody need do that: then
    /// it is not known.
    fn no_input(&self) -> Option<f64> {
        let graphical = fs::read_dir(self.root.join("tmp/.X11-unix"))
            .is_ok_and(|mut any| any.next().is_some())
            || self.has_wayland();
        if graphical {
            return None;
        }
        let folders = [("dev", "tty"), ("dev/pts", "")];
        let terminals = folders.into_iter().flat_map(|(folder, begins)| {
            let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
            entries.filter(move |entry| {
                let name = entry.file_name();
                let number = name.to_str().and_then(|name| name.strip_prefix(begins));
                number.is_some_and(|number| number.parse::<u32>().is_ok())
            })
        });
        let used = terminals.filter_map(|entry| entry.metadata().ok()?.accessed().ok()).max()?;
        // A clock that was set back: just now.
        Some(SystemTime::now().duration_since(used).unwrap_or_default().as_secs_f64() / 60.0)
    }

    fn has_wayland(&self) -> bool {
        let people = fs::read_dir(self.root.join("run/user")).into_iter().flatten().flatten();
        let mut entries =
            people.flat_map(|person| fs::read_dir(person.path()).into_iter().flatten().flatten());
        entries.any(|entry| entry.file_name().to_string_lossy().starts_with("wayland-"))
    }

    fn memory(&self) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }
}

impl Sensors for Machine {
    fn read(&mut self) -> Conditions {
        let (day, minute) = (self.clock)();
        let (on_battery, charge_pct) = self.battery();
        Conditions {
            day,
            minute,
            processors: self.processors,
            others_cpu_pct: self.others(),
            no_input_minutes: self.no_input(),
            on_battery,
            charge_pct,
            memory_bytes: self.memory(),
            disk_bytes: self.disk.bytes,
            disk_free_bytes: self.disk.free_bytes,
        }
    }
}

fn local_time() -> (Day, u16) {
    let now = jiff::Zoned::now();
    let day = Day::ALL[now.weekday().to_monday_zero_offset().unsigned_abs() as usize % 7];
    let part = |value: i8| u16::from(value.unsigned_abs());
    (day, part(now.hour()) * 60 + part(now.minute()))
}

/// Bytes of the files in the folders of a folder.
fn folder_bytes(folder: &Path) -> u64 {
    let inner = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = inner.flat_map(|inner| fs::read_dir(inner.path()).into_iter().flatten().flatten());
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct System(tempfile::TempDir);

    impl System {
        fn new() -> System {
            System(tempfile::tempdir().unwrap())
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn machine(&self) -> Machine {
            Machine::at(self.0.path().into(), || (Day::Friday, 61), 4)
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_not_guessed_at() {
        let now = System::new().machine().read();
        assert_eq!((now.day, now.minute, now.processors), (Day::Friday, 61, 4));
        assert_eq!((now.others_cpu_pct, now.no_input_minutes, now.on_battery), (None, None, None));
        assert_eq!((now.charge_pct, now.memory_bytes, now.disk_bytes), (None, None, None));
    }

    #[test]
    fn only_what_others_compute_at_ordinary_priority_is_load() {
        let system = System::new();
        let mut machine = system.machine();
        let stat = |others: u64, tasks: u64, own: u64, idle: u64| {
            let busy = others + own;
            system.file("proc/stat", &format!("cpu  {busy} {tasks} 0 {idle} 0 0 0 0 0 0\n"));
            system.file("proc/self/stat", &format!("7 (x) S 1 7 7 0 -1 0 0 0 0 0 {own} 0 9 9\n"));
        };
        stat(0, 0, 0, 10_000);
        assert_eq!(machine.read().others_cpu_pct, None, "one sample is no time");
        stat(50, 100, 30, 10_020);
        assert_eq!(machine.read().others_cpu_pct, Some(25.0));
    }

    #[test]
    fn batteries_count_and_those_of_mice_do_not() {
        let system = System::new();
        let supply = |name: &str, file: &str, text: &str| {
            system.file(&format!("sys/class/power_supply/{name}/{file}"), text);
        };
        supply("mouse", "type", "Battery\n");
        supply("mouse", "scope", "Device\n");
        supply("mouse", "status", "Discharging\n");
        supply("mouse", "capacity", "5\n");
        assert_eq!(system.machine().battery(), (None, None));
        supply("BAT0", "type", "Battery\n");
        supply("BAT0", "status", "Discharging\n");
        supply("BAT0", "capacity", "80\n");
        supply("AC", "type", "Mains\n");
        supply("AC", "online", "0\n");
        assert_eq!(system.machine().battery(), (Some(true), Some(80.0)));
        supply("AC", "online", "1\n");
        assert_eq!(system.machine().battery(), (Some(false), Some(80.0)));
    }

    #[test]
    fn memory_and_terminals_are_read_and_screens_are_not_known() {
        let system = System::new();
        system.file("proc/meminfo", "MemTotal:        2048 kB\nMemFree: 1 kB\n");
        system.file("dev/pts/3", "");
        system.file("dev/pts/ptmx", "");
        let now = system.machine().read();
        assert_eq!(now.memory_bytes, Some(2 << 20));
        assert!(now.no_input_minutes.is_some_and(|minutes| minutes < 10.0));
        system.file("tmp/.X11-unix/X0", "");
        assert_eq!(system.machine().read().no_input_minutes, None);
    }

    #[test]
    fn this_machine_has_a_clock() {
        let (_, minute) = local_time();
        assert!(minute < 24 * 60);
    }
}
