//! Computes powers modulo an odd number with a fixed number of 64-bit limbs, in Montgomery form.

use num_bigint::BigUint;

/// An odd modulus whose highest limb is not zero, with its precomputed constants.
pub(crate) struct Modulus<const L: usize> {
    n: [u64; L],
    /// The negative inverse of the lowest limb modulo 2^64.
    n_inverse: u64,
    /// 1 in Montgomery form.
    one: [u64; L],
    /// -1 in Montgomery form.
    minus_one: [u64; L],
    /// 2^(128 L) modulo `n`. Multiplying by it converts a number to Montgomery form.
    square: [u64; L],
}

/// Number of an exponent's bits that are handled at once.
const WINDOW: usize = 5;

impl<const L: usize> Modulus<L> {
    /// Precomputes the constants of a modulus; returns `None` if the number is even or does not have exactly `L` limbs.
    pub(crate) fn new(n: &BigUint) -> Option<Modulus<L>> {
        if !n.bit(0) || n.bits().div_ceil(64) != L as u64 {
            return None;
        }
        let limbs = limbs(n);
        let one = limbs_of((BigUint::from(1u32) << (64 * L)) % n);
        let square = limbs_of((BigUint::from(1u32) << (128 * L)) % n);
        let minus_one = subtract(&limbs, &one).0;
        Some(Modulus { n: limbs, n_inverse: negative_inverse(limbs[0]), one, minus_one, square })
    }

    pub(crate) fn is_one(&self, x: &[u64; L]) -> bool {
        *x == self.one
    }

    pub(crate) fn is_minus_one(&self, x: &[u64; L]) -> bool {
        *x == self.minus_one
    }

    /// Multiplies two numbers in Montgomery form.
    pub(crate) fn multiply(&self, a: &[u64; L], b: &[u64; L]) -> [u64; L] {
        let mut t = [0u64; L];
        let mut high = 0u64;
        for &b in b {
            let mut carry = 0;
            for (t, &a) in t.iter_mut().zip(a) {
                (*t, carry) = multiply_add(a, b, *t, carry);
            }
            let (sum, overflow) = high.overflowing_add(carry);
            let m = t[0].wrapping_mul(self.n_inverse);
            (_, carry) = multiply_add(m, self.n[0], t[0], 0);
            for i in 1..L {
                (t[i - 1], carry) = multiply_add(m, self.n[i], t[i], carry);
            }
            let (sum, overflow_again) = sum.overflowing_add(carry);
            t[L - 1] = sum;
            high = u64::from(overflow) + u64::from(overflow_again);
        }
        let (reduced, borrow) = subtract(&t, &self.n);
        if high == 0 && borrow { t } else { reduced }
    }

    /// Squares a number in Montgomery form.
    pub(crate) fn square(&self, a: &[u64; L]) -> [u64; L] {
        let mut wide = [[0u64; L]; 2];
        square(a, wide.as_flattened_mut());
        self.reduce(&mut wide)
    }

    /// Adds multiples of the modulus until the lower half is zero, and returns the upper half.
    fn reduce(&self, wide: &mut [[u64; L]; 2]) -> [u64; L] {
        let limbs = wide.as_flattened_mut();
        let mut high = 0;
        for i in 0..L {
            let m = limbs[i].wrapping_mul(self.n_inverse);
            let mut carry = 0;
            for (limb, &n) in limbs[i..].iter_mut().zip(&self.n) {
                (*limb, carry) = multiply_add(m, n, *limb, carry);
            }
            (limbs[i + L], high) = add(limbs[i + L], carry, high);
        }
        let (reduced, borrow) = subtract(&wide[1], &self.n);
        if high == 0 && borrow { wide[1] } else { reduced }
    }

    /// Returns 2 to the power, in Montgomery form. This is faster than for other bases, because doubling is cheaper than a product.
    pub(crate) fn power_of_two(&self, exponent: &BigUint) -> [u64; L] {
        let mut result = self.one;
        for bit in (0..exponent.bits()).rev() {
            result = self.square(&result);
            if exponent.bit(bit) {
                result = self.double(&result);
            }
        }
        result
    }

    /// Returns the base to the power, in Montgomery form.
    pub(crate) fn power(&self, base: &BigUint, exponent: &BigUint) -> [u64; L] {
        let base = self.multiply(&limbs(base), &self.square);
        let mut table = vec![self.one];
        for i in 1..1 << WINDOW {
            table.push(self.multiply(&table[i - 1], &base));
        }
        let mut result = self.one;
        for window in (0..(exponent.bits() as usize).div_ceil(WINDOW)).rev() {
            for _ in 0..WINDOW {
                result = self.square(&result);
            }
            let bits =
                (0..WINDOW).rev().fold(0, |n, i| n << 1 | usize::from(exponent.bit((window * WINDOW + i) as u64)));
            result = self.multiply(&result, &table[bits]);
        }
        result
    }

