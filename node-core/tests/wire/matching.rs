//! Examples of the messages by which jobs with requirements find nodes.

use super::*;

pub(super) fn rn_tree_examples() -> Vec<Message> {
    use node_core::capability::{Candidate, Capability, Words};
    use node_core::overlay::rn_tree::{Message as M, Over, Summary, Walk};
    let contact = contact();
    let capability = Capability { memory: 1, speed: 2, disk: 3, words: Words(4) };
    let summary = Summary::of(NodeId([5; 32]), capability);
    let found = vec![Candidate { at: contact.into(), capability }];
    let walk = Walk {
        id: 6,
        origin: contact,
        needs: capability,
        wanted: 7,
        visited: 8,
        found: found.clone(),
        branches: vec![contact],
        above: Some((contact, NodeId([9; 32]))),
        behind: Some(NodeId([10; 32])),
    };
    [
        M::Child { contact, rounded: Point(11), summary: summary.clone() },
        M::NotParent,
        M::Whole(summary),
        M::Walk(Box::new(walk)),
        M::Over(Box::new(Over { id: 6, found, visited: 8 })),
    ]
    .map(Message::RnTree)
    .into()
}

pub(super) fn fitting_examples() -> Vec<Message> {
    use node_core::capability::{Capability, Words};
    use node_core::discovery::fitting::{Ability, Claim, Line, Mark, Message as M, Share};
    use node_core::discovery::fitting::{ToMeeting, ToNode, ToOwner};
    use node_core::requires::{Properties, Stated};
    let (owner, job) = (contact(), JobId([2; 16]));
    let needs = Capability { memory: 1, speed: 2, disk: 3, words: Words(4) };
    let share = Share { submitter: 20, running: Some(21) };
    let words = [31, 0, 0, 0];
    let able = Ability { capability: needs, words: Some(vec![32]), skip: vec![33] };
    let mark = Mark {
        meeting: Some(13),
        owner,
        job,
        needs,
        words,
        units: 5,
        age_ms: 6,
        bonus_ms: 7,
        share,
        room_ms: 29,
    };
    let line = Line { owner, job, waited_ms: 8, share };
    let node = NodeId([18; 32]);
    let labels = vec![("site".into(), "graz".into())];
    let properties =
        Box::new(Properties { disk_bytes: 12, os: "linux".into(), arch: "x86_64".into(), labels });
    let stated = Stated { capability: needs, properties };
    [
        M::ToMeeting(ToMeeting::Mark(mark)),
        M::ToMeeting(ToMeeting::Unmark { job }),
        M::ToMeeting(ToMeeting::Seek { meeting: 14, at: owner.into(), able }),
        M::ToMeeting(ToMeeting::Leave { node: NodeId([17; 32]) }),
        M::ToMeeting(ToMeeting::Ask { job }),
        M::ToMeeting(ToMeeting::Shares { shares: vec![share] }),
        M::ToNode(ToNode::Lines { meeting: 15, node, lines: vec![line] }),
        M::ToNode(ToNode::Given { job, node, units: 9, left: 11, share: Some(share), bonus_ms: 30 }),
        M::ToNode(ToNode::Unfit { job, node }),
        M::NotHere { meeting: 16 },
        M::ToOwner(ToOwner::Queue { job, length: 23 }),
        M::ToOwner(ToOwner::Claim(Claim { job, at: owner.into(), stated, slots: 10, most: 22 })),
    ]
    .map(Message::Fitting)
    .into()
}

pub(super) fn can_examples() -> Vec<Message> {
    use node_core::capability::{Candidate, Capability, Words};
    use node_core::overlay::can::{
        Beat, Errand, Load, Message as M, Over, Record, Sketch, SpaceId, Walk, Zone,
    };
    let contact = contact();
    let capability = Capability { memory: 1, speed: 2, disk: 3, words: Words(4) };
    let space = SpaceId { drawn: 5, creator: NodeId([6; 32]) };
    let record = Box::new(Record {
        contact,
        life: 7,
        version: 8,
        capability: Some(capability),
        salt: 9,
        zones: vec![Zone::WHOLE],
        takers: vec![NodeId([10; 32])],
    });
    let others = vec![(*record).clone()];
    let upward = [Load { nodes: 11, waiting: 12 }; 3];
    let walk = Walk {
        id: 13,
        origin: contact,
        space: Some(space),
        to: record.coords(),
        hops: 14,
        arrived: true,
        errand: Errand::Join { capability: None, salt: 15 },
    };
    let found = vec![Candidate { at: contact.into(), capability }];
    let over = Over { id: 16, hops: 17, visited: 18, found, owner: Some(NodeId([19; 32])) };
    [
        M::Zones { space, record: record.clone(), others: others.clone(), asks: true },
        M::Beat(Beat { space, life: 20, version: 21, waiting: 22, upward }),
        M::Leave { space, record: record.clone(), others: others.clone() },
        M::Give { space, zone: Zone::WHOLE, others: others.clone() },
        M::Return { space, zone: Zone::WHOLE },
        M::Disputed { space, record },
        M::Welcome { id: 23, space, zone: Zone::WHOLE, others },
        M::Occupied { id: 24 },
        M::Outside { id: 25 },
        M::Walk(Box::new(walk)),
        M::Over(Box::new(over)),
        M::AskFinger { up: true, level: 26 },
        M::Finger { up: false, level: 27, at: Some((contact, Zone::WHOLE)) },
        M::Sketch { space, sketch: Sketch::default() },
        M::Steal { contact, capability },
    ]
    .map(Message::Can)
    .into()
}

#[test]
fn records_of_earlier_builds_require_nothing_of_nodes() {
    let spec = JobSpec {
        name: "n".into(),
        template: template(),
        units: Units::ONE,
        priority: 0,
        max_retries: 0,
        find: Find::Nearest,
        owner: OwnedBy::Gateway,
        requires: Default::default(),
    };
    let now = rmp_serde::to_vec(&spec).unwrap();
    let required = rmp_serde::to_vec(&spec.requires).unwrap();
    // An array of eight fields, of which the requirements are the last.
    let mut before = now.strip_suffix(&required[..]).expect("they come last").to_vec();
    assert_eq!(before[0], 0x98);
    before[0] = 0x97;
    assert_eq!(sandbox::unpack::from_slice::<JobSpec>(&before).unwrap(), spec);
}
