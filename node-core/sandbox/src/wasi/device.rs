//! Files under `/swarm`: how a program speaks to the other threads of its virtual computer. `docs/task-api.md` is
//! their specification.

use super::errno::{Done, Errno, Stop};
use super::output::Output;
use crate::swarm::{
    Choice, Ended, MESSAGE_MAX, NAME_MAX, Question, Reply, SpawnRefused, SwapRefused, Swarm, Tell, VALUE_MAX,
    Wait,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Version of `docs/task-api.md`.
const VERSION: &str = "1";

/// Directory of the files.
pub(super) const FOLDER: &str = "swarm";

/// An open file under `/swarm`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Device {
    /// Something that does not change while it is open.
    Text(Text),
    To(u32),
    From(u32),
    Any,
    /// Number of the thread that was begun last.
    Spawn(Text),
    End {
        thread: u32,
        text: Option<Text>,
    },
    Global {
        name: String,
        /// Version that this descriptor has read.
        seen: Option<u64>,
        /// A later one, which did not fit into the program's buffer.
        fresh: Option<(u64, Bytes)>,
    },
    Report,
}

/// Bytes, and how far they were read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Text {
    bytes: Bytes,
    at: usize,
}

impl Text {
    fn new(text: impl Into<Bytes>) -> Text {
        Text { bytes: text.into(), at: 0 }
    }

    fn read(&mut self, most: u64) -> Bytes {
        let rest = self.bytes.slice(self.at.min(self.bytes.len())..);
        let part = rest.slice(..rest.len().min(usize::try_from(most).unwrap_or(usize::MAX)));
        self.at += part.len();
        part
    }
}

/// The part of a path below `/swarm`; none: it leads elsewhere.
pub(super) fn below(path: &str) -> Option<Vec<&str>> {
    let mut parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    (parts.next() == Some(FOLDER)).then(|| parts.collect())
}

impl Device {
    pub(super) fn open(parts: &[&str], swarm: &Swarm) -> Result<Device, Errno> {
        let number = |text: &str| {
            // As numbers are written: "07" and "+7" are other names.
            let number = text.parse::<u32>().ok().filter(|number| number.to_string() == text);
            number.ok_or(Errno::NoEnt)
        };
        let line = |value: String| Device::Text(Text::new(value + "\n"));
        let thread = swarm.thread();
        Ok(match *parts {
            ["version"] => line(VERSION.into()),
            ["self"] => line(thread.number.to_string()),
            ["workers"] => line(thread.workers.to_string()),
            ["spawn"] => Device::Spawn(Text::default()),
            ["report"] => Device::Report,
            ["to", to] => Device::To(number(to)?),
            ["from", "any"] => Device::Any,
            ["from", from] => Device::From(number(from)?),
            ["end", thread] => Device::End { thread: number(thread)?, text: None },
            ["globals", name] if is_name(name) => {
                Device::Global { name: name.into(), seen: None, fresh: None }
            }
            ["globals", _] => return Err(Errno::Inval),
            [] | ["to" | "from" | "end" | "globals"] => return Err(Errno::IsDir),
            _ => return Err(Errno::NoEnt),
        })
    }

    /// Next bytes of it, at most `most`; empty: its end. `wait`: not before there are some.
    pub(super) fn read(&mut self, swarm: &mut Swarm, most: u64, wait: bool) -> Done<Bytes> {
        match self {
            Device::Text(text) | Device::Spawn(text) => Ok(text.read(most)),
            Device::From(from) => message(swarm, Some(*from), most, wait),
            Device::Any => message(swarm, None, most, wait),
            Device::End { text: Some(text), .. } => Ok(text.read(most)),
            Device::End { thread, text } => {
                let question = || Question::End { thread: *thread, wait };
                let Some(Reply::End(end)) = swarm.ask(question) else { return Err(Wait::Answer.into()) };
                let Ended { how, output } = end.ok_or(Errno::Again)?;
                let mut all = how.into_bytes();
                all.push(b'\n');
                all.extend_from_slice(&output);
                Ok(text.insert(Text::new(all)).read(most))
            }
            Device::Global { name, seen, fresh } => {
                if fresh.is_none() {
                    let question = || Question::Global { name: name.clone(), seen: *seen, wait };
                    let Some(Reply::Global(version, value)) = swarm.ask(question) else {
                        return Err(Wait::Answer.into());
                    };
                    if seen.is_some_and(|seen| version <= seen) {
                        return Err(Errno::Again.into());
                    }
                    *fresh = Some((
                        version,
                        Bytes::from([version.to_string().as_bytes(), b"\n", &value].concat()),
                    ));
                }
                let (version, value) =
                    fresh.take_if(|(_, value)| value.len() as u64 <= most).ok_or(Errno::MsgSize)?;
                // One that the program has not seen, it cannot replace.
                *seen = Some(version);
                Ok(value)
            }
            Device::To(_) | Device::Report => Err(Errno::BadF.into()),
        }
    }

