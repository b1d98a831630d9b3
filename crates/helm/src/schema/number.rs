//! Formats numbers like `golang.org/x/text/message` in English: `1,024`, `2.5×10⁰⁷`.

use golibs::strconv::format_float;

/// Formats a float like `%v`.
pub(super) fn float(value: f64) -> String {
    let scientific = format_float(value, b'e', None);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    if !(-4..6).contains(&exponent.parse::<i32>().unwrap_or_default()) {
        return format!("{mantissa}×10{}", superscript(exponent));
    }
    let plain = format_float(value, b'f', None);
    match plain.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", grouped(whole)),
        None => grouped(&plain),
    }
}

/// Formats an integer like `%d`.
pub(super) fn whole(value: usize) -> String {
    grouped(&value.to_string())
}

/// Groups digits in threes, after an optional sign.
fn grouped(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let mut text = sign.to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn superscript(exponent: &str) -> String {
    let raised = |c| match c {
        '-' => Some('⁻'),
        '0'..='9' => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(usize::from(c as u8 - b'0')),
        _ => None,
    };
    exponent.chars().filter_map(raised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_and_exponents_raised() {
        for (value, wanted) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (1000.0, "1,000"),
            (999_999.0, "999,999"),
            (1e6, "1×10⁰⁶"),
            (100_000.5, "100,000.5"),
            (2_147_483_647.0, "2.147483647×10⁰⁹"),
            (0.0001, "0.0001"),
            (1e-5, "1×10⁻⁰⁵"),
            (1e100, "1×10¹⁰⁰"),
            (-2500.0, "-2,500"),
        ] {
            assert_eq!(float(value), wanted);
        }
        assert_eq!(whole(1_234_567), "1,234,567");
    }
}
