//! How much memory what owners say of units takes: their own tables and runners bound it.

use super::spec::{JobSpec, Template, UnitSpec, Units};
use crate::content::{Data, NamedData};

fn texts<'a>(all: impl IntoIterator<Item = &'a String>) -> u64 {
    all.into_iter().map(|text| (text.len() + size_of::<String>()) as u64).sum()
}

fn inline(data: &Data) -> u64 {
    data.inline_len() as u64
}

fn files(files: &[NamedData]) -> u64 {
    files.iter().map(|file| (size_of::<NamedData>() + file.path.len()) as u64 + inline(&file.data)).sum()
}

/// Bytes of memory, about.
pub(super) fn of_template(it: &Template) -> u64 {
    let environment = it.environment.iter().flat_map(|(name, value)| [name, value]);
    texts(&it.arguments) + texts(environment) + inline(&it.stdin) + files(&it.files)
}

/// Bytes of memory, about.
pub(super) fn of_unit(it: &UnitSpec) -> u64 {
    let own = size_of::<UnitSpec>() as u64;
    own + texts(it.arguments.iter().flatten()) + it.stdin.as_ref().map_or(0, inline) + files(&it.files)
}

/// Bytes of memory, about; what is known of each unit is not counted.
pub(super) fn of_job(it: &JobSpec) -> u64 {
    let units = match &it.units {
        Units::Sweep { .. } => 0,
        Units::List(units) => units.iter().map(of_unit).sum(),
    };
    (size_of::<JobSpec>() + it.name.len()) as u64 + of_template(&it.template) + units
}
