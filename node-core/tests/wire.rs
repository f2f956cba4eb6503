//! The bytes on the wire: golden, so that nobody changes them without meaning to.

mod connections;
mod kinds;
mod matching;
mod threads;
mod trade;

use bytes::Bytes;
use node_core::address::Address;
use node_core::address::{Contact, Dialable, Ip, Key};
use node_core::circle::{Located, MemberId, Point, RingId};
use node_core::content::{BlobRef, Data, NamedData};
use node_core::discovery::nearest::{
    self, Above, Ack, Answer, Ask, Gone, NotFound, Packed, Places, Refuse, State, Status, Taken, Toward,
};
use node_core::elsewhere::{Elsewhere, Web};
use node_core::finding::Needs;
use node_core::finding::Offer;
use node_core::goods::Rule;
use node_core::goods::Scheme;
use node_core::ids::{BlobId, JobId, NodeId, UnitId};
use node_core::keys::Signed;
use node_core::money::{Micro, Price};
use node_core::node::message::Message;
use node_core::overlay::dialback::{self, Outcome};
use node_core::overlay::neighbours::{Hello, Message as Greeting};
use node_core::overlay::ring::{self, Around, Beat, Come, Find as Seek, Mine, Next};
use node_core::overlay::swarm::Swarm;
use node_core::overlay::tree::{
    self, Join, NeighbourUpdate, Range, Record, RequestLeaf, Tell, Upper, Welcome,
};
use node_core::platform::Platform;
use node_core::progress::{Checkpoint, Journey, Made, Resume, Span, Version};
use node_core::requires::{Matchmaking, Requires};
use node_core::store::Message as Content;
use node_core::ticket::Services;
use node_core::wire::MAX_FRAME;
use node_core::work::delegated::{self, Delegated, Part};
use node_core::work::message::{
    Batch, Cause, Keep, KeepTerms, Message as Work, Report, Returned, ToClient, ToKeeper, ToOwner, ToRunner,
    UnitGrant,
};
use node_core::work::proof::{GrantKey, GrantProof};
use node_core::work::spec::{
    CheckpointEvery, Find, JobSpec, OnLoss, OwnedBy, Template, Terms, UnitResult, UnitSpec, Units,
};
use node_core::work::unit_record::UnitRecord;
use node_core::{Channel, SealKey, SnapshotRef};
use sandbox::{End, Limits};

fn requires() -> Requires {
    Requires {
        speed: 303,
        disk_bytes: 304,
        platform: Some(Platform::Native),
        os: Some("linux".into()),
        arch: None,
        labels: vec![("site".into(), "graz".into())],
        memory_bytes: 305,
    }
}

fn template() -> Template {
    Template {
        program: BlobRef { id: BlobId([1; 32]), len: 77 },
        arguments: vec!["{}".into()],
        environment: vec![("K".into(), "V".into())],
        stdin: Data::EMPTY,
        files: vec![NamedData { path: "a".into(), data: Data::Inline(Bytes::from_static(b"x")) }],
        limits: Limits { memory_bytes: 1 << 20, output_bytes: 1000, time_us: 5, fuel: u64::MAX },
        bit_exact: true,
        checkpoint: CheckpointEvery(6),
        on_loss: OnLoss::Wait(7),
        threads: None,
    }
}

fn web() -> Web {
    Web { port: 4002, host: Some("h.example".into()) }
}

fn swarm() -> Swarm {
    Swarm {
        bank: Some(NodeId([3; 32])),
        scheme: Some(Scheme::Single),
        pricing: Some(Rule::MaxMin),
        degree: Some(10),
        matchmaking: Some(Matchmaking::RnTree),
    }
}

