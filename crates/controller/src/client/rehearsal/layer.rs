//! Decides which requests of a rehearsal are sent, and in which form, and how the others are answered.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri, header};
use kube::Client;
use kube::client::Body;
use outside::{Call, Error, Target, object_path, written_path};
use serde_json::{Value, json};
use tower::BoxError;

use super::defaults;
use super::overlay::Overlay;
use super::substitute::Substitute;
use super::{CURRENT, Checked, Refused, Rehearsal, Write};

/// The path of discovery for all groups but the core group.
const GROUPS: &str = "/apis";

/// The groups of reviews. A custom resource of another group, such as a ProductReview, is stored.
const REVIEWS: [&str; 2] = ["/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"];

/// Returns a client that writes nothing.
pub(super) fn over(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    // Objects that tasks outside of rehearsals created.
    let background = Arc::<Overlay>::default();
    let service = tower::service_fn(move |request| serve(inner.clone(), background.clone(), request));
    Client::new(service, namespace)
}

async fn serve(client: Client, background: Arc<Overlay>, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let current = CURRENT.try_with(Arc::clone).ok();
    let overlay = current.as_deref().map_or(&*background, |current| &current.overlay);
    let path = request.uri().path();
    let holder = if overlay.has(path) || overlay.defines(path) { Holder::Overlay } else { Holder::Server };
    match (way(request.method(), request.uri(), holder), &current) {
        (Way::Sent, _) if path == GROUPS && !overlay.defined().is_empty() => {
            discovered(&client, overlay, request).await
        }
        (Way::Sent, _) => client.send(request).await.map_err(Into::into),
        (Way::Kept, _) => {
            let (code, body) = answer(overlay, Call::received(request).await?).await?;
            respond(code, body)
        }
        (Way::Rehearsed, Some(current)) => {
            let (parts, body) = request.into_parts();
            let request = Sent { parts, body: body.collect_bytes().await?.to_vec() };
            Work { client, current: current.clone(), request }.rehearse().await
        }
        (Way::Rehearsed, None) => pretend(&background, request).await,
    }
}

/// Returns the API server's discovery with the kinds that were defined here, without an entity tag, which no longer
/// applies to the changed response.
async fn discovered(
    client: &Client,
    overlay: &Overlay,
    mut request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    request.headers_mut().remove(header::IF_NONE_MATCH);
    let (code, body) = exchange(client, request).await?;
    let Ok(mut discovery) = serde_json::from_slice::<Value>(&body) else { return respond(code, body) };
    overlay.defined().iter().for_each(|one| one.add_to(&mut discovery));
    respond(code, discovery.to_string().into_bytes())
}

/// What happens to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is sent unchanged.
    Sent,
    /// It is answered from memory.
    Kept,
    /// It is a write.
    Rehearsed,
}

/// Who has the object that a request is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// The API server, if anyone.
    Server,
    /// Memory: an earlier request wrote it.
    Overlay,
}

pub(super) fn way(method: &Method, uri: &Uri, holder: Holder) -> Way {
    let is_review = REVIEWS.iter().any(|group| uri.path().starts_with(group)) && *method == Method::POST;
    let is_check = uri.query().is_some_and(|query| query.split('&').any(|field| field == "dryRun=All"));
    let is_read = [Method::GET, Method::HEAD].contains(method);
    match holder {
        Holder::Overlay if is_read || is_check => Way::Kept,
        Holder::Server if is_read || is_check || is_review => Way::Sent,
        _ => Way::Rehearsed,
    }
}

/// A status and a body.
type Answer = (u16, Vec<u8>);

/// Answers a request from what was written.
async fn answer(overlay: &Overlay, call: Call) -> Result<Answer, BoxError> {
    match overlay.send(call).await {
        Ok(answer) => Ok((200, answer.body)),
        Err(error) => refusal(&error),
    }
}

/// Returns the answer that refuses a request for this reason.
fn refusal(error: &Error) -> Result<Answer, BoxError> {
    error.to_response().ok_or_else(|| error.to_string().into())
}

/// Answers a write outside of rehearsals as if it had succeeded. Objects that it creates can be read.
async fn pretend(background: &Overlay, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = request.into_body().collect_bytes().await?.to_vec();
    if method == Method::DELETE || body.is_empty() {
        return respond(200, json!({"kind": "Status", "status": "Success"}).to_string().into_bytes());
    }
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = written_path(&path, name_of(&object));
    if method != Method::POST || Target::of(&path).is_none_or(|target| target.name.is_empty()) {
        return respond(200, body);
    }
    background.store(&path, object);
    respond(200, background.object(&path).unwrap_or_default().to_string().into_bytes())
}

fn respond(code: u16, body: Vec<u8>) -> Result<Response<Body>, BoxError> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code)?;
    Ok(response)
}

