//! Arguments and environment.

use super::errno::{Done, Errno};
use super::process::PROGRAM_NAME;
use super::{BadTask, Host};
use crate::memory::GuestMemory;
use serde::{Deserialize, Serialize};

/// A list of strings as C programs take it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Strings(Vec<String>);

impl Strings {
    pub(super) fn arguments(arguments: &[String]) -> Result<Self, BadTask> {
        if let Some(index) = arguments.iter().position(|a| a.contains('\0')) {
            return Err(BadTask::NulInArgument { index: index + 1 });
        }
        let name = std::iter::once(PROGRAM_NAME.to_string());
        Ok(Strings(name.chain(arguments.iter().cloned()).collect()))
    }

    pub(super) fn environment(variables: &[(String, String)]) -> Result<Self, BadTask> {
        let bad = |name: &str, why| BadTask::Environment { name: name.chars().take(80).collect(), why };
        let join = |(name, value): &(String, String)| {
            if name.is_empty() || name.contains(['=', '\0']) {
                Err(bad(name, "has a name that is empty or holds '=' or NUL; rename it"))
            } else if value.contains('\0') {
                Err(bad(name, "has a value with a NUL character; remove it"))
            } else {
                Ok(format!("{name}={value}"))
            }
        };
        variables.iter().map(join).collect::<Result<_, _>>().map(Strings)
    }

    /// Writes how many there are and how many bytes they take, each with its NUL.
    fn sizes(&self, memory: &mut dyn GuestMemory, count: u32, size: u32) -> Done {
        let bytes: usize = self.0.iter().map(|s| s.len() + 1).sum();
        memory.put_u32(count, u32::try_from(self.0.len()).map_err(|_| Errno::Overflow)?)?;
        memory.put_u32(size, u32::try_from(bytes).map_err(|_| Errno::Overflow)?)?;
        Ok(())
    }

    /// Writes the strings one behind another to `buf`, and where each begins to `list`.
    fn write(&self, memory: &mut dyn GuestMemory, mut list: u32, mut buf: u32) -> Done {
        for s in &self.0 {
            memory.put_u32(list, buf)?;
            memory.write(buf, s.as_bytes())?;
            let end = u32::try_from(s.len()).ok().and_then(|len| buf.checked_add(len)).ok_or(Errno::Fault)?;
            memory.write(end, &[0])?;
            // Past the end of memory the next write fails anyway.
            buf = end.saturating_add(1);
            list = list.saturating_add(4);
        }
        Ok(())
    }
}

pub(super) fn args_get(host: &mut Host, memory: &mut dyn GuestMemory, argv: u32, buf: u32) -> Done {
    host.arguments.write(memory, argv, buf)
}

pub(super) fn args_sizes_get(host: &mut Host, memory: &mut dyn GuestMemory, count: u32, size: u32) -> Done {
    host.arguments.sizes(memory, count, size)
}

pub(super) fn environ_get(host: &mut Host, memory: &mut dyn GuestMemory, environ: u32, buf: u32) -> Done {
    host.environment.write(memory, environ, buf)
}

pub(super) fn environ_sizes_get(
    host: &mut Host,
    memory: &mut dyn GuestMemory,
    count: u32,
    size: u32,
) -> Done {
    host.environment.sizes(memory, count, size)
}
