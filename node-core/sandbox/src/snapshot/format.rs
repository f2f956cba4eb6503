//! A snapshot's bytes. All numbers are little-endian.
//!
//! ```text
//! magic   8   "MHSNAP" and the format's number, 2 bytes
//! head        one part: registers, root (32), 1 and the base's root (32) or 0,
//!             number of runs of pages (4), each its first page and its length (4 + 4)
//! pages       parts of at most 1 MiB: the pages one behind the other, if there is a base
//!             each XOR the base's
//! part        length (4), length as it stands (4), LZ4 block; the bytes themselves if that is no
//!             shorter
//! ```
//! Registers: pass version (4), program (32), memory limit (8), bit-exact (1), fuel (8), depth (4), memory pages
//! (4), top (4), number of globals (4), each its type (1) and bits (16), length of the host's
//! state (4), the host's state (MessagePack).

use super::pages::{Changes, Memory, PAGE};
use super::{Origin, Registers, Root};
use crate::instrument::{FRAME_PAGES, INSTRUMENT_VERSION};
use crate::module::PAGE as WASM_PAGE;

const MAGIC: &[u8; 8] = b"MHSNAP\x01\x00";

/// Bytes of a part before it is compressed. Our choice: far beyond what LZ4 looks back.
const PART: usize = 1 << 20;

/// Longest head. Our choice: what a task may write at most by default, twice, and its run list.
const HEAD_MAX: usize = 256 << 20;

/// Bytes of a global.
const GLOBAL: usize = 1 + 16;

/// Bytes that are no snapshot which can go on here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSnapshot {
    #[error("it is no snapshot, or one of another format")]
    Magic,
    #[error("it is cut off or damaged")]
    Damaged,
    #[error("it was taken of another program")]
    OtherProgram,
    #[error("it was taken under another memory limit or with other floats")]
    OtherLimit,
    #[error(
        "it was taken under version {0} of the pass that makes programs suspendable, and this node has \
         version {INSTRUMENT_VERSION}; run the unit from its start, or on a node of the same release"
    )]
    OtherVersion(u32),
    #[error("its pages do not lie in its memory")]
    Pages,
    #[error("it is relative to another snapshot, which is needed too")]
    NeedsBase,
    #[error("it is relative to another snapshot than the one at hand")]
    OtherBase,
    #[error("its content is not what its hash says")]
    Root,
}

/// Content of a snapshot that was read.
pub(super) struct Parts<'a> {
    pub(super) registers: Registers,
    pub(super) root: Root,
    pub(super) base: Option<Root>,
    pub(super) pages: Pages<'a>,
}

pub(super) fn put_registers(into: &mut Vec<u8>, registers: &Registers) {
    let Registers { version, origin, fuel, depth, memory_pages, top, globals, host } = registers;
    into.extend(version.to_le_bytes());
    into.extend(origin.program);
    into.extend(origin.memory_limit.to_le_bytes());
    into.push(origin.bit_exact.into());
    into.extend(fuel.to_le_bytes());
    into.extend(depth.to_le_bytes());
    into.extend(memory_pages.to_le_bytes());
    into.extend(top.to_le_bytes());
    into.extend((globals.len() as u32).to_le_bytes());
    for (kind, bits) in globals {
        into.push(*kind);
        into.extend(bits.to_le_bytes());
    }
    into.extend((host.len() as u32).to_le_bytes());
    into.extend(host);
}

pub(super) fn write(
    registers: &Registers,
    root: &Root,
    base: Option<&Root>,
    memory: &Memory,
    changes: Option<&Changes>,
) -> Vec<u8> {
    let numbers = match changes {
        Some(changes) => changes.numbers.clone(),
        None => memory.used().collect(),
    };
    let mut head = Vec::new();
    put_registers(&mut head, registers);
    head.extend(root);
    match base {
        Some(base) => {
            head.push(1);
            head.extend(base);
        }
        None => head.push(0),
    }
    let runs: Vec<&[u32]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
    head.extend((runs.len() as u32).to_le_bytes());
    for run in runs {
        head.extend(run[0].to_le_bytes());
        head.extend((run.len() as u32).to_le_bytes());
    }
    let mut out = MAGIC.to_vec();
    put_part(&mut out, &head);
    let mut part = Vec::with_capacity(PART.min(numbers.len() * PAGE));
    for (i, number) in numbers.iter().enumerate() {
        let own = memory.page(*number as usize);
        match changes {
            None => part.extend_from_slice(own),
            Some(changes) => {
                let page = &changes.pages[i * PAGE..(i + 1) * PAGE];
                part.extend(page.iter().zip(own).map(|(new, old)| new ^ old));
            }
        }
        if part.len() == PART || i + 1 == numbers.len() {
            put_part(&mut out, &part);
            part.clear();
        }
    }
    out
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    let packed = lz4_flex::block::compress(part);
    // A part that cannot be compressed is stored as it stands, and read at the speed of memory.
    let as_it_stands = if packed.len() < part.len() { &packed[..] } else { part };
    out.extend((part.len() as u32).to_le_bytes());
    out.extend((as_it_stands.len() as u32).to_le_bytes());
    out.extend(as_it_stands);
}

