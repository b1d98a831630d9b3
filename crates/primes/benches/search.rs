//! How long a prime takes: of 1,024 bits for RSA keys of 2,048, of 2,048 bits for those of 4,096. It varies a lot from one to the next.

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
