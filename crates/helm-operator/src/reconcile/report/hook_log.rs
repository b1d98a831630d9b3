//! Quotes the end of a failed hook's log in an event, where the watch allows it. Bounded, and redacted like any message
//! before it is cut, so that no part of a hidden value is left.

use std::time::Duration;

use controller::report::{Outcome, chain};
use helm_release::kube::{Call, Error, HookObject, ObjectKey, read_within};
use serde_json::Value;

use super::diagnose::{is_of, items};
use crate::reconcile::changes::HookLog;
use crate::reconcile::controller_context::ControllerContext;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;

const LINES: u32 = 10;
/// The maximum size of these, in bytes.
const MAX_LOG: usize = 64 << 10;
/// How many bytes an event quotes: its note may have 1,024.
const QUOTED: usize = 700;
/// How many of a Job's pods are read, and their maximum size in bytes.
const PAGE: u32 = 20;
const MAX_PODS: usize = 2 << 20;
/// How long one request may take: a hook's clean-up waits for it, and a kubelet may not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The resource in the rule that the operator needs.
const RESOURCE: &str = "pods/log";

/// The container whose log explains a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    pod: String,
    container: String,
    /// Whether it was started again since it failed.
    was_restarted: bool,
}

impl StepContext<'_> {
    /// Publishes the logs of the hooks that failed.
    pub(crate) async fn publish_hook_logs(&self, primary: &Primary) {
        let logs = self.ran.take_logs();
        if logs.is_empty() {
            return;
        }
        let mask = self.redactions(primary).await;
        for HookLog { of, text } in logs {
            // A value may contain control characters, and one that they split, as in UTF-16, shows once they are gone.
            let hidden = mask.clone().hide_apart(text).await;
            let hidden = mask.clone().hide_apart(plain(&hidden)).await;
            let note = format!("the log of {of} ends with: {}", quote(&hidden));
            self.shared.publish(primary, Outcome::warning("HookLog", "Hook", note));
        }
    }
}

/// Reads the end of the log of a hook's Job or Pod; returns `None` if it has no log, or if we may not read it.
pub(crate) async fn read(shared: &ControllerContext, object: &HookObject) -> Option<HookLog> {
    let hook = &object.key;
    let mut pods = pods(shared, hook).await?;
    pods.retain(|pod| is_of(pod, &hook.kind, &object.uid));
    let Source { pod, container, was_restarted } = source(&pods)?;
    let namespace = &hook.namespace;
    let mut path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines={LINES}");
    path.push_str(&format!("&limitBytes={MAX_LOG}&previous={was_restarted}"));
    let body = get(shared, hook, RESOURCE, (path, MAX_LOG + 1)).await?;
    let mut text = String::from_utf8_lossy(&body).into_owned();
    if body.len() >= MAX_LOG {
        // The last line may end within a value that must be hidden.
        text.truncate(text.rfind('\n').unwrap_or_default());
    }
    let text = text.trim().to_owned();
    (!text.is_empty()).then(|| HookLog { of: format!("pod {pod:?}, container {container:?}"), text })
}

async fn pods(shared: &ControllerContext, hook: &ObjectKey) -> Option<Vec<Value>> {
    let ObjectKey { kind, namespace, name, .. } = hook;
    let collection = format!("/api/v1/namespaces/{namespace}/pods");
    let list = match &**kind {
        "Pod" => format!("{collection}?fieldSelector=metadata.name%3D{name}"),
        _ => format!("{collection}?labelSelector=batch.kubernetes.io/job-name%3D{name}"),
    };
    let body = get(shared, hook, "pods", (format!("{list}&limit={PAGE}"), MAX_PODS)).await?;
    items(serde_json::from_slice(&body).ok()?)
}

