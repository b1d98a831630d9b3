//! Computes squares and products in Montgomery form, with a different odd modulus in each lane.
//!
//! `R` is 2^(bits of `L` limbs). A number `x` is stored as `x R mod n`, not fully reduced: for factors below `4 n`, a product `(a b + m n) / R` is
//! below `n + 16 n² / R`. This is below `2 n` if `R` is at least `16 n`, so the product may be doubled once. Products are computed in blocks of rows,
//! so that each loaded limb is used several times. Carries are propagated at the end.

use super::digits::negative_inverses;
use super::unit::Unit;
use super::{MOST_LANES, PerLane};

/// The number of rows to multiply at once, one for each register that can hold a sum. It divides the number of limbs.
pub(super) const ROWS: usize = 5;

/// The moduli of the lanes. A product has `W` limbs: `2 L`, and one for carries.
pub(super) struct Moduli<U: Unit, const L: usize, const W: usize> {
    pub(super) unit: U,
    n: [U::Vector; L],
    /// The negative inverse of the lowest limb modulo 2^`LIMB`.
    inverse: U::Vector,
}

impl<U: Unit, const L: usize, const W: usize> Moduli<U, L, W> {
    /// Precomputes the constants of the moduli, which must be odd.
    #[inline(always)]
    pub(super) fn new(unit: U, n: &[PerLane; L]) -> Moduli<U, L, W> {
        const { assert!(L.is_multiple_of(ROWS) && W == 2 * L + 1) };
        let inverse = unit.load(&negative_inverses::<U>(&n[0]));
        Moduli { unit, n: load(unit, n), inverse }
    }

    /// Loads numbers without converting them.
    #[inline(always)]
    pub(super) fn load(&self, numbers: &[PerLane; L]) -> [U::Vector; L] {
        load(self.unit, numbers)
    }

    /// Converts numbers from Montgomery form. The result is fully reduced, except that a multiple of the modulus may yield the modulus.
    #[inline(always)]
    pub(super) fn plain(&self, a: &[U::Vector; L]) -> [PerLane; L] {
        let mut one = [self.unit.splat(0); L];
        one[0] = self.unit.splat(1);
        let product = self.multiply(a, &one, &mut self.workspace());
        let mut numbers = [[0; MOST_LANES]; L];
        for i in 0..L {
            numbers[i] = self.unit.store(product[i]);
        }
        numbers
    }

    /// Returns scratch space for products, which is zero before and after each use.
    #[inline(always)]
    pub(super) fn workspace(&self) -> [U::Vector; W] {
        [self.unit.splat(0); W]
    }

    /// Returns the square, doubled in the lanes where `doublings` is 1 instead of 0.
    #[inline(always)]
    pub(super) fn square(&self, a: &[U::Vector; L], doublings: U::Vector, wide: &mut [U::Vector; W]) -> [U::Vector; L] {
        let unit = self.unit;
        for base in (0..L).step_by(ROWS) {
            self.cross(a, base, wide);
        }
        for i in 0..L {
            let (mut lower, mut upper) = (wide[2 * i], wide[2 * i + 1]);
            (lower, upper) = (lower + lower, upper + upper);
            unit.accumulate(&mut lower, &mut upper, a[i], a[i]);
            (wide[2 * i], wide[2 * i + 1]) = (lower, upper);
        }
        self.reduce(wide, doublings)
    }

    /// Returns the product in each lane.
    #[inline(always)]
    pub(super) fn multiply(&self, a: &[U::Vector; L], b: &[U::Vector; L], wide: &mut [U::Vector; W]) -> [U::Vector; L] {
        for base in (0..L).step_by(ROWS) {
            let sums = block(&wide[base..]);
            self.slide(&block(&a[base..]), &b[..], sums, &mut wide[base..]);
        }
        self.reduce(wide, self.unit.splat(0))
    }