    fn double(&self, x: &[u64; L]) -> [u64; L] {
        let mut doubled = [0; L];
        let mut carry = 0;
        for (out, limb) in doubled.iter_mut().zip(x) {
            *out = limb << 1 | carry;
            carry = limb >> 63;
        }
        let (reduced, borrow) = subtract(&doubled, &self.n);
        if carry == 0 && borrow { doubled } else { reduced }
    }
}

/// Returns the low and high half of `a * b + c + d`, which cannot overflow.
#[inline(always)]
fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let wide = u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d);
    (wide as u64, (wide >> 64) as u64)
}

/// Returns the sum of two numbers and a carry, and the new carry.
#[inline(always)]
fn add(a: u64, b: u64, carry: u64) -> (u64, u64) {
    let wide = u128::from(a) + u128::from(b) + u128::from(carry);
    (wide as u64, (wide >> 64) as u64)
}

/// Writes the square to twice as many limbs, which must be zero. Computes the product of two different limbs once and doubles it.
#[inline(always)]
fn square<const L: usize>(a: &[u64; L], wide: &mut [u64]) {
    for (i, &x) in a.iter().enumerate() {
        let mut carry = 0;
        for (limb, &y) in wide[2 * i + 1..].iter_mut().zip(&a[i + 1..]) {
            (*limb, carry) = multiply_add(x, y, *limb, carry);
        }
        wide[i + L] = carry;
    }
    let (mut carry, mut shifted_out) = (0, 0);
    for (pair, &x) in wide.as_chunks_mut::<2>().0.iter_mut().zip(a) {
        let [low, high] = *pair;
        let (product_low, product_high) = multiply_add(x, x, 0, 0);
        (pair[0], carry) = add(low << 1 | shifted_out, product_low, carry);
        (pair[1], carry) = add(high << 1 | low >> 63, product_high, carry);
        shifted_out = high >> 63;
    }
}

/// Returns the difference modulo 2^(64 L), and whether it is negative.
#[inline(always)]
fn subtract<const L: usize>(a: &[u64; L], b: &[u64; L]) -> ([u64; L], bool) {
    let mut difference = [0; L];
    let mut borrow = false;
    for i in 0..L {
        let (first, under) = a[i].overflowing_sub(b[i]);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        (difference[i], borrow) = (second, under || under_again);
    }
    (difference, borrow)
}

/// Returns the negative inverse of an odd number modulo 2^64. Uses Newton's iteration, which doubles the number of correct bits each time. An odd
/// number is its own inverse modulo 8.
pub(crate) fn negative_inverse(n: u64) -> u64 {
    let mut inverse = n;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(n.wrapping_mul(inverse)));
    }
    inverse.wrapping_neg()
}

fn limbs<const L: usize>(n: &BigUint) -> [u64; L] {
    let mut limbs = [0; L];
    limbs.iter_mut().zip(n.iter_u64_digits()).for_each(|(limb, digit)| *limb = digit);
    limbs
}

fn limbs_of<const L: usize>(n: BigUint) -> [u64; L] {
    limbs(&n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(modulus: &str, base: &str, exponent: &str) {
        let [n, base, exponent] = [modulus, base, exponent].map(|t| BigUint::parse_bytes(t.as_bytes(), 16).unwrap());
        let modulus = Modulus::<4>::new(&n).unwrap();
        let plain = |x: &[u64; 4]| {
            let mut unit = [0; 4];
            unit[0] = 1;
            let digits = modulus.multiply(x, &unit).iter().rev().map(|l| format!("{l:016x}")).collect::<String>();
            BigUint::parse_bytes(digits.as_bytes(), 16).unwrap()
        };
        let power = modulus.power(&base, &exponent);
        assert_eq!(modulus.square(&power), modulus.multiply(&power, &power));
        assert_eq!(plain(&modulus.power(&base, &exponent)), base.modpow(&exponent, &n));
        assert_eq!(plain(&modulus.power_of_two(&exponent)), BigUint::from(2u32).modpow(&exponent, &n));
    }

    #[test]
    fn powers_agree_with_num_bigint() {
        let largest = "f".repeat(64);
        check(&largest, &"e".repeat(64), &"d".repeat(64));
        check(&format!("8{}1", "0".repeat(62)), "3", "ffffffffffffffffffff");
        check("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", "123456789abcdef", &largest);
        check(&largest, "2", "0");
    }

    #[test]
    fn even_and_shorter_numbers_are_refused() {
        assert!(Modulus::<4>::new(&BigUint::from(10u32)).is_none());
        assert!(Modulus::<1>::new(&BigUint::from(10u32)).is_none());
        assert!(Modulus::<1>::new(&BigUint::from(11u32)).is_some());
    }
}