async fn get(
    shared: &ControllerContext,
    hook: &ObjectKey,
    resource: &'static str,
    (path, limit): (String, usize),
) -> Option<Vec<u8>> {
    if shared.diagnoses.is_refused(&hook.namespace, resource) {
        return None;
    }
    let asked = tokio::time::timeout(PATIENCE, read_within(&*shared.api, Call::get(path), limit)).await;
    match asked.unwrap_or(Err(Error::TimedOut { seconds: PATIENCE.as_secs() })) {
        Ok(answer) => return Some(answer.body),
        Err(error) if error.code() == Some(403) => shared.diagnoses.refuse(&hook.namespace, resource),
        Err(error) => tracing::debug!(object = %hook, error = chain(&error), "Cannot read the log of a hook"),
    }
    None
}

/// Returns the container that failed last, or else one of the newest pod.
fn source(pods: &[Value]) -> Option<Source> {
    let created = |pod: &&Value| pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
    let mut newest: Vec<&Value> = pods.iter().collect();
    newest.sort_by_key(created);
    let failed = newest.iter().rev().find_map(|pod| failed(pod));
    failed.or_else(|| newest.last().and_then(|pod| first(pod)))
}

fn failed(pod: &Value) -> Option<Source> {
    let statuses = ["initContainerStatuses", "containerStatuses"].into_iter();
    let mut statuses = statuses.flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let has_failed = |state: &Value| state["terminated"]["exitCode"].as_i64().is_some_and(|code| code != 0);
    statuses.find_map(|status| {
        let is_ended = has_failed(&status["state"]);
        let found = is_ended || has_failed(&status["lastState"]);
        found.then(|| of(pod, &status["name"], !is_ended)).flatten()
    })
}

fn first(pod: &Value) -> Option<Source> {
    of(pod, &pod["spec"]["containers"][0]["name"], false)
}

fn of(pod: &Value, container: &Value, was_restarted: bool) -> Option<Source> {
    let name = |name: &Value| name.as_str().filter(|name| is_name(name)).map(str::to_owned);
    Some(Source { pod: name(&pod["metadata"]["name"])?, container: name(container)?, was_restarted })
}

/// Returns whether the name may be part of a path.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
}

/// Returns the text without control characters, except ends of lines.
fn plain(text: &str) -> String {
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

/// Returns the last lines that fit, on one line.
fn quote(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let all = lines.join(" | ");
    match all.len().checked_sub(QUOTED) {
        None | Some(0) => all,
        Some(over) => format!("…{}", &all[all.ceil_char_boundary(over)..]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, created: &str, statuses: Value) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": created}, "spec": {"containers": [{"name": "work"}]},
            "status": statuses})
    }

    #[test]
    fn the_log_is_that_of_the_container_that_failed_last() {
        let ended = |name: &str, code: i64| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        let restarted = json!({"name": "work", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 2}}});
        let of = |pod: &str, container: &str, was_restarted| {
            Some(Source { pod: pod.into(), container: container.into(), was_restarted })
        };
        let first =
            pod("a", "2026-01-01T00:00:01Z", json!({"containerStatuses": [ended("side", 0), ended("work", 1)]}));
        assert_eq!(source(std::slice::from_ref(&first)), of("a", "work", false));
        let second = pod("b", "2026-01-01T00:00:02Z", json!({"initContainerStatuses": [ended("init", 3)]}));
        assert_eq!(source(&[second.clone(), first.clone()]), of("b", "init", false), "the newest");
        let third = pod("c", "2026-01-01T00:00:03Z", json!({"containerStatuses": [restarted]}));
        assert_eq!(source(&[third, second]), of("c", "work", true));
        let runs = pod("d", "2026-01-01T00:00:04Z", json!({}));
        assert_eq!(source(&[runs.clone(), first]), of("a", "work", false), "rather than one that runs");
        assert_eq!(source(&[runs]), of("d", "work", false), "it did not end in time");
        assert_eq!(source(&[pod("../x", "", json!({}))]), None);
        assert_eq!(source(&[]), None);
    }

    #[test]
    fn a_quotation_is_one_line_with_the_end_of_the_log() {
        assert_eq!(quote(&plain("\u{1b}[31mfirst\r\n\n  second\n")), "[31mfirst | second");
        let long = quote(&"é".repeat(1000));
        assert!(long.len() <= QUOTED + '…'.len_utf8() && long.starts_with('…') && long.ends_with('é'), "{long}");
    }
}
