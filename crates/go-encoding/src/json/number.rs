//! The texts of numbers that JSON and YAML share.

use golibs::strconv::{format_float, json_float};

/// Whole numbers below this are exact as integers and short as text.
pub const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// As `encoding/json` writes it; `None` if it is not finite.
pub fn json(value: f64) -> Option<String> {
    json_float(value)
}

/// Go's `FormatFloat(value, 'g', -1, 64)`.
pub fn shortest(value: f64) -> String {
    format_float(value, b'g', None)
}

/// Go's `FormatFloat(value, 'g', -1, 32)`, of a finite number.
pub fn shortest32(value: f32) -> String {
    // The shortest text of a float of 32 bits has few digits, so as one of 64 bits it has the same.
    value.to_string().parse().map_or_else(|_| value.to_string(), shortest)
}
