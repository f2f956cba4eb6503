//! Changes of what is MessagePack that leave it MessagePack.

use arbitrary::Arbitrary;
use rmpv::Value;

/// One change of a MessagePack value: the value at a place, counted in the order in which they lie there.
#[derive(Arbitrary, Debug)]
pub(crate) struct Bend {
    at: u16,
    to: To,
}

#[derive(Arbitrary, Debug)]
enum To {
    Number(u64),
    /// Near the end of what a number can be.
    Huge(u8),
    Near(i8),
    Text(u16),
    Bytes(u16),
    Nothing,
    /// Once more, with the next key.
    Twice,
    Gone,
    /// The value of another place.
    Other(u16),
}

impl Bend {
    pub(crate) fn apply(&self, value: &mut Value) {
        let count = count(value);
        let other = match self.to {
            To::Other(at) => find(value, &mut (usize::from(at) % count)).cloned(),
            _ => None,
        };
        let Some(found) = find(value, &mut (usize::from(self.at) % count)) else { return };
        match self.to {
            To::Number(number) => *found = number.into(),
            To::Huge(less) => *found = (u64::MAX - u64::from(less)).into(),
            To::Near(more) => {
                let number = found.as_u64().unwrap_or_default();
                *found = number.saturating_add_signed(more.into()).into();
            }
            To::Text(len) => *found = "n".repeat(usize::from(len) % 9000).into(),
            To::Bytes(len) => *found = vec![5_u8; len.into()].into(),
            To::Nothing => *found = Value::Nil,
            To::Twice => match found {
                Value::Array(items) => items.extend(items.last().cloned()),
                Value::Map(entries) => {
                    let Some((key, value)) = entries.last().cloned() else { return };
                    let key = match key.as_u64() {
                        Some(number) => number.wrapping_add(1).into(),
                        None => "twice".into(),
                    };
                    entries.push((key, value));
                }
                _ => {}
            },
            To::Gone => match found {
                Value::Array(items) => drop(items.pop()),
                Value::Map(entries) => drop(entries.pop()),
                _ => {}
            },
            To::Other(_) => *found = other.unwrap_or(Value::Nil),
        }
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Map(entries) => entries.iter().map(|(key, value)| count(key) + count(value)).sum(),
        _ => 0,
    }
}

/// The value that so many come before.
fn find<'v>(value: &'v mut Value, before: &mut usize) -> Option<&'v mut Value> {
    if *before == 0 {
        return Some(value);
    }
    *before -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find(item, before)),
        Value::Map(entries) => {
            entries.iter_mut().find_map(|(key, value)| find(key, before).or_else(|| find(value, before)))
        }
        _ => None,
    }
}
