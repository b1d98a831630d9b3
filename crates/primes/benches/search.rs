//! Measures the time per prime: 1,024 bits for RSA-2048 keys, 2,048 bits for RSA-4096. Single searches vary a lot.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

fn random_primes(c: &mut Criterion) {
    let mut group = c.benchmark_group("random prime");
    group.sample_size(50);
    for bits in [1024, 2048] {
        group.bench_function(format!("{bits} bits"), |b| b.iter(|| primes::random_prime(black_box(bits))));
    }
    group.finish();
}

criterion_group!(benches, random_primes);
criterion_main!(benches);
