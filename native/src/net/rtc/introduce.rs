//! Two ends in one process, for tests and benchmarks: what their nodes would signal is carried by hand.

use super::Channels;
use node_core::overlay::signalling::{Reply, Request};
use tokio::sync::mpsc::UnboundedReceiver;

/// An end's driver, and its word to the node.
pub(crate) type Side<'a> = (&'a Channels, &'a mut UnboundedReceiver<Reply>);

/// Carries what both ends say, as `twist` has it, until each has said how it ends.
pub(crate) async fn introduce(a: Side<'_>, b: Side<'_>, mut twist: impl FnMut(Reply) -> Reply) -> [Reply; 2] {
    let (channels, mut replies) = ([a.0, b.0], [a.1, b.1]);
    let mut ends = [None, None];
    loop {
        let [of_a, of_b] = &mut replies;
        let (at, said) = tokio::select! {
            Some(said) = of_a.recv() => (0, said),
            Some(said) = of_b.recv() => (1, said),
        };
        match twist(said) {
            Reply::Described(session, it) => channels[1 - at].request(Request::Remote(session, it)),
            Reply::Found(session, them) => channels[1 - at].request(Request::Try(session, them)),
            end => ends[at] = Some(end),
        }
        if let [Some(a), Some(b)] = &ends {
            return [a.clone(), b.clone()];
        }
    }
}
