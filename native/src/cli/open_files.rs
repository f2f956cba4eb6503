//! How many files, and with them connections, a node may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number that shells allow by default (1,024) to what the system allows: a node's bounds on
/// connections lie between the two.
pub(crate) fn allow_many() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!("the number of open files stays at {:?}: {e}", limit.current);
    }
}