/// Answers a write that exceeds the rehearsal's memory limit, and is therefore not recorded.
fn too_large() -> Result<Response<Body>, BoxError> {
    let message = "the rehearsed objects take too much memory";
    let (code, body) = refusal(&Error::from_status(413, "RequestEntityTooLarge", message))?;
    respond(code, body)
}

/// A request that was read whole.
pub(super) struct Sent {
    pub(super) parts: Parts,
    pub(super) body: Vec<u8>,
}

/// One write.
struct Work {
    client: Client,
    current: Arc<Rehearsal>,
    request: Sent,
}

impl Work {
    /// Answers a write, and records it.
    async fn rehearse(self) -> Result<Response<Body>, BoxError> {
        let sent: Value = serde_json::from_slice(&self.request.body).unwrap_or_default();
        let path = written_path(self.request.parts.uri.path(), name_of(&sent));
        let place = self.current.begin();
        let method = self.request.parts.method.as_str().to_owned();
        if !self.current.room.take(&sent) {
            return too_large();
        }
        let is_known = self.current.overlay.has(&path);
        let before = if is_known { self.current.overlay.object(&path) } else { self.read(&path).await? };
        if !before.iter().all(|before| self.current.room.take(before)) {
            return too_large();
        }
        let ((code, body), checked) = match is_known {
            true => self.again(&path).await?,
            false => {
                let (answer, checked) = self.checked(&path, &sent, before.as_ref()).await?;
                if answer.0 == 422 {
                    self.current.overlay.refused(&path, &Error::response(answer.0, &answer.1));
                }
                (answer, checked)
            }
        };
        let object: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !self.current.room.take(&object) {
            return too_large();
        }
        let path = written_path(&path, name_of(&object));
        let kind = before.as_ref().unwrap_or(&object)["kind"].as_str().unwrap_or_default().to_owned();
        let (after, body) = match (code, method.as_str()) {
            (400.., _) => (Err(refused(code, &body)), body),
            (_, "DELETE") => {
                self.current.overlay.remove(&path, &kind);
                (Ok(None), body)
            }
            _ => {
                if before.is_none() {
                    self.current.overlay.define(&object);
                }
                let mut settled = object.clone();
                (self.current.settle)(&mut settled);
                self.current.overlay.store(&path, settled);
                // With the version that later reads have.
                let stored = self.current.overlay.object(&path).unwrap_or_default();
                let mut answered = object.clone();
                answered["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                (Ok(Some(object)), answered.to_string().into_bytes())
            }
        };
        self.current.end(place, Write { method, path, sent, before, after, checked });
        respond(code, body)
    }

    /// Sends the write as a dry run. A write that needs an object that was created only here, such as its namespace,
    /// the role of a binding or the definition of its kind, is answered from memory.
    async fn checked(&self, path: &str, sent: &Value, before: Option<&Value>) -> Result<(Answer, Checked), BoxError> {
        if self.current.overlay.defines(self.request.parts.uri.path()) {
            return Ok((self.kept().await?, Checked::Nobody));
        }
        let answer = self.request.dry_run(&self.client).await?;
        let overlay = &self.current.overlay;
        // A merge patch does not repeat the role.
        let has_role = || [Some(sent), before].into_iter().flatten().any(|binding| overlay.has_role_of(binding));
        match answer.0 == 404 && (overlay.has_missing(&answer.1) || has_role()) {
            true => Ok((self.kept_over(path, before).await?, Checked::Nobody)),
            false => Ok((answer, Checked::Server)),
        }
    }

    /// Writes to an object that only the API server has as if it were in memory. The rehearsal's own memory does not get
    /// it here, because a refused write must leave it to the API server.
    async fn kept_over(&self, path: &str, before: Option<&Value>) -> Result<Answer, BoxError> {
        let Some(before) = before else { return self.kept().await };
        let alone = Overlay::default();
        alone.hold(path, before.clone());
        self.kept_in(&alone).await
    }

    /// Answers another write to an object from memory. Only the re-creation of a deleted object is checked by the API
    /// server.
    async fn again(&self, path: &str) -> Result<(Answer, Checked), BoxError> {
        if self.current.overlay.object(path).is_none()
            && let Some(substitute) = Substitute::of(&self.request, path)
        {
            let (code, body) = substitute.request.dry_run(&self.client).await?;
            if (200..300).contains(&code) {
                return Ok(((code, substitute.renamed(&body)?), Checked::Server));
            }
        }
        let before = self.current.overlay.object(path);
        let kept = self.kept().await?;
        Ok((self.with_defaults(path, kept, before).await?, Checked::Nobody))
    }

    /// Adds what the API server adds to an object that is applied again.
    async fn with_defaults(&self, path: &str, (code, body): Answer, before: Option<Value>) -> Result<Answer, BoxError> {
        let Some(before) = before.filter(|_| (200..300).contains(&code) && self.request.is_apply()) else {
            return Ok((code, body));
        };
        let Ok(mut sent) = serde_json::from_slice(&self.request.body) else { return Ok((code, body)) };
        let (answered, answer) = self.request.in_any_state(&mut sent).dry_run(&self.client).await?;
        if !(200..300).contains(&answered) {
            return Ok((code, body));
        }
        let mut object: Value = serde_json::from_slice(&body)?;
        defaults::add(&mut object, &before, &sent, &serde_json::from_slice(&answer)?);
        if defaults::has_lost(&object, &before)
            && let Some(substitute) = Substitute::of(&self.request, path)
        {
            let (code, body) = substitute.request.dry_run(&self.client).await?;
            if (200..300).contains(&code) {
                defaults::restore(&mut object, &before, &serde_json::from_slice(&substitute.renamed(&body)?)?);
            }
        }
        Ok((code, object.to_string().into_bytes()))
    }

    /// Writes to what is in memory.
    async fn kept(&self) -> Result<Answer, BoxError> {
        self.kept_in(&self.current.overlay).await
    }

    async fn kept_in(&self, overlay: &Overlay) -> Result<Answer, BoxError> {
        let call = Call::received(self.request.whole(self.request.parts.uri.clone())).await?;
        answer(overlay, call).await
    }

    /// Reads an object; `None` if it does not exist or may not be read.
    async fn read(&self, path: &str) -> Result<Option<Value>, BoxError> {
        if Target::of(path).is_none_or(|target| target.name.is_empty()) {
            return Ok(None);
        }
        let path = object_path(path);
        let mut parts = self.request.parts.clone();
        (parts.method, parts.uri) = (Method::GET, path.parse()?);
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::ACCEPT] {
            parts.headers.remove(name);
        }
        match exchange(&self.client, Request::from_parts(parts, Body::empty())).await? {
            (200..300, body) => Ok(Some(serde_json::from_slice(&body)?)),
            _ => Ok(None),
        }
    }
}

