//! The annotations on a custom resource that control its release: those of operator-sdk and helm-operator-plugins, and
//! ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller::report::shorten;
use golibs::strconv::parse_bool;
use helm_release::action::Action;
use helm_release::kube::DriftPolicy;
use scaffold::annotations::{PREFIX, RENAMED};
use serde::de::DeserializeOwned;

use crate::dependencies::{self, Dependency};
use crate::spelling::nearest;
use crate::values_from::{self, ValuesSource};
use crate::watches::{DurationError, parse_duration};

/// The maximum length of a value in a message, in bytes.
const MAX_QUOTED: usize = 64;

/// The maximum length of a token, in bytes, because the status repeats it.
const MAX_TOKEN: usize = 256;

/// The maximum size of a resource's values that are longer than a token, together, in bytes. The process keeps those of
/// every resource.
const MAX_ANNOTATION_BYTES: usize = 8 << 10;

/// The maximum number of unknown keys that are kept, to be reported.
const MAX_UNKNOWN: usize = 8;

/// The minimum of a period or limit that an annotation sets, except for zero. Otherwise, anyone who may annotate a
/// resource could keep the operator busy.
const SHORTEST: Duration = Duration::from_secs(1);

const DURATIONS: [&str; 2] = ["reconcile-period", "hook-timeout"];

/// The keys with a boolean. As in upstream, an invalid boolean counts as false.
const FLAGS: [&str; 7] = [
    "adopt",
    "dry-run",
    "suspend",
    "uninstall-wait",
    "install-disable-hooks",
    "upgrade-disable-hooks",
    "uninstall-disable-hooks",
];

/// The control annotations that count, and their names.
///
/// A name given by helm-operator-plugins' `CustomName` replaces the usual one. If a policy guards the new name of
/// `pause`, for example, the old name must not stay open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotationNames {
    names: BTreeMap<Box<str>, &'static str>,
    /// The keys that count; `None` means all.
    allowed: Option<BTreeSet<&'static str>>,
}

/// The reason why an annotation cannot have a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("{key:?} is not one of {}", RENAMED.join(", "))]
    Unknown { key: String },
    #[error("{key:?} is not one of {}{}", all_keys().collect::<Vec<_>>().join(", "), meant(key))]
    NoKey { key: String },
    /// Two keys share a name. The message is upstream's.
    #[error("annotation {0:?} already exists")]
    Duplicate(String),
}

