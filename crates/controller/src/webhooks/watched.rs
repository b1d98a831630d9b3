//! A client of an in-memory API server whose watches deliver changes, for tests of reactions to its own and others'
//! writes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use kube::Client;
use outside::{Api as _, Call, MemoryApi};
use serde_json::Value;
use tower::BoxError;

/// Returns a client whose watches deliver the changes of all clients.
pub(crate) fn client(server: &Arc<MemoryApi>) -> Client {
    let server = server.clone();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let server = server.clone();
        async move {
            let call = Call::received(request).await?;
            let (code, body) = match call.path.contains("watch=true") {
                true => (200, watch(server, &call)?),
                false => match server.send(call).await {
                    Ok(answer) => (200, Body::from(answer.body)),
                    Err(error) => error.to_response().map(|(code, body)| (code, Body::from(body))).ok_or(error)?,
                },
            };
            let mut response = Response::new(body);
            *response.status_mut() = StatusCode::from_u16(code)?;
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(service, "default")
}

fn watch(server: Arc<MemoryApi>, call: &Call) -> Result<Body, BoxError> {
    let state = (server.subscribe(), server.watch(call)?, server);
    let events = futures::stream::unfold(state, |(mut written, mut watch, server)| async move {
        loop {
            written.borrow_and_update();
            let events = server.events(&mut watch).ok()?;
            if !events.is_empty() {
                let lines: String = events.iter().map(line_of).collect();
                return Some((Ok::<_, Infallible>(lines), (written, watch, server)));
            }
            written.changed().await.ok()?;
        }
    });
    Ok(Body::from_stream(events))
}

/// Formats an event as a line; `type` comes first, as on a real server.
fn line_of(event: &Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}