fn examples() -> Vec<Message> {
    let job = JobId([2; 16]);
    let unit = UnitSpec { arguments: Some(vec!["b".into()]), stdin: None, files: vec![] };
    let result = UnitResult {
        end: End::Exited(0),
        stdout: Data::Inline(Bytes::from_static(b"out")),
        stderr: Data::Blob(BlobRef { id: BlobId([3; 32]), len: 9 }),
        files: vec![],
        cpu_us: 12,
        runner: NodeId([4; 32]),
        attempts: 1,
        fuel: 2,
        journey: Some(Box::new(journey())),
        paid: Micro(7),
    };
    let spec = JobSpec {
        name: "n".into(),
        template: template(),
        units: Units::List(vec![unit.clone()]),
        priority: -1,
        max_retries: 2,
        find: Find::Cheapest(Terms {
            max_price: Micro(300),
            max_price_job: Some(Micro(301)),
            min_speed: 302,
        }),
        owner: OwnedBy::Ring,
        requires: Box::new(requires()),
    };
    let batch = Batch {
        job,
        name: "n".into(),
        template: template(),
        sweep_first: Some(14),
        keepers: vec![source()],
        units: vec![UnitGrant {
            index: 15,
            attempt: 1,
            proof: proof(),
            spec: Some(unit),
            key: SealKey([200; 32]),
            resume: Some(Box::new(Resume { checkpoint: checkpoint(), sources: vec![source()] })),
            price: Price(16),
            receipt: Some(Signed {
                by: NodeId([17; 32]),
                body: Bytes::from_static(b"body"),
                signature: Bytes::from_static(b"signature"),
            }),
            keeper: Some(source()),
            choices: threads::choices(),
        }],
        origin: Some(NodeId([18; 32])),
    };
    let owner = |m| Message::Work(Work::ToOwner(m));
    let runner = |m| Message::Work(Work::ToRunner(m));
    let client = |m| Message::Work(Work::ToClient(m));
    vec![
        Message::Neighbours(Greeting::Hello(Hello {
            name: "me".into(),
            platform: Platform::Browser,
            gateway: false,
            invite: Some("w".into()),
            dialable: Dialable::At(contact()),
            seen: Some(Ip([2; 16])),
            web: Some(web()),
            swarm: swarm(),
            speaks: Services(23),
        })),
        Message::Neighbours(Greeting::Rejected { reason: "r".into() }),
        Message::Neighbours(Greeting::Full {
            gateways: vec![Elsewhere { contact: contact(), web: Some(web()) }],
        }),
        Message::Neighbours(Greeting::Swarm(swarm())),
        Message::Offer(Offer { slots: 1, free: 2, credit: 3, received: 4, memory_bytes: 5 }),
        Message::Neighbours(Greeting::Dialable(Dialable::No)),
        Message::DialBack(dialback::Message::Ask { nonce: 20, port: 21 }),
        Message::DialBack(dialback::Message::Answer { nonce: 20, outcome: Outcome::Reached(Ip([22; 16])) }),
        Message::DialBack(dialback::Message::Answer {
            nonce: 20,
            outcome: Outcome::NotReached(Ip([22; 16])),
        }),
        Message::DialBack(dialback::Message::Answer { nonce: 20, outcome: Outcome::Busy }),
        Message::DialBack(dialback::Message::Answer { nonce: 20, outcome: Outcome::Unable }),
        owner(ToOwner::Submit { job, spec: Box::new(spec) }),
        owner(ToOwner::Cancel { job }),
        owner(ToOwner::Heartbeat { lease: 6, grants: 7, units: Some(vec![(job, vec![8])]) }),
        owner(ToOwner::Report {
            seq: 9,
            results: vec![Report {
                unit: UnitId { job, index: 10 },
                attempt: 2,
                proof: proof(),
                began: 1,
                result,
            }],
        }),
        owner(ToOwner::Decline {
            lease: 11,
            units: vec![UnitId { job, index: 12 }],
            cause: Cause::Failed,
            reason: "d".into(),
        }),
        owner(ToOwner::NotBegun { lease: 11, units: vec![UnitId { job, index: 12 }] }),
        owner(ToOwner::OfAnother { lease: 11, units: vec![UnitId { job, index: 12 }] }),
        runner(ToRunner::Grant { lease: 13, batches: vec![batch.clone()] }),
        runner(ToRunner::Prepare {
            batch: Box::new(batch),
            whole: checkpoint().snapshot.blob,
            sources: vec![source()],
        }),
        runner(ToRunner::Ack { seq: 16 }),
        runner(ToRunner::NotWritten { seq: 17 }),
        runner(ToRunner::LeaseOver { lease: 17 }),
        runner(ToRunner::Revoke { job }),
        client(ToClient::Accepted { job }),
        client(ToClient::Refused { job, reason: "no".into() }),
        client(ToClient::Ended { job }),
        client(ToClient::NotStored { job, reason: "no".into() }),
        Message::Store(Content::GetTree { id: BlobId([5; 32]) }),
        Message::Store(Content::Get { id: BlobId([5; 32]), index: 18 }),
        Message::Store(Content::Tree { id: BlobId([5; 32]), values: Bytes::from_static(&[6; 4]) }),
        Message::Store(Content::Chunk { id: BlobId([5; 32]), index: 0, bytes: Bytes::from_static(b"c") }),
        Message::Store(Content::Missing { id: BlobId([5; 32]) }),
        Message::Store(Content::Busy { id: BlobId([5; 32]) }),
    ]
    .into_iter()
    .chain(checkpoint_examples())
    .chain(threads::examples())
    .chain(tree_examples())
    .chain(nearest_examples())
    .chain(random_examples())
    .chain(connections::signalling_examples())
    .chain(connections::circuits_examples())
    .chain(matching::rn_tree_examples())
    .chain(matching::fitting_examples())
    .chain(matching::can_examples())
    .chain(ring_examples())
    .chain(trade::market_examples())
    .chain(trade::ledger_examples())
    .chain(record_examples())
    .chain(file_examples())
    .chain(delegated_examples())
    .collect()
}

