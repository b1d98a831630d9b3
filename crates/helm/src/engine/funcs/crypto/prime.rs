//! Random primes for RSA and DSA keys.

use go_template::FuncError;
use num_bigint::BigUint;

/// How often a candidate has to pass the Miller-Rabin test. For random candidates of 512 bits and more, FIPS 186-5 asks for at most 7
/// to be wrong less often than once in 2^100.
const ROUNDS: usize = 10;

/// Candidates are first divided by the primes below this.
const SIEVE: u32 = 8192;

/// How many odd numbers in a row are sieved at once: on average one in 355 is a prime at 1024 bits.
const WINDOW: usize = 2048;

/// So many random bits, the number's bytes with the most significant first.
pub(super) fn random_bits(bits: usize) -> Result<Vec<u8>, FuncError> {
    let mut bytes = vec![0; bits.div_ceil(8)];
    getrandom::fill(&mut bytes).map_err(|e| FuncError::new(format!("cannot read random numbers: {e}")))?;
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff >> ((8 - bits % 8) % 8);
    }
    Ok(bytes)
}

/// A random prime of exactly so many bits, the two highest of them set, so that the product of two has all of its bits.
pub(super) fn random_prime(bits: usize) -> Result<BigUint, FuncError> {
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

/// The first prime among `start`, `start + step`, ... within the window, unless it is longer than so many bits.
pub(super) fn first_prime(start: &BigUint, step: &BigUint, bits: usize) -> Result<Option<BigUint>, FuncError> {
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
        let offset = (prime - first) * inverse(step, prime) % prime;
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
    static PRIMES: std::sync::LazyLock<Vec<u32>> = std::sync::LazyLock::new(|| {
        let is_prime = |n: &u32| (3..).take_while(|d| d * d <= *n).step_by(2).all(|d| !n.is_multiple_of(d));
        (3..SIEVE).step_by(2).filter(is_prime).collect()
    });
    &PRIMES
}

/// Whether an odd number passes the Miller-Rabin test with random bases.
pub(super) fn is_probable_prime(n: &BigUint) -> Result<bool, FuncError> {
    let one = BigUint::from(1u32);
    let last = n - &one;
    let twos = last.trailing_zeros().unwrap_or(0);
    let odd = &last >> twos;
    for _ in 0..ROUNDS {
        let base = BigUint::from_bytes_be(&random_bits(n.bits() as usize - 1)?) % (&last - &one) + BigUint::from(2u32);
        if !passes(n, &base, &odd, twos, &last) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn passes(n: &BigUint, base: &BigUint, odd: &BigUint, twos: u64, last: &BigUint) -> bool {
    let mut power = base.modpow(odd, n);
    if power == BigUint::from(1u32) || power == *last {
        return true;
    }
    for _ in 1..twos {
        power = &power * &power % n;
        if power == *last {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_and_composites_are_told_apart() {
        for (number, expected) in
            [(10_007u64, true), (10_001, false), (2_147_483_647, true), (561 * 1105 + 2, false), (1_000_000_007, true)]
        {
            assert_eq!(is_probable_prime(&BigUint::from(number)).unwrap(), expected, "{number}");
        }
    }

    #[test]
    fn a_random_prime_has_all_of_its_bits() {
        let prime = random_prime(256).unwrap();
        assert_eq!(prime.bits(), 256);
        assert!(prime.bit(254) && is_probable_prime(&prime).unwrap());
    }
}
