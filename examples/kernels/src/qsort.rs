//! C's `qsort`: items of any size, moved byte by byte, compared through a function pointer.

use std::cmp::Ordering;

type Compare = fn(&[u8], &[u8]) -> Ordering;

fn number(item: &[u8]) -> i32 {
    i32::from_le_bytes([item[0], item[1], item[2], item[3]])
}

fn up(a: &[u8], b: &[u8]) -> Ordering {
    number(a).cmp(&number(b))
}

fn down(a: &[u8], b: &[u8]) -> Ordering {
    up(b, a)
}

#[inline(never)]
fn swap(items: &mut [u8], i: usize, j: usize, size: usize) {
    for byte in 0..size {
        // Kept from becoming one wide move: C's library knows no sizes either.
        items.swap(std::hint::black_box(i * size + byte), j * size + byte);
    }
}

#[inline(never)]
fn sort(items: &mut [u8], size: usize, compare: Compare) {
    let n = items.len() / size;
    if n < 2 {
        return;
    }
    let order = |items: &[u8], i: usize| compare(&items[i * size..(i + 1) * size], &items[..size]);
    swap(items, 0, n / 2, size);
    let (mut i, mut j) = (0, n);
    loop {
        loop {
            i += 1;
            if i >= n || order(items, i) != Ordering::Less {
                break;
            }
        }
        loop {
            j -= 1;
            if order(items, j) != Ordering::Greater {
                break;
            }
        }
        if i >= j {
            break;
        }
        swap(items, i, j, size);
    }
    swap(items, 0, j, size);
    let (low, high) = items.split_at_mut(j * size);
    sort(low, size, compare);
    sort(&mut high[size..], size, compare);
}

pub(crate) fn run(count: u32) -> i64 {
    let mut x = 12345u32;
    let mut items: Vec<u8> = (0..count)
        .flat_map(|_| {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            x.to_le_bytes()
        })
        .collect();
    sort(&mut items, 4, std::hint::black_box(up));
    sort(&mut items, 4, std::hint::black_box(down));
    let numbers = items.chunks_exact(4).map(number).enumerate();
    numbers.fold(0, |sum: i64, (i, x)| sum.wrapping_mul(31).wrapping_add(i64::from(x) ^ i as i64))
}
