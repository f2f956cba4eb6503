//! Owners that want more of a node than it gives: each machine alone, told what it is told.

use bytes::Bytes;
use node_core::address::Address;
use node_core::address::{Contact, Ip};
use node_core::bounds::Bounds;
use node_core::content::{BlobRef, Data};
use node_core::files::keeper as files;
use node_core::files::{FilesConfig, Message as Files, ToKeeper as ToFiles};
use node_core::ids::{BlobId, JobId, NodeId, UnitId};
use node_core::money::Price;
use node_core::progress::Version;
use node_core::protocol::{Effect, Input, Machine, Rng};
use node_core::store::Message as Content;
use node_core::store::tree::{CHUNK, chaining_value};
use node_core::store::{self, Asker, Store, Ticket};
use node_core::work::keeper::{self, Keeper};
use node_core::work::message::{Batch, Keep, KeepTerms, Message, ToKeeper, ToOwner, ToRunner, UnitGrant};
use node_core::work::proof::GrantProof;
use node_core::work::runner::{Command, Event, Runner};
use node_core::work::spec::{CheckpointEvery, OnLoss, Template, UnitSpec};
use node_core::{Config, SealKey, Time};
use sandbox::Limits;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const ME: NodeId = NodeId([1; 32]);
const OWNER: NodeId = NodeId([2; 32]);
const OTHER: NodeId = NodeId([3; 32]);
const JOB: JobId = JobId([4; 16]);

fn blob(n: u32, len: u64) -> BlobRef {
    let mut id = [9; 32];
    id[..4].copy_from_slice(&n.to_le_bytes());
    BlobRef { id: BlobId(id), len }
}

/// A node of two slots that gets whatever content it asks for.
struct Giver {
    runner: Machine<Runner>,
    declined: Vec<String>,
    prepared: Vec<(NodeId, Option<String>)>,
    /// From how many it fetched a snapshot.
    sources: Vec<usize>,
}

impl Giver {
    fn new() -> Giver {
        let limits = Bounds { content_bytes: 1 << 30, ..Bounds::default() };
        let config = Config { slots: 2, limits: limits.into(), ..Config::default() };
        let runner = Machine::new(Runner::new(config.runner()), Rng::from_seed([0; 32]));
        let (declined, prepared) = (Vec::new(), Vec::new());
        let mut giver = Giver { runner, declined, prepared, sources: Vec::new() };
        for owner in [OWNER, OTHER] {
            giver.step(Input::Command(Command::OwnerUp(owner)));
        }
        giver
    }

    fn hear(&mut self, from: NodeId, message: ToRunner) {
        self.step(Input::Message { from, message: Message::ToRunner(message) });
    }

