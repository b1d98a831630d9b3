//! AVX2: four lanes, limbs of 26 bits. A lane has room for the sum of many products.

use core::arch::x86_64::{__m256i, _mm256_mul_epu32};

use fearless_simd::{Avx2, Simd, SimdFrom, kernel, u64x4};

use super::PerLane;
use super::unit::Unit;

impl Unit for Avx2 {
    type Vector = u64x4<Avx2>;
    const LANES: usize = 4;
    const LIMB: u32 = 26;

    #[inline(always)]
    fn run<T>(self, code: impl FnOnce() -> T) -> T {
        self.vectorize(code)
    }

    #[inline(always)]
    fn splat(self, number: u64) -> u64x4<Avx2> {
        u64x4::simd_from(self, number)
    }

    #[inline(always)]
    fn load(self, lanes: &PerLane) -> u64x4<Avx2> {
        let [a, b, c, d, ..] = *lanes;
        u64x4::simd_from(self, [a, b, c, d])
    }

    #[inline(always)]
    fn store(self, vector: u64x4<Avx2>) -> PerLane {
        let [a, b, c, d] = vector.into();
        [a, b, c, d, 0, 0, 0, 0]
    }

    #[inline(always)]
    fn accumulate(self, lower: &mut u64x4<Avx2>, _: &mut u64x4<Avx2>, a: u64x4<Avx2>, b: u64x4<Avx2>) {
        *lower += u64x4::simd_from(self, multiply(self, a.into(), b.into()));
    }

    #[inline(always)]
    fn lowest(self, a: u64x4<Avx2>, b: u64x4<Avx2>) -> u64x4<Avx2> {
        self.limb(u64x4::simd_from(self, multiply(self, a.into(), b.into())))
    }
}

kernel! {
    /// Multiplies the lower halves of the lanes.
    #[inline(always)]
    fn multiply(_unit: Avx2, a: __m256i, b: __m256i) -> __m256i {
        _mm256_mul_epu32(a, b)
    }
}
