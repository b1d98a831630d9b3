//! Override values take from the operator's environment: `$VAR`, `${VAR}` first, then Go templates with Sprig's functions.
//!
//! Counterpart: `os.ExpandEnv` and `expandOverrideValues` of operator-sdk's `internal/helm/watches`.

/// A broken template. The text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It can't be read.
    #[error("invalid template string {text:?}: {cause}")]
    Parse {
        /// The text after the environment.
        text: String,
        /// What the template engine says.
        cause: String,
    },
    /// It fails.
    #[error("failed to execute template {text:?}: {cause}")]
    Execute {
        /// The text after the environment.
        text: String,
        /// What the template engine says.
        cause: String,
    },
}

/// Expands the environment, then the template.
pub(super) fn expand(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, Error> {
    let text = expand_env(text, env);
    match text.contains("{{") {
        true => render(text),
        false => Ok(text),
    }
}

fn render(text: String) -> Result<String, Error> {
    Err(Error::Execute { text, cause: "templates are not built in".to_owned() })
}

/// Go's `os.Expand`: unknown variables are empty, a `$` without a name stays, bad braces vanish.
fn expand_env(text: &str, env: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, length) = shell_name(after);
        if !name.is_empty() {
            out.push_str(&env(name).unwrap_or_default());
        } else if length == 0 {
            out.push('$');
        }
        rest = &after[length..];
    }
    out + rest
}

/// The variable's name at the start of `text`, which follows a `$`, and how many bytes it takes with its braces.
fn shell_name(text: &str) -> (&str, usize) {
    if let Some(inside) = text.strip_prefix('{') {
        return match inside.find('}') {
            Some(end) => (&inside[..end], end + 2),
            None => ("", 1),
        };
    }
    if text.starts_with(is_special) {
        return (&text[..1], 1);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (&text[..end], end)
}

/// The shell's one-character names.
fn is_special(c: char) -> bool {
    matches!(c, '*' | '#' | '$' | '@' | '!' | '?' | '-' | '0'..='9')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("1".into()),
            "LONG_name2" => Some("long".into()),
            "MY_IMAGE" => Some("quay.io/app:v1".into()),
            "1" => Some("one".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_expanded_as_gos_os_package_does() {
        let check = |text: &str, expected: &str| assert_eq!(expand_env(text, &env), expected, "{text}");
        check("", "");
        check("plain", "plain");
        check("$A", "1");
        check("${A}", "1");
        check("x$A-${LONG_name2}y", "x1-longy");
        check("$LONG_name2.x", "long.x");
        check("$AB", "");
        check("a${}b", "ab");
        check("a${A", "aA");
        check("cost: 5$", "cost: 5$");
        check("$ A", "$ A");
        check("$12", "one2");
        check("$$A", "A");
        check("ä$A ö", "ä1 ö");
        check("${A}}", "1}");
    }
}