    /// Takes one write, whole.
    pub(super) fn write(&mut self, swarm: &mut Swarm, output: &mut Output, data: &[u8]) -> Done {
        let room = |has_room: bool| if has_room { Ok(()) } else { Err(Stop::from(Wait::Room)) };
        let fits = |most: usize| if data.len() <= most { Ok(()) } else { Err(Stop::from(Errno::MsgSize)) };
        match self {
            _ if data.is_empty() => Ok(()),
            Device::To(to) => {
                fits(MESSAGE_MAX)?;
                room(swarm.send(*to, Bytes::copy_from_slice(data)))
            }
            Device::Report => {
                fits(VALUE_MAX)?;
                room(swarm.tell(Tell::Report(Bytes::copy_from_slice(data))))?;
                swarm.reported(data.len() as u64);
                output.charge(data.len() as u64)
            }
            Device::Spawn(text) => {
                fits(MESSAGE_MAX)?;
                let (first, input) = line(data);
                let first = std::str::from_utf8(first).map_err(|_| Errno::IlSeq)?;
                if first.contains('\0') {
                    return Err(Errno::Inval.into());
                }
                let question = || Question::Spawn {
                    arguments: first.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect(),
                    input: Bytes::copy_from_slice(input),
                };
                match swarm.ask(question) {
                    Some(Reply::Spawn(Ok(number))) => *text = Text::new(format!("{number}\n")),
                    Some(Reply::Spawn(Err(SpawnRefused::Quota))) => return Err(Errno::DQuot.into()),
                    Some(Reply::Spawn(Err(SpawnRefused::TooLong))) => return Err(Errno::TooBig.into()),
                    _ => return Err(Wait::Answer.into()),
                }
                Ok(())
            }
            Device::Global { name, seen, fresh } => {
                if data.len() > VALUE_MAX {
                    return Err(Errno::FBig.into());
                }
                let question = || {
                    let value = Bytes::copy_from_slice(data);
                    Question::Swap { name: name.clone(), version: seen.unwrap_or(0), value }
                };
                match swarm.ask(question) {
                    Some(Reply::Swap(Ok(version))) => (*seen, *fresh) = (Some(version), None),
                    Some(Reply::Swap(Err(SwapRefused::Changed))) => return Err(Errno::Busy.into()),
                    Some(Reply::Swap(Err(SwapRefused::Full))) => return Err(Errno::NoSpc.into()),
                    _ => return Err(Wait::Answer.into()),
                }
                Ok(())
            }
            Device::Text(_) | Device::From(_) | Device::Any | Device::End { .. } => Err(Errno::BadF.into()),
        }
    }
}

/// The next message; from any thread: with a line before it that says from which.
fn message(swarm: &mut Swarm, of: Option<u32>, most: u64, wait: bool) -> Done<Bytes> {
    if !wait && swarm.found_nothing() {
        return Err(Errno::Again.into());
    }
    // A read that waits for one thread finds the same in every run.
    let is_choice = of.is_none() || !wait;
    let from = of.or_else(|| swarm.first());
    let found = from.and_then(|from| Some((from, swarm.length(from)?)));
    let Some((from, length)) = found else {
        if wait || swarm.is_repeated() {
            return Err(of.map_or(Wait::Any, Wait::From).into());
        }
        return if swarm.chose(Choice::Nothing(1)) {
            Err(Errno::Again.into())
        } else {
            Err(Wait::Room.into())
        };
    };
    let head = if of.is_none() { format!("{from}\n") } else { String::new() };
    if (head.len() + length) as u64 > most {
        return Err(Errno::MsgSize.into());
    }
    if is_choice && !swarm.chose(Choice::From(from)) {
        return Err(Wait::Room.into());
    }
    let message = swarm.take(from).unwrap_or_default();
    Ok(if of.is_none() { [head.as_bytes(), &message].concat().into() } else { message })
}

/// The first line, and what follows.
fn line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}

fn is_name(name: &str) -> bool {
    let is_clear = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_');
    !name.starts_with('.') && (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_clear)
}
