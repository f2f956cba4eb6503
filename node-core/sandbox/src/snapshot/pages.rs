//! Memory in pages of 4 KiB: which differ from a base; and in blocks of four of them, which are
//! hashed.

use super::format::Pages;
use super::{BadSnapshot, Registers, Root};
use crate::engine::Instance;
use crate::memory::OutOfBounds;

/// Our choice, after measuring: with pages of 64 KiB fourteen times as much would be sent.
pub(super) const PAGE: usize = 4096;

/// Pages that are hashed together. Our choice: enough for the hash to run at full width (a page
/// alone takes three times as long a byte), and little to hash again when one of them changes.
const BLOCK: usize = 4;

const ZERO: &[u8; PAGE] = &[0; PAGE];

/// A copy of a task's memory, with the hash of each block as far as it was asked for.
#[derive(Default)]
pub(super) struct Memory {
    /// A multiple of a page long.
    bytes: Vec<u8>,
    hashes: Vec<Hash>,
}

/// The hash of every block of a memory.
pub(super) struct Hashes(Vec<Hash>);

impl Hashes {
    pub(super) fn of(&self, block: usize) -> Hash {
        self.0.get(block).copied().unwrap_or(Hash::Zero)
    }
}

#[derive(Clone, Copy, Default)]
pub(super) enum Hash {
    #[default]
    Unknown,
    /// All zero: not part of the state's hash, nor of a snapshot.
    Zero,
    Known(Root),
}

/// Pages that differ from a base, copied; and how long memory is now.
pub(super) struct Changes {
    pub(super) numbers: Vec<u32>,
    /// One behind the other.
    pub(super) pages: Vec<u8>,
    len: usize,
}

impl Changes {
    /// Writes them over a memory in which the first `placed` bytes are those of the base, and all
    /// others zero.
    pub(super) fn put(&self, placed: usize, instance: &mut impl Instance) -> Result<(), OutOfBounds> {
        for at in (self.len..placed).step_by(PAGE) {
            instance.write_memory(at as u64, ZERO)?;
        }
        for (number, page) in self.numbers.iter().zip(self.pages.chunks_exact(PAGE)) {
            instance.write_memory(u64::from(*number) * PAGE as u64, page)?;
        }
        Ok(())
    }
}

/// Compares words: where there is no `memcmp` but the compiler's own, as in WebAssembly, that
/// goes byte by byte. Without iterators, which are slow where nothing is optimised.
fn same(one: &[u8], other: &[u8]) -> bool {
    let ((ones, []), (others, [])) = (one.as_chunks::<16>(), other.as_chunks::<16>()) else {
        return one == other;
    };
    let mut i = 0;
    while i < ones.len() && i < others.len() {
        if u128::from_le_bytes(ones[i]) != u128::from_le_bytes(others[i]) {
            return false;
        }
        i += 1;
    }
    ones.len() == others.len()
}

fn is_zero(pages: &[u8]) -> bool {
    pages.chunks_exact(PAGE).all(|page| same(page, ZERO))
}

/// Hash of a block. The last block may be shorter than the others.
fn hash(block: &[u8]) -> Hash {
    if is_zero(block) { Hash::Zero } else { Hash::Known(blake3::hash(block).into()) }
}

/// Blocks in so many bytes.
fn blocks(len: usize) -> usize {
    len.div_ceil(BLOCK * PAGE)
}

fn rounded(len: u64) -> usize {
    (len as usize).next_multiple_of(PAGE)
}

impl Memory {
    /// Becomes a copy of the first `len` bytes of a task's memory.
    pub(super) fn copy(&mut self, instance: &mut impl Instance, len: u64) {
        let len = rounded(len);
        self.resize(len);
        instance.read_memory(len as u64, &mut |at, part| self.copy_part(at as usize, part));
    }

    fn resize(&mut self, len: usize) {
        // A block that is cut, or was, has another hash now.
        let stay = self.bytes.len().min(len) / (BLOCK * PAGE);
        if self.bytes.len() != len {
            self.bytes.resize(len, 0);
            self.hashes.truncate(stay);
            self.hashes.resize(blocks(len), Hash::Unknown);
        }
    }

