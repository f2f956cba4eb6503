//! Bounds of results: an owner checks what runners say against the job's limits, as a submission is
//! checked, and before anything of it is fetched or written down.

use super::spec::{Template, UnitResult};
use super::submission::start_of;
use crate::content::{BlobRef, Data, NamedData};
use crate::progress::SPANS_MAX;
use std::collections::BTreeSet;

/// Files that one unit may leave. Our choice: their names fit half a frame at usual lengths.
pub(super) const FILES_MAX: usize = 2000;
/// Bytes of their names, all together.
pub(super) const NAMES_MAX: usize = 128 << 10;

/// Bytes of the words that say how a unit ended. Our choice: a page of text.
pub(super) const WORDS_MAX: usize = 4 << 10;

/// Characters of another node's reason that are kept. Our choice: three lines for a person.
const REASON_MAX: usize = 300;

/// The beginning of another node's reason.
pub(super) fn reason(text: &str) -> String {
    text.chars().take(REASON_MAX).collect()
}

/// Fuel beyond the limit at which a program may be noticed to have passed it. Our choice: between two polls,
/// one bulk operation may cover all of a 32-bit memory.
const FUEL_SLACK: u64 = 1 << 33;

/// Fuel in a microsecond. Our choice: no processor executes 100 instructions a nanosecond.
const FUEL_A_MICROSECOND: u64 = 100_000;

/// Why a result counts for nothing: what of it no correct runner says. The words follow "the result".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Beyond {
    #[error("has {0} bytes within the message, {most} are allowed", most = Data::INLINE_MAX)]
    Inline(usize),
    #[error("prints {bytes} bytes, {most} are allowed")]
    Printed { bytes: u64, most: u64 },
    #[error("leaves {0} files, {FILES_MAX} are allowed")]
    Files(usize),
    #[error("names its files with {0} bytes, {NAMES_MAX} are allowed")]
    Names(usize),
    /// The beginning of the path.
    #[error("leaves a file called {0:?}, which is no relative path")]
    Path(String),
    #[error("leaves {bytes} bytes, {most} are allowed")]
    Left { bytes: u64, most: u64 },
    #[error("gives a reason of {0} bytes, {WORDS_MAX} are allowed")]
    Words(usize),
    #[error("names {0} legs of its journey, {SPANS_MAX} are told apart")]
    Legs(usize),
    #[error("says that it used {used} units of fuel, {most} are possible")]
    Fuel { used: u64, most: u64 },
}

