//! The task's linear memory as the host sees it: a place of hostile numbers.

/// An address range that does not lie within the task's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("outside the task's memory")]
pub struct OutOfBounds;

/// The memory of a running task. Engines implement it over their own memory object; every
/// address and length that reaches it comes from the task and must be checked.
pub trait GuestMemory {
    /// Size now, in bytes.
    fn size(&self) -> u64;

    /// Fills `into` from address `at` on, or touches nothing.
    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), OutOfBounds>;

    /// Copies `from` to address `at` on, or touches nothing.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), OutOfBounds>;
}

/// A plain memory, for tests and for engines that can lend a slice.
impl GuestMemory for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), OutOfBounds> {
        let from = self.get(at as usize..).and_then(|rest| rest.get(..into.len())).ok_or(OutOfBounds)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), OutOfBounds> {
        let into =
            self.get_mut(at as usize..).and_then(|rest| rest.get_mut(..from.len())).ok_or(OutOfBounds)?;
        into.copy_from_slice(from);
        Ok(())
    }
}

/// A slice that an engine lends for one host call.
impl GuestMemory for &mut [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), OutOfBounds> {
        (**self).read(at, into)
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), OutOfBounds> {
        (**self).write(at, from)
    }
}

/// Operations of host functions on memory, in terms of the three methods above.
impl dyn GuestMemory + '_ {
    /// `Err` unless all of `at..at + len` lies within.
    pub(crate) fn check(&self, at: u32, len: u64) -> Result<(), OutOfBounds> {
        if u64::from(at) + len <= self.size() { Ok(()) } else { Err(OutOfBounds) }
    }

    /// A copy of a range. Allocates nothing for a range that is not there.
    pub(crate) fn bytes(&self, at: u32, len: u32) -> Result<Vec<u8>, OutOfBounds> {
        self.check(at, len.into())?;
        let mut bytes = vec![0; len as usize];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn u32(&self, at: u32) -> Result<u32, OutOfBounds> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), OutOfBounds> {
        self.write(at, &value.to_le_bytes())
    }

    pub(crate) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), OutOfBounds> {
        self.write(at, &value.to_le_bytes())
    }
}
