//! Bounds on what others can have this node try: how often one may speak, and how soon a peer is tried again.

use crate::backoff::Pauses;
use crate::rates::Rates;
use std::time::Duration;

/// Messages of a session that one neighbour may bring, from the offer to the last candidate: so many at once for each.
const EACH: usize = 2 + super::CANDIDATES;

/// Until it may bring one more. Our choice: two sessions a second are opened by way of one relay.
const AGAIN: Duration = Duration::from_millis(50);

/// How soon a peer is tried again to which no channel could be opened. Our choice: a page that begins anew is there, a
/// peer behind a wall costs little, and people change their networks within an hour.
pub(super) const PAUSES: Pauses =
    Pauses { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

/// Peers that are remembered to have failed.
pub(super) const FAILED: usize = 256;

/// Rates of the neighbours by which messages come. Who is said to have written one may be made up.
pub(super) fn rates(sessions: usize) -> Rates {
    Rates::new((sessions * EACH) as u32, AGAIN)
}
