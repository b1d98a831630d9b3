//! Converts big numbers to limbs in lanes.

use num_bigint::BigUint;

use super::unit::Unit;
use super::{MOST_LANES, PerLane};

/// Puts each number in a lane. The last number also fills the remaining lanes.
pub(super) fn to_lanes<U: Unit, const L: usize>(numbers: &[BigUint]) -> [PerLane; L] {
    let mut limbs = [[0; MOST_LANES]; L];
    for lane in 0..U::LANES {
        let Some(number) = numbers.get(lane).or(numbers.last()) else { break };
        let words: Vec<u64> = number.iter_u64_digits().collect();
        for (i, limb) in limbs.iter_mut().enumerate() {
            limb[lane] = bits(&words, i as u64 * u64::from(U::LIMB)) & ((1 << U::LIMB) - 1);
        }
    }
    limbs
}

/// Returns 2^(bits of all limbs) modulo `n`, which [`super::arithmetic`] calls R.
pub(super) fn r<U: Unit, const L: usize>(n: &BigUint) -> BigUint {
    (BigUint::from(1u32) << (L * U::LIMB as usize)) % n
}

/// Returns the negative inverses of the odd limbs modulo 2^`LIMB`.
///
/// Uses Newton's iteration, which doubles the number of correct bits each time. An odd number is its own inverse modulo 8.
pub(super) fn negative_inverses<U: Unit>(lowest: &PerLane) -> PerLane {
    lowest.map(|n| {
        let newton = |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(n.wrapping_mul(inverse)));
        (0..5).fold(n, newton).wrapping_neg() & ((1 << U::LIMB) - 1)
    })
}

/// Returns the 64 bits that start at bit `from`.
fn bits(words: &[u64], from: u64) -> u64 {
    let word = |i: u64| words.get(i as usize).copied().unwrap_or(0);
    let (i, shift) = (from / 64, from % 64);
    if shift == 0 { word(i) } else { word(i) >> shift | word(i + 1) << (64 - shift) }
}
