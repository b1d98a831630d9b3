//! Classes of characters and their case mappings, as of Unicode 15.0. Counterpart: Go's `unicode`.
//!
//! Rust's methods on `char` follow a newer version of Unicode and define the classes differently: `is_alphabetic` includes marks, `is_numeric`
//! fractions.

mod case;
mod table;
#[cfg(test)]
mod tests;

pub use case::{to_lower, to_title, to_upper};

macro_rules! predicate {
    ($name:ident, $go:literal, $ascii:expr, $table:ident) => {
        #[doc = concat!("Returns whether the character is in this class. Counterpart: `unicode.", $go, "`.")]
        #[inline]
        pub fn $name(c: char) -> bool {
            if c.is_ascii() {
                let is_member: fn(&char) -> bool = $ascii;
                return is_member(&c);
            }
            table::$table.contains(c)
        }
    };
}

predicate!(is_letter, "IsLetter", char::is_ascii_alphabetic, LETTER);
predicate!(is_upper, "IsUpper", char::is_ascii_uppercase, UPPER);
predicate!(is_lower, "IsLower", char::is_ascii_lowercase, LOWER);
predicate!(is_title, "IsTitle", |_| false, TITLE);
predicate!(is_digit, "IsDigit", char::is_ascii_digit, DIGIT);
predicate!(is_number, "IsNumber", char::is_ascii_digit, NUMBER);
predicate!(is_punct, "IsPunct", |c| c.is_ascii_punctuation() && !"$+<=>^`|~".contains(*c), PUNCT);
predicate!(is_print, "IsPrint", |c| !c.is_ascii_control(), PRINT);

/// Returns whether the character is white space. Counterpart: `unicode.IsSpace`.
#[inline]
pub fn is_space(c: char) -> bool {
    c.is_whitespace()
}
