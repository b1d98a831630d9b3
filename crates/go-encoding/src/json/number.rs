//! The number formats that JSON, YAML and TOML share.

use golibs::strconv::format_float;

/// Integers below this magnitude are exact as floats.
pub(crate) const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Formats a float in the shortest form. Counterpart: `strconv.FormatFloat(value, 'g', -1, 64)`.
pub(crate) fn shortest(value: f64) -> String {
    format_float(value, b'g', None)
}

/// Formats a finite float of 32 bits in the shortest form. Counterpart: `strconv.FormatFloat(value, 'g', -1, 32)`.
pub(crate) fn shortest32(value: f32) -> String {
    // The shortest text of a 32-bit float has so few digits that it is also the shortest text of the 64-bit float that it parses to.
    value.to_string().parse().map_or_else(|_| value.to_string(), shortest)
}
