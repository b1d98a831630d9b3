//! Searches for primes: a random start, a sieve, a filter, then the Miller-Rabin test.

use getrandom::Error;
use num_bigint::BigUint;

use crate::lanes::Lanes;
use crate::miller_rabin::is_probable_prime;
use crate::sieve::survivors;

/// Number of candidates to sieve at once, per bit of their length. One in `0.35 b` odd numbers of `b` bits is prime, so only one window in 100,000
/// contains no prime.
const WINDOW: usize = 4;

/// Returns this many random bits as big-endian bytes. If `bits` is not a multiple of 8, the highest bits of the first byte are zero.
///
/// # Errors
/// The operating system has no random numbers.
pub fn random_bits(bits: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; bits.div_ceil(8)];
    getrandom::fill(&mut bytes)?;
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff >> ((8 - bits % 8) % 8);
    }
    Ok(bytes)
}

/// Returns a random prime of exactly this many bits. There must be at least 32 bits, because the sieve also removes the small primes themselves.
///
/// The two highest bits are set, so the product of two such primes is exactly twice as long.
///
/// # Errors
/// The operating system has no random numbers.
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

/// Returns the first prime among `start`, `start + step`, `start + 2 step`, and so on.
///
/// Considers `4 * bits` candidates of at most `bits` bits, and returns `None` if none of them is prime. `start` must be odd and `step` even.
///
/// # Errors
/// The operating system has no random numbers.
pub fn first_prime(start: &BigUint, step: &BigUint, bits: usize) -> Result<Option<BigUint>, Error> {
    let mut candidates = survivors(start, step, WINDOW * bits)
        .map(|index| start + step * index)
        .take_while(|candidate| candidate.bits() <= bits as u64);
    let lanes = Lanes::best();
    loop {
        let batch: Vec<BigUint> = candidates.by_ref().take(lanes.map_or(1, Lanes::count)).collect();
        if batch.is_empty() {
            return Ok(None);
        }
        for candidate in plausible(batch, lanes) {
            if is_probable_prime(&candidate)? {
                return Ok(Some(candidate));
            }
        }
    }
}

/// Drops candidates that fail Fermat's test, which most do, if there is a vector unit to run it.
fn plausible(batch: Vec<BigUint>, lanes: Option<Lanes>) -> Vec<BigUint> {
    match lanes.and_then(|lanes| lanes.fermat(&batch)) {
        Some(passes) => batch.into_iter().zip(passes).filter_map(|(n, passes)| passes.then_some(n)).collect(),
        None => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_prime_has_exactly_the_asked_length() {
        let prime = random_prime(256).unwrap();
        assert_eq!(prime.bits(), 256);
        assert!(prime.bit(254) && is_probable_prime(&prime).unwrap());
    }
}