fn grants() -> GrantKey {
    GrantKey::of(&[1; 32], 2)
}

fn proof() -> GrantProof {
    grants().proof(NodeId([4; 32]), 2)
}

fn checkpoint() -> Checkpoint {
    let blob = |n| BlobRef { id: BlobId([n; 32]), len: n.into() };
    let snapshot = SnapshotRef { blob: blob(7), base: Some(blob(8)), root: [9; 32], fuel: 10 };
    Checkpoint { version: Version { attempt: 11, number: 12 }, snapshot }
}

fn source() -> Address {
    contact().into()
}

fn journey() -> Journey {
    let span = Span { runner: NodeId([4; 32]), platform: Platform::Native, from: 1, to: 2 };
    Journey { spans: vec![span], merged: false, checkpoints: 3, lost_fuel: 4 }
}

fn checkpoint_examples() -> Vec<Message> {
    let job = JobId([2; 16]);
    let unit = UnitId { job, index: 1 };
    let Checkpoint { version, .. } = checkpoint();
    let kept = vec![NodeId([4; 32])];
    let made = Made { unit, checkpoint: checkpoint(), began: 2, kept, marks: Some(threads::marks()) };
    let reason = || "r".to_string();
    let owner = [
        ToOwner::Checkpoints { made: vec![made.clone()] },
        ToOwner::Suspended { lease: 3, attempt: 4, unit, made: Some(made.clone()) },
        ToOwner::Immobile { unit, reason: reason() },
        ToOwner::Prepared { unit, error: Some(reason()), unreached: true },
        ToOwner::Resumed { unit },
        ToOwner::Running { unit },
        ToOwner::Unusable { lease: 3, unit, version, reason: reason(), unreached: true },
        ToOwner::Returned { units: vec![Returned { unit, attempt: 4, proof: proof(), made: Some(made) }] },
        ToOwner::NeedKeepers { job, lost: vec![(NodeId([4; 32]), reason())] },
        ToOwner::Kept { unit, version },
        ToOwner::Holding { units: vec![unit] },
        ToOwner::IsGranted { unit, runner: NodeId([4; 32]), attempt: 5 },
    ];
    let runner = [
        ToRunner::NotComing { unit },
        ToRunner::Suspend { unit },
        ToRunner::Pause { unit, paused: true },
        ToRunner::Forget { units: vec![unit] },
        ToRunner::Recorded { units: vec![(unit, version)] },
        ToRunner::Keepers { job, keepers: vec![source()] },
        ToRunner::Kept { unit, version },
        ToRunner::Keeping { unit, version },
        ToRunner::KeepRefused { unit, version, reason: reason() },
    ];
    let keep = Keep {
        unit,
        owner: NodeId([4; 32]),
        origin: NodeId([5; 32]),
        version,
        parts: checkpoint().parts(),
        relayed: false,
    };
    let runner_of = NodeId([4; 32]);
    let terms = KeepTerms { origin: NodeId([5; 32]), part_bytes: 6 };
    let granted = ToKeeper::Granted { unit, runner: runner_of, attempt: 5, terms: Some(terms) };
    let keeper = [ToKeeper::Keep(keep), ToKeeper::Drop { units: vec![unit] }, granted];
    let all = owner.map(Work::ToOwner).into_iter().chain(runner.map(Work::ToRunner));
    all.chain(keeper.map(Work::ToKeeper)).map(Message::Work).collect()
}

