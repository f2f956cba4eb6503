//! Searches a part of all numbers for the one that, written behind a text, gives the SHA-256 hash
//! with the most zero bits in front. Parts are independent, so a swarm searches many at once.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).flat_map(|argument| argument.parse()).collect();
    let (Some(text), &[part, size @ 1..=u64::MAX]) = (arguments.first(), &numbers[..]) else {
        eprintln!("usage: sha256-search TEXT PART SIZE   tries the SIZE numbers from PART × SIZE on");
        return ExitCode::from(2);
    };
    let Some(end) = part.checked_add(1).and_then(|next| next.checked_mul(size)) else {
        eprintln!("sha256-search: part {part} of size {size} goes beyond 64 bits");
        return ExitCode::from(2);
    };
    let (mut best, mut best_hash) = (0, [u32::MAX; 8]);
    for number in end - size..end {
        let hash = sha256(format!("{text}{number}").as_bytes());
        if hash < best_hash {
            (best, best_hash) = (number, hash);
        }
    }
    let hex: String = best_hash.iter().map(|word| format!("{word:08x}")).collect();
    println!("{hex} {text}{best}");
    ExitCode::SUCCESS
}

/// FIPS 180-4; the initial state and the round constants are computed as it defines them.
fn sha256(message: &[u8]) -> [u32; 8] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = INITIAL;
    for block in padded.chunks_exact(64) {
        compress(&mut state, block);
    }
    state
}

fn compress(state: &mut [u32; 8], block: &[u8]) {
    let mut w = [0; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..64 {
        let s0 = w[i - 15].rotate_right(7) ^ w[i - 15].rotate_right(18) ^ (w[i - 15] >> 3);
        let s1 = w[i - 2].rotate_right(17) ^ w[i - 2].rotate_right(19) ^ (w[i - 2] >> 10);
        w[i] = s0.wrapping_add(s1).wrapping_add(w[i - 16]).wrapping_add(w[i - 7]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for i in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(ROUNDS[i]).wrapping_add(w[i]);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

/// The first 32 bits behind the point of the square roots of the first 8 primes.
const INITIAL: [u32; 8] = fractions::<8>(2);
/// The first 32 bits behind the point of the cube roots of the first 64 primes.
const ROUNDS: [u32; 64] = fractions::<64>(3);

const fn fractions<const N: usize>(power: u32) -> [u32; N] {
    let (mut out, mut found, mut candidate) = ([0; N], 0, 2u128);
    while found < N {
        let mut divisor = 2;
        while divisor * divisor <= candidate && !candidate.is_multiple_of(divisor) {
            divisor += 1;
        }
        if divisor * divisor > candidate {
            // The largest root with 32 bits behind the point, bit by bit.
            let (mut root, mut bit) = (0u128, 1u128 << 37);
            while bit > 0 {
                if (root | bit).pow(power) <= candidate << (32 * power) {
                    root |= bit;
                }
                bit >>= 1;
            }
            out[found] = root as u32;
            found += 1;
        }
        candidate += 1;
    }
    out
}
