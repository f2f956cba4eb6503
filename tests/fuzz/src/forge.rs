//! Snapshots taken apart and put together again by what is written about their format, and by
//! nothing that reads or writes them in the product: so that a state can be forged with the right
//! root, and so that the format is what it is said to be.

use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"MHSNAP\x01\x00";
pub(crate) const PAGE: usize = 4096;
const PAGES_A_PART: usize = 256;
const PAGES_A_BLOCK: u32 = 4;

/// A whole snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parts {
    /// Pass version, program, memory limit and floats.
    pub(crate) origin: Vec<u8>,
    pub(crate) fuel: u64,
    pub(crate) depth: i32,
    pub(crate) memory_pages: u32,
    pub(crate) top: u32,
    pub(crate) globals: Vec<(u8, u128)>,
    pub(crate) host: Vec<u8>,
    pub(crate) pages: BTreeMap<u32, Vec<u8>>,
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    fn number<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("as long as it was asked for")
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.number())
    }

    fn part(&mut self) -> Vec<u8> {
        let (len, packed) = (self.u32() as usize, self.u32() as usize);
        let packed = self.take(packed);
        if packed.len() == len {
            return packed.to_vec();
        }
        lz4_flex::block::decompress(packed, len).expect("a true part")
    }
}

/// As it stands: that it is not compressed harms nobody.
fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    for _ in 0..2 {
        out.extend((part.len() as u32).to_le_bytes());
    }
    out.extend(part);
}

/// A snapshot around any head.
pub(crate) fn with_head(head: &[u8], pages: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_part(&mut out, head);
    out.extend(pages);
    out
}

/// A true snapshot's head, unpacked, and its pages, which are not.
pub(crate) fn head_of(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut reader = Reader(bytes);
    reader.take(MAGIC.len());
    (reader.part(), reader.0)
}

impl Parts {
    /// Takes a true and whole snapshot apart.
    pub(crate) fn of(bytes: &[u8]) -> Parts {
        let (head, packed) = head_of(bytes);
        let mut head = Reader(&head);
        let origin = head.take(4 + 32 + 8 + 1).to_vec();
        let (fuel, depth) = (u64::from_le_bytes(head.number()), head.u32() as i32);
        let (memory_pages, top) = (head.u32(), head.u32());
        let count = head.u32();
        let mut global = || (head.take(1)[0], u128::from_le_bytes(head.number()));
        let globals = (0..count).map(|_| global()).collect();
        let len = head.u32() as usize;
        let host = head.take(len).to_vec();
        let root = head.take(32);
        assert_eq!(head.take(1), [0], "it is whole");
        let runs: Vec<(u32, u32)> = (0..head.u32()).map(|_| (head.u32(), head.u32())).collect();
        let numbers: Vec<u32> = runs.iter().flat_map(|(first, len)| *first..first + len).collect();
        let mut pages = BTreeMap::new();
        let mut packed = Reader(packed);
        for numbers in numbers.chunks(PAGES_A_PART) {
            let part = packed.part();
            let found = numbers.iter().copied().zip(part.chunks(PAGE).map(<[u8]>::to_vec));
            pages.extend(found);
        }
        let parts = Parts { origin, fuel, depth, memory_pages, top, globals, host, pages };
        assert_eq!(parts.root(), root, "the root is what it is said to be");
        parts
    }

    fn registers(&self) -> Vec<u8> {
        let mut out = self.origin.clone();
        out.extend(self.fuel.to_le_bytes());
        out.extend(self.depth.to_le_bytes());
        out.extend(self.memory_pages.to_le_bytes());
        out.extend(self.top.to_le_bytes());
        out.extend((self.globals.len() as u32).to_le_bytes());
        for (kind, bits) in &self.globals {
            out.push(*kind);
            out.extend(bits.to_le_bytes());
        }
        out.extend((self.host.len() as u32).to_le_bytes());
        out.extend(&self.host);
        out
    }

    /// Pages of 4 KiB that count.
    fn len(&self) -> u32 {
        self.top.div_ceil(PAGE as u32)
    }

    fn page(&self, number: u32) -> &[u8] {
        self.pages.get(&number).map_or(&[0; PAGE], |page| page)
    }

    /// The hash of the state that this is, or claims to be.
    pub(crate) fn root(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let registers = self.registers();
        hasher.update(&(registers.len() as u64).to_le_bytes());
        hasher.update(&registers);
        let mut blocks: Vec<u32> = self.pages.keys().map(|page| page / PAGES_A_BLOCK).collect();
        blocks.dedup();
        for block in blocks {
            let pages = block * PAGES_A_BLOCK..((block + 1) * PAGES_A_BLOCK).min(self.len());
            let bytes: Vec<u8> = pages.flat_map(|number| self.page(number)).copied().collect();
            if bytes.iter().any(|byte| *byte != 0) {
                hasher.update(&block.to_le_bytes());
                hasher.update(blake3::hash(&bytes).as_bytes());
            }
        }
        hasher.finalize().into()
    }

    /// Written down; relative to `base` if there is one.
    pub(crate) fn bytes(&self, base: Option<&Parts>) -> Vec<u8> {
        let same = |number: &u32| base.is_some_and(|base| base.page(*number) == self.page(*number));
        let zero = |number: &u32| self.page(*number).iter().all(|byte| *byte == 0);
        let all = self.pages.keys().chain(base.into_iter().flat_map(|base| base.pages.keys()));
        let mut numbers: Vec<u32> = all.copied().filter(|number| *number < self.len()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|number| if base.is_some() { !same(number) } else { !zero(number) });

        let mut head = self.registers();
        head.extend(self.root());
        head.push(base.is_some().into());
        head.extend(base.map(Parts::root).iter().flatten());
        let runs: Vec<&[u32]> = numbers.chunk_by(|a, b| a + 1 == *b).collect();
        head.extend((runs.len() as u32).to_le_bytes());
        for run in runs {
            head.extend(run[0].to_le_bytes());
            head.extend((run.len() as u32).to_le_bytes());
        }
        let mut pages = Vec::new();
        for numbers in numbers.chunks(PAGES_A_PART) {
            let part = numbers.iter().flat_map(|number| {
                let below = base.map_or(&[0; PAGE][..], |base| base.page(*number));
                self.page(*number).iter().zip(below).map(|(new, old)| new ^ old)
            });
            put_part(&mut pages, &part.collect::<Vec<u8>>());
        }
        with_head(&head, &pages)
    }

    /// All bytes from `first` to before `end`, to be changed.
    pub(crate) fn change(&mut self, first: u32, end: u32, change: impl FnOnce(&mut [u8])) {
        let pages = first / PAGE as u32..end.div_ceil(PAGE as u32);
        let mut bytes: Vec<u8> = pages.clone().flat_map(|number| self.page(number)).copied().collect();
        let from = (first as usize % PAGE).min(bytes.len());
        let to = from + (end.saturating_sub(first) as usize).min(bytes.len() - from);
        change(&mut bytes[from..to]);
        self.pages.extend(pages.zip(bytes.chunks(PAGE).map(<[u8]>::to_vec)));
    }
}