fn delegated_examples() -> Vec<Message> {
    let job = JobId([2; 16]);
    let unit = UnitId { job, index: 1 };
    let part = || {
        let part = Part {
            origin: source(),
            name: "n".into(),
            template: template(),
            sweep_first: Some(3),
            priority: -1,
            max_retries: 2,
            submitted_ms: 1_700_000_000_000,
            requires: Some(Box::new(requires())),
        };
        Box::new(part)
    };
    let delegated = Delegated {
        index: 1,
        spec: None,
        key: SealKey([200; 32]),
        grants: grants(),
        epoch: 5,
        attempts: 6,
        runner: Some(source()),
        record: Some(Box::new(UnitRecord::default())),
        held: Some("h".into()),
    };
    let result = UnitResult {
        end: End::Exited(0),
        stdout: Data::EMPTY,
        stderr: Data::EMPTY,
        files: vec![],
        cpu_us: 12,
        runner: NodeId([4; 32]),
        attempts: 1,
        fuel: 2,
        journey: None,
        paid: Micro::ZERO,
    };
    let units = || vec![delegated.clone()];
    let all = [
        delegated::Message::Entrust { job, part: part(), units: units() },
        delegated::Message::Refused { job, units: vec![1], reason: "r".into() },
        delegated::Message::Owned { job, part: part(), units: units() },
        delegated::Message::Lives { job, units: vec![(1, 5)], waits: Some("w".into()) },
        delegated::Message::Handed { job, part: part(), units: units() },
        delegated::Message::Results(vec![Report { unit, attempt: 2, proof: proof(), began: 1, result }]),
        delegated::Message::Over(vec![unit]),
    ];
    let (origin, successors) = (NodeId([4; 32]), vec![NodeId([5; 32])]);
    let runner = [
        ToRunner::Successors { units: vec![(unit, 5)], origin, successors: successors.clone() },
        ToRunner::Claim { units: vec![(unit, 6)], origin, successors },
    ];
    all.map(Work::Delegated).into_iter().chain(runner.map(Work::ToRunner)).map(Message::Work).collect()
}

fn contact() -> Contact {
    Contact { ip: Ip([3; 16]), id: NodeId([4; 32]), port: 5 }
}

fn tree_examples() -> Vec<Message> {
    let (at, key) = (contact(), contact().key());
    let range = Range { lo: Key::FIRST, hi: Some(key) };
    let record =
        Record { term: 1, epoch: 2, level: 3, writer: at.id, members: vec![(at, key)], promoted: Some(at) };
    let join = Join { who: at, level: 1, claim: Some(range), for_: Some(at.id), ticket: 2, hops: 3 };
    let upper = Upper { group: range, ancestors: vec![at], parent_siblings: vec![at] };
    let tell =
        Tell { epoch: 1, base: 2, range: Some(range), add: vec![at], drop: vec![at.id], upper: Some(upper) };
    let welcome =
        Welcome { from: at, ticket: 1, level: 2, epoch: 3, range: Some(range), root: Some(record.clone()) };
    use tree::Message as M;
    [
        M::Join(Box::new(join)),
        M::Welcome(Box::new(welcome)),
        M::TooTall { ticket: 1 },
        M::Tell(Box::new(tell)),
        M::Refresh { epoch: 1, level: 2, count: 3 },
        M::NotMine { into: Some(at) },
        M::Leave { epoch: 1, root: true },
        M::Resign { epoch: 1 },
        M::Move { via: Some(at), epoch: 2 },
        M::Update(Box::new(NeighbourUpdate { from: at, level: 1, count: 2, children: vec![at], want: true })),
        M::RequestLeaf(Box::new(RequestLeaf { level: 1, claim: range, for_: at.id, to: at })),
        M::Redistribute { with: at.id, bound: key },
        M::Merge { into: at.id },
        M::Underflow { count: 1 },
        M::Root(Box::new(record.clone())),
        M::Abdicate(Box::new(record)),
        M::Probe { root: at, level: 1, term: 2, nonce: 3 },
        M::Found { root: at, nonce: 1 },
    ]
    .map(Message::Tree)
    .into()
}

