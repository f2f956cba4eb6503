//! Files on other nodes, as this node's API gives them: cut into chunks and sealed on their way in,
//! brought and opened on their way out. Who keeps them is the core's business (`node_core::files`).

pub(crate) mod cut;
pub(crate) mod read;
pub(crate) mod seal;

use node_core::bounds::Bounds;

/// What of the space for others goes to files; the rest stays with checkpoints. Our choice: half.
pub(crate) fn space(bounds: &mut Bounds) -> u64 {
    let files = bounds.kept_bytes / 2;
    bounds.kept_bytes -= files;
    bounds.kept_bytes_per_owner = bounds.kept_bytes_per_owner.min(bounds.kept_bytes / 4 * 3);
    files
}
