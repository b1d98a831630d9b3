//! Explains why a workload is not ready, from its pods and events. Pure.
//!
//! Quotes only the kubelet, the scheduler and controllers. A container's termination message and a probe's output may
//! contain secrets.

use std::cmp::Reverse;

use controller::report::shorten;
use serde_json::Value;

use crate::reconcile::decide::quotations::Cause;

/// The maximum length of a quotation, in bytes.
const QUOTED: usize = 400;

/// The pod that explains most.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Culprit {
    pub(crate) uid: String,
    /// The explanation: `pod "web-1": container "app" cannot pull image "x": ErrImagePull`
    pub(crate) text: String,
    /// The part of it that the kubelet, the scheduler or a controller wrote.
    pub(crate) quoted: String,
    /// Whether an event of the pod may explain more.
    pub(crate) ask: bool,
    pub(crate) problem: Problem,
}

/// The problem of a pod, the most explanatory variant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Problem {
    Image,
    Config,
    Crash,
    Exit,
    Unschedulable,
    Probe,
    Gate,
    Creating,
    Pending,
}

/// Events worth quoting: their texts come from controllers, not from containers.
const EXPLAINING: [&str; 14] = [
    "ExternalProvisioning",
    "FailedAttachVolume",
    "FailedBinding",
    "FailedCreate",
    "FailedCreatePodSandBox",
    "FailedMapVolume",
    "FailedMount",
    "FailedScheduling",
    "NetworkNotReady",
    "NodeNotReady",
    "Provisioning",
    "ProvisioningFailed",
    "SyncLoadBalancerFailed",
    "WaitForFirstConsumer",
];

/// Returns the pod that explains most: the newest of those with the most serious problem.
pub(crate) fn culprit(pods: &[Value]) -> Option<Culprit> {
    let alive = pods.iter().filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
    let mut problems: Vec<(Problem, &Value, Cause)> =
        alive.filter_map(|pod| problem(pod).map(|(rank, cause)| (rank, pod, cause))).collect();
    let created = |pod: &Value| text(pod, "/metadata/creationTimestamp").to_owned();
    problems
        .sort_by_cached_key(|(rank, pod, _)| (*rank, Reverse(created(pod)), text(pod, "/metadata/name").to_owned()));
    let (rank, pod, cause) = problems.first()?;
    let more = problems.iter().filter(|(other, ..)| other == rank).count() - 1;
    let mut words = format!("pod {:?}: {}", text(pod, "/metadata/name"), cause.text);
    if more > 0 {
        words.push_str(&format!(" ({more} more like it)"));
    }
    let ask = matches!(rank, Problem::Creating | Problem::Pending);
    let uid = text(pod, "/metadata/uid").to_owned();
    Some(Culprit { uid, text: words, quoted: cause.quoted.clone(), ask, problem: *rank })
}

/// Returns the newest event that explains why something does not happen: `FailedMount: secret "x" not found`.
pub(crate) fn event(events: &[Value]) -> Option<String> {
    let explaining = events.iter().filter(|event| EXPLAINING.contains(&text(event, "/reason")));
    let time = |event: &&Value| {
        let times = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
        times.into_iter().map(|at| text(event, at)).find(|t| !t.is_empty()).unwrap_or("").to_owned()
    };
    let newest = explaining.max_by_key(time)?;
    Some(quote(text(newest, "/reason"), text(newest, "/message")))
}