/// Takes bytes from the front, or says that they are not there.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadSnapshot> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadSnapshot::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadSnapshot> {
        self.take(N)?.try_into().map_err(|_| BadSnapshot::Damaged)
    }

    fn u32(&mut self) -> Result<u32, BadSnapshot> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadSnapshot> {
        self.array().map(u64::from_le_bytes)
    }

    /// A part that is at most `max` bytes long when it is unpacked.
    fn part(&mut self, max: usize) -> Result<Vec<u8>, BadSnapshot> {
        let (len, packed) = self.packed()?;
        if len > max {
            return Err(BadSnapshot::Damaged);
        }
        let mut scratch = Vec::new();
        Ok(unpack(packed, len, &mut scratch)?.to_vec())
    }

    /// A part's length, and its bytes as they are.
    fn packed(&mut self) -> Result<(usize, &'a [u8]), BadSnapshot> {
        let (len, packed) = (self.u32()? as usize, self.u32()? as usize);
        let packed = self.take(packed)?;
        // LZ4 packs at most 255 to one: a promise beyond that is a lie that shall cost nothing.
        if len / 255 > packed.len() { Err(BadSnapshot::Damaged) } else { Ok((len, packed)) }
    }
}

/// The bytes of a part: as they stand, or made in `scratch`.
fn unpack<'a>(packed: &'a [u8], len: usize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8], BadSnapshot> {
    if packed.len() == len {
        return Ok(packed);
    }
    scratch.resize(len, 0);
    match lz4_flex::block::decompress_into(packed, scratch) {
        Ok(written) if written == len => Ok(scratch),
        _ => Err(BadSnapshot::Damaged),
    }
}

/// Pages that were not unpacked yet.
pub(super) struct Pages<'a> {
    numbers: Vec<u32>,
    packed: &'a [u8],
}

impl Pages<'_> {
    /// Shows each page with its number, in order.
    pub(super) fn each(
        &self,
        mut show: impl FnMut(u32, &[u8]) -> Result<(), BadSnapshot>,
    ) -> Result<(), BadSnapshot> {
        let mut reader = Reader(self.packed);
        let mut scratch = Vec::new();
        for numbers in self.numbers.chunks(PART / PAGE) {
            let (len, packed) = reader.packed()?;
            if len != numbers.len() * PAGE {
                return Err(BadSnapshot::Damaged);
            }
            let part = unpack(packed, len, &mut scratch)?;
            for (number, page) in numbers.iter().zip(part.chunks_exact(PAGE)) {
                show(*number, page)?;
            }
        }
        if reader.0.is_empty() { Ok(()) } else { Err(BadSnapshot::Damaged) }
    }
}

pub(super) fn read<'a>(bytes: &'a [u8], origin: &Origin) -> Result<Parts<'a>, BadSnapshot> {
    let mut reader = Reader(bytes);
    if reader.array().map_err(|_| BadSnapshot::Magic)? != *MAGIC {
        return Err(BadSnapshot::Magic);
    }
    let head = reader.part(HEAD_MAX)?;
    let mut head = Reader(&head);
    let registers = registers(&mut head, origin)?;
    let root = head.array()?;
    let base = match head.array::<1>()? {
        [0] => None,
        [1] => Some(head.array()?),
        _ => return Err(BadSnapshot::Damaged),
    };
    let limit = registers.top.div_ceil(PAGE as u32);
    let mut numbers = Vec::new();
    let mut next = 0;
    for _ in 0..head.u32()? {
        let (first, len) = (head.u32()?, head.u32()?);
        let end = first.checked_add(len).filter(|end| *end <= limit).ok_or(BadSnapshot::Pages)?;
        // In order, and each run as long as it can be: one state has one form.
        if len == 0 || first < next {
            return Err(BadSnapshot::Pages);
        }
        numbers.extend(first..end);
        next = end + 1;
    }
    if !head.0.is_empty() {
        return Err(BadSnapshot::Damaged);
    }
    let pages = Pages { numbers, packed: reader.0 };
    Ok(Parts { registers, root, base, pages })
}

fn registers(head: &mut Reader<'_>, origin: &Origin) -> Result<Registers, BadSnapshot> {
    let version = head.u32()?;
    if version != INSTRUMENT_VERSION {
        return Err(BadSnapshot::OtherVersion(version));
    }
    let (program, memory_limit) = (head.array()?, head.u64()?);
    let bit_exact = match head.array()? {
        [0] => false,
        [1] => true,
        _ => return Err(BadSnapshot::Damaged),
    };
    let of = Origin { program, memory_limit, bit_exact };
    if of.program != origin.program {
        return Err(BadSnapshot::OtherProgram);
    }
    if of != *origin {
        return Err(BadSnapshot::OtherLimit);
    }
    let (fuel, depth) = (head.u64()?, head.u32()? as i32);
    let (memory_pages, top) = (head.u32()?, head.u32()?);
    let most = origin.memory_limit / WASM_PAGE + u64::from(FRAME_PAGES);
    if u64::from(memory_pages) > most || u64::from(top) > u64::from(memory_pages) * WASM_PAGE {
        return Err(BadSnapshot::Pages);
    }
    let count = head.u32()? as usize;
    // The promised globals have to be there before room is made for them.
    if count > head.0.len() / GLOBAL {
        return Err(BadSnapshot::Damaged);
    }
    let mut globals = Vec::with_capacity(count);
    for _ in 0..count {
        let [kind] = head.array()?;
        globals.push((kind, u128::from_le_bytes(head.array()?)));
    }
    let len = head.u32()? as usize;
    let host = head.take(len)?.to_vec();
    Ok(Registers { version, origin: of, fuel, depth, memory_pages, top, globals, host })
}
