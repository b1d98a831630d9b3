//! Tests of events, as the API server sees them.

use std::time::Duration;

use jiff::Timestamp;
use outside::{Disturbance, Error, MemoryApi};
use serde_json::{Value, json};

use super::form::MAX_NOTE;
use super::outbox::MOST;
use super::recorder::MAX_TRACKED;
use super::*;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/ns/events/";
const CORE: &str = "/api/v1/namespaces/ns/events/";

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
        self.publish_in("ns", reason, note).await;
    }

    async fn publish_in(&self, namespace: &str, reason: &'static str, note: &str) {
        let on = ObjectReference { namespace: Some(namespace.to_owned()), ..on() };
        self.deliver(on, Outcome::warning(reason, "Reconcile", note)).await;
    }

    async fn deliver(&self, on: ObjectReference, outcome: Outcome) {
        self.events.publish(on, outcome);
        self.events.flush(Duration::from_secs(1)).await;
    }

    /// Makes the server refuse these requests from now on, as RBAC does. Each is the start of `METHOD path`.
    fn forbid(&self, requests: &'static [&'static str]) {
        self.server.accept();
        self.server.refuse(move |call| {
            let request = format!("{} {}", call.method, call.path);
            let refused = requests.iter().any(|start| request.starts_with(start));
            refused.then(|| Error::from_status(403, "Forbidden", "events is forbidden: User cannot create resource"))
        });
    }

    /// Returns the requests since the last call, without the names of events.
    fn requests(&self, from: &mut usize) -> Vec<String> {
        let log = self.server.log();
        let new = log[*from..].iter().map(|line| line.split("/web.").next().unwrap().to_owned()).collect();
        *from = log.len();
        new
    }

    /// Returns each event of the core API with its count, in order of arrival.
    fn published_in_core(&self) -> Vec<String> {
        let paths = self.server.paths();
        let events = paths.iter().filter(|path| path.starts_with(CORE)).filter_map(|p| self.server.object(p));
        events.map(|e| format!("{} {} x{}", text(&e["reason"]), text(&e["message"]), e["count"])).collect()
    }

    /// Returns each event with its count, in order of arrival.
    fn published(&self) -> Vec<String> {
        let count = |event: &Value| event["series"]["count"].as_u64().map_or(String::new(), |n| format!(" x{n}"));
        let paths = self.server.paths();
        let events = paths.iter().filter(|path| path.starts_with(EVENTS)).filter_map(|p| self.server.object(p));
        events.map(|e| format!("{} {}{}", text(&e["reason"]), text(&e["note"]), count(&e))).collect()
    }

    fn known(&self) -> usize {
        self.events.named.as_ref().unwrap().recorder.tracked()
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

/// Queues an event, and lets a time pass.
async fn publish_for(world: &World, time: Duration, note: &str) {
    world.events.publish(on(), Outcome::warning("InstallError", "Reconcile", note));
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_cannot_take_now_is_published_once_it_can_before_later_ones() {
    let world = World::new();
    world.server.disturb("POST /apis/events", 3, Disturbance::Refused(503));
    publish_for(&world, Duration::ZERO, "first").await;
    publish_for(&world, Duration::from_secs(3), "second").await;
    assert_eq!(world.published(), [""; 0]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.published(), ["InstallError first", "InstallError second"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_tried_again_is_counted_once() {
    let (world, seconds) = (World::new(), Duration::from_secs(10));
    publish_for(&world, seconds, "no").await;
    world.server.disturb("PATCH ", 2, Disturbance::Refused(500));
    publish_for(&world, seconds, "no").await;
    assert_eq!(world.published(), ["InstallError no x2"]);
    world.server.disturb("PATCH ", 1, Disturbance::AnswerLost);
    publish_for(&world, seconds, "no").await;
    assert_eq!(world.published(), ["InstallError no x3"]);
    world.server.disturb("POST ", 1, Disturbance::AnswerLost);
    publish_for(&world, seconds, "other").await;
    assert_eq!(world.published(), ["InstallError no x3", "InstallError other"]);
    assert_eq!(world.server.log().iter().filter(|line| line.starts_with("POST ")).count(), 3, "it was sent twice");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_rejects_holds_no_other_up() {
    let world = World::new();
    world.server.disturb("POST ", 1, Disturbance::Refused(422));
    publish_for(&world, Duration::ZERO, "rejected").await;
    publish_for(&world, Duration::from_millis(100), "taken").await;
    assert_eq!(world.published(), ["InstallError taken"]);
}

#[tokio::test(start_paused = true)]
async fn events_of_a_namespace_that_takes_none_do_not_hold_up_those_of_others() {
    let world = World::new();
    world.server.refuse(|call| {
        let is_refused = call.path.contains("/namespaces/broken/");
        is_refused.then(|| Error::from_status(500, "InternalError", "failed calling webhook"))
    });
    let broken = ObjectReference { namespace: Some("broken".into()), ..on() };
    for number in 0..20 {
        let outcome = Outcome::warning("InstallError", "Reconcile", format!("number {number}"));
        world.events.publish(broken.clone(), outcome);
    }
    publish_for(&world, Duration::from_secs(2), "soon").await;
    assert_eq!(world.published(), ["InstallError soon"]);
    tokio::time::sleep(Duration::from_secs(300)).await;
    publish_for(&world, Duration::from_secs(32), "after a pause").await;
    assert_eq!(world.published(), ["InstallError soon", "InstallError after a pause"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_tried_for_two_minutes() {
    let world = World::new();
    world.server.refuse(|_| Some(Error::from_status(503, "ServiceUnavailable", "away")));
    publish_for(&world, Duration::from_secs(125), "old").await;
    world.server.accept();
    publish_for(&world, Duration::from_secs(31), "new").await;
    assert_eq!(world.published(), ["InstallError new"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_tried_once_more_when_the_process_ends() {
    let (world, mut from) = (World::new(), 0);
    world.server.refuse(|_| Some(Error::from_status(503, "ServiceUnavailable", "away")));
    publish_for(&world, Duration::from_millis(100), "no").await;
    assert_eq!(world.requests(&mut from).len(), 1);
    let began = tokio::time::Instant::now();
    world.events.flush(Duration::from_secs(1)).await;
    assert_eq!(world.requests(&mut from).len(), 1);
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    world.publish("InstallError", "last").await;
    assert_eq!(world.requests(&mut from).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tracked_events_are_bounded_for_the_whole_process_and_the_oldest_are_dropped_first() {
    let world = World::new();
    let other = World { server: world.server.clone(), events: world.events.for_controller("b-controller") };
    world.publish("InstallError", "first").await;
    world.publish("InstallError", "second").await;
    world.publish("InstallError", "first").await;
    for n in 0..MAX_TRACKED.get() - 1 {
        tokio::time::advance(Duration::from_millis(1)).await;
        other.publish("InstallError", &n.to_string()).await;
    }
    assert_eq!(world.known(), MAX_TRACKED.get());
    let writes = world.server.paths().len();
    world.publish("InstallError", "first").await;
    assert_eq!(world.server.paths().len(), writes, "the first was seen later than the second");
    world.publish("InstallError", "second").await;
    assert_eq!(world.server.paths().len(), writes + 1);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_the_new_api_events_go_to_the_core_api_from_then_on() {
    let (world, mut from) = (World::new(), 0);
    world.forbid(&["POST /apis/events.k8s.io/", "PATCH /apis/events.k8s.io/"]);
    world.publish("InstallError", "no").await;
    let (new, core) = ("POST /apis/events.k8s.io/v1/namespaces/ns/events", "POST /api/v1/namespaces/ns/events");
    assert_eq!(world.requests(&mut from), [new, core]);
    world.publish("InstallError", "no").await;
    world.publish("UpgradeError", "no").await;
    world.publish("InstallError", "no").await;
    let count = "PATCH /api/v1/namespaces/ns/events";
    assert_eq!(world.requests(&mut from), [count, core, count]);
    assert_eq!(world.published_in_core(), ["InstallError no x3", "UpgradeError no x1"]);
    assert_eq!(world.published(), [""; 0]);
    world.publish_in("other", "InstallError", "no").await;
    let other = ["POST /apis/events.k8s.io/v1/namespaces/other/events", "POST /api/v1/namespaces/other/events"];
    assert_eq!(world.requests(&mut from), other);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_the_core_api_has_the_fields_of_client_gos_recorder() {
    let world = World::new();
    world.forbid(&["POST /apis/"]);
    world.publish("InstallError", "no").await;
    let path = world.server.paths().into_iter().find(|path| path.starts_with(CORE)).unwrap();
    let event = world.server.object(&path).unwrap();
    let fields = ["type", "reason", "message", "reportingComponent", "reportingInstance"].map(|f| text(&event[f]));
    assert_eq!(fields, ["Warning", "InstallError", "no", "a-controller", "a-pod"]);
    assert_eq!(event["involvedObject"]["uid"], "u");
    assert_eq!(event["source"], json!({"component": "a-controller"}));
    assert_eq!(event["firstTimestamp"], event["lastTimestamp"]);
    assert_eq!(
        (text(&event["firstTimestamp"]).len(), &event["eventTime"]),
        ("2026-01-02T03:04:05Z".len(), &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn without_any_right_nothing_is_sent_for_ten_minutes_and_then_again() {
    let (world, mut from) = (World::new(), 0);
    world.forbid(&["POST "]);
    world.publish("InstallError", "no").await;
    assert_eq!(world.requests(&mut from).len(), 2);
    for n in 0..5 {
        tokio::time::advance(Duration::from_secs(119)).await;
        world.publish("InstallError", &n.to_string()).await;
    }
    assert_eq!((world.requests(&mut from).len(), world.known()), (0, 0));
    world.server.accept();
    tokio::time::advance(Duration::from_secs(5)).await;
    world.publish("InstallError", "granted").await;
    assert_eq!(world.published(), ["InstallError granted"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_deleted_says_nothing_about_rights() {
    let (world, mut from) = (World::new(), 0);
    world.server.refuse(|call| {
        let terminating = || Error::from_status(403, "NamespaceTerminating", "namespace ns is being terminated");
        call.path.contains("/ns/").then(terminating)
    });
    for _ in 0..2 {
        world.publish("InstallError", "no").await;
        assert_eq!(world.requests(&mut from), ["POST /apis/events.k8s.io/v1/namespaces/ns/events"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_count_may_not_be_changed_is_published_again_after_six_minutes() {
    let (world, mut from) = (World::new(), 0);
    world.forbid(&["PATCH "]);
    for _ in 0..3 {
        world.publish("InstallError", "no").await;
    }
    let events = "/apis/events.k8s.io/v1/namespaces/ns/events";
    assert_eq!(world.requests(&mut from), [format!("POST {events}"), format!("PATCH {events}")]);
    tokio::time::advance(Duration::from_secs(359)).await;
    world.publish("InstallError", "no").await;
    assert_eq!(world.requests(&mut from), [""; 0]);
    tokio::time::advance(Duration::from_secs(1)).await;
    world.publish("InstallError", "no").await;
    assert_eq!(world.requests(&mut from), [format!("POST {events}")]);
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
    let named = async |pod: Option<&str>| {
        let world = World { server: Arc::new(MemoryApi::new()), events: Events::default() };
        let events = Events::new(world.server.clone(), "a", pod).for_controller("b");
        World { events, server: world.server.clone() }.publish("InstallError", "no").await;
        let path = world.server.paths().into_iter().find(|path| path.starts_with(EVENTS)).unwrap();
        let event = world.server.object(&path).unwrap();
        ["reportingController", "reportingInstance"].map(|field| text(&event[field]).to_owned())
    };
    assert_eq!(named(Some("pod")).await, ["b", "pod"]);
    assert_eq!(named(None).await, ["b", "b"]);
    assert!(Events::default().for_controller("b").named.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_a_warning_event_and_a_success_is_a_normal_one() {
    let world = World::new();
    let outcomes = [Outcome::warning("InstallError", "Install", "no"), Outcome::normal("Installed", "Install", "yes")];
    for outcome in outcomes {
        world.deliver(on(), outcome).await;
    }
    let kind = |reason: &str| {
        let paths = world.server.paths();
        let event = paths.iter().filter_map(|p| world.server.object(p)).find(|e| e["reason"] == reason);
        text(&event.unwrap()["type"]).to_owned()
    };
    assert_eq!((kind("InstallError"), kind("Installed")), ("Warning".to_owned(), "Normal".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn events_leave_a_slow_server_alone_until_the_process_ends() {
    let world = World::new();
    world.server.slow_down(Duration::from_millis(100));
    for n in 0..5 {
        world.events.publish(on(), Outcome::normal("Installed", "Install", n.to_string()));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.published(), ["Installed 0"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.published(), ["Installed 0", "Installed 1"]);
    world.events.flush(Duration::from_millis(250)).await;
    assert_eq!(world.published(), ["Installed 0", "Installed 1", "Installed 2", "Installed 3"], "within its limit");
}

#[tokio::test(start_paused = true)]
async fn events_rest_for_a_second_at_most() {
    let world = World::new();
    world.server.slow_down(Duration::from_secs(5));
    for n in 0..3 {
        world.events.publish(on(), Outcome::normal("Installed", "Install", n.to_string()));
    }
    // Three requests and two cooldowns take 17 s.
    tokio::time::sleep(Duration::from_millis(16_900)).await;
    assert_eq!(world.published().len(), 2);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.published().len(), 3);
}

#[tokio::test]
async fn an_event_records_when_it_happened() {
    let world = World::new();
    let (on, outcome) = (on(), Outcome::normal("Installed", "Install", "x"));
    let named = world.events.named.as_ref().unwrap();
    named.recorder.publish(&named.event(&on, &outcome), "2026-01-02T03:04:05Z".parse().unwrap()).await.unwrap();
    let path = world.server.paths().into_iter().find(|path| path.starts_with(EVENTS)).unwrap();
    assert_eq!(text(&world.server.object(&path).unwrap()["eventTime"]), "2026-01-02T03:04:05.000000Z");
}

#[tokio::test(start_paused = true)]
async fn a_crowd_of_events_is_published_without_rests_and_the_newest_are_dropped() {
    let world = World::new();
    world.server.slow_down(Duration::from_millis(10));
    for n in 0..MOST + 3 {
        world.events.publish(on(), Outcome::normal("Installed", "Install", n.to_string()));
    }
    tokio::time::sleep(Duration::from_millis(10) * MOST as u32 / 2 + Duration::from_millis(50)).await;
    assert_eq!(world.published().len(), MOST / 2 + 2, "then they rest");
    world.events.publish(on(), Outcome::normal("Installed", "Install", "room again"));
    world.events.flush(Duration::from_secs(60)).await;
    let published = world.published();
    assert_eq!((published.len(), published.last().unwrap().as_str()), (MOST + 1, "Installed room again"));
    world.publish("InstallError", "later").await;
    assert_eq!(world.published().len(), MOST + 2);
}

#[test]
fn an_event_has_a_name_however_long_its_objects_is() {
    let now = Timestamp::from_nanosecond(0xabc).unwrap();
    let check = |name: &str, expected: &str| {
        let (on, outcome) = (ObjectReference { name: Some(name.into()), ..on() }, Outcome::normal("R", "A", "m"));
        assert_eq!(Event::new(&on, &outcome, "c", "p").name(now), expected);
    };
    check("web", "web.abc");
    check(&format!("{}-.{}", "a".repeat(247), "b".repeat(4)), &format!("{}.abc", "a".repeat(247)));
}
