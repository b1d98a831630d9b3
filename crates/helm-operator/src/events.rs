//! Events on custom resources: one for each change.
//!
//! A repeated event increases the count of the first; an event with another text is a new one, or its text would stay hidden. Counterpart:
//! client-go's `tools/events`, whose key leaves out the text.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use helm_release::kube::{Api, Call, Error, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::report::{Outcome, chain, shorten};

/// The longest note that the events API takes, in bytes.
const MAX_NOTE: usize = 1024;
/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;
/// How long after its last occurrence an event is counted on, as in client-go: well within the hour for which servers keep events.
const SERIES: Duration = Duration::from_secs(360);
/// How many events to track; the one not seen for longest is dropped first.
const MAX_TRACKED: usize = 1024;

/// Publishes events. The default, for tests, drops them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Events {
    recorder: Option<Arc<Recorder>>,
}

struct Recorder {
    api: Arc<dyn Api>,
    controller: String,
    instance: String,
    seen: Mutex<HashMap<EventKey, Published>>,
}

/// What makes two events equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    namespace: String,
    uid: String,
    name: String,
    kind: &'static str,
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// A published event.
#[derive(Clone, Debug)]
struct Published {
    event: String,
    count: u32,
    last: Instant,
}

impl Events {
    /// Publishes through this API server in a controller's name; `instance` is the pod's name. Default for `None`: the controller's.
    pub(crate) fn new(api: Arc<dyn Api>, controller: &str, instance: Option<&str>) -> Events {
        let instance = instance.unwrap_or(controller).to_owned();
        let recorder = Recorder { api, controller: controller.to_owned(), instance, seen: Mutex::default() };
        Events { recorder: Some(Arc::new(recorder)) }
    }

    /// The same, in another controller's name.
    #[must_use]
    pub(crate) fn for_controller(&self, controller: &str) -> Events {
        self.recorder.as_ref().map_or_else(Events::default, |recorder| {
            let pod = Some(recorder.instance.as_str()).filter(|instance| *instance != recorder.controller);
            Events::new(recorder.api.clone(), controller, pod)
        })
    }

    /// Publishes an outcome in the background.
    pub fn publish(&self, on: ObjectReference, outcome: Outcome) {
        let events = self.clone();
        tokio::spawn(async move { events.deliver(&on, &outcome).await });
    }

    /// Publishes an outcome and waits for the answer. A failure is only logged.
    pub async fn deliver(&self, on: &ObjectReference, outcome: &Outcome) {
        let Some(recorder) = &self.recorder else { return };
        let key = event_key(on, outcome);
        if let Err(error) = recorder.publish(on, &key).await {
            tracing::warn!(error = chain(&error), reason = key.reason, "Cannot publish an event");
        }
    }
}

fn event_key(on: &ObjectReference, outcome: &Outcome) -> EventKey {
    EventKey {
        // Events of cluster-scoped objects live in this namespace.
        namespace: on.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        uid: on.uid.clone().unwrap_or_default(),
        name: on.name.clone().unwrap_or_default(),
        kind: if outcome.warning { "Warning" } else { "Normal" },
        reason: outcome.reason,
        action: outcome.action,
        note: shorten(&outcome.message, MAX_NOTE),
    }
}

impl Recorder {
    async fn publish(&self, on: &ObjectReference, key: &EventKey) -> Result<(), Error> {
        if let Some(seen) = self.count(key, Instant::now()) {
            match self.repeat(key, &seen).await {
                // The server forgot it, or it never arrived.
                Err(error) if error.is_not_found() => {}
                answer => return answer.map(drop),
            }
        }
        let now = Timestamp::now();
        let event = event_name(&key.name, now);
        // Tracked before it arrives, since it may be repeated meanwhile.
        self.track(key, Published { event: event.clone(), count: 1, last: Instant::now() });
        let created = self.create(on, key, &event, now).await;
        if created.is_err() {
            self.seen().remove(key);
        }
        created.map(drop)
    }

