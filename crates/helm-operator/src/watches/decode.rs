//! Decodes one entry of watches.yaml into a [`Watch`], as leniently as Go's JSON decoder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use helm_release::kube::Policy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;

use super::expand::{self, Env};
use super::expressions;
use super::node::{Entry, Node};
use super::{
    AnnotationNames, Error, OverrideValuesType, Overrides, ValuesSource, Warning, Watch, chart_tests, metadata,
    objects, parse_duration, patches, pull, render_on, rollout, rules, sequencing,
};
use scaffold::lint::undecided;

use crate::dependencies;
use crate::spelling::nearest;
use crate::values_from;

/// Sets the field of a key.
type Set = fn(&mut Watch, &Node) -> Result<(), String>;

/// All keys.
const KEYS: &[(&str, Set)] = &[
    ("group", |watch, value| string(value).map(|it| watch.group = it)),
    ("version", |watch, value| string(value).map(|it| watch.version = it)),
    ("kind", |watch, value| string(value).map(|it| watch.kind = it)),
    ("chart", |watch, value| string(value).map(|it| watch.chart = it.into())),
    ("pull", elsewhere),
    ("watchDependentResources", |watch, value| value.boolean().map(|it| watch.watch_dependent_resources = it)),
    ("overrideValues", elsewhere),
    ("overrideValuesType", elsewhere),
    ("selector", |watch, value| selector(value).map(|it| watch.selector = it)),
    ("reconcilePeriod", |watch, value| duration(value).map(|it| watch.reconcile_period = Some(it))),
    ("hookTimeout", |watch, value| duration(value).map(|it| watch.hook_timeout = Some(it))),
    ("progressTimeout", |watch, value| duration(value).map(|it| watch.progress_timeout = Some(it))),
    ("readiness", elsewhere),
    ("status", elsewhere),
    ("maxConcurrentReconciles", |watch, value| number(value, 1).map(|it| watch.max_concurrent_reconciles = Some(it))),
    // Upstream uses it to choose how a dry run compares. We never compare by a dry run.
    ("dryRunOption", |_, value| value.string().map(|_| ())),
    ("apply", |watch, value| policy(value).map(|it| watch.apply = it)),
    ("maxHistory", |watch, value| number(value, 0).map(|it| watch.max_history = Some(it))),
    ("releaseNamespace", |watch, value| {
        string(value).map(|it| watch.release_namespace = Some(it).filter(|name| !name.is_empty()))
    }),
    ("storageNamespace", |watch, value| rules::storage_namespace(value).map(|it| watch.storage_namespace = it)),
    ("annotations", elsewhere),
    ("allowedAnnotations", |watch, value| rules::allowed_annotations(value, &mut watch.annotations)),
    ("fullResyncPeriod", |watch, value| duration(value).map(|it| watch.full_resync_period = Some(it))),
    ("maxParallelUpgrades", |watch, value| number(value, 0).map(|it| watch.max_parallel_upgrades = Some(it))),
    ("rollout", |watch, value| rollout::rollout(value).map(|it| watch.rollout = Some(Arc::new(it)))),
    ("valuesFrom", elsewhere),
    ("valuesFromAnnotation", |watch, value| {
        rules::annotation_sources(value).map(|it| watch.values_from_annotation = it)
    }),
    ("dependsOn", |watch, value| dependencies::parse(&value.to_json()).map(|it| watch.depends_on = it)),
    ("dependsOnAnnotation", |watch, value| {
        rules::annotation_dependencies(value).map(|it| watch.depends_on_annotation = it)
    }),
    ("commonLabels", |watch, value| metadata::common_labels(value).map(|it| watch.common_labels = it)),
    ("commonAnnotations", |watch, value| metadata::common_annotations(value).map(|it| watch.common_annotations = it)),
    ("patches", |watch, value| patches::patches(value).map(|it| watch.patches = it)),
    ("drift", |watch, value| rules::drift(value).map(|it| watch.drift = it)),
    ("adopt", |watch, value| rules::adopt(value).map(|it| watch.adopt = it)),
    ("onFailure", |watch, value| rules::on_failure(value).map(|it| watch.on_failure = it)),
    ("retries", |watch, value| rules::retries(value).map(|it| watch.retries = Some(it))),
    ("test", |watch, value| chart_tests::chart_tests(value).map(|it| watch.chart_tests = it)),
    ("hookLogs", |watch, value| value.boolean().map(|it| watch.hook_logs = it)),
    ("sequencing", |watch, value| sequencing::sequencing(value).map(|it| watch.sequencing = it)),
    ("renderOn", |watch, value| render_on::render_on(value).map(|it| watch.render_on = it)),
    ("crds", |watch, value| rules::crds(value).map(|it| watch.crds = it)),
    ("recreate", |watch, value| rules::recreate(value).map(|it| watch.recreate = it)),
    ("lookup", |watch, value| rules::lookup(value).map(|it| watch.lookup = it)),
    ("objects", |watch, value| objects::objects(value).map(|it| watch.objects = it)),
    ("schema", |watch, value| rules::schema(value).map(|it| watch.schema = it)),
    ("serviceAccountName", |watch, value| rules::service_account(value).map(|it| watch.service_account = it)),
];