fn text<'a>(of: &'a Value, pointer: &str) -> &'a str {
    of.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(of: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    of.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn one_line(message: &str) -> String {
    shorten(message, QUOTED).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `reason: message`, shortened, on one line.
fn quote(reason: &str, message: &str) -> String {
    match (reason, &*one_line(message)) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// Returns the problem of a pod that is not ready, with an explanation without the pod's name.
pub(crate) fn problem(pod: &Value) -> Option<(Problem, Cause)> {
    let condition = |kind: &str| list(pod, "/status/conditions").find(|c| text(c, "/type") == kind);
    let is_ready = condition("Ready").is_some_and(|c| text(c, "/status") == "True");
    if is_ready || text(pod, "/status/phase") == "Succeeded" {
        return None;
    }
    let of_containers =
        container_problems(pod, "init container", "/status/initContainerStatuses", "/spec/initContainers")
            .into_iter()
            .chain(container_problems(pod, "container", "/status/containerStatuses", "/spec/containers"));
    if let Some(worst) = of_containers.min_by_key(|(rank, _)| *rank) {
        return Some(worst);
    }
    if let Some(unscheduled) = condition("PodScheduled").filter(|c| text(c, "/status") == "False") {
        let message = without_preemption(text(unscheduled, "/message"));
        return Some((Problem::Unschedulable, Cause::quoting("", quote(text(unscheduled, "/reason"), message))));
    }
    let gate = condition("Ready").filter(|c| text(c, "/reason") == "ReadinessGatesNotReady");
    match (text(pod, "/status/phase"), gate) {
        ("Failed", _) => {
            let said = quote(text(pod, "/status/reason"), text(pod, "/status/message"));
            Some((Problem::Exit, Cause::quoting("", said)))
        }
        (_, Some(gate)) => {
            Some((Problem::Gate, Cause::quoting("", quote(text(gate, "/reason"), text(gate, "/message")))))
        }
        ("Pending", _) if text(pod, "/spec/nodeName").is_empty() => {
            Some((Problem::Pending, own("it is not scheduled yet")))
        }
        ("Pending", _) => Some((Problem::Creating, own("its containers do not exist yet"))),
        _ => None,
    }
}

/// Returns the scheduler's message up to why it evicts no other pod, which hides the cause behind a second sentence
/// like it.
fn without_preemption(message: &str) -> &str {
    let end = [" no new claims to deallocate", " preemption: "].iter().filter_map(|rest| message.find(rest)).min();
    end.map_or(message, |end| &message[..end])
}

fn container_problems(pod: &Value, what: &str, statuses: &str, specs: &str) -> Vec<(Problem, Cause)> {
    let spec = |name: &str| list(pod, specs).find(|c| text(c, "/name") == name);
    let problem = |status: &Value| {
        let name = text(status, "/name");
        let (rank, cause) = container_problem(status, spec(name).unwrap_or(&Value::Null), what)?;
        Some((rank, Cause { text: format!("{what} {name:?} {}", cause.text), ..cause }))
    };
    list(pod, statuses).filter_map(problem).collect()
}

/// Returns an explanation in the operator's own words.
fn own(text: impl Into<String>) -> Cause {
    Cause { text: text.into(), quoted: String::new() }
}

fn container_problem(status: &Value, spec: &Value, what: &str) -> Option<(Problem, Cause)> {
    let (reason, message) = (text(status, "/state/waiting/reason"), text(status, "/state/waiting/message"));
    match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "RegistryUnavailable"
        | "ImageInspectError" => {
            // One of these reasons is no value of the release, even if it contains one, such as `Never`.
            let said = format!("cannot pull image {:?}: {}", text(status, "/image"), quote(reason, message));
            return Some((Problem::Image, Cause { text: said, quoted: one_line(message) }));
        }
        "CrashLoopBackOff" => return Some((Problem::Crash, own(format!("keeps crashing: {}", last_exit(status))))),
        "ContainerCreating" | "PodInitializing" => return Some((Problem::Creating, own("is being created"))),
        "" => {}
        _ => return Some((Problem::Config, Cause::quoting("cannot start: ", quote(reason, message)))),
    }
    let exited = status.pointer("/state/terminated/exitCode").and_then(Value::as_i64);
    if exited.is_some_and(|code| code != 0) {
        return Some((Problem::Exit, own(format!("exited: {}", last_exit(status)))));
    }
    let runs = status.pointer("/state/running").is_some();
    let is_ready = status.get("ready").and_then(Value::as_bool).unwrap_or(false);
    if !runs || is_ready {
        return None;
    }
    if what == "init container" && text(spec, "/restartPolicy") != "Always" {
        return Some((Problem::Probe, own("is still running")));
    }
    Some((Problem::Probe, own(format!("runs, but {}", probe(status, spec)))))
}

/// Returns which probe keeps a running container from being ready, and how often it was restarted.
fn probe(status: &Value, spec: &Value) -> String {
    let has = |probe: &str| spec.get(probe).is_some();
    let started = status.get("started").and_then(Value::as_bool).unwrap_or(true);
    let which = match () {
        () if !started && has("startupProbe") => "its startup probe has not succeeded",
        () if has("readinessProbe") => "its readiness probe fails",
        () => "it is not ready",
    };
    let restarted = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0) > 0;
    if restarted { format!("{which}; {}", last_exit(status)) } else { which.to_owned() }
}

/// Returns `exit code 137 (OOMKilled), 5 restarts`.
fn last_exit(status: &Value) -> String {
    let states = ["/state/terminated", "/lastState/terminated"];
    let exit = states.into_iter().find_map(|state| status.pointer(state).filter(|t| t.get("exitCode").is_some()));
    let mut words = match exit {
        Some(exit) => format!("exit code {}", exit["exitCode"]),
        None => "exit code unknown".to_owned(),
    };
    if let Some(reason) = exit.map(|exit| text(exit, "/reason")).filter(|r| !r.is_empty() && *r != "Error") {
        words.push_str(&format!(" ({reason})"));
    }
    match status.get("restartCount").and_then(Value::as_i64).unwrap_or(0) {
        0 => words,
        1 => words + ", 1 restart",
        n => format!("{words}, {n} restarts"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a pod with this status and one container, which has both probes.
    fn pod(name: &str, status: &Value) -> Value {
        let probes = json!({"name": "app", "startupProbe": {}, "readinessProbe": {}});
        json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "node", "containers": [probes, {"name": "plain"}], "initContainers": [{"name": "init"}]},
            "status": status,
        })
    }

    fn waits(reason: &str, message: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{
            "name": "app", "image": "reg/app:1", "ready": false, "state": {"waiting": {"reason": reason, "message": message}},
        }]})
    }

    fn culprit_of(status: &Value) -> String {
        culprit(&[pod("web-1", status)]).map_or_else(String::new, |culprit| culprit.text)
    }

    #[test]
    fn why_an_image_cannot_be_pulled_is_no_quotation_but_for_the_message() {
        let status = waits("ErrImageNeverPull", "Container image \"app:1\" is not\npresent with pull policy of Never");
        let culprit = culprit(&[pod("web-1", &status)]).unwrap();
        assert_eq!(culprit.quoted, "Container image \"app:1\" is not present with pull policy of Never");
        assert!(culprit.text.ends_with(&format!(": ErrImageNeverPull: {}", culprit.quoted)), "{}", culprit.text);
    }

    #[test]
    fn each_problem_of_a_pod_names_container_and_reason() {
        let crash = json!({"phase": "Running", "containerStatuses": [{
            "name": "app", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "password=x"}},
        }]});
        let running = |name: &str, more: Value| {
            let mut status = json!({"name": name, "ready": false, "state": {"running": {}}});
            more.as_object().unwrap().iter().for_each(|(key, value)| status[key] = value.clone());
            json!({"phase": "Running", "containerStatuses": [status]})
        };
        let exited = json!({"phase": "Failed", "containerStatuses": [{
            "name": "app", "state": {"terminated": {"exitCode": 2, "reason": "Error", "message": "password=x"}},
        }]});
        let unschedulable = json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims.",
        }]});
        let init = json!({"phase": "Pending",
            "initContainerStatuses": [{"name": "init", "ready": false, "state": {"running": {}}}],
            "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "PodInitializing"}}}],
        });
        let gate = json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": "corresponding condition of pod readiness gate \"x/y\" does not exist."},
        ]});
        let cases = [
            (
                waits("ErrImagePull", "not found"),
                r#"pod "web-1": container "app" cannot pull image "reg/app:1": ErrImagePull: not found"#,
            ),
            (
                waits("ImagePullBackOff", ""),
                r#"pod "web-1": container "app" cannot pull image "reg/app:1": ImagePullBackOff"#,
            ),
            (
                waits("CreateContainerConfigError", "secret \"x\"\n not found"),
                r#"pod "web-1": container "app" cannot start: CreateContainerConfigError: secret "x" not found"#,
            ),
            (waits("ContainerCreating", ""), r#"pod "web-1": container "app" is being created"#),
            (crash, r#"pod "web-1": container "app" keeps crashing: exit code 137 (OOMKilled), 5 restarts"#),
            (exited, r#"pod "web-1": container "app" exited: exit code 2"#),
            (
                running("app", json!({"started": false})),
                r#"pod "web-1": container "app" runs, but its startup probe has not succeeded"#,
            ),
            (
                running("app", json!({"started": true})),
                r#"pod "web-1": container "app" runs, but its readiness probe fails"#,
            ),
            (
                running("app", json!({"restartCount": 1, "lastState": {"terminated": {"exitCode": 1}}})),
                r#"pod "web-1": container "app" runs, but its readiness probe fails; exit code 1, 1 restart"#,
            ),
            (running("plain", json!({})), r#"pod "web-1": container "plain" runs, but it is not ready"#),
            (running("app", json!({"ready": true})), ""),
            (unschedulable, r#"pod "web-1": Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."#),
            (init, r#"pod "web-1": init container "init" is still running"#),
            (
                gate,
                r#"pod "web-1": ReadinessGatesNotReady: corresponding condition of pod readiness gate "x/y" does not exist."#,
            ),
            (
                json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}),
                r#"pod "web-1": Evicted: low on memory"#,
            ),
            (json!({"phase": "Pending"}), r#"pod "web-1": its containers do not exist yet"#),
            (json!({"phase": "Succeeded"}), ""),
            (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), ""),
        ];
        for (status, expected) in cases {
            assert_eq!(culprit_of(&status), expected, "{status}");
        }
    }

    #[test]
    fn the_gravest_problem_of_the_newest_pod_is_reported_with_how_many_share_it() {
        let unready = json!({"phase": "Pending"});
        let mut newest = pod("web-9", &waits("ErrImagePull", ""));
        newest["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z".into();
        let mut going = pod("web-0", &waits("InvalidImageName", ""));
        going["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z".into();
        let all = [pod("web-1", &unready), pod("web-2", &waits("ErrImagePull", "")), newest, going];
        let found = culprit(&all).unwrap();
        assert_eq!(
            found.text,
            r#"pod "web-9": container "app" cannot pull image "reg/app:1": ErrImagePull (1 more like it)"#
        );
        assert_eq!((found.uid.as_str(), found.ask), ("web-9", false));
        assert!(culprit(&[pod("web-1", &unready)]).unwrap().ask, "an event may say why");
        assert_eq!(culprit(&[]), None);
    }

    #[test]
    fn only_events_of_controllers_are_quoted_and_the_newest_wins() {
        let one = |reason: &str, time: &str| json!({"reason": reason, "message": format!("seen at {time}"), "lastTimestamp": time});
        let events = [
            one("FailedMount", "2026-01-01T00:00:01Z"),
            one("FailedMount", "2026-01-01T00:00:02Z"),
            one("Unhealthy", "2026-01-01T00:00:03Z"),
        ];
        assert_eq!(event(&events).unwrap(), "FailedMount: seen at 2026-01-01T00:00:02Z");
        assert_eq!(event(&events[2..]), None, "a probe's output may hold secrets");
        let new = json!({"reason": "FailedCreate", "message": "", "eventTime": "2026-01-01T00:00:09.000000Z"});
        assert_eq!(event(&[events[0].clone(), new]).unwrap(), "FailedCreate");
    }

    #[test]
    fn long_messages_are_shortened() {
        let long = culprit_of(&waits("ErrImagePull", &"x".repeat(10_000)));
        assert!(long.len() < 2 * QUOTED, "{}", long.len());
    }
}
