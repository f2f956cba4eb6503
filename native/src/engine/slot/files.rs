//! Files that the node gives a slot to write snapshots into: one at a time, over the socket on which the slot
//! speaks. They can be written and nothing else.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::time::Timespec;
use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;

/// Bytes of a snapshot, at most: more than a task's memory. A file that grows beyond this ends the slot.
pub(super) const MOST: u64 = 5 << 30;

/// Seconds to wait for a file. The node gives one before it asks for a snapshot, and the next when it has heard
/// of that. Our choice: a slot of the lowest priority may need seconds to write the one before.
const PATIENCE_S: i64 = 30;

/// Writes these parts, one behind the other, into the next file. The descriptor is closed when this returns:
/// as long as it is open, the node has to copy what it names.
///
/// # Errors
/// In words, if there is no file or no room.
pub(super) fn write(parts: &[&[u8]]) -> Result<u64, String> {
    let mut file = receive().map_err(|error| format!("the node gave no file for its snapshot: {error}"))?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    written.map_err(|error| format!("its snapshot cannot be written: {error}; free some space"))?;
    Ok(parts.iter().map(|part| part.len() as u64).sum())
}

/// The next file.
pub(super) fn receive() -> io::Result<File> {
    let stdout = io::stdout();
    let patience = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
    loop {
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&patience)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // Each file comes with one byte, so that none is read together with another.
        let mut byte = [0];
        let received = recvmsg(&stdout, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::DONTWAIT);
        match received {
            Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => return Err(error.into()),
        }
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut files) = message
                && let Some(file) = files.next()
            {
                return Ok(file.into());
            }
        }
    }
}