/// Decodes an entry; adds unknown keys to `warnings`.
pub(super) fn watch(entries: &[Entry], env: &Env, warnings: &mut Vec<Warning>) -> Result<Watch, Error> {
    let line = entries.first().map_or(0, |entry| entry.line);
    let mut watch = Watch { line, watch_dependent_resources: true, ..Watch::default() };
    let mut overrides = RawOverrides::default();
    for entry in entries {
        match known(&entry.key) {
            Some(_) if entry.value == Node::Null => {}
            Some(("overrideValues", _)) => override_values(entry, env, &mut overrides)?,
            Some(("overrideValuesType", _)) => {
                overrides.kind = override_values_type(&entry.value).map_err(|what| wrong(entry, what))?;
            }
            Some(("annotations", _)) => annotations(entry, &mut watch.annotations)?,
            Some(("readiness", _)) => expressions::readiness(&mut watch.expressions, entry)?,
            Some(("status", _)) => expressions::status(&mut watch.expressions, entry)?,
            Some(("valuesFrom", _)) => watch.values_from = sources(entry)?,
            Some((_, set)) => set(&mut watch, &entry.value).map_err(|what| wrong(entry, what))?,
            None => warnings.push(unknown(entry)),
        }
    }
    let entry = |key: &str| entries.iter().find(|entry| entry.key.eq_ignore_ascii_case(key));
    watch.pull = pull::pull(entry("chart"), entry("pull"), warnings)?;
    watch.undecided = undecided(|key| entry(key).is_some());
    let parsed = Overrides::parse(overrides.texts, overrides.kind)?;
    watch.overrides = parsed.with_environment(overrides.from_environment, overrides.unset);
    Ok(watch)
}

/// Two keys, in any order, that together define the override values.
#[derive(Default)]
struct RawOverrides {
    texts: BTreeMap<String, String>,
    kind: Option<OverrideValuesType>,
    from_environment: BTreeSet<String>,
    unset: BTreeMap<String, BTreeSet<String>>,
}

/// Returns the known key that equals `key`, ignoring case as Go's `encoding/json` does.
fn known(key: &str) -> Option<&'static (&'static str, Set)> {
    KEYS.iter().find(|(known, _)| known.eq_ignore_ascii_case(key))
}

/// Leaves a key to [`watch`]: it belongs to another key, or its errors name the lines below it.
fn elsewhere(_: &mut Watch, _: &Node) -> Result<(), String> {
    Ok(())
}

fn string(value: &Node) -> Result<String, String> {
    value.string().map(str::to_owned)
}

fn duration(value: &Node) -> Result<Duration, String> {
    parse_duration(value.string()?).map_err(|cause| cause.to_string())
}