impl AnnotationNames {
    /// Adds a full annotation name for one of our keys.
    ///
    /// # Errors
    /// The key cannot be renamed, or another key has this name.
    pub(crate) fn add(&mut self, key: &str, name: &str) -> Result<(), NameError> {
        let key = RENAMED
            .into_iter()
            .find(|known| *known == key)
            .ok_or_else(|| NameError::Unknown { key: key.to_owned() })?;
        match self.names.insert(name.into(), key) {
            Some(_) => Err(NameError::Duplicate(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Returns the key of ours that has this full name.
    pub(super) fn renamed(&self, name: &str) -> Option<&'static str> {
        self.names.get(name).copied()
    }

    pub(crate) fn counts(&self, key: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(key))
    }

    /// Restricts the keys that count to these.
    ///
    /// # Errors
    /// There is no such key.
    pub(crate) fn allow(&mut self, keys: &[String]) -> Result<(), NameError> {
        let known =
            |key: &String| all_keys().find(|known| known == key).ok_or_else(|| NameError::NoKey { key: key.clone() });
        self.allowed = Some(keys.iter().map(known).collect::<Result<_, _>>()?);
        Ok(())
    }
}

fn all_keys() -> impl Iterator<Item = &'static str> {
    scaffold::annotations::all()
}

/// Suggests the key that was probably meant.
fn meant(key: &str) -> String {
    nearest(key, all_keys()).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// A custom resource's annotations that control its release; all others are dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotations {
    /// The value of an unknown key is empty.
    ours: BTreeMap<Box<str>, Box<str>>,
    /// The sizes of values that are not kept because they exceed the limit.
    too_large: BTreeMap<Box<str>, usize>,
    /// The reasons why others of our annotations don't count.
    refused: Vec<Box<str>>,
}

impl Annotations {
    /// Keeps the annotations with our prefix, within the limits.
    pub(crate) fn new(all: &BTreeMap<String, String>) -> Annotations {
        let ours = || all.iter().filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value.as_str())));
        let known = ours().filter(|(key, _)| is_known(key));
        let unknown = ours().filter(|(key, _)| !is_known(key)).take(MAX_UNKNOWN).map(|(key, _)| (key, ""));
        let kept = known.chain(unknown).map(|(key, value)| (key.into(), value.into()));
        let mut annotations = Annotations { ours: kept.collect(), ..Annotations::default() };
        annotations.drop_too_large();
        annotations
    }

    /// Drops the values that are longer than a token if they exceed the limit together.
    fn drop_too_large(&mut self) {
        let long = || self.ours.iter().filter(|(_, value)| value.len() > MAX_TOKEN);
        if long().map(|(_, value)| value.len()).sum::<usize>() > MAX_ANNOTATION_BYTES {
            self.too_large.extend(long().map(|(key, value)| (key.clone(), value.len())));
            self.ours.retain(|_, value| value.len() <= MAX_TOKEN);
        }
    }

    /// Reads renamed annotations under their new names only, and drops those that must not count.
    pub(crate) fn rename(&mut self, all: &BTreeMap<String, String>, names: &AnnotationNames) {
        for (name, key) in &names.names {
            let usual = (self.ours.remove(*key), self.too_large.remove(*key));
            if usual != (None, None) && !name.starts_with(PREFIX) {
                self.refused.push(format!("annotation {PREFIX}{key} does not count: its name here is {name}").into());
            }
        }
        let renamed = names.names.iter().filter_map(|(name, key)| Some((*key, all.get(&**name)?)));
        renamed.for_each(|(key, value)| _ = self.ours.insert(key.into(), value.as_str().into()));
        self.drop_too_large();
        if let Some(allowed) = &names.allowed {
            let all = self.ours.keys().chain(self.too_large.keys());
            let refused = all.filter(|key| is_known(key) && !allowed.contains(&***key));
            let refused: Vec<Box<str>> = refused.cloned().collect();
            for key in refused {
                self.ours.remove(&key);
                self.too_large.remove(&key);
                let why =
                    format!("annotation {PREFIX}{key} does not count: allowedAnnotations in watches.yaml lacks {key}");
                self.refused.push(why.into());
            }
        }
    }

    /// Returns whether to leave the resource alone, deleted or not. As in helm-operator-plugins, only `pause: "true"`
    /// counts.
    pub(crate) fn pause(&self) -> bool {
        self.ours.get("pause").is_some_and(|value| &**value == "true")
    }

    /// Pauses the resource, as the annotation does.
    pub(crate) fn set_pause(&mut self) {
        self.ours.insert("pause".into(), "true".into());
    }

    /// Returns `reconcile-period`, a Go duration of at least one second; zero turns periodic reconciles off.
    pub(crate) fn reconcile_period(&self) -> Result<Option<Duration>, DurationError> {
        self.duration("reconcile-period")
    }

    /// Returns `hook-timeout`, the limit for one of the chart's hooks, a Go duration of at least one second; zero means
    /// no limit.
    pub(crate) fn hook_timeout(&self) -> Result<Option<Duration>, DurationError> {
        self.duration("hook-timeout")
    }

    /// Returns a duration. A shorter one than allowed counts as the minimum.
    fn duration(&self, key: &str) -> Result<Option<Duration>, DurationError> {
        let Some(text) = self.ours.get(key) else { return Ok(None) };
        let duration = parse_duration(text)?;
        Ok(Some(if is_too_short(duration) { SHORTEST } else { duration }))
    }

    /// Names the first invalid annotation and what is wrong with it; returns `None` if all are valid.
    pub(crate) fn fault(&self) -> Option<String> {
        if let Some(key) = self.too_large.keys().next() {
            return Some(format!("annotation {PREFIX}{key}: {}", self.size_fault()));
        }
        let checks = [("reconcile-period", self.reconcile_period()), ("hook-timeout", self.hook_timeout())];
        let duration = checks.into_iter().find_map(|(key, value)| Some((key, value.err()?.to_string())));
        let is_long = |key: &&str| self.ours.get(*key).is_some_and(|token| token.len() > MAX_TOKEN);
        let token = || ["reconcile-now", "retry-now"].into_iter().find(is_long);
        let bad = duration.or_else(|| Some((token()?, format!("a token has at most {MAX_TOKEN} bytes"))));
        let bad = bad.or_else(|| self.drift().err().map(|error| ("drift", error.to_owned())));
        let bad = bad.or_else(|| self.pin().err().map(|error| ("pin", error.to_owned())));
        bad.map(|(key, error)| format!("annotation {PREFIX}{key}: {error}"))
    }

    /// Describes the values that are not kept.
    fn size_fault(&self) -> String {
        let bytes: usize = self.too_large.values().sum();
        format!(
            "the long values of such annotations have {bytes} bytes together, more than the operator reads (limit \
             MAX_ANNOTATION_BYTES of 8 KiB): shorten them"
        )
    }

    /// Parses a YAML list, unless it was too large to keep; `None` without the annotation. The error never quotes it.
    fn list<T: DeserializeOwned>(&self, key: &str) -> Option<Result<T, String>> {
        let Some(text) = self.ours.get(key) else {
            return self.too_large.contains_key(key).then(|| Err(self.size_fault()));
        };
        let options = serde_yaml::options! { with_snippet: false };
        Some(serde_yaml::from_str_with_options(text, options).map_err(|error| error.to_string()))
    }

    /// Describes each annotation with our prefix that has no effect because its key or its value is misspelt.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        self.ours
            .iter()
            .filter_map(|(key, value)| Some(format!("annotation {PREFIX}{key}{}", mistake(key, value)?)))
            .chain(self.refused.iter().map(|why| why.to_string()))
            .collect()
    }

    /// Returns `reconcile-now`, a token that requests one full reconcile. Each new token is another request.
    pub(crate) fn reconcile_now(&self) -> Option<&str> {
        self.token("reconcile-now")
    }

    /// Returns `retry-now`, a token that ends every wait after a failure, once.
    pub(crate) fn retry_now(&self) -> Option<&str> {
        self.token("retry-now")
    }

    fn token(&self, key: &str) -> Option<&str> {
        self.ours.get(key).map(|token| &**token).filter(|token| !token.is_empty())
    }

    /// Returns `values-from`: further value sources, as a YAML list like `valuesFrom` in watches.yaml. The error never
    /// quotes the list.
    pub(crate) fn values_from(&self) -> Option<Result<Vec<ValuesSource>, String>> {
        Some(self.list("values-from")?.and_then(|entries: Vec<ValuesSource>| {
            values_from::check(&entries).map_err(|e| e.to_string())?;
            Ok(entries)
        }))
    }

    /// Returns `depends-on`: what the resource waits for in addition, as a YAML list like `dependsOn` in watches.yaml.
    pub(crate) fn depends_on(&self) -> Option<Result<Vec<Dependency>, String>> {
        Some(self.list("depends-on")?.and_then(|list: serde_json::Value| dependencies::parse(&list)))
    }

    /// Returns `drift`, the policy for drift of the release's objects. An object's own annotation overrides it.
    pub(crate) fn drift(&self) -> Result<Option<DriftPolicy>, &'static str> {
        let Some(text) = self.ours.get("drift") else { return Ok(None) };
        DriftPolicy::parse(text).map(Some).ok_or("must be \"repair\", \"detect\" or \"off\"")
    }

    /// Returns `pin`, the revision that the release stays at.
    pub(crate) fn pin(&self) -> Result<Option<u32>, &'static str> {
        let Some(text) = self.ours.get("pin") else { return Ok(None) };
        let revision = text.parse().ok().filter(|revision| *revision > 0);
        revision.map(Some).ok_or("must be the number of a revision, as in \"3\"")
    }

    /// Returns `uninstall-wait`: whether the resource stays until all objects are deleted. Default: false.
    pub(crate) fn uninstall_wait(&self) -> bool {
        self.flag("uninstall-wait", false)
    }

    /// Returns `adopt`: whether to take over releases and objects that have another owner. Default: false.
    pub(crate) fn adopt(&self) -> bool {
        self.flag("adopt", false)
    }

    /// Returns `suspend`: whether to leave the release alone. Default: false.
    pub(crate) fn suspend(&self) -> bool {
        self.flag("suspend", false)
    }

    /// Returns `dry-run`: whether to plan instead of acting. Default: false.
    pub(crate) fn dry_run(&self) -> bool {
        self.flag("dry-run", false)
    }

    /// Returns the annotation that leaves the release alone, if any; `pause`, which also delays a deletion, comes
    /// first, and `dry-run`, which gives way to the others, last.
    pub(crate) fn left_alone_by(&self) -> Option<&'static str> {
        let all = [("pause", self.pause()), ("suspend", self.suspend()), ("dry-run", self.dry_run())];
        all.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Returns whether an annotation leaves the release alone.
    pub(crate) fn leaves_alone(&self) -> bool {
        self.left_alone_by().is_some()
    }

    /// Returns `<action>-disable-hooks` for `install`, `upgrade` and `uninstall`; the one for upgrades also covers
    /// rollbacks and tests. Default: false.
    pub(crate) fn disable_hooks(&self, action: Action) -> bool {
        let action = if matches!(action, Action::Rollback | Action::Test) { Action::Upgrade } else { action };
        self.flag(&format!("{}-disable-hooks", action.as_str()), false)
    }

    /// Returns `<action>-description`, the record's description, for `install`, `upgrade` and `uninstall`.
    pub(crate) fn description(&self, action: Action) -> Option<String> {
        let key = format!("{}-description", action.as_str());
        self.ours.get(key.as_str()).filter(|_| is_known(&key)).map(|text| text.to_string())
    }

    /// Returns a boolean. As in upstream, an invalid one counts as the default.
    fn flag(&self, key: &str, default: bool) -> bool {
        self.ours.get(key).and_then(|text| parse_bool(text.as_bytes()).ok()).unwrap_or(default)
    }
}

