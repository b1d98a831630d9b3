//! Requests of a kube client, for servers in memory.

use http::Request;
use http::request::Parts;
use kube::client::Body;
use percent_encoding::percent_decode_str;

use crate::api::DISCOVERY;
use crate::api::{Call, METADATA};

/// The content types of bodies that servers read.
const TYPES: [&str; 5] = [
    "application/json",
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
];

impl Call {
    /// Reads a request that a kube client sent, so that a server in memory can answer it. Decodes the query, and drops
    /// a body of an unknown type.
    ///
    /// # Errors
    /// The body cannot be read.
    pub async fn received(request: Request<Body>) -> Result<Call, kube::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await?.to_vec();
        let sent = header(&parts, "content-type");
        let body =
            TYPES.iter().find(|known| **known == sent).filter(|_| !bytes.is_empty()).map(|known| (*known, bytes));
        let (path, accept) = (path(&parts), accept(header(&parts, "accept")));
        Ok(Call { body, accept, ..Call::new(parts.method, path) })
    }
}

fn header<'a>(parts: &'a Parts, name: &str) -> &'a str {
    parts.headers.get(name).and_then(|sent| sent.to_str().ok()).unwrap_or_default()
}

fn accept(sent: &str) -> Option<&'static str> {
    match (sent.contains("APIGroupDiscoveryList"), sent.contains("as=PartialObjectMetadata")) {
        (true, _) => Some(DISCOVERY),
        (false, true) => Some(METADATA),
        (false, false) => None,
    }
}

/// Returns path and query, decoded like a form.
fn path(parts: &Parts) -> String {
    let path = parts.uri.path();
    let Some(query) = parts.uri.query() else { return path.to_owned() };
    let query = query.replace('+', " ");
    format!("{path}?{}", percent_decode_str(&query).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_keeps_its_body_and_decodes_its_query() {
        let request = Request::patch("/api/v1/pods?fieldManager=a+b&labelSelector=c%3Dd%2Be")
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(b"{}".to_vec()))
            .unwrap();
        let call = Call::received(request).await.unwrap();
        assert_eq!(call.path, "/api/v1/pods?fieldManager=a b&labelSelector=c=d+e");
        assert_eq!((call.body, call.accept), (Some(("application/merge-patch+json", b"{}".to_vec())), None));
        let request = Request::get("/apis").header("accept", DISCOVERY).body(Body::empty()).unwrap();
        let call = Call::received(request).await.unwrap();
        assert_eq!((call.body, call.accept), (None, Some(DISCOVERY)));
    }
}
