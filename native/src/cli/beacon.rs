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
    fn local_programs_use_an_address_that_exists() {
        assert_eq!(local_url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80");
        assert_eq!(local_url("[::]:80".parse().unwrap()), "http://[::1]:80");
        assert_eq!(local_url("10.0.0.1:80".parse().unwrap()), "http://10.0.0.1:80");
    }
}
