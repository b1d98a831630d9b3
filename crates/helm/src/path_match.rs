//! Go's `path.Match`: shell patterns in which `*` and `?` stop at `/`. Used by `.helmignore` and `--show-only`.

/// Whether the whole name matches the pattern; `None` if the pattern is malformed.
///
/// Linear in memory, and in time at worst the product of both lengths.
pub fn matches(pattern: &str, name: &str) -> Option<bool> {
    let tokens = tokens(pattern)?;
    let name: Vec<char> = name.chars().collect();
    let (mut t, mut n) = (0, 0);
    // Where to go on when what follows the last star does not fit: one more character for the star.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match tokens.get(t) {
            Some(Token::Star) => {
                retry = Some((t + 1, n));
                t += 1;
                continue;
            }
            Some(token) if name.get(n).is_some_and(|c| token.accepts(*c)) => {
                t += 1;
                n += 1;
                continue;
            }
            None if n == name.len() => return Some(true),
            _ => {}
        }
        match retry {
            Some((after, from)) if from < name.len() && name[from] != '/' => {
                retry = Some((after, from + 1));
                (t, n) = (after, from + 1);
            }
            _ => return Some(false),
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

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut chars = pattern.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => Token::Star,
            '?' => Token::Any,
            '\\' => Token::Literal(chars.next()?),
            '[' => class(&mut chars)?,
            c => Token::Literal(c),
        });
    }
    Some(tokens)
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
    use super::matches;

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
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