    // Apart from the engine, whose crate may be compiled for size.
    fn copy_part(&mut self, at: usize, part: &[u8]) {
        let Some(own) = self.bytes.get_mut(at..at + part.len()) else { return };
        for (i, (page, own)) in part.chunks_exact(PAGE).zip(own.chunks_exact_mut(PAGE)).enumerate() {
            if !same(page, own) {
                own.copy_from_slice(page);
                self.hashes[(at / PAGE + i) / BLOCK] = Hash::Unknown;
            }
        }
    }

    /// Pages among the first `len` bytes of a task's memory that differ from this copy.
    pub(super) fn compare(&self, instance: &mut impl Instance, len: u64) -> Changes {
        let len = rounded(len);
        let mut changes = Changes { numbers: Vec::new(), pages: Vec::new(), len };
        instance.read_memory(len as u64, &mut |at, part| self.compare_part(at as usize, part, &mut changes));
        changes
    }

    fn compare_part(&self, at: usize, part: &[u8], changes: &mut Changes) {
        let first = at / PAGE;
        let part = &part[..part.len().min(changes.len.saturating_sub(at))];
        for (i, page) in part.chunks_exact(PAGE).enumerate() {
            if !same(page, self.page(first + i)) {
                changes.numbers.push((first + i) as u32);
                changes.pages.extend_from_slice(page);
            }
        }
    }

    /// Zero beyond its end: memory may have grown since.
    pub(super) fn page(&self, number: usize) -> &[u8] {
        self.bytes.get(number * PAGE..(number + 1) * PAGE).unwrap_or(ZERO)
    }

