//! `gateway.json`: how commands on this machine find a gateway that runs here.

use crate::paths::{DataFolder, PathError, write_private};
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Beacon {
    pub(crate) url: String,
    pub(crate) pid: u32,
    /// So that another gateway on the same port is not mistaken for this one.
    #[serde(default)]
    pub(crate) node: String,
}

/// A beacon that is lit, put out when dropped.
pub(crate) struct Lit {
    folder: DataFolder,
    beacon: Beacon,
}

impl Beacon {
    pub(crate) fn light(self, folder: &DataFolder) -> Result<Lit, PathError> {
        let text = serde_json::to_vec(&self).map_err(|e| PathError(e.to_string()))?;
        write_private(&folder.gateway(), &text, true)?;
        Ok(Lit { folder: folder.clone(), beacon: self })
    }

    /// The last beacon in this folder, if there is a readable one. Whether its gateway still
    /// lives is another question.
    pub(crate) fn see(folder: &DataFolder) -> Option<Beacon> {
        serde_json::from_slice(&std::fs::read(folder.gateway()).ok()?).ok()
    }
}

impl Drop for Lit {
    fn drop(&mut self) {
        if Beacon::see(&self.folder).as_ref() == Some(&self.beacon) {
            // If it stays, commands find that nobody answers there.
            let _ = std::fs::remove_file(self.folder.gateway());
        }
    }
}

/// The address at which programs on this machine reach a server bound to `at`.
pub(crate) fn local_url(at: SocketAddr) -> String {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, at.port()))
}

/// `node.pid`: which process is the node of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pid {
    pid: u32,
    /// When it began, in the kernel's ticks: another process may have its number by now.
    began: Option<u64>,
}

/// This process's id in its folder, removed when dropped.
pub(crate) struct Noted(DataFolder);

impl Pid {
    pub(crate) fn note(folder: &DataFolder) -> Result<Noted, PathError> {
        let pid = std::process::id();
        let began = began(pid).map(|began| format!(" {began}")).unwrap_or_default();
        write_private(&folder.pid(), format!("{pid}{began}\n").as_bytes(), true)?;
        Ok(Noted(folder.clone()))
    }

    /// The node of this folder, if one runs.
    pub(crate) fn see(folder: &DataFolder) -> Option<Pid> {
        let text = std::fs::read_to_string(folder.pid()).ok()?;
        let mut words = text.split_whitespace();
        let pid = words.next()?.parse().ok()?;
        let found = Pid { pid, began: words.next().and_then(|began| began.parse().ok()) };
        found.lives().then_some(found)
    }

    pub(crate) fn lives(self) -> bool {
        self.process().is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
            && self.began.is_none_or(|at| began(self.pid) == Some(at))
            && !is_zombie(self.pid)
    }

    pub(crate) fn ask_to_end(self) -> std::io::Result<()> {
        let gone = std::io::Error::from(std::io::ErrorKind::NotFound);
        let pid = self.process().ok_or(gone)?;
        Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?)
    }

    fn process(self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(i32::try_from(self.pid).ok()?)
    }
}

/// Field 22 of `/proc/PID/stat`.
fn began(pid: u32) -> Option<u64> {
    stat(pid)?.split_whitespace().nth(19)?.parse().ok()
}

/// It has ended, and whoever started it has not asked how.
fn is_zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.trim_start().starts_with('Z'))
}

/// The fields of `/proc/PID/stat` from the third on; only the second may hold spaces, within brackets.
fn stat(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next().map(str::to_owned)
}

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pid.fmt(f)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // If it stays, `lives` finds that nobody has this id, or somebody who is no node: which
        // is why it is removed.
        let _ = std::fs::remove_file(self.0.pid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beacon_is_seen_while_its_gateway_runs() {
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path());
        assert_eq!(Beacon::see(&folder), None);
        let beacon = |pid| Beacon { url: "http://127.0.0.1:1".into(), pid, node: "ab".into() };
        let first = beacon(1).light(&folder).unwrap();
        assert_eq!(Beacon::see(&folder), Some(beacon(1)));
        let second = beacon(2).light(&folder).unwrap();
        drop(first);
        assert_eq!(Beacon::see(&folder), Some(beacon(2)), "only its own light is put out");
        drop(second);
        assert_eq!(Beacon::see(&folder), None);
    }

    #[test]
    fn a_node_is_found_by_its_folder_and_not_mistaken_for_another_process() {
        let root = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(root.path());
        assert_eq!(Pid::see(&folder), None);
        let noted = Pid::note(&folder).unwrap();
        assert_eq!(Pid::see(&folder).map(|pid| pid.pid), Some(std::process::id()));
        std::fs::write(folder.pid(), format!("{} 1\n", std::process::id())).unwrap();
        assert_eq!(Pid::see(&folder), None, "the number is another process's now");
        drop(noted);
        assert!(!folder.pid().exists());
    }

    #[test]
    fn local_programs_use_an_address_that_exists() {
        assert_eq!(local_url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80");
        assert_eq!(local_url("[::]:80".parse().unwrap()), "http://[::1]:80");
        assert_eq!(local_url("10.0.0.1:80".parse().unwrap()), "http://10.0.0.1:80");
    }
}
