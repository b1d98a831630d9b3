//! Parses comma-separated fields, some in double quotes. Counterpart: Go's `encoding/csv`, as spf13/pflag uses it.

/// A misplaced quote, in Go's words. Columns count bytes, starting at 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum QuoteError {
    /// A quote inside a field that does not start with one.
    #[error("parse error on line 1, column {0}: bare \" in non-quoted-field")]
    Bare(usize),
    /// A quoted field that does not end, or is followed by text.
    #[error("parse error on line 1, column {0}: extraneous or missing \" in quoted-field")]
    Quoted(usize),
}

/// Returns the fields. Empty text has none.
pub(super) fn read(text: &str) -> Result<Vec<String>, QuoteError> {
    let mut fields = Vec::new();
    let mut rest = text;
    while !text.is_empty() {
        let at = text.len() - rest.len();
        let (field, after) = match rest.strip_prefix('"') {
            Some(inner) => quoted(inner, at + 1, text)?,
            None => bare(rest, at)?,
        };
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => break,
        }
    }
    Ok(fields)
}

/// Parses an unquoted field; returns it with the text after the comma.
fn bare(rest: &str, at: usize) -> Result<(String, Option<&str>), QuoteError> {
    let (field, after) = rest.split_once(',').map_or((rest, None), |(field, after)| (field, Some(after)));
    match field.find('"') {
        Some(quote) => Err(QuoteError::Bare(at + quote + 1)),
        None => Ok((field.to_owned(), after)),
    }
}

/// Parses a quoted field after its opening quote. `""` is a quote.
fn quoted<'a>(inner: &'a str, at: usize, whole: &str) -> Result<(String, Option<&'a str>), QuoteError> {
    let mut field = String::new();
    let mut rest = inner;
    loop {
        let Some((text, after)) = rest.split_once('"') else { return Err(QuoteError::Quoted(whole.len() + 1)) };
        field.push_str(text);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
        } else if after.is_empty() {
            return Ok((field, None));
        } else if let Some(after) = after.strip_prefix(',') {
            return Ok((field, Some(after)));
        } else {
            return Err(QuoteError::Quoted(at + inner.len() - after.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_split_as_in_go() {
        let check = |text: &str, expected: &[&str]| assert_eq!(read(text).unwrap(), expected, "{text}");
        check("", &[]);
        check("a", &["a"]);
        check("a,b,", &["a", "b", ""]);
        check(r#""a,b",c"#, &["a,b", "c"]);
        check(r#""say ""hi""""#, &[r#"say "hi""#]);
    }

    #[test]
    fn a_misplaced_quote_is_reported() {
        let check = |text: &str, expected: &str| {
            assert_eq!(read(text).unwrap_err().to_string(), format!("parse error on line 1, {expected}"), "{text}");
        };
        check("\"a", "column 3: extraneous or missing \" in quoted-field");
        check("a\"b", "column 2: bare \" in non-quoted-field");
    }
}
