//! Parses command lines as Helm does: `--flag=false`, repeated flags, comma-separated lists, and Helm's error messages.
//!
//! The result is a plain line for the parser of [`super::Template`]. Flags for clusters or chart repositories are
//! checked and dropped. Unsupported flags that would change the output are rejected. Counterpart: spf13/pflag,
//! `pkg/cmd/flags.go`.

use std::path::Path;

use golibs::strconv::{NumError, parse_bool, parse_int};

use super::comma_list;
use super::usage::{UsageError, ValueError};
use crate::watches::parse_duration;

/// The type of a flag's value.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Bool,
    Text,
    /// A comma-separated list, which may be repeated.
    List,
    /// A text, which may be repeated.
    Repeated,
    Integer,
    Float,
    Duration,
    /// `a=b,c=d`
    Pairs,
    /// An optional text.
    DryRun,
    Wait,
}

use Kind::*;

/// Helm's flags that [`super::Template`] supports.
const FOLLOWED: &[(&str, Kind)] = &[
    ("api-versions", List),
    ("debug", Bool),
    ("dry-run", DryRun),
    ("generate-name", Bool),
    ("include-crds", Bool),
    ("is-upgrade", Bool),
    ("kube-context", Text),
    ("kube-version", Text),
    ("kubeconfig", Text),
    ("name-template", Text),
    ("namespace", Text),
    ("no-hooks", Bool),
    ("output-dir", Text),
    ("release-name", Bool),
    ("set", Repeated),
    ("set-file", Repeated),
    ("set-json", Repeated),
    ("set-literal", Repeated),
    ("set-string", Repeated),
    ("show-only", Repeated),
    ("skip-schema-validation", Bool),
    ("skip-tests", Bool),
    ("validate", Bool),
    ("values", List),
    // Our own, for what the operator adds.
    ("kind", Text),
    ("watches-file", Text),
];

/// Helm's flags that do not affect rendering a chart on disk, or that [`Line::refused`] rejects.
const OTHERS: &[(&str, Kind)] = &[
    ("atomic", Bool),
    ("burst-limit", Integer),
    ("ca-file", Text),
    ("cert-file", Text),
    ("color", Text),
    ("colour", Text),
    ("content-cache", Text),
    ("create-namespace", Bool),
    ("dependency-update", Bool),
    ("description", Text),
    ("devel", Bool),
    ("disable-openapi-validation", Bool),
    ("enable-dns", Bool),
    ("force", Bool),
    ("force-conflicts", Bool),
    ("force-replace", Bool),
    ("help", Bool),
    ("hide-notes", Bool),
    ("insecure-skip-tls-verify", Bool),
    ("key-file", Text),
    ("keyring", Text),
    ("kube-apiserver", Text),
    ("kube-as-group", Repeated),
    ("kube-as-user", Text),
    ("kube-ca-file", Text),
    ("kube-insecure-skip-tls-verify", Bool),
    ("kube-tls-server-name", Text),
    ("kube-token", Text),
    ("labels", Pairs),
    ("pass-credentials", Bool),
    ("password", Text),
    ("plain-http", Bool),
    ("post-renderer", Text),
    ("post-renderer-args", Repeated),
    ("qps", Float),
    ("registry-config", Text),
    ("render-subchart-notes", Bool),
    ("replace", Bool),
    ("repo", Text),
    ("repository-cache", Text),
    ("repository-config", Text),
    ("rollback-on-failure", Bool),
    ("server-side", Bool),
    ("skip-crds", Bool),
    ("take-ownership", Bool),
    ("timeout", Duration),
    ("username", Text),
    ("verify", Bool),
    ("version", Text),
    ("wait", Wait),
    ("wait-for-jobs", Bool),
];

const SHORT: &[(char, &str)] = &[
    ('a', "api-versions"),
    ('f', "values"),
    ('g', "generate-name"),
    ('h', "help"),
    ('l', "labels"),
    ('n', "namespace"),
    ('s', "show-only"),
];

const DEPRECATED: &[(&str, &str)] = &[
    ("atomic", "use --rollback-on-failure instead"),
    ("force", "use --force-replace instead"),
    ("hide-notes", "this flag has no effect for 'helm template' and will be removed in Helm 5"),
    ("render-subchart-notes", "this flag has no effect for 'helm template' and will be removed in Helm 5"),
    ("validate", "use '--dry-run=server' instead"),
];