fn ring_examples() -> Vec<Message> {
    let peer = node_core::circle::Peer { point: Point(7 << 120), contact: contact() };
    let to = MemberId { ring: RingId::NODES, point: Point(9) };
    let (from, list) = (Point(8), vec![peer]);
    let find = Seek {
        ring: to.ring,
        to: Some(to.point),
        key: Point(1),
        ticket: 2,
        after: true,
        joins: false,
        pass: Some(contact()),
        hops: 3,
    };
    let found = Located { owner: peer, after: from, replicas: list.clone(), hops: 4 };
    use ring::Message as M;
    [
        M::Find(Box::new(find)),
        M::Next(Box::new(Next { ticket: 1, from, peers: list.clone(), hops: 2 })),
        M::Mine(Box::new(Mine { ticket: 1, found: found.clone() })),
        M::Beat(Box::new(Beat { to, from: peer, seen: 5, line: None })),
        M::Beat(Box::new(Beat { to, from: peer, seen: 0, line: Some(list.clone()) })),
        M::Come(Box::new(Come { to, from: peer, next: from, passed: false })),
        M::Same { to, from },
        M::Around(Box::new(Around {
            to,
            from: peer,
            before: Some(peer),
            list: list.clone(),
            line: list.clone(),
        })),
        M::Leave(Box::new(ring::Leave { to, from, list })),
        M::Bye { to, from },
        M::Ask { ring: to.ring, key: Point(3), ticket: 1 },
        M::Told { ticket: 1, found: Some(Box::new(found)) },
    ]
    .map(Message::Ring)
    .into()
}

fn record_examples() -> Vec<Message> {
    use node_core::record::{Key, Refused};
    use node_core::records::{Copied, Message as M};
    let (by, body) = (NodeId([4; 32]), Bytes::from_static(b"body"));
    let signed = Signed { by, body, signature: Bytes::from_static(b"signature") };
    let range = node_core::circle::Range { after: Point(1), upto: Point(2) };
    [
        M::Put { ticket: 1, signed: Box::new(signed.clone()) },
        M::Done { ticket: 1, refused: Some(Refused::Taken(by)) },
        M::Get { ticket: 1, key: Key::Name("n".into()) },
        M::Get { ticket: 1, key: Key::Keepers(BlobId([5; 32])) },
        M::Have { ticket: 1, found: Some(vec![signed.clone()]) },
        M::Copies(vec![Copied { signed, since_ms: 2 }]),
        M::Compare { range, count: 1, digest: 2 },
        M::Pull(range),
    ]
    .map(Message::Records)
    .into()
}

fn file_examples() -> Vec<Message> {
    use node_core::files::{Message as M, ToKeeper, ToOwner};
    let (file, bytes) = (BlobId([5; 32]), Bytes::from_static(&[6; 4]));
    let (manifest, at) = (BlobRef { id: file, len: 77 }, contact());
    let to_keeper = [
        ToKeeper::Ask { ticket: 1 },
        ToKeeper::Keep { manifest, bytes: 2, me: Some(at), at: vec![at] },
        ToKeeper::Audit { ticket: 1, file, index: 2, nonce: bytes.clone() },
        ToKeeper::Drop { file },
    ];
    let to_owner = [
        ToOwner::Room { ticket: 1, bytes: 2, seconds: 3 },
        ToOwner::Keeping { file, chunks: 1 },
        ToOwner::Kept { file, until_ms: 1 },
        ToOwner::Refused { file, why: "w".into() },
        ToOwner::Proof { ticket: 1, proof: Some(bytes) },
        ToOwner::Holding { files: vec![file] },
    ];
    to_keeper.map(M::ToKeeper).into_iter().chain(to_owner.map(M::ToOwner)).map(Message::Files).collect()
}

