//! Finds what `WATCH_NAMESPACE` leaves out by mistake: namespaces that do not exist, and resources that no operator
//! serves. Checks only if the operator has the permission to find out. Checks repeatedly, because a namespace or a
//! resource may be created later, and a line is easily missed.

use std::future::pending;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use kube::core::Selector;
use outside::{Api, Call, Headed};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::sleep;

use super::{NOWHERE, Need, ProcessRights, missing};

/// The first pause between two checks. Each pause is twice as long as the one before, so the checks soon cost next to
/// nothing.
const FIRST: Duration = Duration::from_secs(15);

/// The maximum pause between two checks.
const LONGEST: Duration = Duration::from_secs(3600);

/// The maximum number of pages that are searched for resources in other namespaces.
const MAX_PAGES: usize = 10;

/// How many resources a log line names.
const NAMED: usize = 5;

/// A namespaced kind and the path of all its objects.
pub struct Collection<'a> {
    /// The group; empty for the core group.
    pub group: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind's name in paths and roles.
    pub plural: &'a str,
    /// The path.
    pub path: String,
}

impl ProcessRights {
    /// Warns about watched namespaces that do not exist, for as long as they don't. Never returns.
    pub async fn look_for_namespaces(&self) {
        if !self.may_everywhere(&Need::all("", "namespaces", &["get"])).await {
            return pending().await;
        }
        let mut pause = FIRST;
        loop {
            for namespace in self.namespaces.0.iter() {
                let answer = Api::send(&self.client, Call::metadata(format!("/api/v1/namespaces/{namespace}"))).await;
                if answer.is_err_and(|error| error.is_not_found()) {
                    tracing::warn!(
                        namespace,
                        "WATCH_NAMESPACE names a namespace that does not exist: create it, or correct the name"
                    );
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Warns about selected resources of this kind in namespaces that are not watched, for as long as there are any.
    /// Never returns.
    pub async fn look_outside(&self, kind: &Collection<'_>, selector: &Selector) {
        let (list, path) = (Need::all(kind.group, kind.plural, &["list"]), &kind.path);
        if !self.may_everywhere(&list).await {
            return pending().await;
        }
        let selector = selector.to_string();
        let selector = utf8_percent_encode(&selector, NON_ALPHANUMERIC);
        let path = format!("{path}?labelSelector={selector}");
        let mut pause = FIRST;
        loop {
            self.warn_of(kind.kind, &self.outside(&path).await);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Returns the first few resources in namespaces that are not watched, as `namespace/name`.
    async fn outside(&self, path: &str) -> Vec<String> {
        let pages = outside::pages(&self.client, Call::metadata_list(path));
        let (mut pages, mut found) = (pages.take(MAX_PAGES), Vec::new());
        while found.len() <= NAMED
            && let Ok(Some(page)) = pages.try_next().await
        {
            found.extend(others(page, &self.namespaces.0));
        }
        found
    }

    fn warn_of(&self, kind: &str, outside: &[String]) {
        if !outside.is_empty() {
            tracing::warn!(
                kind,
                resources = some_of(outside),
                watched = self.namespaces.0.join(","),
                "Resources outside WATCH_NAMESPACE are not served by this process: add their namespaces to it, or create them in a watched one"
            );
        }
    }

    /// Returns whether the operator is restricted to namespaces, but has this permission in all of them.
    async fn may_everywhere(&self, need: &Need<'_>) -> bool {
        if self.namespaces.is_all() {
            return false;
        }
        let everywhere = self.everywhere.get_or_init(|| self.ask_in(NOWHERE)).await;
        everywhere.as_ref().is_some_and(|granted| missing([need], &granted.rules).is_empty())
    }
}

fn others(page: Vec<Headed>, watched: &[String]) -> impl Iterator<Item = String> {
    let name = |Headed { metadata }| (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
    let others = page.into_iter().map(name).filter(|(namespace, _)| !watched.contains(namespace));
    others.map(|(namespace, name)| format!("{namespace}/{name}"))
}

fn some_of(names: &[String]) -> String {
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{named} and more") } else { named }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::runtime::namespaces::Namespaces;

    /// When each path was requested, in seconds, from a server that grants everything and has no namespaces.
    type Asked = Arc<Mutex<Vec<(u64, String)>>>;

    fn rights(watched: &[&str]) -> (ProcessRights, Asked) {
        let asked = Asked::default();
        let (log, began) = (asked.clone(), Instant::now());
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let (code, body) = match path.as_str() {
                "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews" => {
                    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
                    (
                        201,
                        json!({"spec": {}, "status": {"incomplete": false, "nonResourceRules": [], "resourceRules": all}}),
                    )
                }
                "/apis/g/v1/things" if request.uri().query() == Some("labelSelector=tier%3Dnew&limit=500") => {
                    (200, json!({"items": [{"metadata": {"namespace": "b", "name": "n"}}]}))
                }
                _ => (404, json!({"reason": "NotFound", "message": "not found", "code": 404})),
            };
            log.lock().unwrap().push((began.elapsed().as_secs(), path));
            async move { Response::builder().status(code).body(Body::from(body.to_string().into_bytes())) }
        });
        let namespaces = Namespaces(watched.iter().map(|name| (*name).to_owned()).collect());
        (ProcessRights::new(Client::new(service, "default"), namespaces), asked)
    }

    fn times(asked: &Asked, path: &str) -> Vec<u64> {
        asked.lock().unwrap().iter().filter(|(_, asked)| asked == path).map(|(time, _)| *time).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn looks_are_repeated_and_become_rare() {
        let things = Collection { group: "g", kind: "Thing", plural: "things", path: "/apis/g/v1/things".to_owned() };
        let selector = Selector::from_iter([("tier".to_owned(), "new".to_owned())]);
        let (all, asked) = rights(&[]);
        let (some, asked_by_some) = rights(&["a"]);
        let looks = async {
            tokio::join!(
                all.look_for_namespaces(),
                all.look_outside(&things, &selector),
                some.look_for_namespaces(),
                some.look_outside(&things, &selector)
            )
        };
        let day = tokio::time::timeout(Duration::from_secs(24 * 3600), looks).await;
        assert!(day.is_err(), "they never end");
        assert!(asked.lock().unwrap().is_empty(), "nothing is outside of all namespaces");
        for path in ["/api/v1/namespaces/a", "/apis/g/v1/things"] {
            let times = times(&asked_by_some, path);
            assert_eq!(times[..5], [0, 15, 45, 105, 225]);
            assert!(times.len() < 40, "{} looks a day", times.len());
        }
    }

    #[test]
    fn resources_in_other_namespaces_are_named() {
        let items: Vec<_> = (0..7)
            .map(|n| json!({"metadata": {"namespace": if n == 0 { "a" } else { "b" }, "name": format!("n{n}")}}))
            .collect();
        let of = |watched: &[&str]| {
            let watched: Vec<_> = watched.iter().map(|name| (*name).to_owned()).collect();
            others(serde_json::from_value(json!(items)).unwrap(), &watched).collect::<Vec<_>>()
        };
        assert_eq!(some_of(&of(&["a"])), "b/n1, b/n2, b/n3, b/n4, b/n5 and more");
        assert_eq!(some_of(&of(&["a"])[..5]), "b/n1, b/n2, b/n3, b/n4, b/n5");
        assert!(of(&["a", "b"]).is_empty());
    }

    /// Returns the rights of a process that watches namespace `a`, on a server whose list has a page for each of these
    /// namespaces, and the number of requests.
    fn paged(pages: Vec<&'static str>) -> (ProcessRights, Arc<Mutex<usize>>) {
        let asked = Arc::new(Mutex::new(0));
        let count = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let page: usize = query.split_once("continue=").map_or(0, |(_, token)| token.parse().unwrap());
            let items: Vec<_> =
                (0..20).map(|n| json!({"metadata": {"namespace": pages[page], "name": format!("n{n}")}})).collect();
            let next = if page + 1 < pages.len() { (page + 1).to_string() } else { String::new() };
            *count.lock().unwrap() += 1;
            let list = json!({"metadata": {"continue": next}, "items": items});
            async move { Response::builder().body(Body::from(list.to_string().into_bytes())) }
        });
        (ProcessRights::new(Client::new(service, "default"), Namespaces(["a".to_owned()].into())), asked)
    }

    #[tokio::test]
    async fn resources_outside_are_found_on_later_pages_and_the_rest_is_not_listed() {
        for (pages, found, requests) in [
            (vec!["a", "b", "c"], Some("b/n0"), 2),
            (vec!["b", "c"], Some("b/n0"), 1),
            (vec!["a"; 4], None, 4),
            (vec!["a"; 50], None, MAX_PAGES),
        ] {
            let (rights, asked) = paged(pages.clone());
            assert_eq!(rights.outside("/things").await.first().map(String::as_str), found, "{pages:?}");
            assert_eq!(*asked.lock().unwrap(), requests, "{pages:?}");
        }
    }
}
