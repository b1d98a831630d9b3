//! Searching primes: a random start, a sieve over small primes, then the Miller-Rabin test.

use std::sync::LazyLock;

use getrandom::Error;
use num_bigint::BigUint;

use crate::miller_rabin::is_probable_prime;

/// Candidates are first divided by the primes below this.
const SIEVE: u32 = 1 << 15;

/// How many odd numbers in a row are sieved at once: on average one in 355 is a prime at 1024 bits.
const WINDOW: usize = 2048;

/// So many random bits, as bytes with the most significant first.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn random_bits(bits: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; bits.div_ceil(8)];
    getrandom::fill(&mut bytes)?;
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff >> ((8 - bits % 8) % 8);
    }
    Ok(bytes)
}

/// A random prime of exactly so many bits, the two highest of them set, so that the product of two has all of its bits.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn random_prime(bits: usize) -> Result<BigUint, Error> {
    loop {
        let mut start = BigUint::from_bytes_be(&random_bits(bits)?);
        for bit in [bits as u64 - 1, bits as u64 - 2, 0] {
            start.set_bit(bit, true);
        }
        if let Some(prime) = first_prime(&start, &BigUint::from(2u32), bits)? {
            return Ok(prime);
        }
    }
}

/// The first prime among `start`, `start + step`, ... within a window of some thousand, unless it is longer than so many bits.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn first_prime(start: &BigUint, step: &BigUint, bits: usize) -> Result<Option<BigUint>, Error> {
    for index in survivors(start, step) {
        let candidate = start + step * index;
        if candidate.bits() > bits as u64 {
            return Ok(None);
        }
        if is_probable_prime(&candidate)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// The indices in the window whose candidates no small prime divides.
fn survivors(start: &BigUint, step: &BigUint) -> impl Iterator<Item = usize> + use<> {
    let mut composite = vec![false; WINDOW];
    for &prime in small_primes() {
        let remainder = |n: &BigUint| u64::from((n % prime).iter_u32_digits().next().unwrap_or(0));
        let (first, step, prime) = (remainder(start), remainder(step), u64::from(prime));
        if step == 0 {
            continue;
        }
        let inverse = if step == 2 { prime.div_ceil(2) } else { inverse(step, prime) };
        let offset = (prime - first) * inverse % prime;
        composite.iter_mut().skip(offset as usize).step_by(prime as usize).for_each(|c| *c = true);
    }
    composite.into_iter().enumerate().filter(|(_, composite)| !composite).map(|(i, _)| i)
}

/// The number whose product with `n` is one modulo the prime, by Fermat.
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

/// The odd primes below [`SIEVE`].
fn small_primes() -> &'static [u32] {
    static PRIMES: LazyLock<Vec<u32>> = LazyLock::new(|| {
        let is_prime = |n: &u32| (3..).take_while(|d| d * d <= *n).step_by(2).all(|d| !n.is_multiple_of(d));
        (3..SIEVE).step_by(2).filter(is_prime).collect()
    });
    &PRIMES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_prime_has_all_of_its_bits() {
        let prime = random_prime(256).unwrap();
        assert_eq!(prime.bits(), 256);
        assert!(prime.bit(254) && is_probable_prime(&prime).unwrap());
    }
}
