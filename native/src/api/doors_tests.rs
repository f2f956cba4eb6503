use super::*;
use futures::FutureExt;

/// Doors, and the time at them.
struct World {
    doors: Doors,
    now: Instant,
}

impl World {
    fn of(all: usize, reserved: usize, per_block: usize) -> World {
        World::with_trials(all, reserved, per_block, 0)
    }

    /// The last `on_trial` places of an address are given on trial.
    fn with_trials(all: usize, reserved: usize, per_block: usize, on_trial: usize) -> World {
        let doors = Doors::bounded(Bounds { all, reserved, per_block, on_trial });
        World { now: doors.began, doors }
    }

    fn come(&self, ip: &str) -> Result<Place, Full> {
        self.doors.admit_at(AddressBlock::of(ip.parse().unwrap()), self.now)
    }

    fn enter(&self, ip: &str) -> Place {
        self.come(ip).expect("there is a place")
    }

    fn refusal(&self, ip: &str) -> Option<Full> {
        self.come(ip).err()
    }
}

fn is_cut(place: &Place) -> bool {
    place.cut().now_or_never().is_some()
}

#[test]
fn one_address_leaves_room_for_another() {
    let world = World::of(10, 0, 4);
    let places: Vec<Place> = (0..4).map(|_| world.enter("192.0.2.1")).collect();
    assert_eq!(world.refusal("192.0.2.1"), Some(Full::Block));
    assert_eq!(world.refusal("192.0.2.2"), None);
    drop(places);
    assert_eq!(world.refusal("192.0.2.1"), None, "a place that was left is free");
}

#[test]
fn the_connection_that_stood_still_for_longest_makes_room() {
    let mut world = World::of(10, 0, 2);
    let stuck = world.enter("192.0.2.1");
    let busy = world.enter("192.0.2.1");
    world.now += STILL;
    busy.visit().moved_at(world.now);
    let new = world.enter("192.0.2.1");
    assert!(is_cut(&stuck) && !is_cut(&busy) && !is_cut(&new));
    // The end of what was cut frees nothing a second time.
    drop(stuck);
    assert_eq!(world.refusal("192.0.2.1"), Some(Full::Block));
}

#[test]
fn a_connection_that_trickles_makes_room_in_the_end() {
    let mut world = World::of(10, 0, 1);
    let trickle = world.enter("192.0.2.1");
    for _ in 1..OLD.as_secs() {
        world.now += Duration::from_secs(1);
        trickle.visit().moved_at(world.now);
        assert_eq!(world.refusal("192.0.2.1"), Some(Full::Block));
    }
    world.now += Duration::from_secs(1);
    assert_eq!(world.refusal("192.0.2.1"), None);
    assert!(is_cut(&trickle));
}

#[test]
fn a_client_that_shows_the_token_is_not_cut_and_finds_room() {
    let mut world = World::of(3, 1, 3);
    let operator = world.enter("192.0.2.7");
    world.doors.trust_at(operator.visit(), world.now);
    let other = world.enter("192.0.2.1");
    world.doors.trust_at(other.visit(), world.now);
    world.now += OLD;
    assert_eq!(world.refusal("192.0.2.2"), Some(Full::All), "there is none to cut");
    let again = world.enter("192.0.2.7");
    assert!(!is_cut(&operator) && !is_cut(&other));
    drop(again);

    world.now += TRUSTED_FOR;
    operator.visit().asks();
    assert_eq!(world.refusal("192.0.2.2"), None);
    assert!(is_cut(&operator), "its newest request shows nothing");
}

/// As behind a proxy, whose address all have.
#[test]
fn the_last_places_of_an_address_are_for_who_shows_the_token() {
    let mut world = World::with_trials(10, 0, 6, 2);
    let crowd: Vec<Place> = (0..4).map(|_| world.enter("192.0.2.1")).collect();
    let trickle = |world: &mut World| {
        world.now += Duration::from_secs(1);
        crowd.iter().for_each(|place| place.visit().moved_at(world.now));
    };
    trickle(&mut world);
    let (first, second) = (world.enter("192.0.2.1"), world.enter("192.0.2.1"));
    world.doors.trust_at(first.visit(), world.now);
    trickle(&mut world);
    let third = world.enter("192.0.2.1");
    assert!(is_cut(&second) && !is_cut(&first), "the newest takes the place of one that showed nothing");
    world.doors.trust_at(third.visit(), world.now);
    trickle(&mut world);
    assert_eq!(world.refusal("192.0.2.1"), Some(Full::Block), "those who show it keep their places");
    assert!(crowd.iter().all(|place| !is_cut(place)), "the others are served as before");
    assert_eq!(world.refusal("192.0.2.2"), None);
    first.visit().asks();
    let fourth = world.enter("192.0.2.1");
    assert!(is_cut(&first) && !is_cut(&third) && !is_cut(&fourth), "its newest request shows nothing");
}

#[test]
fn places_on_trial_count_among_all() {
    let world = World::with_trials(5, 1, 6, 2);
    let crowd: Vec<Place> = (0..4).map(|_| world.enter("192.0.2.1")).collect();
    assert_eq!(world.refusal("192.0.2.1"), Some(Full::All), "the last one is reserved");
    world.doors.trust_at(crowd[0].visit(), world.now);
    assert_eq!(world.refusal("192.0.2.1"), None);
}

#[test]
fn addresses_that_showed_the_token_are_bounded() {
    let mut world = World::of(10, 0, 10);
    for n in 0..2 * TRUSTED as u32 {
        let place = world.enter(&std::net::Ipv4Addr::from_bits(n).to_string());
        world.doors.trust_at(place.visit(), world.now);
        world.now += Duration::from_millis(1);
    }
    assert_eq!(world.doors.table().trusted.len(), TRUSTED);
}
