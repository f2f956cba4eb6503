//! The exchange of `manyhands bench link`, between any two ends of a connection.

use crate::{Link, LinkEvent};
use bytes::Bytes;
use node_core::{Channel, NodeId};

/// Frames of 64 bytes, there and back one after the other.
const ECHOES: u32 = 200;
/// Frames of 1 MiB, the largest there are, one way: some seconds on the slowest carrier.
const FRAMES: u32 = 64;
/// Frames under way at most: as much as a peer asks for at a time.
const UNDER_WAY: u32 = 8;

/// Figures of one exchange.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Content one way, in units of 10^6 bytes.
    pub mb_per_s: f64,
    /// Mean of the echoes.
    pub rtt_ms: f64,
}

/// Leads the exchange with a peer that [`follow`]s and is connected. `now`: milliseconds since whenever.
///
/// # Errors
/// The connection has ended, in words.
pub async fn lead(
    link: &Link,
    peer: NodeId,
    mut next: impl AsyncFnMut() -> Option<LinkEvent>,
    now: impl Fn() -> f64,
) -> Result<Figures, String> {
    let began = now();
    for _ in 0..ECHOES {
        link.send(peer, Channel::Control, Bytes::from_static(&[7; 64]));
        frame(&mut next).await?;
    }
    let rtt_ms = (now() - began) / f64::from(ECHOES);

    let content = Bytes::from(vec![9; 1 << 20]);
    let began = now();
    let (mut sent, mut taken) = (0, 0);
    while taken < FRAMES {
        while sent < FRAMES && sent < taken + UNDER_WAY {
            link.send(peer, Channel::Blob, content.clone());
            sent += 1;
        }
        frame(&mut next).await?;
        taken += 1;
    }
    let bytes = f64::from(FRAMES) * content.len() as f64;
    Ok(Figures { mb_per_s: bytes / 1e3 / (now() - began), rtt_ms })
}

/// Answers a peer that leads.
///
/// # Errors
/// The connection has ended, in words.
pub async fn follow(
    link: &Link,
    peer: NodeId,
    mut next: impl AsyncFnMut() -> Option<LinkEvent>,
) -> Result<(), String> {
    for n in 0..ECHOES + FRAMES {
        frame(&mut next).await?;
        let answer: &[u8] = if n < ECHOES { &[8; 64] } else { &[8] };
        link.send(peer, Channel::Control, Bytes::from_static(answer));
    }
    Ok(())
}

/// Waits until the two are connected.
///
/// # Errors
/// They will not be, in words.
pub async fn connected(mut next: impl AsyncFnMut() -> Option<LinkEvent>) -> Result<(), String> {
    wanted(&mut next, |event| matches!(event, LinkEvent::Connected { .. })).await
}

async fn frame(next: &mut impl AsyncFnMut() -> Option<LinkEvent>) -> Result<(), String> {
    wanted(next, |event| matches!(event, LinkEvent::Frame { .. })).await
}

async fn wanted(
    next: &mut impl AsyncFnMut() -> Option<LinkEvent>,
    is: impl Fn(&LinkEvent) -> bool,
) -> Result<(), String> {
    loop {
        match next().await {
            Some(LinkEvent::Disconnected { reason, .. } | LinkEvent::DialFailed { reason, .. }) => {
                return Err(format!("the connection failed: {reason}"));
            }
            Some(event) if is(&event) => return Ok(()),
            Some(_) => {}
            None => return Err("the link has ended".into()),
        }
    }
}
