//! A small net of machines: latency, losses, a ring, crashes.

use super::super::*;
use crate::address::Ip;
use crate::circle::Range;
use crate::protocol::{Effect, Machine, Rng};
use crate::ticket::ServiceId;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn id(at: usize) -> NodeId {
    NodeId(*blake3::hash(&(at as u64).to_le_bytes()).as_bytes())
}

pub(super) fn contact(id: NodeId) -> Contact {
    Contact { ip: Ip([7; 16]), id, port: 4001 }
}

enum Due {
    Input(NodeId, InputOf<Can>),
    /// The ring answers.
    Locate(NodeId, u64, Point),
}

pub(super) struct Net {
    pub(super) now: Time,
    pub(super) rng: Rng,
    machines: BTreeMap<NodeId, Machine<Can>>,
    queue: BTreeMap<(Time, u64), Due>,
    timers: BTreeSet<(Time, NodeId)>,
    set: BTreeMap<NodeId, Time>,
    last: BTreeMap<(NodeId, NodeId), Time>,
    number: u64,
    /// Whether a node that dials a dead one hears of it; otherwise only silence tells.
    pub(super) dials_fail: bool,
    /// Parts of a swarm that has fallen apart: nodes of two parts do not hear each other. Others are in part 0.
    pub(super) parts: BTreeMap<NodeId, u8>,
    has_fingers: bool,
    pub(super) sent: u64,
    pub(super) faults: Vec<(NodeId, String)>,
    pub(super) events: Vec<(NodeId, Event)>,
}

impl Net {
    pub(super) fn new(seed: u64) -> Net {
        Net::with_fingers(seed, true)
    }

    pub(super) fn with_fingers(seed: u64, has_fingers: bool) -> Net {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Net {
            now: Time(1_000_000),
            rng: Rng::from_seed(bytes),
            machines: BTreeMap::new(),
            queue: BTreeMap::new(),
            timers: BTreeSet::new(),
            set: BTreeMap::new(),
            last: BTreeMap::new(),
            number: 0,
            dials_fail: true,
            parts: BTreeMap::new(),
            has_fingers,
            sent: 0,
            faults: Vec::new(),
            events: Vec::new(),
        }
    }

    fn enqueue(&mut self, at: Time, due: Due) {
        self.number += 1;
        self.queue.insert((at, self.number), due);
    }

    fn latency(&mut self) -> Duration {
        Duration::from_millis(5 + self.rng.below(100))
    }

    pub(super) fn alive(&self) -> Vec<NodeId> {
        self.machines.keys().copied().collect()
    }

    pub(super) fn state(&self, id: NodeId) -> &Can {
        self.machines[&id].state()
    }

    pub(super) fn member(&self, id: NodeId) -> &Member {
        self.state(id).member().expect("it is in a space")
    }

    /// A node that is on the ring from now on.
    pub(super) fn start(&mut self, id: NodeId, own: Option<Capability>) {
        let seed = self.rng.u64().to_le_bytes();
        let mut whole = [0; 32];
        whole[..8].copy_from_slice(&seed);
        self.machines.insert(id, Machine::new(Can::new(self.has_fingers), Rng::from_seed(whole)));
        self.step(id, Input::Command(Command::Own(own)));
        self.tell_ring();
    }

    pub(super) fn crash(&mut self, id: NodeId) {
        self.machines.remove(&id);
        self.timers.retain(|(_, other)| *other != id);
        self.set.remove(&id);
        self.tell_ring();
    }

    pub(super) fn leave(&mut self, id: NodeId) {
        self.step(id, Input::Command(Command::Ring(None)));
        self.crash(id);
    }

    fn part(&self, id: NodeId) -> u8 {
        self.parts.get(&id).copied().unwrap_or(0)
    }

    /// Everybody hears at once what they own of the ring of their part.
    pub(super) fn tell_ring(&mut self) {
        let mut by_part: BTreeMap<u8, Vec<(Point, NodeId)>> = BTreeMap::new();
        for id in self.alive() {
            by_part.entry(self.part(id)).or_default().push((Point::of_node(id), id));
        }
        for points in by_part.values_mut() {
            points.sort_unstable();
            for (at, (upto, id)) in points.iter().enumerate() {
                let after = points[(at + points.len() - 1) % points.len()].0;
                let place = Place { contact: contact(*id), range: Range { after, upto: *upto } };
                if self.state(*id).place != Some(place) {
                    self.step(*id, Input::Command(Command::Ring(Some(place))));
                }
            }
        }
    }

    fn owner(&self, by: NodeId, key: Point) -> Option<NodeId> {
        let part = self.machines.keys().copied().filter(|id| self.part(*id) == self.part(by));
        part.min_by_key(|id| key.to(Point::of_node(*id)))
    }

    pub(super) fn command(&mut self, id: NodeId, command: Command) {
        self.step(id, Input::Command(command));
    }

