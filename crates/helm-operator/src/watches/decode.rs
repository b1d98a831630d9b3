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

pub(super) const KEYS: &[&str] = &[
    "group",
    "version",
    "kind",
    "chart",
    "pull",
    "watchDependentResources",
    "overrideValues",
    "overrideValuesType",
    "selector",
    "reconcilePeriod",
    "hookTimeout",
    "progressTimeout",
    "readiness",
    "status",
    "maxConcurrentReconciles",
    "dryRunOption",
    "apply",
    "maxHistory",
    "releaseNamespace",
    "storageNamespace",
    "annotations",
    "allowedAnnotations",
    "fullResyncPeriod",
    "maxParallelUpgrades",
    "rollout",
    "valuesFrom",
    "valuesFromAnnotation",
    "dependsOn",
    "dependsOnAnnotation",
    "commonLabels",
    "commonAnnotations",
    "patches",
    "drift",
    "adopt",
    "onFailure",
    "retries",
    "test",
    "hookLogs",
    "sequencing",
    "renderOn",
    "crds",
    "recreate",
    "lookup",
    "objects",
    "schema",
    "serviceAccountName",
];

/// Decodes an entry; adds unknown keys to `warnings`.
pub(super) fn watch(entries: &[Entry], env: &Env, warnings: &mut Vec<Warning>) -> Result<Watch, Error> {
    let line = entries.first().map_or(0, |entry| entry.line);
    let mut watch = Watch { line, watch_dependent_resources: true, ..Watch::default() };
    let mut overrides = RawOverrides::default();
    for entry in entries {
        match known(&entry.key) {
            _ if entry.value == Node::Null && known(&entry.key).is_some() => {}
            Some("overrideValues") => override_values(entry, env, &mut overrides)?,
            Some("overrideValuesType") => {
                overrides.kind = override_values_type(&entry.value).map_err(|what| wrong(entry, what))?;
            }
            Some("annotations") => annotations(entry, &mut watch.annotations)?,
            Some("readiness") => expressions::readiness(&mut watch.expressions, entry)?,
            Some("status") => expressions::status(&mut watch.expressions, entry)?,
            Some("valuesFrom") => watch.values_from = sources(entry)?,
            Some(key) => set(&mut watch, key, &entry.value).map_err(|what| wrong(entry, what))?,
            None => warnings.push(unknown(entry)),
        }
    }
    let entry = |key: &str| entries.iter().find(|entry| known(&entry.key) == Some(key));
    watch.pull = pull::pull(entry("chart"), entry("pull"), warnings)?;
    watch.undecided = undecided(|key| entries.iter().any(|entry| known(&entry.key) == Some(key)));
    watch.overrides = Overrides::parse(overrides.texts, overrides.kind)?.with_environment(overrides.from_environment);
    Ok(watch)
}

/// Two keys, in any order, that together define the override values.
#[derive(Default)]
struct RawOverrides {
    texts: BTreeMap<String, String>,
    kind: Option<OverrideValuesType>,
    from_environment: BTreeSet<String>,
}

/// Returns the known key that equals `key`, ignoring case as Go's `encoding/json` does.
fn known(key: &str) -> Option<&'static str> {
    KEYS.iter().copied().find(|k| k.eq_ignore_ascii_case(key))
}

fn set(watch: &mut Watch, key: &str, value: &Node) -> Result<(), String> {
    match key {
        "group" => watch.group = string(value)?,
        "version" => watch.version = string(value)?,
        "kind" => watch.kind = string(value)?,
        "chart" => watch.chart = string(value)?.into(),
        "watchDependentResources" => watch.watch_dependent_resources = value.boolean()?,
        "selector" => watch.selector = selector(value)?,
        "reconcilePeriod" => watch.reconcile_period = Some(duration(value)?),
        "hookTimeout" => watch.hook_timeout = Some(duration(value)?),
        "maxConcurrentReconciles" => watch.max_concurrent_reconciles = Some(number(value, 1)?),
        "maxHistory" => watch.max_history = Some(number(value, 0)?),
        "releaseNamespace" => watch.release_namespace = Some(string(value)?).filter(|name| !name.is_empty()),
        "storageNamespace" => watch.storage_namespace = rules::storage_namespace(value)?,
        "allowedAnnotations" => rules::allowed_annotations(value, &mut watch.annotations)?,
        "progressTimeout" => watch.progress_timeout = Some(duration(value)?),
        // Upstream uses it to choose how a dry run compares. We never compare by a dry run.
        "dryRunOption" => _ = value.string()?,
        "apply" => watch.apply = policy(value)?,
        "fullResyncPeriod" => watch.full_resync_period = Some(duration(value)?),
        "maxParallelUpgrades" => watch.max_parallel_upgrades = Some(number(value, 0)?),
        "rollout" => watch.rollout = Some(Arc::new(rollout::rollout(value)?)),
        "valuesFromAnnotation" => watch.values_from_annotation = rules::annotation_sources(value)?,
        "dependsOn" => watch.depends_on = dependencies::parse(&value.to_json())?,
        "dependsOnAnnotation" => watch.depends_on_annotation = rules::annotation_dependencies(value)?,
        "commonLabels" => watch.common_labels = metadata::common_labels(value)?,
        "commonAnnotations" => watch.common_annotations = metadata::common_annotations(value)?,
        "patches" => watch.patches = patches::patches(value)?,
        "drift" => watch.drift = rules::drift(value)?,
        "adopt" => watch.adopt = rules::adopt(value)?,
        "onFailure" => watch.on_failure = rules::on_failure(value)?,
        "retries" => watch.retries = Some(rules::retries(value)?),
        "test" => watch.chart_tests = chart_tests::chart_tests(value)?,
        "hookLogs" => watch.hook_logs = value.boolean()?,
        "sequencing" => watch.sequencing = sequencing::sequencing(value)?,
        "renderOn" => watch.render_on = render_on::render_on(value)?,
        "crds" => watch.crds = rules::crds(value)?,
        "recreate" => watch.recreate = rules::recreate(value)?,
        "serviceAccountName" => watch.service_account = rules::service_account(value)?,
        "lookup" => watch.lookup = rules::lookup(value)?,
        "objects" => watch.objects = objects::objects(value)?,
        "schema" => watch.schema = rules::schema(value)?,
        _ => {}
    }
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
        let (env, noted) = (env.clone(), asked.clone());
        let noting: Env = Arc::new(move |name| {
            noted.store(true, Ordering::Relaxed);
            env(name)
        });
        let text = expand::expand(&value.key, &scalar(value)?, &noting).map_err(Error::Expand)?;
        into.texts.insert(value.key.clone(), text);
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
    nearest(key, KEYS.iter().copied())
}