fn is_known(key: &str) -> bool {
    all_keys().any(|known| known == key)
}

fn is_too_short(duration: Duration) -> bool {
    !duration.is_zero() && duration < SHORTEST
}

/// Says what applies instead of a key that others suggest, but no operator has.
fn instead(key: &str) -> Option<&'static str> {
    match key {
        "rollback-disable-hooks" | "test-disable-hooks" => {
            Some("; upgrade-disable-hooks also covers rollbacks and tests")
        }
        "rollback-description" => Some("; a rollback is described by the revision that it repeats"),
        _ => None,
    }
}

/// Explains why an annotation has no effect, or not the intended one.
fn mistake(key: &str, value: &str) -> Option<String> {
    if !is_known(key) {
        let near = || nearest(key, all_keys()).map(|near| format!("; did you mean {PREFIX}{near}?"));
        let hint = instead(key).map(str::to_owned).or_else(near).unwrap_or_default();
        return Some(format!(" is unknown{hint}"));
    }
    let value = shorten(value, MAX_QUOTED);
    if DURATIONS.contains(&key) && parse_duration(&value).is_ok_and(is_too_short) {
        return Some(format!(": {value:?} counts as \"1s\", the shortest that an annotation can set"));
    }
    if key == "pause" && !["true", "false"].contains(&&*value) {
        return Some(format!(": {value:?} has no effect; only \"true\" pauses"));
    }
    let is_no_boolean = FLAGS.contains(&key) && parse_bool(value.as_bytes()).is_err();
    is_no_boolean.then(|| format!(": {value:?} is not a boolean and counts as \"false\"; use \"true\" or \"false\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> Annotations {
        Annotations::new(&pairs.iter().map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned())).collect())
    }

    #[test]
    fn bools_parse_as_in_go_and_anything_else_is_the_default() {
        for (text, expected) in [("True", true), ("1", true), ("0", false), ("yes", false), ("", false)] {
            assert_eq!(annotations(&[("uninstall-wait", text)]).uninstall_wait(), expected, "{text}");
        }
        assert!(annotations(&[("upgrade-disable-hooks", "t")]).disable_hooks(Action::Upgrade));
        assert!(!annotations(&[("upgrade-disable-hooks", "t")]).disable_hooks(Action::Install));
        for action in [Action::Rollback, Action::Test] {
            assert!(annotations(&[("upgrade-disable-hooks", "t")]).disable_hooks(action), "{action:?}");
            assert!(!annotations(&[("install-disable-hooks", "t")]).disable_hooks(action), "{action:?}");
        }
        assert!(!annotations(&[]).adopt());
    }

    #[test]
    fn periods_are_go_durations() {
        let period = |text| annotations(&[("reconcile-period", text)]).reconcile_period();
        for (text, expected) in
            [("1m30s", 90.0), ("0s", 0.0), ("0", 0.0), ("1.5h", 5400.0), ("20ms", 1.0), ("1ns", 1.0), ("1s", 1.0)]
        {
            assert_eq!(period(text).unwrap(), Some(Duration::from_secs_f64(expected)), "{text}");
        }
        for bad in ["", "5", "x", "1q", "-1s", "s"] {
            assert!(period(bad).is_err(), "{bad}");
        }
        assert_eq!(annotations(&[]).reconcile_period().unwrap(), None);
    }

    #[test]
    fn an_invalid_duration_is_reported_with_its_annotation() {
        let fault = |pairs| annotations(pairs).fault();
        assert_eq!(fault(&[("hook-timeout", "2h"), ("reconcile-period", "0")]), None);
        let expected =
            r#"annotation helm.sdk.operatorframework.io/hook-timeout: time: unknown unit "x" in duration "1x""#;
        assert_eq!(fault(&[("hook-timeout", "1x")]).unwrap(), expected);
        let expected =
            r#"annotation helm.sdk.operatorframework.io/reconcile-period: duration "-1s" must not be negative"#;
        assert_eq!(fault(&[("reconcile-period", "-1s"), ("hook-timeout", "0")]).unwrap(), expected);
        assert_eq!(annotations(&[("hook-timeout", "90m")]).hook_timeout().unwrap(), Some(Duration::from_secs(5400)));
        assert_eq!(annotations(&[]).hook_timeout().unwrap(), None);
    }

    #[test]
    fn a_configured_name_replaces_the_usual_one() {
        let mut names = AnnotationNames::default();
        names.add("pause", "example.com/paused").unwrap();
        names.add("install-description", "example.com/why").unwrap();
        let read = |pairs: &[(&str, &str)]| {
            let all = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let mut annotations = Annotations::new(&all);
            annotations.rename(&all, &names);
            annotations
        };
        let usual = ("helm.sdk.operatorframework.io/install-description", "usual");
        assert_eq!(read(&[usual]).description(Action::Install), None);
        let ignored = "annotation helm.sdk.operatorframework.io/install-description does not count: its name here is example.com/why";
        assert_eq!(read(&[usual]).mistakes(), [ignored]);
        assert_eq!(read(&[usual, ("example.com/why", "own")]).description(Action::Install).unwrap(), "own");
        assert!(read(&[("example.com/paused", "true")]).pause());
        assert!(!read(&[("example.com/paused", "True")]).pause(), "as helm-operator-plugins reads it");
        assert_eq!(names.add("adopt", "x").unwrap_err().to_string().split(" is not").next(), Some("\"adopt\""));
        let twice = names.add("upgrade-description", "example.com/why").unwrap_err();
        assert_eq!(twice.to_string(), "annotation \"example.com/why\" already exists");
    }

    #[test]
    fn only_allowed_annotations_count_and_the_others_are_named() {
        let mut names = AnnotationNames::default();
        names.allow(&["suspend".to_owned()]).unwrap();
        let all: BTreeMap<String, String> =
            ["suspend", "adopt", "suspnd"].map(|key| (format!("{PREFIX}{key}"), "true".to_owned())).into();
        let mut read = Annotations::new(&all);
        read.rename(&all, &names);
        assert!(read.suspend() && !read.adopt());
        let mistakes = read.mistakes();
        assert!(
            mistakes
                .iter()
                .any(|why| why.contains("adopt does not count: allowedAnnotations in watches.yaml lacks adopt")),
            "{mistakes:?}"
        );
        assert!(mistakes.iter().any(|why| why.contains("suspnd is unknown")) && mistakes.len() == 2, "{mistakes:?}");
        let error = names.allow(&["suspendd".to_owned()]).unwrap_err().to_string();
        assert!(error.ends_with("; did you mean \"suspend\"?"), "{error}");
    }

    #[test]
    fn a_token_is_any_short_text() {
        assert_eq!(annotations(&[("reconcile-now", "2026-01-01 ü")]).reconcile_now(), Some("2026-01-01 ü"));
        assert_eq!(annotations(&[("retry-now", "")]).retry_now(), None);
        let long = "x".repeat(MAX_TOKEN + 1);
        let expected = "annotation helm.sdk.operatorframework.io/retry-now: a token has at most 256 bytes";
        assert_eq!(annotations(&[("retry-now", &long)]).fault().unwrap(), expected);
        assert_eq!(annotations(&[("retry-now", &long[1..])]).fault(), None);
    }

    #[test]
    fn a_drift_policy_is_one_of_three_words() {
        assert_eq!(annotations(&[]).drift(), Ok(None));
        assert_eq!(annotations(&[("drift", "detect")]).drift(), Ok(Some(DriftPolicy::Detect)));
        let expected = r#"annotation helm.sdk.operatorframework.io/drift: must be "repair", "detect" or "off""#;
        assert_eq!(annotations(&[("drift", "Detect")]).fault().unwrap(), expected);
    }

    #[test]
    fn annotations_without_effect_are_named() {
        let mistakes = |pair| annotations(&[pair]).mistakes().pop();
        let ours = "annotation helm.sdk.operatorframework.io/";
        let unknown = format!("{ours}suspnd is unknown; did you mean helm.sdk.operatorframework.io/suspend?");
        assert_eq!(mistakes(("suspnd", "true")), Some(unknown));
        assert_eq!(mistakes(("owner-of-all", "x")), Some(format!("{ours}owner-of-all is unknown")));
        let covered = "is unknown; upgrade-disable-hooks also covers rollbacks and tests";
        for key in ["rollback-disable-hooks", "test-disable-hooks"] {
            assert_eq!(mistakes((key, "true")), Some(format!("{ours}{key} {covered}")));
        }
        let described = "is unknown; a rollback is described by the revision that it repeats";
        assert_eq!(mistakes(("rollback-description", "x")), Some(format!("{ours}rollback-description {described}")));
        assert_eq!(annotations(&[("rollback-description", "x")]).description(Action::Rollback), None);
        let paused = format!("{ours}pause: \"yes\" has no effect; only \"true\" pauses");
        assert_eq!(mistakes(("pause", "yes")), Some(paused));
        let flag = format!("{ours}adopt: \"yes\" is not a boolean and counts as \"false\"; use \"true\" or \"false\"");
        assert_eq!(mistakes(("adopt", "yes")), Some(flag));
        let short =
            format!("{ours}reconcile-period: \"1ns\" counts as \"1s\", the shortest that an annotation can set");
        assert_eq!(mistakes(("reconcile-period", "1ns")), Some(short));
        assert!(mistakes(("hook-timeout", "999ms")).is_some());
        for right in [
            ("hook-timeout", "1s"),
            ("reconcile-period", "0"),
            ("pause", "true"),
            ("pause", "false"),
            ("suspend", "T"),
            ("upgrade-force", "x"),
            ("drift", "?"),
        ] {
            assert_eq!(mistakes(right), None, "{right:?}");
        }
    }

    #[test]
    fn what_is_kept_of_a_resources_annotations_is_bounded() {
        let kept = |of: &Annotations| {
            let texts = of.ours.iter().flat_map(|(key, value)| [key, value]).chain(of.too_large.keys());
            texts.map(|text| text.len()).sum::<usize>()
        };
        let unknown: Vec<(String, String)> = (0..5000).map(|n| (format!("x{n}"), "x".repeat(50))).collect();
        let unknown: Vec<(&str, &str)> = unknown.iter().map(|(key, value)| (&**key, &**value)).collect();
        let many = annotations(&unknown);
        assert!(kept(&many) < 1000 && many.mistakes().len() == MAX_UNKNOWN && many.fault().is_none());
        let huge = "[".repeat(250_000);
        let all = [("pause", "true"), ("values-from", &*huge), ("depends-on", "[]"), ("reconcile-now", "a")];
        let long = annotations(&all);
        assert!(kept(&long) < 1000 && long.pause() && long.depends_on().is_some_and(|list| list.is_ok()));
        let fault = long.values_from().unwrap().unwrap_err();
        assert!(fault.contains("have 250000 bytes together") && fault.contains("MAX_ANNOTATION_BYTES"), "{fault}");
        let expected = format!("annotation {PREFIX}values-from: {fault}");
        assert_eq!((long.fault(), format!("{long:?}").len() < 2000), (Some(expected), true));
        let half = "x".repeat(MAX_ANNOTATION_BYTES / 2);
        let (install, upgrade) = (("install-description", &*half), ("upgrade-description", &*half));
        assert_eq!(annotations(&[install, upgrade]).description(Action::Upgrade).as_deref(), Some(&*half));
        assert!(annotations(&[install, upgrade, ("uninstall-description", &half)]).fault().is_some());
    }

    #[test]
    fn a_renamed_annotation_has_the_same_limit() {
        let mut names = AnnotationNames::default();
        names.add("install-description", "example.com/why").unwrap();
        let usual = format!("{PREFIX}install-description");
        let read = |usual_bytes: usize, own_bytes: usize| {
            let why = ("example.com/why".to_owned(), "x".repeat(own_bytes));
            let all = BTreeMap::from([(usual.clone(), "x".repeat(usual_bytes)), why]);
            let mut annotations = Annotations::new(&all);
            annotations.rename(&all, &names);
            annotations
        };
        assert_eq!(read(250_000, 300).fault(), None, "only the new name counts");
        assert_eq!(read(250_000, 300).description(Action::Install).map(|text| text.len()), Some(300));
        let long = read(1, 250_000);
        assert!(long.fault().is_some_and(|fault| fault.contains("250000 bytes")) && long.ours.is_empty());
    }

    #[test]
    fn foreign_annotations_are_dropped() {
        let all = BTreeMap::from([("kubectl.kubernetes.io/last-applied-configuration".to_owned(), "{}".to_owned())]);
        assert_eq!(Annotations::new(&all), Annotations::default());
    }
}
