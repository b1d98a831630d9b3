//! Finds the members of an arithmetic progression that have no small prime factor.
//!
//! Reduces a big number modulo products of primes that fit in a word, and only then modulo each prime, which takes a quarter of the passes over the
//! big number.

use std::sync::LazyLock;

use num_bigint::BigUint;

/// Numbers of up to [`SHORT`] bits are divided by the odd primes below the first bound, longer numbers by those below the second. Above these bounds,
/// the divisions cost more than the tests that they save.
const BOUNDS: (usize, usize) = (1 << 16, 1 << 18);

const SHORT: u64 = 1024;

/// Several primes whose product fits in a word, with the constants for arithmetic modulo that product.
struct Product {
    primes: Vec<u32>,
    modulus: u64,
    /// The negative inverse of the modulus modulo 2^64.
    inverse: u64,
    /// 2^128 modulo the product: 2^64 in Montgomery form.
    word: u64,
}

/// Returns the indices below `window` for which no small prime divides `start + step * index`.
pub(crate) fn survivors(start: &BigUint, step: &BigUint, window: usize) -> impl Iterator<Item = usize> + use<> {
    let mut composite = vec![false; window];
    let products = products(start.bits());
    let (start, step): (Vec<u64>, Vec<u64>) = (start.iter_u64_digits().collect(), step.iter_u64_digits().collect());
    for product in products {
        let (start, step) = (product.remainder(&start), product.remainder(&step));
        for &prime in &product.primes {
            let prime = u64::from(prime);
            if let Some((first, stride)) = multiples(start % prime, step % prime, prime) {
                composite.iter_mut().skip(first as usize).step_by(stride as usize).for_each(|c| *c = true);
            }
        }
    }
    composite.into_iter().enumerate().filter(|(_, composite)| !composite).map(|(i, _)| i)
}

/// Returns the first index for which the prime divides `start + step * index`, and the distance to the next such index. Both arguments must already
/// be reduced modulo the prime.
fn multiples(start: u64, step: u64, prime: u64) -> Option<(u64, u64)> {
    let missing = if start == 0 { 0 } else { prime - start };
    match step {
        0 => (start == 0).then_some((0, 1)),
        2 if missing.is_multiple_of(2) => Some((missing / 2, prime)),
        2 => Some(((missing + prime) / 2, prime)),
        _ => Some((missing * inverse(step, prime) % prime, prime)),
    }
}

/// Returns the inverse of `n` modulo the prime, by Fermat's little theorem.
fn inverse(n: u64, prime: u64) -> u64 {
    let (mut result, mut square, mut exponent) = (1, n, prime - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * square % prime;
        }
        square = square * square % prime;
        exponent >>= 1;
    }
    result
}

impl Product {
    fn new(primes: Vec<u32>) -> Product {
        let modulus = primes.iter().map(|p| u64::from(*p)).product();
        let word = (u128::MAX % u128::from(modulus) + 1) % u128::from(modulus);
        Product { primes, modulus, inverse: crate::montgomery::negative_inverse(modulus), word: word as u64 }
    }

    /// Returns a one-word number with the same remainder.
    fn remainder(&self, words: &[u64]) -> u64 {
        if let [word] = words {
            return *word;
        }
        let reduced = words.iter().fold(0, |sum, word| self.reduce(u128::from(sum) + u128::from(*word)));
        let factor = self.words_to_the(words.len());
        self.reduce(u128::from(reduced) * u128::from(factor))
    }

    /// Divides the number by 2^64, modulo the product. The result is below twice the product if the number is a product of two such results.
    #[inline(always)]
    fn reduce(&self, number: u128) -> u64 {
        let multiple = (number as u64).wrapping_mul(self.inverse);
        ((number + u128::from(multiple) * u128::from(self.modulus)) >> 64) as u64
    }

    /// Returns 2^64 to the power, which must be at least 1, in Montgomery form.
    #[inline(always)]
    fn words_to_the(&self, power: usize) -> u64 {
        let bits = usize::BITS - power.leading_zeros();
        (0..bits.saturating_sub(1)).rev().fold(self.word, |result, bit| {
            let square = self.reduce(u128::from(result) * u128::from(result));
            let factor = if power >> bit & 1 == 1 { self.word } else { return square };
            self.reduce(u128::from(square) * u128::from(factor))
        })
    }
}

/// Returns the primes to divide numbers of this length by.
fn products(bits: u64) -> &'static [Product] {
    static FEW: LazyLock<Vec<Product>> = LazyLock::new(|| group(&odd_primes(BOUNDS.0)));
    static MANY: LazyLock<Vec<Product>> = LazyLock::new(|| group(&odd_primes(BOUNDS.1)));
    if bits <= SHORT { &FEW } else { &MANY }
}

/// Groups the primes into products below 2^62, so that sums in the reduction do not overflow.
fn group(mut primes: &[u32]) -> Vec<Product> {
    let mut products = Vec::new();
    while !primes.is_empty() {
        let product =
            |count: &usize| primes[..*count].iter().try_fold(1u64, |product, p| product.checked_mul(u64::from(*p)));
        let fits = |count: &usize| product(count).is_some_and(|p| p < 1 << 62);
        let count = (1..=primes.len()).take_while(fits).last().unwrap_or(1);
        let (group, rest) = primes.split_at(count);
        products.push(Product::new(group.to_vec()));
        primes = rest;
    }
    products
}

/// Returns the odd primes below the bound, by the sieve of Eratosthenes.
fn odd_primes(bound: usize) -> Vec<u32> {
    let mut composite = vec![false; bound];
    let mut primes = Vec::new();
    for n in (3..bound).step_by(2) {
        if composite[n] {
            continue;
        }
        primes.push(n as u32);
        composite.iter_mut().skip(n * n).step_by(2 * n).for_each(|c| *c = true);
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::random_bits;

    fn check(start: &BigUint, step: &BigUint) {
        let window = 300;
        let found: Vec<usize> = survivors(start, step, window).collect();
        let has_divisor =
            |n: &BigUint| products(start.bits()).iter().flat_map(|p| &p.primes).any(|p| (n % *p).bits() == 0);
        let expected: Vec<usize> = (0..window).filter(|i| !has_divisor(&(start + step * *i))).collect();
        assert_eq!(found, expected, "{start} + {step} i");
    }

    #[test]
    fn survivors_have_no_small_prime_factor() {
        let two = BigUint::from(2u32);
        for bits in [64, 100, 256, 1000, 1024, 2048] {
            let mut start = BigUint::from_bytes_be(&random_bits(bits).unwrap());
            start.set_bit(0, true);
            start.set_bit(bits as u64 - 1, true);
            check(&start, &two);
            check(&start, &(BigUint::from_bytes_be(&random_bits(257).unwrap()) << 1));
        }
        check(&((BigUint::from(1u32) << 1024) - 1u32), &two);
        check(&((BigUint::from(1u32) << 1023) + 1u32), &two);
    }

    #[test]
    fn a_prime_factor_of_the_step_removes_nothing() {
        let start = (BigUint::from(1u32) << 200) + 1u32;
        check(&start, &BigUint::from(2u32 * 3 * 5 * 7));
    }
}