fn nearest_examples() -> Vec<Message> {
    let at = contact();
    let mut places = Packed::default();
    places.push(&at.into(), 7);
    let sizes = [1, 2, 0, 0, 0, 0, 0, 0];
    let state = State { low: 1, high: 2, slots: 3, power: 4, hops: 5, memory: 6, sizes, kinds: 7, usual: 8 };
    let needs = Needs { memory_bytes: 1, platform: Some(Platform::Native), power: 2 };
    let ask = Ask {
        id: 1,
        part: 2,
        origin: at,
        asked: 3,
        tasks: 4,
        given: 5,
        needs: Some(needs),
        hops: 6,
        toward: Toward::Across,
        back: 7,
    };
    use nearest::Message as M;
    [
        M::Status(Status { state, got: 9, refresh: true }),
        M::Above(Above { slots: vec![1, 300], tell: true }),
        M::Ask(ask),
        M::Answer(Answer { part: 1, placed: 2, missing: 3, hops: 4, places: places.clone() }),
        M::Refuse(Refuse { slots: 1, for_needs: true }),
        M::Gone(Gone { id: 1, node: at.id, slots: 2 }),
        M::Places(Places { id: 1, number: 2, places }),
        M::Taken(Taken { id: 1, number: 2, taker: at, slots: 3, hops: 4 }),
        M::Ack(Ack { number: 1, keep: true }),
        M::NotFound(NotFound { id: 1, number: 2, tasks: 3 }),
        M::Reserve(4),
        M::Release(5),
    ]
    .map(Message::Nearest)
    .into()
}

fn random_examples() -> Vec<Message> {
    use node_core::discovery::random::{Message as M, Walk};
    let at = contact();
    let needs = Needs { memory_bytes: 1, platform: Some(Platform::Native), power: 2 };
    let walk = Walk { id: 3, origin: at, tasks: 4, needs, hops: 5 };
    [M::Walk(walk), M::Here { id: 3, at, slots: 2, hops: 5 }, M::Over { id: 3 }].map(Message::Random).into()
}

#[test]
fn every_message_has_the_bytes_it_always_had() {
    let golden = include_str!("wire.golden");
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let now: Vec<String> = examples().iter().map(|m| hex(&m.encode().expect("it is short"))).collect();
    let golden: Vec<&str> = golden.lines().collect();
    assert_eq!(
        now,
        golden,
        "the wire changed: raise wire::VERSION and replace wire.golden by\n{}",
        now.join("\n")
    );
}

#[test]
fn what_is_sent_is_what_is_received() {
    for message in examples() {
        let frame = message.encode().unwrap();
        assert_eq!(Message::decode(&frame, message.channel()), Ok(message));
    }
}

#[test]
fn a_frame_of_any_length_is_written_whole_up_to_the_longest() {
    let frame = |len| Message::Neighbours(Greeting::Rejected { reason: "x".repeat(len) }).encode();
    // Version, service, a map of one, the variant's name, a list of one, a text of up to 2^32 bytes.
    let around = 1 + 1 + 1 + 9 + 1 + 5;
    for len in 0..600 {
        let frame = frame(len).expect("it is short");
        assert!(frame.ends_with(&b"x".repeat(len)) && frame.len() <= len + around);
        let read = Message::decode(&frame, Channel::Control);
        assert!(
            matches!(read, Ok(Message::Neighbours(Greeting::Rejected { reason })) if reason.len() == len)
        );
    }
    let most = MAX_FRAME - around;
    assert_eq!(frame(most).map(|frame| frame.len()), Some(MAX_FRAME));
    assert_eq!(frame(most + 1), None);
}

#[test]
fn a_cut_or_changed_frame_is_an_error_and_never_a_panic() {
    for message in examples() {
        let frame = message.encode().unwrap();
        for end in 0..frame.len() {
            assert!(Message::decode(&frame[..end], message.channel()).is_err(), "{end} bytes of {message:?}");
        }
        for at in 0..frame.len() {
            let mut bytes = frame.to_vec();
            bytes[at] = bytes[at].wrapping_add(0x55);
            drop(Message::decode(&bytes, message.channel()));
        }
        // A whole value, the marker that MessagePack reserves, and the head of a text to come.
        for more in [0, 0xc1, 0xdb] {
            let longer = [&frame[..], &[more]].concat();
            assert!(
                Message::decode(&longer, message.channel()).is_err(),
                "nothing may follow, not even {more:#x}"
            );
        }
    }
}

#[test]
fn records_of_earlier_builds_name_the_usual_finder_with_another_word() {
    let old = rmp_serde::to_vec("Connected").unwrap();
    assert_eq!(sandbox::unpack::from_slice::<Find>(&old).unwrap(), Find::Nearest);
}
