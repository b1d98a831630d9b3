//! Conversions and scaling of numbers that differ between Go and Rust. Counterpart: parts of Go's `math`, and its conversions on amd64.

/// `value × 2^exponent`. Counterpart: `math.Ldexp`.
pub fn ldexp(mut value: f64, mut exponent: i32) -> f64 {
    // Smaller powers of two are exact, and so is each step but the last.
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
