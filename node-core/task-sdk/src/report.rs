//! Partial results for the submitter.

use crate::files::{self, Mode};
use crate::{Result, VALUE_MAX};

/// Gives the submitter a partial result: at most [`VALUE_MAX`] bytes, which count as output of the job.
///
/// # Errors
/// [`TooLong`](crate::Error::TooLong) above that length.
pub fn report(text: &str) -> Result<()> {
    report_bytes(text.as_bytes())
}

/// Gives the submitter a partial result, as [`report`]. One without bytes is left out.
///
/// # Errors
/// [`TooLong`](crate::Error::TooLong) above [`VALUE_MAX`].
pub fn report_bytes(bytes: &[u8]) -> Result<()> {
    files::check("a report", bytes.len(), VALUE_MAX)?;
    files::with("report", Mode::Write, |file| {
        files::write(file, bytes).map_err(|error| files::failed("report", error))
    })
}