impl Sent {
    /// Returns whether it applies an object, and not only its status.
    fn is_apply(&self) -> bool {
        let content = self.parts.headers.get(header::CONTENT_TYPE).and_then(|content| content.to_str().ok());
        let is_whole = Target::of(self.parts.uri.path()).is_some_and(|target| target.subresource.is_empty());
        is_whole && content.is_some_and(|content| content.starts_with("application/apply-patch"))
    }

    /// Returns this request, whose body is `sent`, without the resource version that it requires. The version is that of
    /// an earlier write, which the API server does not have.
    fn in_any_state(&self, sent: &mut Value) -> Sent {
        let mut parts = self.parts.clone();
        parts.headers.remove(header::CONTENT_LENGTH);
        if let Some(metadata) = sent["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        Sent { parts, body: self.body_of(sent) }
    }

    /// Returns the body that this request has for another object.
    pub(super) fn body_of(&self, object: &Value) -> Vec<u8> {
        let json = object.to_string().into_bytes();
        if self.is_apply() { outside::as_yaml(json) } else { json }
    }

    fn whole(&self, uri: Uri) -> Request<Body> {
        let mut parts = self.parts.clone();
        parts.uri = uri;
        Request::from_parts(parts, Body::from(self.body.clone()))
    }

    /// Sends this as a dry run. Options in the body of a deletion replace those in its query.
    async fn dry_run(&self, client: &Client) -> Result<Answer, BoxError> {
        let mut parts = self.parts.uri.clone().into_parts();
        let query = self.parts.uri.query().map(|query| format!("{query}&")).unwrap_or_default();
        parts.path_and_query = Some(format!("{}?{query}dryRun=All", self.parts.uri.path()).parse()?);
        let mut request = self.whole(Uri::from_parts(parts)?);
        if self.parts.method == Method::DELETE && !self.body.is_empty() {
            let mut options: Value = serde_json::from_slice(&self.body)?;
            options["dryRun"] = json!(["All"]);
            *request.body_mut() = Body::from(options.to_string().into_bytes());
            request.headers_mut().remove(header::CONTENT_LENGTH);
        }
        exchange(client, request).await
    }
}

/// Sends a request, and returns the status and body of its response.
async fn exchange(client: &Client, request: Request<Body>) -> Result<Answer, BoxError> {
    let (head, body) = client.send(request).await?.into_parts();
    Ok((head.status.as_u16(), body.collect_bytes().await?.to_vec()))
}

fn name_of(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

/// Reads a refusal as our own requests do, which hides values.
fn refused(code: u16, body: &[u8]) -> Refused {
    match Error::response(code, body) {
        Error::Refused { code, reason, message, .. } => Refused { code, reason, message },
        other => Refused { code, reason: String::new(), message: other.to_string() },
    }
}
