//! Floating-point scaling that Rust lacks. Counterpart: Go's `math`.

/// Returns `value × 2^exponent`. Counterpart: `math.Ldexp`.
pub fn ldexp(mut value: f64, mut exponent: i32) -> f64 {
    // Powers of two up to 2^1000 are exact, and so is every step but the last.
    while exponent > 1000 {
        value *= 2f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -1000 {
        value *= 2f64.powi(-1000);
        exponent += 1000;
    }
    value * 2f64.powi(exponent)
}
