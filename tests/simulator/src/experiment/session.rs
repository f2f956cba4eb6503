//! Nodes that come and go.

use super::stage::Stage;
use crate::rng::Rng;
use crate::scenario::Session;
use node_core::{Command, NodeInput, Time};
use std::time::Duration;

/// Shape of the lengths of sessions: many short ones and a few very long. Between what was
/// fitted for volunteer computers (paper `javadi`: 0.3 to 0.4) and for peer-to-peer networks
/// (paper `stutzbach`: 0.4 to 0.6).
const SHAPE: f64 = 0.5;

/// While this is on the stage, nodes whose kind has sessions come and go until then.
pub struct Sessions {
    pub until: Time,
}

/// A length from the Weibull distribution with this median.
pub(super) fn draw(median: Duration, shape: f64, rng: &mut Rng) -> Duration {
    let scale = median.as_secs_f64() / std::f64::consts::LN_2.powf(1.0 / shape);
    Duration::from_secs_f64((scale * (-rng.unit().ln()).powf(1.0 / shape)).clamp(1.0, 2.6e6))
}

/// How long a session that is under way at any time goes on: longer ones are met more often.
pub(super) fn draw_rest(median: Duration, shape: f64, rng: &mut Rng) -> Duration {
    // By rejection: a session is met in proportion to its length, anywhere in it.
    let most = draw_most(median, shape);
    for _ in 0..1000 {
        let whole = draw(median, shape, rng).min(most);
        if rng.unit() * most.as_secs_f64() < whole.as_secs_f64() {
            return whole.mul_f64(rng.unit());
        }
    }
    median
}

/// The length that one session in a thousand exceeds.
fn draw_most(median: Duration, shape: f64) -> Duration {
    let scale = median.as_secs_f64() / std::f64::consts::LN_2.powf(1.0 / shape);
    Duration::from_secs_f64(scale * (1000f64.ln()).powf(1.0 / shape))
}

pub(super) fn shape(session: &Session) -> f64 {
    session.shape.as_ref().map_or(SHAPE, |shape| *shape.get_ref())
}

pub(super) fn minutes(time: crate::scenario::Time) -> Duration {
    Duration::from_micros(time.minutes_as_micros())
}

/// From now on sessions come and go.
pub(super) fn begin(stage: &mut Stage, time: Duration) {
    let until = stage.world.now + time;
    stage.sessions = Some(Sessions { until });
    for at in stage.gateways..stage.world.nodes.len() {
        let Some(session) = session_of(stage, at) else { continue };
        let rest = draw_rest(minutes(session.median_min), shape(&session), &mut stage.rng);
        let end = stage.world.now + rest;
        if end <= until {
            stage.session_at(end, at);
        }
    }
}

fn session_of(stage: &Stage, at: usize) -> Option<Session> {
    stage.population.get(usize::from(stage.kinds[at]))?.session.clone()
}

/// A session of this node begins or ends.
pub(super) fn turn(stage: &mut Stage, at: usize) {
    let Some(until) = stage.sessions.as_ref().map(|sessions| sessions.until) else { return };
    let Some(session) = session_of(stage, at) else { return };
    if stage.world.now > until {
        return;
    }
    let next = if stage.world.lives(at) {
        if stage.rng.chance(session.polite.0) {
            leave(stage, at);
        } else {
            stage.world.crash(at);
        }
        draw(minutes(session.away_min), 1.0, &mut stage.rng)
    } else {
        stage.start(at);
        draw(minutes(session.median_min), shape(&session), &mut stage.rng)
    };
    let next = stage.world.now + next;
    if next <= until {
        stage.session_at(next, at);
    }
}

/// A node says good-bye; its process ends when that must have been heard.
pub(super) fn leave(stage: &mut Stage, at: usize) {
    stage.world.drive(at, NodeInput::Command(Command::Drain));
    let end = stage.world.now + Duration::from_secs(3);
    stage.end_at(end, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_sessions_are_shorter_than_the_median() {
        let (median, mut rng) = (Duration::from_secs(1800), Rng::new(5));
        let short = (0..10_000).filter(|_| draw(median, SHAPE, &mut rng) < median).count();
        assert!((4_800..5_200).contains(&short), "{short}");
        let rests: f64 = (0..10_000).map(|_| draw_rest(median, SHAPE, &mut rng).as_secs_f64()).sum();
        assert!(rests / 10_000.0 > 3_600.0, "whoever is there stays longer than most");
    }
}
