//! Verified chunks of a blob.
//!
//! A blob is named by its blake3 hash, which is itself a tree over its content. The chaining
//! values of its chunks prove themselves against the name, and each chunk proves itself
//! against its chaining value; so a bad chunk is refused as it arrives, not at the end.

use crate::ids::BlobId;
use blake3::hazmat::{ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};

/// Bytes of a chunk, a power of two of blake3's own chunks. Our choice: four fit a frame.
pub const CHUNK: u64 = 256 << 10;

/// How many chunks a blob of `len` bytes has; an empty one has one.
pub fn chunks(len: u64) -> u32 {
    len.div_ceil(CHUNK).max(1) as u32
}

/// Bytes of chunk `index`.
pub fn chunk_len(len: u64, index: u32) -> u32 {
    (len - u64::from(index) * CHUNK).min(CHUNK) as u32
}

/// The chaining value of a chunk of a blob that has several.
pub fn chaining_value(index: u32, bytes: &[u8]) -> ChainingValue {
    blake3::Hasher::new().set_input_offset(u64::from(index) * CHUNK).update(bytes).finalize_non_root()
}

/// Whether these are the chaining values of the blob's chunks.
pub fn proves(id: BlobId, len: u64, values: &[ChainingValue]) -> bool {
    values.len() == chunks(len) as usize && values.len() > 1 && {
        let (left, right) = split(values);
        let root = merge_subtrees_root(&merge(left), &merge(right), Mode::Hash);
        *root.as_bytes() == id.0
    }
}

/// Whether `bytes` are chunk `index` of the blob; `values` as accepted by [`proves`], empty
/// for a blob of one chunk.
pub fn verifies(id: BlobId, values: &[ChainingValue], index: u32, bytes: &[u8]) -> bool {
    match values {
        [] => index == 0 && BlobId::of(bytes) == id,
        _ => values.get(index as usize) == Some(&chaining_value(index, bytes)),
    }
}

/// blake3's left subtree is the largest power of two that leaves something for the right.
fn split(values: &[ChainingValue]) -> (&[ChainingValue], &[ChainingValue]) {
    values.split_at(values.len().next_power_of_two() / 2)
}

fn merge(values: &[ChainingValue]) -> ChainingValue {
    match values {
        [one] => *one,
        _ => {
            let (left, right) = split(values);
            merge_subtrees_non_root(&merge(left), &merge(right), Mode::Hash)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(len: u64) -> Vec<u8> {
        (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 18)) as u8).collect()
    }

    fn values(bytes: &[u8]) -> Vec<ChainingValue> {
        bytes.chunks(CHUNK as usize).enumerate().map(|(i, c)| chaining_value(i as u32, c)).collect()
    }

    #[test]
    fn chunks_of_any_number_prove_themselves_against_the_plain_hash() {
        for len in [CHUNK + 1, 2 * CHUNK, 3 * CHUNK - 5, 5 * CHUNK + 17, 8 * CHUNK, 9 * CHUNK] {
            let bytes = blob(len);
            let id = BlobId::of(&bytes);
            let values = values(&bytes);
            assert!(proves(id, len, &values), "{len} bytes");
            for (i, chunk) in bytes.chunks(CHUNK as usize).enumerate() {
                assert_eq!(chunk.len() as u32, chunk_len(len, i as u32));
                assert!(verifies(id, &values, i as u32, chunk));
            }
        }
    }

    #[test]
    fn a_small_blob_is_its_own_proof() {
        for bytes in [blob(0), blob(1), blob(CHUNK)] {
            assert_eq!(chunks(bytes.len() as u64), 1);
            assert!(verifies(BlobId::of(&bytes), &[], 0, &bytes));
        }
    }

    #[test]
    fn a_changed_bit_a_swapped_chunk_and_a_forged_list_are_refused() {
        let mut bytes = blob(3 * CHUNK);
        let id = BlobId::of(&bytes);
        let good = values(&bytes);
        assert!(!verifies(id, &good, 1, &bytes[..CHUNK as usize]));
        let mut forged = good.clone();
        forged.swap(0, 1);
        assert!(!proves(id, 3 * CHUNK, &forged));
        assert!(!proves(id, 3 * CHUNK, &good[..2]));
        assert!(!proves(id, 3 * CHUNK, &[]));
        bytes[5] ^= 1;
        assert!(!verifies(id, &good, 0, &bytes[..CHUNK as usize]));
    }
}
