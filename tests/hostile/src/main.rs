//! `hostile up --join URL`: the native node with a liar between it and its peers. The environment says what
//! about; without `MH_HOSTILE` it is honest.
//!
//! | variable | meaning |
//! |---|---|
//! | `MH_HOSTILE` | the lie: `submit`, `buy`, `forge`, `ungranted`, `fail`, `big`, `path`, `blob`, `return` or `checkpoint` |
//! | `MH_COUNT` | units of the job that it lies about; 20 by default |
//! | `MH_JOB` | the id of that job, 32 hexadecimal digits, if it cannot know it from a grant |
//! | `MH_BLOB` | the program of a job that it gives: `ID` or `ID:BYTES` |

use bytes::Bytes;
use manyhands::lies::{Liar, Said, set};
use node_core::content::BlobRef;
use node_core::{Channel, JobId};
use simulator::liar;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

struct Lying(liar::Liar);

impl Liar for Lying {
    fn hears(&mut self, channel: Channel, bytes: &Bytes) -> Vec<(Channel, Bytes)> {
        let messages = self.0.hears(channel, bytes);
        if !messages.is_empty() {
            eprintln!("hostile: lied in {} messages", messages.len());
        }
        messages.iter().filter_map(|message| Some((message.channel(), message.encode()?))).collect()
    }

    fn says(&mut self, channel: Channel, bytes: &Bytes) -> Said {
        match self.0.says(channel, bytes) {
            liar::Said::Truly => Said::Truly,
            liar::Said::Instead(message) => {
                eprintln!("hostile: lied in a message");
                let bytes = message.encode();
                bytes.map_or(Said::Nothing, |bytes| Said::Instead(message.channel(), bytes))
            }
            liar::Said::Nothing => Said::Nothing,
        }
    }
}

fn main() -> ExitCode {
    match configured() {
        Ok(None) => {}
        Ok(Some(liar)) => set(Box::new(Lying(liar))),
        Err(why) => {
            eprintln!("hostile: {why}");
            return ExitCode::from(2);
        }
    }
    manyhands::main()
}

fn configured() -> Result<Option<liar::Liar>, String> {
    let Some(lie) = read("MH_HOSTILE")? else { return Ok(None) };
    let job = read::<JobId>("MH_JOB")?.unwrap_or_else(some_job);
    let liar = liar::Liar::new(lie, job, read("MH_COUNT")?.unwrap_or(20));
    Ok(Some(match std::env::var("MH_BLOB") {
        Ok(text) => liar::Liar { program: blob(&text)?, ..liar },
        Err(_) => liar,
    }))
}

fn read<T: FromStr<Err: ToString>>(name: &str) -> Result<Option<T>, String> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|e: T::Err| format!("{name}: {}", e.to_string()))
}

fn blob(text: &str) -> Result<BlobRef, String> {
    let (id, len) = text.split_once(':').unwrap_or((text, "0"));
    let id = id.parse().map_err(|e| format!("MH_BLOB: {e}"))?;
    Ok(BlobRef { id, len: len.parse().map_err(|e| format!("MH_BLOB: {e}"))? })
}

/// Another one for each run.
fn some_job() -> JobId {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    JobId((now.as_nanos() << 16 | u128::from(std::process::id() as u16)).to_be_bytes())
}
