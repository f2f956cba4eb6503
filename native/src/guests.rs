//! The example tasks, as build.rs compiled them: part of the binary, for `demo` and `bench`.

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// The module of the example of this name.
pub(crate) fn guest(name: &str) -> Option<&'static [u8]> {
    GUESTS.iter().find(|(known, _)| *known == name).map(|(_, module)| *module)
}
