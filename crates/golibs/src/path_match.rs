//! Shell patterns in which `*` and `?` do not match `/`, for `.helmignore` and `--show-only`. Counterpart: Go's `path.Match`.

/// A parsed pattern.
pub struct Pattern(Vec<Token>);

impl Pattern {
    /// Parses a pattern; returns `None` if it is malformed.
    pub fn new(pattern: &str) -> Option<Pattern> {
        let mut chars = pattern.chars().peekable();
        let mut tokens = Vec::with_capacity(pattern.len());
        while let Some(c) = chars.next() {
            tokens.push(match c {
                '*' => Token::Star,
                '?' => Token::Any,
                '\\' => Token::Literal(chars.next()?),
                '[' => class(&mut chars)?,
                c => Token::Literal(c),
            });
        }
        Some(Pattern(tokens))
    }

    /// Returns whether the whole name matches. Takes at most as many steps as the product of both lengths.
    pub fn matches(&self, name: &str) -> bool {
        let (mut tokens, mut rest) = (self.0.as_slice(), name);
        // Where to retry if the tokens after the last star do not match: the star takes one more character.
        let mut retry: Option<(&[Token], &str)> = None;
        loop {
            let mut chars = rest.chars();
            match (tokens, chars.next()) {
                ([], None) => return true,
                ([Token::Star, after @ ..], _) => {
                    retry = Some((after, rest));
                    tokens = after;
                    continue;
                }
                ([token, after @ ..], Some(c)) if token.accepts(c) => {
                    (tokens, rest) = (after, chars.as_str());
                    continue;
                }
                _ => {}
            }
            let Some((after, from)) = retry else { return false };
            let mut chars = from.chars();
            if chars.next().is_none_or(|skipped| skipped == '/') {
                return false;
            }
            retry = Some((after, chars.as_str()));
            (tokens, rest) = (after, chars.as_str());
        }
    }
}

enum Token {
    Star,
    Any,
    Literal(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Token {
    fn accepts(&self, c: char) -> bool {
        match self {
            Token::Star => false,
            Token::Any => c != '/',
            Token::Literal(literal) => *literal == c,
            Token::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated
            }
        }
    }
}

fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
            return Some(Token::Class { negated, ranges });
        }
        let low = class_char(chars)?;
        let high = if chars.next_if_eq(&'-').is_some() { class_char(chars)? } else { low };
        ranges.push((low, high));
    }
}

fn class_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, name, wanted) in [
            ("abc", "abc", Some(true)),
            ("*", "abc", Some(true)),
            ("*c", "abc", Some(true)),
            ("a*", "ab/c", Some(false)),
            ("a*/b", "abc/b", Some(true)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Some(true)),
            ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", Some(false)),
            ("ab[c]", "abc", Some(true)),
            ("ab[b-d]", "abc", Some(true)),
            ("ab[^b-d]", "abc", Some(false)),
            ("a\\*b", "a*b", Some(true)),
            ("a\\*b", "ab", Some(false)),
            ("a?b", "a/b", Some(false)),
            ("[", "a", None),
            ("[]a]", "]", None),
            ("[-x]", "x", None),
            ("a\\", "a", None),
            ("templates/.?*", "templates/.hidden", Some(true)),
            ("templates/.?*", "templates/x", Some(false)),
        ] {
            assert_eq!(Pattern::new(pattern).map(|p| p.matches(name)), wanted, "{pattern} {name}");
        }
    }
}