#[derive(Debug, Default)]
pub(in crate::cli) struct Line {
    flags: Vec<(&'static str, Vec<String>)>,
    charts: Vec<String>,
    /// Helm's warnings about deprecated flags.
    pub(in crate::cli) warnings: Vec<String>,
}

/// Parses the arguments after the word `template`. `env` looks up environment variables; `name` is the program's.
///
/// # Errors
/// In Helm's words: unknown flags, invalid values, too many or missing names. In ours: unsupported flags.
pub(in crate::cli) fn read(
    args: &[String],
    name: &str,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Line, (Vec<String>, Box<UsageError>)> {
    let mut line = Line::default();
    match line.parse(args).and_then(|()| line.finish(name, env)) {
        Ok(()) => Ok(line),
        Err(error) => Err((line.warnings, Box::new(error))),
    }
}

impl Line {
    /// Returns the command line as plain arguments.
    pub(in crate::cli) fn plain(&self) -> Vec<String> {
        if self.is_on("help") {
            return vec!["--help".to_owned()];
        }
        let mut plain = Vec::new();
        for (flag, kind) in FOLLOWED {
            match (kind, self.values(flag)) {
                (Bool, _) if self.is_on(flag) => plain.push(format!("--{flag}")),
                (List | Repeated, values) => plain.extend(values.iter().map(|value| format!("--{flag}={value}"))),
                (DryRun, [.., last]) => plain.push(format!("--{flag}={last}")),
                (Text, [.., last]) if !last.is_empty() => plain.push(format!("--{flag}={last}")),
                _ => {}
            }
        }
        plain.push("--".to_owned());
        plain.extend(self.charts.iter().cloned());
        plain
    }

    /// Uses the kubeconfig's namespace if no flag names one.
    pub(in crate::cli) fn default_namespace(&mut self, of: impl Fn(&str, &str) -> Option<String>) {
        if !self.last("namespace").is_empty() {
            return;
        }
        if let Some(namespace) = of(self.last("kubeconfig"), self.last("kube-context")) {
            self.flags.retain(|(name, _)| *name != "namespace");
            self.flags.push(("namespace", vec![namespace]));
        }
    }

    fn values(&self, flag: &str) -> &[String] {
        self.flags.iter().find(|(name, _)| *name == flag).map_or(&[], |(_, values)| values)
    }

    fn last(&self, flag: &str) -> &str {
        self.values(flag).last().map_or("", String::as_str)
    }

    fn is_on(&self, flag: &str) -> bool {
        self.values(flag).last().is_some_and(|value| parse_bool(value.as_bytes()) == Ok(true))
    }

    fn parse(&mut self, args: &[String]) -> Result<(), UsageError> {
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                self.charts.extend(args.by_ref().cloned());
            } else if let Some(long) = arg.strip_prefix("--") {
                self.long(arg, long, &mut args)?;
            } else if let Some(short) = arg.strip_prefix('-').filter(|short| !short.is_empty()) {
                self.short(short, &mut args)?;
            } else {
                self.charts.push(arg.clone());
            }
        }
        Ok(())
    }

