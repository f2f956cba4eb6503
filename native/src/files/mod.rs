//! Files on other nodes, as this node's API gives them: cut into chunks and sealed on their way in, brought
//! and opened on their way out. The core (`node_core::files`) decides which nodes keep them.

pub(crate) mod cut;
pub(crate) mod read;
pub(crate) mod seal;

use node_core::bounds::Bounds;

/// Takes the part for files out of the space for others, and returns it in bytes; the rest stays with
/// checkpoints. Our choice: half.
pub(crate) fn space(bounds: &mut Bounds) -> u64 {
    let files = bounds.kept_bytes / 2;
    bounds.kept_bytes -= files;
    bounds.kept_bytes_per_owner = bounds.kept_bytes_per_owner.min(bounds.kept_bytes / 4 * 3);
    files
}