    /// The numbers of pages that are not zero.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        let pages = self.bytes.chunks_exact(PAGE).enumerate();
        pages.filter(|(_, page)| !same(page, ZERO)).map(|(number, _)| number as u32)
    }

    fn block(&self, number: usize) -> &[u8] {
        let begin = (number * BLOCK * PAGE).min(self.bytes.len());
        &self.bytes[begin..(begin + BLOCK * PAGE).min(self.bytes.len())]
    }

    /// Hashes of all blocks, computed anew.
    pub(super) fn hashes(&self) -> Hashes {
        Hashes((0..blocks(self.bytes.len())).map(|number| hash(self.block(number))).collect())
    }

    pub(super) fn remember(&mut self, hashes: Hashes) {
        if hashes.0.len() == self.hashes.len() {
            self.hashes = hashes.0;
        }
    }

    /// Hashes what is not known.
    fn complete(&mut self) {
        for number in 0..self.hashes.len() {
            if matches!(self.hashes[number], Hash::Unknown) {
                self.hashes[number] = hash(self.block(number));
            }
        }
    }

    /// [`Memory::root`] by the known hashes of blocks; the unknown ones are computed and kept
    /// first.
    pub(super) fn root_now(&mut self, registers: &Registers, changes: Option<&Changes>) -> Root {
        self.complete();
        self.root(registers, changes, |block| self.hashes.get(block).copied().unwrap_or(Hash::Zero))
    }

    /// The hash of the state of a task with these registers, and this memory with `changes`.
    /// `known`: the hash of each block of this memory.
    pub(super) fn root(
        &self,
        registers: &Registers,
        changes: Option<&Changes>,
        known: impl Fn(usize) -> Hash,
    ) -> Root {
        let mut hasher = blake3::Hasher::new();
        let mut head = Vec::new();
        super::format::put_registers(&mut head, registers);
        hasher.update(&(head.len() as u64).to_le_bytes());
        hasher.update(&head);
        let len = changes.map_or(self.bytes.len(), |changes| changes.len);
        let mut changed = changes.into_iter().flat_map(|c| c.numbers.iter().zip(c.pages.chunks_exact(PAGE)));
        let mut next = changed.next();
        let mut block = Vec::with_capacity(BLOCK * PAGE);
        for number in 0..blocks(len) {
            let pages = number * BLOCK..((number + 1) * BLOCK).min(len / PAGE);
            let is_own =
                pages.end * PAGE <= self.bytes.len() && (pages.len() == BLOCK || self.bytes.len() == len);
            let hash = match next {
                None if is_own => known(number),
                Some((page, _)) if is_own && *page as usize >= pages.end => known(number),
                _ => {
                    block.clear();
                    for number in pages {
                        match next {
                            Some((changed_number, page)) if *changed_number as usize == number => {
                                block.extend_from_slice(page);
                                next = changed.next();
                            }
                            _ => block.extend_from_slice(self.page(number)),
                        }
                    }
                    hash(&block)
                }
            };
            if let Hash::Known(root) = hash {
                hasher.update(&(number as u32).to_le_bytes());
                hasher.update(&root);
            }
        }
        hasher.finalize().into()
    }

    /// Memory out of a whole snapshot.
    pub(super) fn of(pages: &Pages<'_>, top: u32) -> Result<Memory, BadSnapshot> {
        let len = rounded(top.into());
        let mut memory = Memory { bytes: vec![0; len], hashes: vec![Hash::Unknown; blocks(len)] };
        pages.each(|number, page| {
            let at = number as usize * PAGE;
            memory.bytes.get_mut(at..at + PAGE).ok_or(BadSnapshot::Pages)?.copy_from_slice(page);
            Ok(())
        })?;
        Ok(memory)
    }

    /// Pages of this memory that a relative snapshot changes, with their new content.
    pub(super) fn changes(&self, pages: &Pages<'_>, top: u32) -> Result<Changes, BadSnapshot> {
        let mut changes = Changes { numbers: Vec::new(), pages: Vec::new(), len: rounded(top.into()) };
        pages.each(|number, page| {
            if number as usize >= changes.len / PAGE {
                return Err(BadSnapshot::Pages);
            }
            changes.numbers.push(number);
            changes.pages.extend(page.iter().zip(self.page(number as usize)).map(|(new, old)| new ^ old));
            Ok(())
        })?;
        Ok(changes)
    }

    /// Writes it, with `changes`, over a fresh instance's memory: zeros too, where data segments
    /// are.
    pub(super) fn put(
        &self,
        changes: Option<&Changes>,
        instance: &mut impl Instance,
    ) -> Result<(), OutOfBounds> {
        let len = changes.map_or(self.bytes.len(), |changes| changes.len);
        // Pages that are not zero are written without a look at the instance's memory; all its
        // other pages have to be zero.
        let own = &self.bytes[..len.min(self.bytes.len())];
        let used: Vec<bool> = own.chunks_exact(PAGE).map(|page| !same(page, ZERO)).collect();
        let mut stale = Vec::new();
        instance.read_memory(u64::MAX, &mut |at, part| {
            for (i, page) in part.chunks_exact(PAGE).enumerate() {
                let number = at as usize / PAGE + i;
                if !used.get(number).is_some_and(|used| *used) && !same(page, ZERO) {
                    stale.push(number);
                }
            }
        });
        for number in stale {
            instance.write_memory((number * PAGE) as u64, ZERO)?;
        }
        // In runs: a call for each page would cost a browser more than the bytes.
        let mut next = 0;
        for run in used.chunk_by(|a, b| a == b) {
            let range = next * PAGE..(next + run.len()) * PAGE;
            if run[0] {
                instance.write_memory(range.start as u64, &own[range])?;
            }
            next += run.len();
        }
        // Beyond `len` is nothing left of this memory.
        changes.map_or(Ok(()), |changes| changes.put(changes.len, instance))
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hashes of a task's memory with these pages.
    fn hashes(memory: &mut Memory) -> Vec<Option<Root>> {
        let root = |hash| match hash {
            Hash::Known(root) => Some(root),
            Hash::Zero | Hash::Unknown => None,
        };
        memory.complete();
        memory.hashes.iter().map(|hash| root(*hash)).collect()
    }

    #[test]
    fn a_memory_that_shrank_or_grew_has_the_hashes_of_one_that_was_always_so_long() {
        let content: Vec<u8> = (0..11 * PAGE).map(|i| (i / 7) as u8 | 1).collect();
        for (before, after) in [(11, 6), (11, 4), (9, 8), (8, 9), (6, 7), (3, 11), (5, 0)] {
            let of = |lengths: &[usize]| {
                let mut memory = Memory::default();
                for pages in lengths {
                    memory.resize(pages * PAGE);
                    memory.copy_part(0, &content[..pages * PAGE]);
                    hashes(&mut memory);
                }
                hashes(&mut memory)
            };
            assert_eq!(of(&[before, after]), of(&[after]), "{before} pages, then {after}");
        }
    }
}
