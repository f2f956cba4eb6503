//! Settings as the page has them, read strictly: what is none is named, and its default holds.

use crate::status;
use node_core::trust::policy::Policy;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A value as JavaScript has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Setting>),
    Group(Vec<(String, Setting)>),
}

/// A setting that does not count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub key: String,
    pub message: String,
}

/// The policy that these settings make. One that is none by itself is left out; if the others
/// contradict each other, none of them counts.
pub fn read(set: Vec<(String, Setting)>) -> (Policy, Vec<Fault>) {
    let (mut good, mut faults) = (Vec::new(), Vec::new());
    for entry in set {
        match policy_of(vec![entry.clone()]) {
            Ok(_) => good.push(entry),
            Err(why) => faults.push(Fault { key: entry.0, message: why.to_string() }),
        }
    }
    let policy = match policy_of(good) {
        Ok(policy) => policy,
        // A setting that stands twice, which JavaScript's objects cannot have.
        Err(why) => {
            faults.push(Fault { key: String::new(), message: why.to_string() });
            Policy::default()
        }
    };
    let contradictions = policy.check();
    if contradictions.is_empty() {
        return (policy, faults);
    }
    let fault = |it: &node_core::trust::policy::Contradiction| Fault {
        key: it.key().into(),
        message: it.to_string(),
    };
    faults.extend(contradictions.iter().map(fault));
    (Policy::default(), faults)
}

fn policy_of(set: Vec<(String, Setting)>) -> Result<Policy, Error> {
    Policy::deserialize(MapDeserializer::new(set.into_iter()))
}

/// `[{"key": …, "message": …}, …]`
pub fn faults_json(faults: &[Fault]) -> String {
    let each = |out: &mut String, fault: &Fault| {
        out.push_str(r#"{"key":"#);
        status::text(out, &fault.key);
        out.push_str(r#","message":"#);
        status::text(out, &fault.message);
        out.push('}');
    };
    status::list(faults, each)
}

impl<'de> IntoDeserializer<'de> for Setting {
    type Deserializer = Setting;
    fn into_deserializer(self) -> Setting {
        self
    }
}

impl<'de> Deserializer<'de> for Setting {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Setting::Nothing => visitor.visit_unit(),
            Setting::Bool(value) => visitor.visit_bool(value),
            // JavaScript has one kind of number; those above are not whole for certain.
            Setting::Number(n) if n.fract() == 0.0 && (0.0..9e15).contains(&n) => visitor.visit_u64(n as u64),
            Setting::Number(n) => visitor.visit_f64(n),
            Setting::Text(text) => visitor.visit_string(text),
            Setting::List(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter())),
            Setting::Group(group) => visitor.visit_map(MapDeserializer::new(group.into_iter())),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Setting::Nothing => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