    fn long<'a>(
        &mut self,
        arg: &str,
        long: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), UsageError> {
        if long.starts_with(['-', '=']) {
            return Err(UsageError::Syntax(arg.to_owned()));
        }
        let (name, given) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let (name, kind) = find(name).ok_or_else(|| UsageError::UnknownFlag(name.to_owned()))?;
        let value = match (given, kind.alone()) {
            (Some(given), _) => given,
            (None, Some(alone)) => alone,
            (None, None) => rest.next().ok_or(UsageError::NoValue(name))?,
        };
        self.set(name, kind, value)
    }

    fn short<'a>(&mut self, all: &str, rest: &mut impl Iterator<Item = &'a String>) -> Result<(), UsageError> {
        let mut left = all;
        while let Some(letter) = left.chars().next() {
            let after = &left[letter.len_utf8()..];
            let known = SHORT.iter().find(|(short, _)| *short == letter).and_then(|(_, name)| find(name));
            let (name, kind) = known.ok_or_else(|| UsageError::UnknownShorthand { letter, flags: left.to_owned() })?;
            match (after.strip_prefix('='), kind.alone()) {
                (Some(value), _) => return self.set(name, kind, value),
                (None, Some(alone)) => self.set(name, kind, alone)?,
                (None, None) if !after.is_empty() => return self.set(name, kind, after),
                (None, None) => {
                    let value =
                        rest.next().ok_or_else(|| UsageError::NoShorthandValue { letter, flags: left.to_owned() })?;
                    return self.set(name, kind, value);
                }
            }
            left = after;
        }
        Ok(())
    }

    fn set(&mut self, name: &'static str, kind: Kind, value: &str) -> Result<(), UsageError> {
        let read = kind.read(value).map_err(|cause| invalid(name, value, cause))?;
        if !self.flags.iter().any(|(known, _)| *known == name) {
            let note = DEPRECATED.iter().find(|(flag, _)| *flag == name);
            self.warnings.extend(note.map(|(flag, note)| format!("Flag --{flag} has been deprecated, {note}")));
            self.flags.push((name, Vec::new()));
        }
        if let Some((_, values)) = self.flags.iter_mut().find(|(known, _)| *known == name) {
            values.extend(read);
        }
        Ok(())
    }

    fn finish(&mut self, name: &str, env: impl Fn(&str) -> Option<String>) -> Result<(), UsageError> {
        if self.is_on("help") {
            return Ok(());
        }
        if self.charts.is_empty() {
            return Err(UsageError::NoChart(name.to_owned()));
        }
        if !self.values("validate").is_empty() && !self.values("dry-run").is_empty() {
            return Err(UsageError::ValidateAndDryRun);
        }
        self.dry_run();
        if let Some(further) = self.charts.get(2..).filter(|further| !further.is_empty()) {
            return Err(UsageError::TooManyArguments(further.to_vec()));
        }
        self.take_env(env)?;
        self.refused()
    }

    /// Converts the old form of `--dry-run`, which used to be a switch. The options check its value.
    fn dry_run(&mut self) {
        let old = |value: &String| value == "unset" || parse_bool(value.as_bytes()) == Ok(true);
        if self.values("dry-run").last().is_some_and(old) {
            let text = "--dry-run is deprecated and should be replaced with '--dry-run=client'";
            self.warnings.push(format!("level=WARN msg={text:?}"));
            self.flags.retain(|(name, _)| *name != "dry-run");
            self.flags.push(("dry-run", vec!["client".to_owned()]));
        }
    }

    /// Reads from the environment what Helm does if no flag is set.
    fn take_env(&mut self, env: impl Fn(&str) -> Option<String>) -> Result<(), UsageError> {
        let variables = [
            ("kube-context", Text, "HELM_KUBECONTEXT"),
            ("namespace", Text, "HELM_NAMESPACE"),
            ("debug", Bool, "HELM_DEBUG"),
        ];
        for (flag, kind, variable) in variables {
            let value = env(variable).filter(|value| kind != Bool || parse_bool(value.as_bytes()).is_ok());
            if let Some(value) = value.filter(|_| self.values(flag).is_empty()) {
                self.set(flag, kind, &value)?;
            }
        }
        Ok(())
    }

    /// Rejects unsupported flags that would change the output, or choose a cluster.
    fn refused(&self) -> Result<(), UsageError> {
        let chart = self.charts.last().map_or("", String::as_str);
        if !self.last("repo").is_empty() {
            let (chart, repository) = (chart.to_owned(), self.last("repo").to_owned());
            return Err(UsageError::Repository { chart, repository });
        }
        if self.is_on("verify") && Path::new(chart).is_dir() {
            return Err(UsageError::VerifyFolder);
        }
        if self.is_on("verify") {
            return Err(UsageError::Verify);
        }
        if !self.last("post-renderer").is_empty() {
            return Err(invalid("post-renderer", self.last("post-renderer"), ValueError::PostRenderer));
        }
        let asks = self.is_on("validate") || self.last("dry-run") == "server";
        let other = self.flags.iter().find(|(name, values)| asks && is_connection(name) && !values.is_empty());
        other.map_or(Ok(()), |(name, _)| Err(UsageError::Connection(name)))
    }
}

fn invalid(flag: &'static str, value: &str, cause: ValueError) -> UsageError {
    let short = SHORT.iter().find(|(_, long)| *long == flag).map(|(short, _)| *short);
    UsageError::Value { value: value.to_owned(), short, flag, cause }
}

/// Returns whether the flag describes a cluster other than by kubeconfig.
fn is_connection(name: &str) -> bool {
    name.starts_with("kube-") && OTHERS.iter().any(|(other, _)| *other == name)
}

fn find(name: &str) -> Option<(&'static str, Kind)> {
    FOLLOWED.iter().chain(OTHERS).find(|(known, _)| *known == name).copied()
}

impl Kind {
    /// Returns the value of a flag that is given without one; `None` if the flag requires a value.
    fn alone(self) -> Option<&'static str> {
        match self {
            Bool => Some("true"),
            DryRun => Some("unset"),
            Wait => Some("watcher"),
            _ => None,
        }
    }

    fn read(self, value: &str) -> Result<Vec<String>, ValueError> {
        let go = |function, error| ValueError::Number { function, text: value.to_owned(), error };
        match self {
            Bool => parse_bool(value.as_bytes()).map(drop).map_err(|error| go("ParseBool", error))?,
            Integer => parse_int(value.as_bytes(), 0).map(drop).map_err(|error| go("ParseInt", error))?,
            Float => value.parse::<f32>().map(drop).map_err(|_| go("ParseFloat", NumError::Syntax))?,
            Duration => parse_duration(value).map(drop)?,
            Wait => wait(value)?,
            Pairs => pairs(value)?,
            List => return Ok(comma_list::read(value)?),
            Text | Repeated | DryRun => {}
        }
        Ok(vec![value.to_owned()])
    }
}

fn wait(value: &str) -> Result<(), ValueError> {
    match value {
        "watcher" | "hookOnly" | "legacy" | "true" | "false" => Ok(()),
        _ => Err(ValueError::Wait(value.to_owned())),
    }
}

fn pairs(value: &str) -> Result<(), ValueError> {
    if value.matches('=').count() == 1 {
        return Ok(());
    }
    match comma_list::read(value)?.into_iter().find(|pair| !pair.contains('=')) {
        Some(pair) => Err(ValueError::NoPair(pair)),
        None => Ok(()),
    }
}
