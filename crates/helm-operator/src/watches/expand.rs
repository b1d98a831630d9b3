//! Expands override values from the operator's environment: `$VAR` and `${VAR}` first, then Go templates with Sprig's
//! functions.
//!
//! Counterpart: `os.ExpandEnv` and `expandOverrideValues` of operator-sdk's `internal/helm/watches`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use go_template::{FuncError, FuncMap, Str, Templates, Value};
use outside::sync;

use crate::mask::Mask;

/// The reason why an override value's template fails. Upstream prints the whole text. We print only the key, because
/// text from the environment may be secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It cannot be parsed.
    #[error("invalid template string of {key:?}: {cause}")]
    Parse {
        /// The override value's path.
        key: String,
        /// The template engine's message, unless it could quote the environment.
        cause: String,
    },
    /// It fails when it is executed.
    #[error("failed to execute template of {key:?}: {cause}")]
    Execute {
        /// The override value's path.
        key: String,
        /// The template engine's message, unless it could quote the environment.
        cause: String,
    },
}

/// Replaces messages of the template engine that would quote the environment.
const HIDDEN: &str =
    "the template is invalid once environment variables are expanded; quote them, or read them with the function env";

/// A function that looks up an environment variable.
pub(super) type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Expands the environment, then the template, in the value of `key`.
pub(super) fn expand(key: &str, text: &str, env: &Env) -> Result<String, Error> {
    let expanded = expand_env(text, &**env);
    if !expanded.contains("{{") {
        return Ok(expanded);
    }
    let is_written = expanded == text;
    let seen = Arc::new(Mutex::new(literals(text)));
    let env = noting(env.clone(), seen.clone());
    let cause = |error: &dyn std::fmt::Display| match is_written {
        true => sync::lock(&seen).hide(error.to_string()),
        false => HIDDEN.to_owned(),
    };
    let parsed = go_template::parse(key, expanded.as_str(), &functions(&env))
        .map_err(|error| Error::Parse { key: key.to_owned(), cause: cause(&error) })?;
    let mut templates = Templates::new(key);
    templates.add(&parsed);
    let printed = Arc::new(templates).execute(key, &Value::Nil);
    let bytes = printed.map_err(|error| Error::Execute { key: key.to_owned(), cause: cause(&error) })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the names in `$VAR` and `${VAR}` of variables that are not set: these references disappear from the text. A
/// template that reads a variable with `env` may have a default for it.
pub(super) fn unset(text: &str, env: &Env) -> BTreeSet<String> {
    let unset = RefCell::new(BTreeSet::new());
    let noting = |name: &str| {
        let found = env(name);
        if found.is_none() {
            unset.borrow_mut().insert(name.to_owned());
        }
        found
    };
    expand_env(text, &noting);
    unset.into_inner()
}

/// Returns a mask of the strings in a template's text, which may be secret and which errors quote.
fn literals(text: &str) -> Mask {
    let mut mask = Mask::default();
    text.split(['"', '`']).skip(1).step_by(2).for_each(|literal| mask.add_secret(&literal.into()));
    mask
}

/// Wraps the environment, so that each variable that is read is added to the mask for errors.
fn noting(env: Env, seen: Arc<Mutex<Mask>>) -> Env {
    Arc::new(move |name| env(name).inspect(|text| sync::lock(&seen).add_secret(&text.as_str().into())))
}

/// Returns Sprig's functions with `env` and `expandenv`, which Helm withholds from charts. An operator's own
/// configuration may read its environment.
fn functions(env: &Env) -> FuncMap {
    let mut functions = sprig::func_map();
    let (one, all) = (env.clone(), env.clone());
    functions.add("env", move |name: Str| one(&name.to_string()).unwrap_or_default());
    functions.add("expandenv", move |text: Str| expand_env(&text.to_string(), &*all));
    // Helm's `fail` marks its message for Helm's error reporting, which does not run here.
    functions.add("fail", |text: Str| Err::<Value, _>(FuncError::new(text.to_string())));
    functions
}

/// Ports Go's `os.Expand`: unknown variables are empty, a `$` without a name stays, invalid braces disappear.
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

/// Returns the variable name at the start of `text`, which follows a `$`, and its length in bytes, including braces.
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

/// Returns whether the character is one of the shell's one-character names.
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

    #[test]
    fn only_names_that_disappear_count_as_unset() {
        let env: Env = Arc::new(env);
        let cases: [(&str, &[&str]); 4] = [
            ("$A and 5$", &[]),
            ("$B-${C}-$B-$A", &["B", "C"]),
            (r#"{{ env "B" | default "b" }}"#, &[]),
            ("{{ $x := 1 }}", &["x"]),
        ];
        for (text, expected) in cases {
            assert_eq!(unset(text, &env).into_iter().collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn templates_run_after_the_environment() {
        let env: Env = Arc::new(env);
        let check = |text: &str, expected: &str| assert_eq!(expand("k", text, &env).as_deref(), Ok(expected), "{text}");
        check(r#"{{ ("$MY_IMAGE" | split ":")._0 }}"#, "quay.io/app");
        check(r#"{{ ("$MY_IMAGE" | split ":")._1 }}"#, "v1");
        check(r#"{{ env "A" }}-{{ expandenv "${A}$A" }}"#, "1-11");
        check(r#"{{ upper "x" }}"#, "X");
    }

    #[test]
    fn an_invalid_template_is_rejected_by_its_key_without_what_the_environment_says() {
        let env: Env = Arc::new(env);
        let check = |text: &str, expected: &str| {
            assert_eq!(expand("k", text, &env).map_err(|e| e.to_string()), Err(expected.to_owned()));
        };
        check("{{ nope }}", r#"invalid template string of "k": template: k:1: function "nope" not defined"#);
        check(
            r#"{{ fail "no" }}"#,
            r#"failed to execute template of "k": template: k:1:3: executing "k" at <fail "****">: error calling fail: ****"#,
        );
        check(
            r#"{{ env "MY_IMAGE" | mustRegexMatch "(" }}"#,
            "failed to execute template of \"k\": template: k:1:20: executing \"k\" at <mustRegexMatch \"****\">: \
             error calling mustRegexMatch: error parsing regexp: missing closing ): `****`",
        );
        check(
            r#"{{ env "MY_IMAGE" | fail }}"#,
            "failed to execute template of \"k\": template: k:1:20: executing \"k\" at <fail>: error calling fail: ****",
        );
        check("{{ $MY_IMAGE }}", &format!("invalid template string of \"k\": {HIDDEN}"));
        check(r#"{{ fail "$MY_IMAGE" }}"#, &format!("failed to execute template of \"k\": {HIDDEN}"));
    }
}
