//! Recognizes dates in yaml.v2's layouts.

use golibs::time::Time;

/// yaml.v2's `allowedTimestampFormats`.
const LAYOUTS: [&str; 4] =
    ["2006-1-2T15:4:5.999999999Z07:00", "2006-1-2t15:4:5.999999999Z07:00", "2006-1-2 15:4:5.999999999", "2006-1-2"];

/// Returns whether yaml.v2 reads the text as a timestamp.
pub(super) fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let year = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let is_like_date = year == 4 && bytes.get(4) == Some(&b'-');
    is_like_date && LAYOUTS.iter().any(|layout| Time::parse(layout.as_bytes(), bytes).is_ok())
}
