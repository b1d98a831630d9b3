//! Lists in pages. Whoever may create objects decides how many there are and how large they are, so no list is requested
//! as a whole.

use std::future::ready;

use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::api::{Api, Call, Error, PAGE};

#[derive(Deserialize)]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    /// `null` in an empty list, as Go writes it.
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// Requests a list in pages of at most [`PAGE`] objects, each only when the stream is polled for it. `call` is the list
/// without `limit` and `continue`.
///
/// # Errors
/// Those of [`Api::send`], including 410 if the server no longer keeps the list's version, and [`Error::Json`]. The
/// stream ends after an error.
pub fn pages<'a, T>(api: &'a dyn Api, call: Call) -> BoxStream<'a, Result<Vec<T>, Error>>
where
    T: DeserializeOwned + Send + 'a,
{
    pages_in_turn(api, call, || ready(())).map_ok(|((), page)| page).boxed()
}

/// Requests a list as [`pages`] does. Each page is parsed only after its `turn`, whose result, such as a permit, comes
/// with it. The turn begins when the page has arrived, so that a stalling server occupies no turn.
///
/// # Errors
/// As [`pages`].
pub fn pages_in_turn<'a, T, P, F>(
    api: &'a dyn Api,
    call: Call,
    turn: impl Fn() -> F + Send + 'a,
) -> BoxStream<'a, Result<(P, Vec<T>), Error>>
where
    T: DeserializeOwned + Send + 'a,
    P: Send + 'a,
    F: Future<Output = P> + Send + 'a,
{
    Box::pin(stream::try_unfold(Some(String::new()), move |token| {
        let request = token.map(|token| Call { path: path(&call.path, &token), ..call.clone() });
        let turn = turn();
        async move {
            let Some(request) = request else { return Ok(None) };
            let answer = api.send(request).await?;
            let turn = turn.await;
            let page: Page<T> = answer.parse()?;
            let next = page.metadata.next.filter(|token| !token.is_empty());
            Ok(Some(((turn, page.items.unwrap_or_default()), next)))
        }
    }))
}

/// Lists all objects, page by page.
///
/// # Errors
/// As [`pages`].
pub async fn list<T: DeserializeOwned + Send>(api: &dyn Api, call: Call) -> Result<Vec<T>, Error> {
    pages(api, call).try_concat().await
}

fn path(list: &str, token: &str) -> String {
    let separator = if list.contains('?') { '&' } else { '?' };
    let page = format!("{list}{separator}limit={PAGE}");
    if token.is_empty() { page } else { format!("{page}&continue={}", utf8_percent_encode(token, NON_ALPHANUMERIC)) }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::api::Response;
    use crate::{Disturbance, MemoryApi};

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    /// A server that sends two objects in a page.
    struct Small(MemoryApi);

    impl Api for Small {
        fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
            self.0.send(Call { path: call.path.replace("limit=500", "limit=2"), ..call })
        }
    }

    /// Returns a server with this many ConfigMaps.
    async fn with_maps(count: usize) -> Small {
        let server = MemoryApi::new();
        for number in 0..count {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")}});
            server.send(Call::post(MAPS, map.to_string().into_bytes())).await.unwrap();
        }
        Small(server)
    }

    fn names(page: &[Value]) -> Vec<&str> {
        page.iter().filter_map(|map| map["metadata"]["name"].as_str()).collect()
    }

    /// A server that never answers.
    struct Stalls;

    impl Api for Stalls {
        fn send(&self, _: Call) -> BoxFuture<'_, Result<Response, Error>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn a_list_has_the_objects_of_all_pages_once() {
        for (count, query) in [(0, ""), (2, ""), (5, ""), (5, "?labelSelector=")] {
            let server = with_maps(count).await;
            let all: Vec<Value> = list(&server, Call::get(format!("{MAPS}{query}"))).await.unwrap();
            let wanted: Vec<_> = (0..count).map(|number| format!("m{number}")).collect();
            assert_eq!(names(&all), wanted);
            let lists = server.0.log().iter().filter(|line| line.starts_with("GET")).count();
            assert_eq!(lists, count.div_ceil(2).max(1), "{count} objects");
        }
    }

    #[tokio::test]
    async fn only_the_pages_that_are_wanted_are_requested() {
        let server = with_maps(5).await;
        let first: Vec<Value> = pages(&server, Call::metadata_list(MAPS)).try_next().await.unwrap().unwrap();
        assert_eq!(names(&first), ["m0", "m1"]);
        assert_eq!(server.0.log().iter().filter(|line| line.starts_with("GET")).count(), 1);
    }

    #[tokio::test]
    async fn a_page_takes_its_turn_once_it_has_arrived_and_keeps_it() {
        let server = with_maps(3).await;
        let turns = Semaphore::new(1);
        let mut pages = pages_in_turn::<Value, _, _>(&server, Call::get(MAPS), || turns.acquire());
        for size in [2, 1] {
            assert_eq!(turns.available_permits(), 1);
            let (turn, page) = pages.try_next().await.unwrap().unwrap();
            assert_eq!((page.len(), turns.available_permits()), (size, 0));
            drop(turn);
        }
        let stalls = Stalls;
        let mut pages = pages_in_turn::<Value, _, _>(&stalls, Call::get(MAPS), || turns.acquire());
        assert!(pages.try_next().now_or_never().is_none() && turns.available_permits() == 1);
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_list() {
        let server = with_maps(5).await;
        server.0.disturb("continue=", 1, Disturbance::Refused(410));
        assert_eq!(list::<Value>(&server, Call::get(MAPS)).await.unwrap_err().code(), Some(410));
    }
}
