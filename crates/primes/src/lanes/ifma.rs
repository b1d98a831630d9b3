//! AVX-512 with IFMA: eight lanes, limbs of 52 bits. The instructions add the lower or the upper half of a product.

use core::arch::x86_64::{__m512i, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64};

use fearless_simd::{Avx512, Simd, SimdFrom, kernel, u64x8};

use super::PerLane;
use super::unit::Unit;

impl Unit for Avx512 {
    type Vector = u64x8<Avx512>;
    const LANES: usize = 8;
    const LIMB: u32 = 52;

    #[inline(always)]
    fn run<T>(self, code: impl FnOnce() -> T) -> T {
        self.vectorize(code)
    }

    #[inline(always)]
    fn splat(self, number: u64) -> u64x8<Avx512> {
        u64x8::simd_from(self, number)
    }

    #[inline(always)]
    fn load(self, lanes: &PerLane) -> u64x8<Avx512> {
        u64x8::simd_from(self, *lanes)
    }

    #[inline(always)]
    fn store(self, vector: u64x8<Avx512>) -> PerLane {
        vector.into()
    }

    #[inline(always)]
    fn accumulate(self, lower: &mut u64x8<Avx512>, upper: &mut u64x8<Avx512>, a: u64x8<Avx512>, b: u64x8<Avx512>) {
        *lower = u64x8::simd_from(self, add_lower(self, (*lower).into(), a.into(), b.into()));
        *upper = u64x8::simd_from(self, add_upper(self, (*upper).into(), a.into(), b.into()));
    }

    #[inline(always)]
    fn lowest(self, a: u64x8<Avx512>, b: u64x8<Avx512>) -> u64x8<Avx512> {
        u64x8::simd_from(self, add_lower(self, self.splat(0).into(), a.into(), b.into()))
    }
}

kernel! {
    #[inline(always)]
    fn add_lower(_unit: Avx512, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        _mm512_madd52lo_epu64(sum, a, b)
    }
}

kernel! {
    #[inline(always)]
    fn add_upper(_unit: Avx512, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        _mm512_madd52hi_epu64(sum, a, b)
    }
}
