//! Parses Go's duration strings: `1m30s`, `1.5h`, `-2ms`, `0`. Rejects negative durations, because nothing here can wait
//! for one.

use std::time::Duration;

use golibs::time;

/// The reason why a text is not a duration, or not a valid one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error(transparent)]
    Invalid(#[from] time::DurationError),
    #[error("duration {0:?} must not be negative")]
    Negative(String),
}

/// Parses a Go duration string.
///
/// # Errors
/// Go's errors, and negative durations.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let nanoseconds = time::Duration::parse(text.as_bytes())?.0;
    let nanoseconds = u64::try_from(nanoseconds).map_err(|_| DurationError::Negative(text.to_owned()))?;
    Ok(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let check =
            |text: &str, nanos: u64| assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        check("0", 0);
        check("0s", 0);
        check("-0", 0);
        check("+5s", 5_000_000_000);
        check("1m30s", 90_000_000_000);
        check("1h15m30.918273645s", 4_530_918_273_645);
        check("1.5h", 5_400_000_000_000);
        check(".5s", 500_000_000);
        check("1.s", 1_000_000_000);
        check("100ms", 100_000_000);
        check("3us", 3_000);
        check("3µs", 3_000);
        check("7ns", 7);
        check("0.3333333333333333333h", 1_200_000_000_000);
        check("9223372036854775807ns", 9_223_372_036_854_775_807);
    }

    #[test]
    fn input_that_go_rejects_is_rejected_with_its_message() {
        let check = |text: &str, expected: &str| {
            assert_eq!(parse_duration(text).map_err(|e| e.to_string()), Err(expected.to_owned()), "{text}");
        };
        check("", r#"time: invalid duration """#);
        check("-", r#"time: invalid duration "-""#);
        check("s", r#"time: invalid duration "s""#);
        check(".s", r#"time: invalid duration ".s""#);
        check("60", r#"time: missing unit in duration "60""#);
        check("1m30", r#"time: missing unit in duration "1m30""#);
        check("1d", r#"time: unknown unit "d" in duration "1d""#);
        check("9223372036854775808ns", r#"time: invalid duration "9223372036854775808ns""#);
        check(
            "99999999999999999999999999999999999999999999h",
            r#"time: invalid duration "99999999999999999999999999999999999999999999h""#,
        );
        check("-1s", r#"duration "-1s" must not be negative"#);
    }
}