    pub(super) fn step(&mut self, me: NodeId, input: InputOf<Can>) {
        let now = self.now;
        let Some(machine) = self.machines.get_mut(&me) else { return };
        let effects = machine.step(me, now, input);
        let deadline = machine.deadline();
        if let Some(old) = self.set.remove(&me) {
            self.timers.remove(&(old, me));
        }
        if let Some(at) = deadline {
            self.set.insert(me, at);
            self.timers.insert((at, me));
        }
        for effect in effects {
            match effect {
                Effect::Send { to, message } => {
                    self.sent += u64::from(to != me);
                    if self.part(me) != self.part(to) {
                        continue;
                    }
                    let earliest = self.now + self.latency();
                    let last = self.last.entry((me, to)).or_default();
                    let at = earliest.max(*last + Duration::from_micros(1));
                    *last = at;
                    self.enqueue(at, Due::Input(to, Input::Message { from: me, message }));
                }
                Effect::Reach(to) | Effect::Hold(to) => {
                    if self.dials_fail && !self.machines.contains_key(&to.id) {
                        let at = self.now + self.latency() * 10;
                        self.enqueue(at, Due::Input(me, Input::Unreachable(to.id)));
                    }
                }
                Effect::Emit(Event::Lookup { number, key }) => {
                    let at = self.now + self.latency() * 3;
                    self.enqueue(at, Due::Locate(me, number, key));
                }
                Effect::Emit(event) => self.events.push((me, event)),
                Effect::Fault { peer, fault } => self.faults.push((peer, fault)),
                Effect::Release(_) => {}
                _ => panic!("the CAN has no other effects"),
            }
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let message = self.queue.first_key_value().map(|((at, _), _)| *at);
            let timer = self.timers.first().map(|(at, _)| *at);
            let Some(at) = message.into_iter().chain(timer).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if timer == Some(at) {
                let Some((_, id)) = self.timers.first().copied() else { break };
                let Some(machine) = self.machines.get_mut(&id) else { break };
                if let Some(timer) = machine.due(self.now) {
                    self.step(id, Input::Timer(timer));
                }
                continue;
            }
            match self.queue.pop_first() {
                Some((_, Due::Input(to, input))) => self.step(to, input),
                Some((_, Due::Locate(by, number, key))) => {
                    let owner = self.owner(by, key).map(contact);
                    self.step(by, Input::Command(Command::Located { number, owner }));
                }
                None => break,
            }
        }
        self.now = end;
    }

    pub(super) fn seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// Runs until the zones tile the space, for so long at most; how long it took, in seconds.
    pub(super) fn settle(&mut self, most: u64) -> u64 {
        for second in 0..most {
            if self.broken().is_none() {
                return second;
            }
            self.seconds(1);
        }
        assert_eq!(self.broken(), None, "after {most} s");
        most
    }

    /// The reason that keeps the nodes from being one space that their zones tile.
    pub(super) fn broken(&self) -> Option<String> {
        let (mut zones, mut spaces) = (Vec::new(), BTreeSet::new());
        for (id, machine) in &self.machines {
            let Some(member) = machine.state().member() else { return Some(format!("{id:?} is outside")) };
            spaces.insert(member.space());
            zones.extend(member.zones().into_iter().map(|zone| (zone, *id)));
        }
        if spaces.len() != 1 {
            return Some(format!("{} spaces", spaces.len()));
        }
        for (at, (one, id)) in zones.iter().enumerate() {
            if let Some((_, other)) = zones[..at].iter().find(|(other, _)| other.overlap(one).is_some()) {
                return Some(format!("zones of {id:?} and {other:?} overlap"));
            }
        }
        let volume: u128 = zones.iter().map(|(zone, _)| zone.volume()).sum();
        let missing = Zone::WHOLE.volume() - volume;
        (missing > 0).then(|| format!("2^{} points are nobody's", missing.ilog2()))
    }

    /// Zones that are held for others.
    pub(super) fn held(&self) -> usize {
        self.machines
            .values()
            .filter_map(|machine| machine.state().member())
            .map(|one| one.zones().len() - 1)
            .sum()
    }

    /// Looks for the owner of a point from this node: who answers, after how many messages.
    pub(super) fn owner_of(&mut self, by: NodeId, at: Coords) -> (Option<NodeId>, u16) {
        let ticket = ServiceId::Driver.ticket(self.rng.u64());
        self.command(by, Command::Owner { ticket, at });
        let answer = self.wait(|event| match event {
            Event::Owned { ticket: of, owner, hops } if *of == ticket => Some((*owner, *hops)),
            _ => None,
        });
        answer.unwrap_or((None, 0))
    }

    /// The first event of this kind, for which it waits half a minute.
    pub(super) fn wait<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> Option<T> {
        for _ in 0..600 {
            if let Some(found) = self.events.iter().find_map(|(_, event)| wanted(event)) {
                return Some(found);
            }
            self.events.clear();
            self.run(Duration::from_millis(100));
        }
        None
    }

    pub(super) fn any(&mut self) -> NodeId {
        let all = self.alive();
        all[self.rng.below(all.len() as u64) as usize]
    }

    pub(super) fn point(&mut self) -> Coords {
        let all = self.alive();
        let some = all[self.rng.below(all.len() as u64) as usize];
        let virt = self.rng.below(u64::from(EDGE)) as u32;
        self.member(some).coords().with(VIRTUAL, virt)
    }
}

fn sizes(sizes: [u32; 3]) -> Capability {
    let [memory, speed, disk] = sizes;
    Capability { memory, speed, disk, ..Capability::default() }
}

const CLASSES: [[u32; 3]; 10] = [
    [20, 20, 20],
    [20, 60, 40],
    [40, 20, 80],
    [40, 40, 40],
    [40, 80, 60],
    [60, 40, 20],
    [60, 60, 100],
    [80, 80, 40],
    [80, 100, 80],
    [100, 100, 100],
];

/// Capabilities of ten kinds.
pub(super) fn clustered(at: usize) -> Capability {
    sizes(CLASSES[at % 10])
}

/// Capabilities of all kinds.
pub(super) fn mixed(rng: &mut Rng) -> Capability {
    sizes(std::array::from_fn(|_| 1 + rng.below(100) as u32))
}

/// A net of so many nodes, `clustered` or of all kinds, one after another or nearly at once.
pub(super) fn grown(mut net: Net, nodes: usize, is_clustered: bool, gap: Duration) -> Net {
    for at in 0..nodes {
        let own = if is_clustered { clustered(at) } else { mixed(&mut net.rng) };
        net.start(id(at), Some(own));
        net.run(gap);
    }
    net.settle(180);
    net
}