    /// Adds the products of a block of limbs with each other, once per pair, and with all limbs after the block.
    #[inline(always)]
    fn cross(&self, a: &[U::Vector; L], base: usize, wide: &mut [U::Vector; W]) {
        let rows = block(&a[base..]);
        let wide = &mut wide[2 * base..];
        let mut sums = [self.unit.splat(0); 2 * ROWS + 1];
        sums.copy_from_slice(&wide[..2 * ROWS + 1]);
        for r in 0..ROWS {
            for s in r + 1..ROWS {
                self.accumulate(&mut sums, r + s, rows[r], rows[s]);
            }
        }
        wide[..ROWS].copy_from_slice(&sums[..ROWS]);
        wide[2 * ROWS] = sums[2 * ROWS];
        self.slide(&rows, &a[base + ROWS..], block(&sums[ROWS..]), &mut wide[ROWS..]);
    }

    #[inline(always)]
    fn accumulate<const N: usize>(&self, sums: &mut [U::Vector; N], at: usize, a: U::Vector, b: U::Vector) {
        let (mut lower, mut upper) = (sums[at], sums[at + 1]);
        self.unit.accumulate(&mut lower, &mut upper, a, b);
        (sums[at], sums[at + 1]) = (lower, upper);
    }

    /// Adds the products of a block of limbs with the limbs `b`. The accumulators move along `b`.
    #[inline(always)]
    fn slide(&self, rows: &[U::Vector; ROWS], b: &[U::Vector], mut sums: [U::Vector; ROWS], wide: &mut [U::Vector]) {
        let wide = &mut wide[..b.len() + ROWS + 1];
        for j in 0..b.len() {
            let mut last = wide[j + ROWS];
            for (r, &row) in rows[..ROWS - 1].iter().enumerate() {
                self.accumulate(&mut sums, r, row, b[j]);
            }
            self.unit.accumulate(&mut sums[ROWS - 1], &mut last, rows[ROWS - 1], b[j]);
            wide[j] = sums[0];
            let [_, b, c, d, e] = sums;
            sums = [b, c, d, e, last];
        }
        wide[b.len()..][..ROWS].copy_from_slice(&sums);
    }

    /// Adds multiples of the moduli until the lower half is zero, and returns the upper half.
    #[inline(always)]
    fn reduce(&self, wide: &mut [U::Vector; W], doublings: U::Vector) -> [U::Vector; L] {
        let unit = self.unit;
        for base in (0..L).step_by(ROWS) {
            self.cancel(&mut wide[base..]);
        }
        let mut carry = unit.splat(0);
        let mut reduced = [carry; L];
        for i in 0..L {
            let sum = (wide[L + i] << doublings) + carry;
            carry = unit.carry(sum);
            reduced[i] = unit.limb(sum);
            wide[L + i] = unit.splat(0);
        }
        wide[2 * L] = unit.splat(0);
        reduced
    }

    /// Adds multiples of the moduli until a block of limbs is zero.
    #[inline(always)]
    fn cancel(&self, wide: &mut [U::Vector]) {
        let unit = self.unit;
        let mut sums = [unit.splat(0); 2 * ROWS + 1];
        sums.copy_from_slice(&wide[..2 * ROWS + 1]);
        let mut rows = [unit.splat(0); ROWS];
        for r in 0..ROWS {
            rows[r] = unit.lowest(sums[r], self.inverse);
            for j in 0..ROWS {
                self.accumulate(&mut sums, r + j, rows[r], self.n[j]);
            }
            sums[r + 1] = sums[r + 1] + unit.carry(sums[r]);
            wide[r] = unit.splat(0);
        }
        wide[2 * ROWS] = sums[2 * ROWS];
        self.slide(&rows, &self.n[ROWS..], block(&sums[ROWS..]), &mut wide[ROWS..]);
    }
}

#[inline(always)]
fn load<U: Unit, const L: usize>(unit: U, numbers: &[PerLane; L]) -> [U::Vector; L] {
    let mut limbs = [unit.splat(0); L];
    for i in 0..L {
        limbs[i] = unit.load(&numbers[i]);
    }
    limbs
}

#[inline(always)]
fn block<V: Copy>(limbs: &[V]) -> [V; ROWS] {
    let mut block = [limbs[0]; ROWS];
    block.copy_from_slice(&limbs[..ROWS]);
    block
}
