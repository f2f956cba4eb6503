//! The pages and the web node, as build.rs found them: part of the binary.

/// A file that the gateway serves.
pub(crate) struct Asset {
    /// Below the root, as in `/style.css`.
    pub(crate) path: &'static str,
    pub(crate) mime: &'static str,
    pub(crate) bytes: &'static [u8],
    /// Empty when compressing did not make it smaller.
    pub(crate) brotli: &'static [u8],
    /// Names the content.
    pub(crate) etag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));
