//! One frame of each message, as node-core's own test has it, and what is made of them.

use crate::bend::Bend;
use node_core::node::message::Message;
use node_core::wire::VERSION;
use node_core::{Channel, NodeId};
use rmpv::Value;
use std::sync::LazyLock;

/// More would only be slow.
const MOST_BENDS: usize = 8;

pub(crate) struct Golden {
    pub(crate) frame: Vec<u8>,
    /// The number of the service that it is for.
    pub(crate) service: u8,
    pub(crate) value: Value,
    pub(crate) message: Message,
}

static ALL: LazyLock<Vec<Golden>> = LazyLock::new(|| {
    let lines = include_str!("../../../node-core/tests/wire.golden").lines();
    let all: Vec<Golden> = lines.map(Golden::of).collect();
    assert!(all.len() > 100, "the golden frames are of every message");
    all
});

pub(crate) fn all() -> &'static [Golden] {
    &ALL
}

pub(crate) fn golden(which: u16) -> &'static Golden {
    &ALL[usize::from(which) % ALL.len()]
}

impl Golden {
    fn of(hex: &str) -> Golden {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        let frame: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let value = rmpv::decode::read_value(&mut &frame[2..]).expect("MessagePack");
        let message =
            [Channel::Control, Channel::Blob].iter().find_map(|on| Message::decode(&frame, *on).ok());
        Golden { value, message: message.expect("a message of ours"), service: frame[1], frame }
    }
}

/// The frame of a value, to a service.
pub(crate) fn frame_of(service: u8, value: &Value) -> Vec<u8> {
    let mut frame = vec![VERSION, service];
    rmpv::encode::write_value(&mut frame, value).expect("into memory");
    frame
}

pub(crate) fn bent(mut value: Value, bends: &[Bend]) -> Value {
    bends.iter().take(MOST_BENDS).for_each(|bend| bend.apply(&mut value));
    value
}

/// The golden frames name nodes by 32 equal bytes: those become nodes that are there.
pub(crate) fn cast(value: &mut Value, nodes: &[NodeId], first: u8) {
    match value {
        Value::Binary(bytes) if bytes.len() == 32 && bytes.iter().all(|byte| *byte == bytes[0]) => {
            let at = usize::from(bytes[0].wrapping_add(first)) % nodes.len();
            *bytes = nodes[at].0.to_vec();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| cast(item, nodes, first)),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, item)| cast(item, nodes, first)),
        _ => {}
    }
}

/// A message that decodes is the one that was meant: encoded again it decodes to the same.
pub(crate) fn comes_back(message: &Message, len: usize) {
    let Some(again) = message.encode() else {
        // A peer may write more tightly than this node does, within a few bytes a number.
        return assert!(len > node_core::wire::MAX_FRAME / 16, "{len} bytes became more than a frame");
    };
    assert_eq!(Message::decode(&again, message.channel()).as_ref(), Ok(message));
}
