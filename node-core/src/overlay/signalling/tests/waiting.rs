//! Wishes that wait for a session.

use super::*;

#[test]
fn another_way_is_tried_after_four_seconds_for_those_that_wait_as_well() {
    let mut node = node(1);
    let peer = |n: usize| NodeId([100 + n as u8; 32]);
    let now = Time(1_000_000);
    for n in 0..=SESSIONS {
        let connect = Command::Connect(Address::guest(peer(n), relay()));
        node.machine.step(node.id, now, Input::Command(connect));
    }
    let mut slow = Vec::new();
    while let Some(timer) = node.machine.due(now + SLOW) {
        for effect in node.machine.step(node.id, now + SLOW, Input::Timer(timer)) {
            if let Effect::Emit(Event::Slow { peer, relay: by }) = effect {
                assert_eq!(by, Some(relay()));
                slow.push(peer);
            }
        }
    }
    // The others were not answered within three, and gave up.
    assert!(slow.contains(&peer(SESSIONS)), "{slow:?}");
}

#[test]
fn who_finds_all_sessions_taken_waits_for_its_turn_and_not_for_ever() {
    let mut node = node(1);
    let mut now = Time(1_000_000);
    let peer = |n: u8| NodeId([100 + n; 32]);
    let mut step = |now: Time, input| node.machine.step(node.id, now, input);
    let opened = |effects: Vec<Effect<Signalling>>| -> Vec<(NodeId, SessionId)> {
        effects
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Emit(Event::Request(Request::Open { session, peer, .. })) => Some((peer, session)),
                _ => None,
            })
            .collect()
    };
    let connect = |n: u8| Input::Command(Command::Connect(Address::guest(peer(n), relay())));
    let sessions: Vec<SessionId> =
        (0..SESSIONS as u8).flat_map(|n| opened(step(now, connect(n)))).map(|(_, session)| session).collect();
    assert_eq!(sessions.len(), SESSIONS);
    for n in 0..3 {
        assert_eq!(opened(step(now, connect(SESSIONS as u8 + n))), [], "it waits");
    }
    // Asked twice it waits once.
    assert_eq!(opened(step(now, connect(SESSIONS as u8))), []);

    let mut over = |now, n: u8| {
        let told = step(now, Input::Command(Command::Reply(Reply::Opened(sessions[n as usize]))));
        assert!(told.iter().all(|effect| !matches!(effect, Effect::Emit(_))), "the handshake is under way");
        step(now, Input::Up(peer(n)))
    };
    let first = opened(over(now, 0));
    assert_eq!(first.iter().map(|(peer, _)| *peer).collect::<Vec<_>>(), [peer(SESSIONS as u8)]);
    now = now + OPEN;
    let effects = over(now, 1);
    let late = |effect: &Effect<Signalling>| match effect {
        Effect::Emit(Event::NotOpened { peer, why, .. }) => Some((*peer, *why)),
        _ => None,
    };
    let told: Vec<_> = effects.iter().filter_map(late).collect();
    let waited = [1, 2].map(|n| (peer(SESSIONS as u8 + n), NotOpened::Busy));
    assert_eq!(told, waited, "they have waited as long as a session takes");
    assert_eq!(opened(effects), []);
}