/// Checks a result of a unit that was placed `attempts` times.
///
/// # Errors
/// [`Beyond`] names the first thing that is beyond the job's bounds.
pub(super) fn check_result(
    template: &Template,
    unit_files: impl FnOnce() -> u64,
    attempts: u32,
    result: &UnitResult,
) -> Result<(), Beyond> {
    let limits = &template.limits;
    let parts = || [&result.stdout, &result.stderr].into_iter().chain(result.files.iter().map(|f| &f.data));
    let inline: usize = parts().map(Data::inline_len).sum();
    if inline > Data::INLINE_MAX {
        return Err(Beyond::Inline(inline));
    }
    let printed = result.stdout.len().saturating_add(result.stderr.len());
    if printed > limits.output_bytes {
        return Err(Beyond::Printed { bytes: printed, most: limits.output_bytes });
    }
    if result.files.len() > FILES_MAX {
        return Err(Beyond::Files(result.files.len()));
    }
    let names: usize = result.files.iter().map(|file| file.path.len()).sum();
    if names > NAMES_MAX {
        return Err(Beyond::Names(names));
    }
    if let Some(file) = result.files.iter().find(|file| !NamedData::is_path(&file.path)) {
        return Err(Beyond::Path(start_of(&file.path)));
    }
    // A file with several names is written once. A file that came with the unit may be left under another name.
    let blobs: BTreeSet<BlobRef> = parts().filter_map(Data::blob).collect();
    let left = blobs.iter().map(|blob| blob.len).fold(0, u64::saturating_add);
    if left > limits.output_bytes && left > limits.output_bytes.saturating_add(unit_files()) {
        return Err(Beyond::Left { bytes: left, most: limits.output_bytes });
    }
    let words = result.end.words().map_or(0, str::len);
    if words > WORDS_MAX {
        return Err(Beyond::Words(words));
    }
    let spans = result.journey.as_ref().map_or(0, |journey| journey.spans.len());
    if spans > SPANS_MAX {
        return Err(Beyond::Legs(spans));
    }
    let stretches = u64::from(attempts.max(1));
    let possible = limits.time_us.saturating_mul(FUEL_A_MICROSECOND).saturating_mul(stretches);
    let most = limits.fuel.saturating_add(FUEL_SLACK).min(possible.saturating_add(FUEL_SLACK));
    if result.fuel > most {
        return Err(Beyond::Fuel { used: result.fuel, most });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BlobId, NodeId};
    use crate::platform::Platform;
    use crate::progress::{Journey, Span};
    use crate::work::spec::{CheckpointEvery, OnLoss};
    use bytes::Bytes;
    use sandbox::{End, Limits};

    fn template() -> Template {
        let limits = Limits { output_bytes: 1000, fuel: u64::MAX, time_us: 1_000_000, ..Limits::default() };
        Template {
            program: BlobRef { id: BlobId([1; 32]), len: 10 },
            arguments: vec![],
            environment: vec![],
            stdin: Data::EMPTY,
            files: vec![],
            limits,
            bit_exact: false,
            checkpoint: CheckpointEvery(0),
            on_loss: OnLoss::default(),
            threads: None,
        }
    }

    fn inline(len: usize) -> Data {
        Data::Inline(Bytes::from(vec![7; len]))
    }

    fn file(path: &str, data: Data) -> NamedData {
        NamedData { path: path.into(), data }
    }

    fn result() -> UnitResult {
        UnitResult {
            end: End::Exited(0),
            stdout: inline(400),
            stderr: inline(600),
            files: vec![file("a/b", inline(10))],
            cpu_us: 1,
            runner: NodeId([1; 32]),
            attempts: 1,
            fuel: 5,
            journey: None,
            paid: Default::default(),
        }
    }

    fn check(result: &UnitResult) -> Result<(), Beyond> {
        check_result(&template(), || 0, 1, result)
    }

    #[test]
    fn each_bound_of_a_result_is_checked_by_itself() {
        assert_eq!(check(&result()), Ok(()));
        let blob = |n: u8, len| Data::Blob(BlobRef { id: BlobId([n; 32]), len });
        let many = |count: usize, name: usize| {
            (0..count).map(|n| file(&format!("{n:0name$}"), Data::EMPTY)).collect::<Vec<_>>()
        };
        let leg = Span { runner: NodeId([1; 32]), platform: Platform::Native, from: 0, to: 1 };
        let long = Journey { spans: vec![leg; SPANS_MAX + 1], ..Journey::default() };
        let beyond: [(&str, UnitResult); 9] = [
            ("within the message", UnitResult { stdout: inline(70_000), ..result() }),
            ("prints", UnitResult { stdout: blob(1, 401), ..result() }),
            ("files", UnitResult { files: many(FILES_MAX + 1, 4), ..result() }),
            ("names its files", UnitResult { files: many(600, 250), ..result() }),
            ("no relative path", UnitResult { files: vec![file("../x", inline(1))], ..result() }),
            ("leaves", UnitResult { files: vec![file("x", blob(1, 1001))], ..result() }),
            ("gives a reason", UnitResult { end: End::Trapped("x".repeat(5000)), ..result() }),
            ("legs", UnitResult { journey: Some(Box::new(long)), ..result() }),
            ("units of fuel", UnitResult { fuel: u64::MAX, ..result() }),
        ];
        for (word, result) in beyond {
            let why = check(&result).expect_err(word).to_string();
            assert!(why.contains(word), "{word}: {why}");
        }
        // A file that came with the unit may be left under another name.
        let copied = UnitResult { files: vec![file("x", blob(1, 1001))], ..result() };
        assert_eq!(check_result(&template(), || 500, 1, &copied), Ok(()));
    }
}
