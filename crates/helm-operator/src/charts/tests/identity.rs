//! Tests of releases that are read and written as a ServiceAccount.

use helm_release::kube::{Call, Disturbance};

use super::*;
use crate::watches::ServiceAccount;

const USER: &str = "system:serviceaccount:ns:deployer";
const ACCOUNT: &str = "/api/v1/namespaces/ns/serviceaccounts/deployer";

/// Requests as (user, method, path).
type Requests = Arc<Mutex<Vec<(String, String, String)>>>;

/// Records each request with its user.
fn noting(server: &MemoryApi) -> Requests {
    let requests = Requests::default();
    let noted = requests.clone();
    server.refuse(move |call: &Call| {
        let user = call.user.as_deref().unwrap_or("operator").to_owned();
        noted.lock().unwrap().push((user, call.method.to_string(), call.path.clone()));
        None
    });
    requests
}

fn acting(server: Arc<MemoryApi>) -> World {
    World::with_events(server, Arc::new(Stub::default()), |settings| {
        settings.service_account = Some(ServiceAccount { namespace: None, name: "deployer".into() });
    })
}

/// Creates a resource with one ConfigMap and a hook that runs at its deletion.
fn world() -> World {
    let hook = json!({"name": "bye", "events": ["pre-delete"]});
    let world = acting(World::new(json!({"maps": ["a"], "value": "x", "hooks": [hook]})).server);
    world.server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
    world
}

#[tokio::test(start_paused = true)]
async fn objects_are_the_accounts_and_records_status_and_events_are_the_operators() {
    let world = world();
    let requests = noting(&world.server);
    world.reconcile().await;
    world.edit(|resource| resource["spec"]["value"] = "y".into());
    world.reconcile().await;
    world.server.remove(&format!("{MAPS}/a"));
    world.reconcile().await;
    tokio::time::sleep(SECOND).await;
    let requests = requests.lock().unwrap();
    let of = |user: &str, part: &str| requests.iter().any(|(by, _, path)| by == user && path.contains(part));
    assert!(of(USER, "/configmaps/a") && !of("operator", "/configmaps/"), "{requests:#?}");
    for part in ["/secrets/sh.helm.release", "/memcacheds/web", "/events", "/serviceaccounts/"] {
        assert!(of("operator", part) && !of(USER, part), "{part}: {requests:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_stalls_whichever_account_may_read_its_objects() {
    for is_account in [true, false] {
        let world = acting(World::new(json!({"deployments": ["web"]})).server);
        world.server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
        world.work_for(SECOND).await;
        world.server.refuse(move |call: &Call| {
            let reads = call.method == http::Method::GET && call.path.ends_with("/deployments/web");
            (reads && call.user.is_some() == is_account).then(|| Error::from_status(403, "Forbidden", "no"))
        });
        world.work_for(Duration::from_secs(900)).await;
        assert_eq!(world.state("Stalled"), "True/ProgressTimeout", "refused: {is_account}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_resource_asks_for_no_account() {
    let world = world();
    world.reconcile().await;
    assert_eq!(world.requests().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_missing_account_is_reported_before_anything_is_written() {
    let world = world();
    world.server.remove(ACCOUNT);
    world.reconcile().await;
    let condition = world.condition("Irreconcilable").unwrap();
    assert!(
        condition
            .starts_with("True/ServiceAccountMissing/ServiceAccount \"deployer\" does not exist in namespace \"ns\"")
    );
    assert!(world.maps().is_empty() && world.history().is_empty());
    world.server.put(ACCOUNT, json!({"metadata": {"name": "deployer"}}), "user");
    tokio::time::advance(SECOND).await;
    world.reconcile().await;
    assert_eq!((world.maps(), world.condition("Irreconcilable")), (vec!["a".to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn an_account_whose_path_is_not_served_for_a_moment_does_not_count_as_missing() {
    let world = world();
    world.server.disturb(&format!("GET {ACCOUNT}"), 1, Disturbance::Unserved);
    world.reconcile().await;
    assert_eq!((world.maps(), world.condition("Irreconcilable")), (vec!["a".to_owned()], None));
}

#[tokio::test(start_paused = true)]
async fn two_namespaces_have_two_accounts() {
    let world = world();
    let far = world.add("far", "web", json!({"maps": ["b"], "value": "x"}));
    world.server.put(
        "/api/v1/namespaces/far/serviceaccounts/deployer",
        json!({"metadata": {"name": "deployer"}}),
        "user",
    );
    let requests = noting(&world.server);
    world.reconcile().await;
    world.reconcile_one(&far).await;
    let requests = requests.lock().unwrap();
    let writers = |part: &str| {
        let mut by: Vec<&str> =
            requests.iter().filter(|(_, _, path)| path.contains(part)).map(|(by, _, _)| by.as_str()).collect();
        by.dedup();
        by.join(" ")
    };
    assert_eq!(writers("/namespaces/ns/configmaps"), USER);
    assert_eq!(writers("/namespaces/far/configmaps"), "system:serviceaccount:far:deployer");
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_account_is_gone_is_deleted_by_the_operator_without_its_hooks() {
    let world = world();
    world.reconcile().await;
    world.server.remove(ACCOUNT);
    world.delete();
    let requests = noting(&world.server);
    world.reconcile().await;
    assert!(world.server.object(PRIMARY).is_none() && world.maps().is_empty());
    let requests = requests.lock().unwrap();
    assert!(requests.iter().all(|(by, _, path)| by == "operator" && !path.contains("/jobs")), "{requests:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_to_impersonate_names_the_rule() {
    let world = world();
    world.server.refuse(|call| {
        call.user.as_ref()?;
        let text = "serviceaccounts \"deployer\" is forbidden: User \"operator\" cannot impersonate resource \"serviceaccounts\" in API \
            group \"\" in the namespace \"ns\"";
        Some(Error::from_status(403, "Forbidden", text))
    });
    world.reconcile().await;
    let condition = world.condition("ReleaseFailed").or(world.condition("Irreconcilable")).unwrap();
    assert!(condition.contains("/ImpersonationForbidden/"), "{condition}");
    assert!(condition.contains("resourceNames: [deployer], verbs: [get, impersonate]}"), "{condition}");
}
