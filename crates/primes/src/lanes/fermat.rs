//! Fermat's test with base 2, with one modulus per lane. A power of 2 needs only squares and doublings.

use num_bigint::BigUint;

use super::PerLane;
use super::arithmetic::Moduli;
use super::digits::{r, to_lanes};
use super::unit::Unit;

/// Number of highest bits of the exponent that one shift and one division handle.
const HEAD: u64 = 9;

/// Tests odd numbers of the same length. A number has `L` limbs, a product `W` limbs.
pub(super) fn pass<U: Unit, const L: usize, const W: usize>(unit: U, numbers: &[BigUint]) -> Vec<bool> {
    let bits = numbers.iter().map(BigUint::bits).max().unwrap_or(0);
    let rest = bits.saturating_sub(HEAD);
    let starts: Vec<BigUint> = numbers.iter().map(|n| start::<U, L>(n, rest)).collect();
    let n = to_lanes::<U, L>(numbers);
    let start = to_lanes::<U, L>(&starts);
    let power = unit.run(
        #[inline(always)]
        || {
            let moduli = Moduli::<U, L, W>::new(unit, &n);
            moduli.plain(&powers(&moduli, &start, &n, rest))
        },
    );
    (0..numbers.len()).map(|lane| is_one(&power, lane)).collect()
}

/// Returns 2 to the power of the exponent's bits from `rest` up, in Montgomery form.
fn start<U: Unit, const L: usize>(n: &BigUint, rest: u64) -> BigUint {
    let head = (n >> rest).iter_u64_digits().next().unwrap_or(0);
    (r::<U, L>(n) << head) % n
}

/// Continues from the starts to 2^(n - 1) in each lane.
#[inline(always)]
fn powers<U: Unit, const L: usize, const W: usize>(
    moduli: &Moduli<U, L, W>,
    start: &[PerLane; L],
    n: &[PerLane; L],
    rest: u64,
) -> [U::Vector; L] {
    let unit = moduli.unit;
    let mut power = moduli.load(start);
    let mut workspace = moduli.workspace();
    let mut bit = rest;
    while bit > 0 {
        bit -= 1;
        // n is odd, so n - 1 has the same bits except the lowest.
        let (limb, shift) = ((bit / u64::from(U::LIMB)) as usize, (bit % u64::from(U::LIMB)) as u32);
        let doublings = if bit == 0 { unit.splat(0) } else { unit.load(&n[limb]) >> shift & unit.splat(1) };
        power = moduli.square(&power, doublings, &mut workspace);
    }
    power
}

fn is_one<const L: usize>(power: &[PerLane; L], lane: usize) -> bool {
    power.iter().enumerate().all(|(i, limb)| limb[lane] == u64::from(i == 0))
}