    fn step(&mut self, input: node_core::protocol::InputOf<Runner>) {
        for effect in self.runner.step(ME, Time(1_000_000), input) {
            match effect {
                Effect::Emit(Event::Fetch { ticket, .. }) => {
                    self.step(Input::Command(Command::Answered { ticket, result: Ok(()) }));
                }
                Effect::Emit(Event::FetchSnapshot { from, .. }) => self.sources.push(from.len()),
                Effect::Send { message: Message::ToOwner(message), to } => match message {
                    ToOwner::Decline { reason, .. } => self.declined.push(reason),
                    ToOwner::Prepared { error, .. } => self.prepared.push((to, error)),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn held(&self) -> u32 {
        let work = self.runner.state().work(Time(1_000_000));
        work.busy + work.queued
    }
}

fn batch(job: JobId, program: BlobRef, units: Vec<UnitGrant>) -> Batch {
    let template = Template {
        program,
        arguments: vec![],
        environment: vec![],
        stdin: Data::EMPTY,
        files: vec![],
        limits: Limits::default(),
        bit_exact: false,
        checkpoint: CheckpointEvery(0),
        on_loss: OnLoss::default(),
        threads: None,
    };
    Batch { job, name: "job".into(), template, sweep_first: Some(0), keepers: vec![], units, origin: None }
}

fn grant(index: u32, spec: Option<UnitSpec>) -> UnitGrant {
    let key = SealKey([0; 32]);
    UnitGrant {
        index,
        attempt: 1,
        proof: GrantProof::default(),
        spec,
        key,
        resume: None,
        price: Price(0),
        receipt: None,
        keeper: None,
        choices: Vec::new(),
    }
}

fn with_stdin(stdin: Data) -> Option<UnitSpec> {
    Some(UnitSpec { arguments: None, stdin: Some(stdin), files: vec![] })
}

#[test]
fn a_node_promises_no_more_content_than_it_has_room_for() {
    let mut giver = Giver::new();
    let huge = |n| with_stdin(Data::Blob(blob(100 + n, 600 << 20)));
    for n in 0..3 {
        let batches = vec![batch(JOB, blob(1, 10), vec![grant(n, huge(n))])];
        giver.hear(OWNER, ToRunner::Grant { lease: 1, batches });
    }
    assert_eq!(giver.held(), 1);
    assert_eq!(giver.declined.len(), 2);
    assert!(
        giver.declined[0].contains("bytes of content here, and it holds 1073741824"),
        "{:?}",
        giver.declined
    );
    // Content that units share is there once.
    let batches = vec![batch(JOB, blob(1, 10), vec![grant(9, huge(0))])];
    giver.hear(OWNER, ToRunner::Grant { lease: 1, batches });
    assert_eq!(giver.held(), 2);
}

#[test]
fn content_with_two_lengths_weighs_as_the_longer() {
    let mut giver = Giver::new();
    let named = |len| with_stdin(Data::Blob(blob(100, len)));
    let other = with_stdin(Data::Blob(blob(101, 600 << 20)));
    for (n, spec) in [(0, named(600 << 20)), (1, named(1)), (2, other)] {
        let batches = vec![batch(JOB, blob(1, 10), vec![grant(n, spec)])];
        giver.hear(OWNER, ToRunner::Grant { lease: 1, batches });
    }
    assert_eq!((giver.held(), giver.declined.len()), (2, 1), "{:?}", giver.declined);
}

#[test]
fn what_storage_is_writing_down_stays_though_its_source_goes() {
    let id = BlobId::of(b"whole");
    let gone = || Input::Message { from: OTHER, message: Content::Missing { id } };
    for ends in [Input::Down(OTHER), gone()] {
        let store = Store::new(None, 1 << 30, Duration::from_secs(3));
        let mut store = Machine::new(store, Rng::from_seed([0; 32]));
        let ticket = Ticket { of: Asker::Relay, number: 1 };
        let blobs = vec![BlobRef { id, len: 5 }];
        store.step(ME, Time(1), Input::Command(store::Command::Fetch { ticket, blobs, from: vec![OTHER] }));
        let bytes = Bytes::from_static(b"whole");
        let chunk = Input::Message { from: OTHER, message: Content::Chunk { id, index: 0, bytes } };
        let appended = store.step(ME, Time(1), chunk).into_iter().find_map(|effect| match effect {
            Effect::Emit(store::Event::Append { number, .. }) => Some(number),
            _ => None,
        });
        let given_up = store.step(ME, Time(1), ends);
        assert!(given_up.is_empty());
        let done = store::Command::Done { number: appended.expect("it is written down") };
        let told = store.step(ME, Time(1), Input::Command(done));
        let here = |effect: &Effect<Store>| {
            matches!(effect, Effect::Emit(store::Event::Answered { result: Ok(()), .. }))
        };
        assert!(told.iter().any(here));
    }
}

#[test]
fn a_unit_may_not_write_more_than_its_donor_has_memory_for() {
    let mut giver = Giver::new();
    let memory = Config::default().memory_bytes;
    for (n, output_bytes) in [(0, memory), (1, memory + 1), (2, u64::MAX)] {
        let mut batch = batch(JOB, blob(1, 10), vec![grant(n, None)]);
        batch.job = JobId([n as u8; 16]);
        batch.template.limits.output_bytes = output_bytes;
        giver.hear(OWNER, ToRunner::Grant { lease: 1, batches: vec![batch] });
    }
    assert_eq!(giver.held(), 1);
    assert!(giver.declined.iter().all(|why| why.contains("of a unit's output")), "{:?}", giver.declined);
    assert_eq!(giver.declined.len(), 2);
}

#[test]
fn descriptions_of_units_fill_no_memory() {
    let mut giver = Giver::new();
    let text = Data::Inline(Bytes::from(vec![7; 900_000]));
    for n in 0..200 {
        let batches = vec![batch(JOB, blob(1, 10), vec![grant(n, with_stdin(text.clone()))])];
        giver.hear(OWNER, ToRunner::Grant { lease: 1, batches });
    }
    assert!(u64::from(giver.held()) * 900_000 <= 64 << 20, "{} units are held", giver.held());
    assert!(giver.declined.iter().any(|why| why.contains("bytes of memory")), "{:?}", giver.declined);
}

#[test]
fn to_get_ready_a_node_asks_a_few_and_another_owner_changes_nothing() {
    let mut giver = Giver::new();
    let source = |n: u16| {
        let (mut id, ip) = ([5; 32], Ip([8; 16]));
        id[..2].copy_from_slice(&n.to_le_bytes());
        Address::from(Contact { ip, id: NodeId(id), port: n.max(1) })
    };
    let sources: Vec<Address> = (0..10_000).map(source).collect();
    for from in [OWNER, OTHER] {
        let batch = Box::new(batch(JOB, blob(1, 10), vec![grant(0, None)]));
        giver.hear(from, ToRunner::Prepare { batch, whole: blob(3, 99), sources: sources.clone() });
    }
    assert!(giver.sources.iter().all(|count| *count <= 16), "{:?} were asked", giver.sources);
    assert_eq!(giver.sources.len(), 1);
    assert!(matches!(&giver.prepared[..], [(OTHER, Some(why))] if why.contains("another owner")));
}

#[test]
fn what_is_got_ready_for_counts_as_what_is_held() {
    let mut giver = Giver::new();
    for n in 0..3 {
        let batch = Box::new(batch(JOB, blob(1, 10), vec![grant(n, None)]));
        giver.hear(OWNER, ToRunner::Prepare { batch, whole: blob(10 + n, 600 << 20), sources: vec![] });
    }
    let refused = giver.prepared.iter().filter_map(|(_, error)| error.as_ref());
    assert_eq!(refused.clone().count(), 2, "{:?}", giver.prepared);
    assert!(refused.clone().all(|why| why.contains("bytes of content here")), "{:?}", giver.prepared);
    let huge = with_stdin(Data::Blob(blob(100, 600 << 20)));
    let batches = vec![batch(JOB, blob(1, 10), vec![grant(9, huge)])];
    giver.hear(OWNER, ToRunner::Grant { lease: 1, batches });
    assert_eq!((giver.held(), giver.declined.len()), (0, 1), "{:?}", giver.declined);
}

#[test]
fn checkpoints_of_no_bytes_are_counted_too() {
    let mut keeper = Machine::new(Keeper::new(Config::default().keeper()), Rng::from_seed([0; 32]));
    let mut wanted = BTreeSet::new();
    for attempt in 1..=5_000 {
        let unit = UnitId { job: JOB, index: attempt % 2 };
        let version = Version { attempt, number: 1 };
        let keep = Keep {
            unit,
            owner: OWNER,
            origin: OWNER,
            version,
            parts: vec![blob(attempt, 0)],
            relayed: false,
        };
        let message = Message::ToKeeper(ToKeeper::Keep(keep));
        let mut effects = keeper.step(ME, Time(1), Input::Message { from: OTHER, message });
        // The units' owner says that it is the sender's, each time.
        let terms = KeepTerms { origin: OWNER, part_bytes: u64::MAX };
        let granted = ToKeeper::Granted { unit, runner: OTHER, attempt, terms: Some(terms) };
        let message = Message::ToKeeper(granted);
        effects.extend(keeper.step(ME, Time(1), Input::Message { from: OWNER, message }));
        for effect in effects {
            match effect {
                Effect::Emit(keeper::Event::Fetch { ticket, .. }) => drop(wanted.insert(ticket)),
                Effect::Emit(keeper::Event::Release { ticket }) => drop(wanted.remove(&ticket)),
                _ => {}
            }
        }
    }
    assert_eq!(wanted.len(), 2, "one of each unit is on its way, the newest");
}

#[test]
fn who_sends_one_blob_slowly_holds_no_other() {
    let store = Store::new(None, 1 << 30, Duration::from_secs(3));
    let mut store = Machine::new(store, Rng::from_seed([0; 32]));
    let whole: Vec<u8> = (0..60 * CHUNK).map(|n| (n ^ (n >> 18)) as u8).collect();
    let slow = BlobRef { id: BlobId::of(&whole), len: whole.len() as u64 };
    let chunks: Vec<&[u8]> = whole.chunks(CHUNK as usize).collect();
    let tree: Vec<_> = (0..).zip(&chunks).map(|(n, chunk)| chaining_value(n, chunk)).collect();
    let fetch = |number, blob, from| {
        let ticket = Ticket { of: Asker::Kept, number };
        Input::Command(store::Command::Fetch { ticket, blobs: vec![blob], from })
    };
    let mut inputs = vec![fetch(1, slow, vec![OTHER]), fetch(2, blob(1, 10), vec![OTHER, OWNER])];
    let values = tree.concat().into();
    inputs.push(Input::Message { from: OTHER, message: Content::Tree { id: slow.id, values } });
    let (mut asked, mut now) = (None, Time(1));
    for (index, chunk) in (0..).zip(chunks) {
        while let Some(timer) = store.due(now) {
            inputs.push(Input::Timer(timer));
        }
        let bytes = Bytes::copy_from_slice(chunk);
        inputs.push(Input::Message { from: OTHER, message: Content::Chunk { id: slow.id, index, bytes } });
        while !inputs.is_empty() {
            for effect in store.step(ME, now, inputs.remove(0)) {
                match effect {
                    Effect::Emit(store::Event::Append { number, .. }) => {
                        inputs.push(Input::Command(store::Command::Done { number }));
                    }
                    Effect::Send { to: OWNER, .. } => asked = asked.or(Some(now)),
                    _ => {}
                }
            }
        }
        now = now + Duration::from_secs(4);
    }
    let asked = asked.expect("the other source of what does not come is asked");
    assert!(asked <= Time(1) + Duration::from_secs(120), "after a minute or two: {asked:?}");
}

#[test]
fn a_file_that_is_kept_is_not_written_down_for_each_word_of_its_owner() {
    let config = FilesConfig::giving(1 << 20);
    let mut keeper = Machine::new(files::Keeper::new(Arc::new(config)), Rng::from_seed([0; 32]));
    let mut writes = 0;
    for n in 0..1_000 {
        let keep = ToFiles::Keep { manifest: blob(1, 100), bytes: 1000, me: None, at: vec![] };
        let input = Input::Message { from: OWNER, message: Files::ToKeeper(keep) };
        for effect in keeper.step(ME, Time(n * 1000), input) {
            writes += u32::from(matches!(effect, Effect::Emit(files::Event::Commit { .. })));
        }
    }
    assert_eq!(writes, 1);
}

#[test]
fn content_of_another_length_than_it_is_said_to_have_is_refused_and_not_read() {
    let store = Store::new(None, 1 << 30, Duration::from_secs(3));
    let mut store = Machine::new(store, Rng::from_seed([0; 32]));
    let mut answers = |command| {
        let effects = store.step(ME, Time(1), Input::Command(command));
        let answer = |effect| match effect {
            Effect::Emit(store::Event::Answered { ticket, result }) => Some((ticket.number, result.is_ok())),
            _ => None,
        };
        effects.into_iter().filter_map(answer).collect::<Vec<_>>()
    };
    let fetch = |number, lens: &[u64]| {
        let ticket = Ticket { of: Asker::Kept, number };
        let blobs = lens.iter().map(|len| blob(1, *len)).collect();
        store::Command::Fetch { ticket, blobs, from: vec![OTHER] }
    };
    assert_eq!(answers(fetch(1, &[5, 77])), [(1, false)], "nothing has two lengths");
    assert_eq!(answers(fetch(2, &[5])), [], "it is asked for");
    assert_eq!(answers(fetch(3, &[77])), [], "nobody knows yet who is wrong");
    let stored = store::Command::Stored(vec![(blob(1, 5).id, 5)]);
    assert_eq!(answers(stored), [(3, false), (2, true)]);
    assert_eq!(answers(fetch(4, &[77])), [(4, false)], "one answer, and no leave to read it");
    assert_eq!(answers(fetch(5, &[5])), [(5, true)]);
}

#[test]
fn a_false_length_puts_off_nobody_for_long() {
    let ticket = |number| Ticket { of: Asker::Kept, number };
    let fetch = |number, len, from| {
        Input::Command(store::Command::Fetch {
            ticket: ticket(number),
            blobs: vec![blob(1, len)],
            from: vec![from],
        })
    };
    let gone = Input::Message { from: OTHER, message: Content::Missing { id: blob(1, 5).id } };
    let let_go = Input::Command(store::Command::Release { ticket: ticket(1) });
    for ends in [gone, let_go, Input::Down(OTHER)] {
        let store = Store::new(None, 1 << 30, Duration::from_secs(3));
        let mut store = Machine::new(store, Rng::from_seed([0; 32]));
        let mut asked = |input| {
            let effects = store.step(ME, Time(1), input);
            let to = |effect| match effect {
                Effect::Send { to, .. } => Some(to),
                _ => None,
            };
            effects.into_iter().filter_map(to).collect::<Vec<_>>()
        };
        assert_eq!(asked(fetch(1, 77, OTHER)), [OTHER]);
        assert_eq!(asked(fetch(2, 5, OWNER)), [], "the other one's turn comes");
        assert_eq!(asked(ends), [OWNER]);
    }
}
