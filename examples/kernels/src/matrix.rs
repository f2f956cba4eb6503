//! The product of two square matrices, by the book.

pub(crate) fn run(size: u32) -> i64 {
    let n = size as usize;
    let a: Vec<f64> = (0..n * n).map(|i| (i % 17) as f64).collect();
    let b: Vec<f64> = (0..n * n).map(|i| (i % 13) as f64 - 3.0).collect();
    let mut c = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..n {
            let mut sum = 0.0;
            for k in 0..n {
                sum += a[i * n + k] * b[k * n + j];
            }
            c[i * n + j] = sum;
        }
    }
    c.iter().sum::<f64>() as i64
}
