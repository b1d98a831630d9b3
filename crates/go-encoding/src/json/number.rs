//! The number formats that JSON, YAML and TOML share.

use golibs::strconv::{format_float, json_float};

/// Integers below this magnitude are exact as floats.
pub const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Formats a number as `encoding/json` does; `None` if it is not finite.
pub fn json(value: f64) -> Option<String> {
    json_float(value)
}

/// Counterpart: `strconv.FormatFloat(value, 'g', -1, 64)`.
pub fn shortest(value: f64) -> String {
    format_float(value, b'g', None)
}

/// Counterpart: `strconv.FormatFloat(value, 'g', -1, 32)`, for finite numbers.
pub fn shortest32(value: f32) -> String {
    // The shortest text of a 32-bit float is so short that the 64-bit float of that text has the same.
    value.to_string().parse().map_or_else(|_| value.to_string(), shortest)
}