/// Returns a whole number from `least` to 65,535.
fn number(value: &Node, least: u16) -> Result<usize, String> {
    match value {
        Node::Integer(n) => match u16::try_from(*n) {
            Ok(n) if n >= least => Ok(n.into()),
            _ => Err(format!("must be between {least} and 65535, found {n}")),
        },
        other => Err(other.expected("a whole number")),
    }
}

fn override_values(entry: &Entry, env: &Env, into: &mut RawOverrides) -> Result<(), Error> {
    for value in entry.value.map().map_err(|what| wrong(entry, what))? {
        let asked = Arc::new(AtomicBool::new(false));
        let (inner, noted) = (env.clone(), asked.clone());
        let noting: Env = Arc::new(move |name| {
            noted.store(true, Ordering::Relaxed);
            inner(name)
        });
        let written = scalar(value)?;
        let text = expand::expand(&value.key, &written, &noting).map_err(Error::Expand)?;
        into.texts.insert(value.key.clone(), text);
        let unset = expand::unset(&written, env);
        if !unset.is_empty() {
            into.unset.insert(value.key.clone(), unset);
        }
        if asked.load(Ordering::Relaxed) {
            into.from_environment.insert(value.key.clone());
        }
    }
    Ok(())
}

/// Returns a scalar's text, so that `true`, `3` and `1.5` need no quotes.
fn scalar(entry: &Entry) -> Result<String, Error> {
    match &entry.value {
        Node::Null => Ok(String::new()),
        Node::Bool(b) => Ok(b.to_string()),
        Node::Integer(n) => Ok(n.to_string()),
        Node::Float(f) => Ok(f.to_string()),
        Node::String(text) => Ok(text.clone()),
        Node::List(_) | Node::Map(_) => {
            let what = "nested values are not supported here; write the path as the key, as in \"image.tag\"";
            Err(wrong(entry, what.to_owned()))
        }
    }
}

fn annotations(entry: &Entry, names: &mut AnnotationNames) -> Result<(), Error> {
    for one in entry.value.map().map_err(|what| wrong(entry, what))? {
        let name = one.value.string().map_err(|what| wrong(one, what))?;
        names.add(&one.key, name).map_err(|cause| wrong(entry, cause.to_string()))?;
    }
    Ok(())
}

fn override_values_type(value: &Node) -> Result<Option<OverrideValuesType>, String> {
    if value.string() == Ok("") {
        return Ok(None);
    }
    value.one_of(&[("typed", OverrideValuesType::Typed), ("string", OverrideValuesType::String)]).map(Some)
}

fn policy(value: &Node) -> Result<Policy, String> {
    value.one_of(&[("auto", Policy::Auto), ("server", Policy::Server), ("client", Policy::Client)])
}

fn sources(entry: &Entry) -> Result<Vec<ValuesSource>, Error> {
    let sources: Vec<ValuesSource> =
        serde_json::from_value(entry.value.to_json()).map_err(|cause| wrong(entry, cause.to_string()))?;
    values_from::check(&sources).map_err(|cause| Error::Value { line: entry.line, what: cause.to_string() })?;
    Ok(sources)
}

fn selector(value: &Node) -> Result<Selector, String> {
    let labels: LabelSelector = serde_json::from_value(value.to_json()).map_err(|cause| cause.to_string())?;
    labels.try_into().map_err(|cause: kube::core::labels::ParseExpressionError| cause.to_string())
}

pub(super) fn wrong(entry: &Entry, what: String) -> Error {
    Error::Value { line: entry.line, what: format!("{}: {what}", entry.key) }
}

fn unknown(entry: &Entry) -> Warning {
    let key = &entry.key;
    let what = match near(key) {
        Some(meant) => format!("unknown key {key:?} is ignored; did you mean {meant:?}?"),
        None => format!("unknown key {key:?} is ignored"),
    };
    Warning { line: entry.line, what }
}

/// Returns the known key that was probably meant.
pub(super) fn near(key: &str) -> Option<&'static str> {
    nearest(key, keys())
}

/// Returns the names of all keys.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    KEYS.iter().map(|(key, _)| *key)
}
