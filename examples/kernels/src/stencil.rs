//! Heat that spreads over a plate: a five-point stencil.

const SIZE: usize = 256;

pub(crate) fn run(steps: u32) -> i64 {
    let mut now = vec![0.0f64; SIZE * SIZE];
    for (i, cell) in now.iter_mut().enumerate().take(SIZE) {
        *cell = 100.0 + (i % 7) as f64;
    }
    let mut next = now.clone();
    for _ in 0..steps {
        for y in 1..SIZE - 1 {
            for x in 1..SIZE - 1 {
                let i = y * SIZE + x;
                let around = now[i - 1] + now[i + 1] + now[i - SIZE] + now[i + SIZE];
                next[i] = now[i] + 0.2 * (around - 4.0 * now[i]);
            }
        }
        std::mem::swap(&mut now, &mut next);
    }
    (now.iter().sum::<f64>() * 1e6) as i64
}