    async fn create(
        &self,
        on: &ObjectReference,
        key: &EventKey,
        event: &str,
        now: Timestamp,
    ) -> Result<Response, Error> {
        let body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": event, "namespace": key.namespace},
            "eventTime": micro_time(now), "type": key.kind, "reason": key.reason, "action": key.action, "note": key.note,
            "regarding": on, "reportingController": self.controller, "reportingInstance": self.instance,
        });
        self.api.send(Call::post(collection(key), body.to_string().into_bytes())).await
    }

    async fn repeat(&self, key: &EventKey, seen: &Published) -> Result<Response, Error> {
        let body: Value = json!({"series": {"count": seen.count, "lastObservedTime": micro_time(Timestamp::now())}});
        let path = format!("{}/{}", collection(key), seen.event);
        self.api.send(Call::merge(path, body.to_string().into_bytes())).await
    }

    /// Increases the count of an event published a short while ago.
    fn count(&self, key: &EventKey, now: Instant) -> Option<Published> {
        let mut all = self.seen();
        let seen = all.get_mut(key).filter(|seen| now.saturating_duration_since(seen.last) < SERIES)?;
        (seen.count, seen.last) = (seen.count.saturating_add(1), now);
        Some(seen.clone())
    }

    fn track(&self, key: &EventKey, seen: Published) {
        let mut all = self.seen();
        let now = seen.last;
        all.retain(|_, old| now.saturating_duration_since(old.last) < SERIES);
        if all.len() >= MAX_TRACKED
            && let Some(oldest) = all.iter().min_by_key(|(_, seen)| seen.last).map(|(key, _)| key.clone())
        {
            all.remove(&oldest);
        }
        all.insert(key.clone(), seen);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<EventKey, Published>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn collection(key: &EventKey) -> String {
    format!("/apis/events.k8s.io/v1/namespaces/{}/events", key.namespace)
}

/// The object's name and the time, as in client-go; a long name is cut so that it stays valid.
fn event_name(name: &str, now: Timestamp) -> String {
    let suffix = format!(".{:x}", now.as_nanosecond());
    let kept = &name[..name.floor_char_boundary(MAX_NAME - suffix.len())];
    format!("{}{suffix}", kept.trim_end_matches(['.', '-']))
}

fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use helm_release::kube::MemoryApi;

    use super::*;

    const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events/";

    struct World {
        server: Arc<MemoryApi>,
        events: Events,
    }

    impl World {
        fn new() -> World {
            let server = Arc::new(MemoryApi::new());
            World { events: Events::new(server.clone(), "a-controller", Some("a-pod")), server }
        }

        async fn publish(&self, reason: &'static str, note: &str) {
            self.events.deliver(&on(), &Outcome::warning(reason, "Reconcile", note)).await;
        }

        /// Each event with its count, in order of arrival.
        fn published(&self) -> Vec<String> {
            let count = |event: &Value| event["series"]["count"].as_u64().map_or(String::new(), |n| format!(" x{n}"));
            let paths = self.server.paths();
            let events = paths.iter().filter(|path| path.starts_with(EVENTS)).filter_map(|p| self.server.object(p));
            events.map(|e| format!("{} {}{}", text(&e["reason"]), text(&e["note"]), count(&e))).collect()
        }

        fn known(&self) -> usize {
            self.events.recorder.as_ref().unwrap().seen().len()
        }
    }

    fn text(of: &Value) -> &str {
        of.as_str().unwrap()
    }

    fn on() -> ObjectReference {
        ObjectReference {
            name: Some("web".into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            ..ObjectReference::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_text_is_a_new_event_and_a_repeated_text_is_counted() {
        let world = World::new();
        world.publish("InstallError", "got 5").await;
        world.publish("InstallError", "got 14").await;
        world.publish("InstallError", "got 14").await;
        world.publish("InstallError", "got 14").await;
        world.publish("UpgradeError", "got 14").await;
        assert_eq!(world.published(), ["InstallError got 5", "InstallError got 14 x3", "UpgradeError got 14"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_has_the_fields_that_kubernetes_requires() {
        let world = World::new();
        world.events.publish(on(), Outcome::normal("Installed", "Install", "x".repeat(2000)));
        tokio::time::sleep(Duration::from_millis(1)).await;
        let path = world.server.paths().into_iter().find(|path| path.starts_with(EVENTS)).unwrap();
        let event = world.server.object(&path).unwrap();
        let key = ["type", "reason", "action", "reportingController", "reportingInstance"].map(|f| text(&event[f]));
        assert_eq!(key, ["Normal", "Installed", "Install", "a-controller", "a-pod"]);
        assert_eq!((&event["regarding"]["uid"], &event["metadata"]["namespace"]), (&json!("u"), &json!("ns")));
        assert_eq!(text(&event["note"]).len(), MAX_NOTE - 1);
        assert_eq!(
            (text(&event["eventTime"]).len(), &event["series"]),
            ("2026-01-02T03:04:05.678901Z".len(), &Value::Null)
        );
        assert!(text(&event["metadata"]["name"]).starts_with("web."));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_last_published_six_minutes_ago_is_published_again() {
        let world = World::new();
        for pause in [0, 359, 359, 360] {
            tokio::time::advance(Duration::from_secs(pause)).await;
            world.publish("InstallError", "no").await;
        }
        assert_eq!(world.published(), ["InstallError no x3", "InstallError no"]);
        assert_eq!(world.known(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_lost_by_the_server_is_created_again() {
        let world = World::new();
        world.publish("InstallError", "no").await;
        let path = world.server.paths().into_iter().find(|path| path.starts_with(EVENTS)).unwrap();
        world.server.remove(&path);
        world.publish("InstallError", "no").await;
        assert_eq!(world.published(), ["InstallError no"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_event_is_not_counted_on() {
        let world = World::new();
        world.server.fail_after(Some(0));
        world.publish("InstallError", "no").await;
        world.server.fail_after(None);
        assert_eq!((world.published(), world.known()), (vec![], 0));
        world.publish("InstallError", "no").await;
        assert_eq!(world.published(), ["InstallError no"]);
    }

    #[tokio::test(start_paused = true)]
    async fn tracked_events_are_bounded_and_the_oldest_are_dropped_first() {
        let world = World::new();
        for n in 0..MAX_TRACKED + 2 {
            tokio::time::advance(Duration::from_millis(1)).await;
            world.publish("InstallError", &n.to_string()).await;
        }
        assert_eq!(world.known(), MAX_TRACKED);
        let seen = world.events.recorder.as_ref().unwrap().seen();
        assert!(seen.keys().all(|key| !["0", "1"].contains(&key.note.as_str())));
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_cluster_scoped_objects_go_to_the_default_namespace() {
        let world = World::new();
        world.events.publish(ObjectReference { namespace: None, ..on() }, Outcome::normal("Installed", "Install", "x"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(
            world.server.paths().iter().any(|p| p.starts_with("/apis/events.k8s.io/v1/namespaces/default/events/web."))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn another_controller_of_the_same_pod_has_a_name_of_its_own() {
        let named = |events: &Events| {
            let recorder = events.recorder.as_ref().unwrap();
            (recorder.controller.clone(), recorder.instance.clone())
        };
        let server = Arc::new(MemoryApi::new());
        let pod = Events::new(server.clone(), "a", Some("pod")).for_controller("b");
        assert_eq!(named(&pod), ("b".to_owned(), "pod".to_owned()));
        let none = Events::new(server, "a", None).for_controller("b");
        assert_eq!(named(&none), ("b".to_owned(), "b".to_owned()));
        assert!(Events::default().for_controller("b").recorder.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_a_warning_event_and_a_success_is_a_normal_one() {
        let world = World::new();
        let outcomes =
            [Outcome::warning("InstallError", "Install", "no"), Outcome::normal("Installed", "Install", "yes")];
        for outcome in &outcomes {
            world.events.deliver(&on(), outcome).await;
        }
        let kind = |reason: &str| {
            let paths = world.server.paths();
            let event = paths.iter().filter_map(|p| world.server.object(p)).find(|e| e["reason"] == reason);
            text(&event.unwrap()["type"]).to_owned()
        };
        assert_eq!((kind("InstallError"), kind("Installed")), ("Warning".to_owned(), "Normal".to_owned()));
    }

    #[test]
    fn an_event_has_a_name_however_long_its_objects_is() {
        let now = Timestamp::from_nanosecond(0xabc).unwrap();
        assert_eq!(event_name("web", now), "web.abc");
        let long = event_name(&format!("{}-.{}", "a".repeat(247), "b".repeat(4)), now);
        assert_eq!(long, format!("{}.abc", "a".repeat(247)));
    }
}
