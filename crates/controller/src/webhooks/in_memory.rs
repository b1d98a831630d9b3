//! Adds to the API server in memory what a real one does with webhooks: calls those that match a request, and converts
//! between the version of the request and the stored one, which is the first version of the first conversion.

use kube::Client;
use outside::{Api as _, Call, Error, MemoryApi, Response, group_of};
use serde_json::{Value, json};

use super::admission::{FailurePolicy, Operation};
use super::conversion::Versions;
use super::registry::{Failure, Purpose, Registered, Webhooks};

/// The parts of a request's path.
#[derive(Clone, Debug)]
struct Target<'a> {
    group: &'a str,
    version: &'a str,
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Target<'a> {
    fn of(path: &'a str) -> Option<Target<'a>> {
        let parts: Vec<&str> = path.split('?').next()?.trim_matches('/').split('/').collect();
        let (group, version, rest) = match parts[..] {
            ["apis", group, version, ref rest @ ..] => (group, version, rest),
            ["api", version, ref rest @ ..] => ("", version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", ""),
            [plural, name] => (*plural, *name, ""),
            [plural, name, subresource] => (*plural, *name, *subresource),
            _ => return None,
        };
        Some(Target { group, version, namespace, plural, name, subresource })
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl Webhooks {
    fn versions(&self, group: &str, plural: &str) -> Option<&Versions> {
        let mut all = self.conversions.iter();
        all.find(|versions| versions.group == group && versions.plural == plural).map(|versions| &**versions)
    }

    /// Serves the kinds of the webhooks; those with conversions in the stored version.
    pub(crate) fn serve_kinds(&self, server: &MemoryApi) {
        let serve = |version: &str, kind: &str, plural: &str, is_namespaced: bool| match is_namespaced {
            true => server.serve(version, kind, plural),
            false => server.serve_cluster_scoped(version, kind, plural),
        };
        for versions in &self.conversions {
            serve(versions.stored(), &versions.kind, &versions.plural, versions.is_namespaced);
        }
        for hook in self.admissions.iter().filter(|hook| self.versions(&hook.kind.group, &hook.plural).is_none()) {
            serve(&hook.api_version(), &hook.kind.kind, &hook.plural, hook.is_namespaced);
        }
    }

    pub(crate) fn stored_path(&self, path: &str) -> String {
        let Some(target) = Target::of(path) else { return path.to_owned() };
        match self.versions(target.group, target.plural) {
            Some(versions) => {
                path.replacen(&format!("/{}/", target.api_version()), &format!("/{}/", versions.stored()), 1)
            }
            None => path.to_owned(),
        }
    }

    pub(crate) fn stored_version(&self, api_version: &str, plural: &str) -> String {
        let group = group_of(api_version);
        self.versions(group, plural).map_or(api_version, Versions::stored).to_owned()
    }

    /// Converts an object to a version, if its kind has conversions.
    pub(crate) fn in_version(&self, object: &Value, plural: &str, to: &str) -> Result<Value, String> {
        let group = group_of(to);
        self.versions(group, plural).map_or_else(|| Ok(object.clone()), |versions| versions.convert(object, to))
    }

    /// Sends a request as an API server with these webhooks would.
    pub(crate) async fn send(&self, server: &MemoryApi, client: Client, call: Call) -> Result<Response, Error> {
        let path = call.path.clone();
        let Some(target) = Target::of(&path) else { return server.send(call).await };
        let asked = target.api_version();
        let Some(versions) = self.versions(target.group, target.plural).filter(|known| known.stored() != asked) else {
            return self.admit(server, client, call, &target).await;
        };
        let refuse = |why: String| Error::from_status(500, "InternalError", &why);
        let body = match (&call.body, call.method.as_str()) {
            (Some((_, body)), "POST" | "PUT") => {
                let object = serde_json::from_slice(body).map_err(Error::Json)?;
                let stored = versions.convert(&object, versions.stored()).map_err(refuse)?;
                Some(("application/json", stored.to_string().into_bytes()))
            }
            (Some(_), "PATCH") => {
                let why = format!("the API server in memory takes patches in {} only", versions.stored());
                return Err(Error::from_status(415, "UnsupportedMediaType", &why));
            }
            (body, _) => body.clone(),
        };
        let path = self.stored_path(&call.path);
        let stored = Call { path: path.clone(), body, ..call };
        let answer = match Target::of(&path) {
            Some(target) => self.admit(server, client, stored, &target).await?,
            None => server.send(stored).await?,
        };
        let mut answer: Value = answer.parse()?;
        if let Some(items) = answer["items"].as_array_mut() {
            for item in items {
                (item["apiVersion"], item["kind"]) = (versions.stored().into(), versions.kind.as_str().into());
                *item = versions.convert(item, &asked).map_err(refuse)?;
            }
            answer["apiVersion"] = asked.into();
        } else if answer["kind"] == *versions.kind {
            answer = versions.convert(&answer, &asked).map_err(refuse)?;
        }
        Ok(answer.to_string().into_bytes().into())
    }

    /// Asks the webhooks that match a write, then sends it with what they change.
    async fn admit(
        &self,
        server: &MemoryApi,
        client: Client,
        call: Call,
        target: &Target<'_>,
    ) -> Result<Response, Error> {
        let is_own =
            |hook: &&std::sync::Arc<Registered>| hook.kind.group == target.group && hook.plural == target.plural;
        let hooks: Vec<_> = self.admissions.iter().filter(is_own).collect();
        if hooks.is_empty() || !target.subresource.is_empty() || call.method.is_safe() {
            return server.send(call).await;
        }
        let path = call.path.split('?').next().unwrap_or_default();
        let old = server.object(path).filter(|_| !target.name.is_empty()).unwrap_or_default();
        let operation = match (call.method.as_str(), &old) {
            ("DELETE", _) => Operation::Delete,
            (_, Value::Null) => Operation::Create,
            _ => Operation::Update,
        };
        let mut object = match operation {
            Operation::Delete => Value::Null,
            _ => {
                let separator = if call.path.contains('?') { '&' } else { '?' };
                let dry = Call { path: format!("{}{separator}dryRun=All", call.path), ..call.clone() };
                server.send(dry).await?.parse()?
            }
        };
        let before = object.clone();
        for purpose in [Purpose::Mutate, Purpose::Validate] {
            let matching =
                |hook: &&&std::sync::Arc<Registered>| hook.purpose == purpose && hook.operations.contains(&operation);
            for hook in hooks.iter().filter(matching) {
                let patched = self.ask(hook, (operation, target), (&object, &old), client.clone()).await?;
                object = patched.unwrap_or(object);
            }
        }
        let patch = json_patch::diff(&before, &object);
        if patch.is_empty() {
            return server.send(call).await;
        }
        let plural = target.plural.to_owned();
        server.change(|server| {
            server.mutate(move |changed, object| {
                if changed == plural {
                    // The object is that of the dry run, so the patch fits.
                    _ = json_patch::patch(object, &patch);
                }
            });
        });
        let answer = server.send(call).await;
        server.change(|server| server.clear_webhooks());
        answer
    }

    /// Asks one webhook, in its version. Returns what it changes the object to, in the stored one.
    async fn ask(
        &self,
        hook: &Registered,
        (operation, target): (Operation, &Target<'_>),
        (object, old): (&Value, &Value),
        client: Client,
    ) -> Result<Option<Value>, Error> {
        let stored = target.api_version();
        let version = hook.api_version();
        let failed = |why: String| {
            Error::from_status(500, "InternalError", &format!("failed calling webhook {:?}: {why}", hook.name()))
        };
        let convert = |object: &Value, to: &str| match object {
            Value::Null => Ok(Value::Null),
            object => self.in_version(object, target.plural, to).map_err(failed),
        };
        let object = convert(object, &version)?;
        let review = json!({"request": {
            "uid": "1",
            "kind": {"group": hook.kind.group, "version": hook.kind.version, "kind": hook.kind.kind},
            "operation": operation,
            "name": target.name,
            "namespace": target.namespace,
            "userInfo": {"username": "user", "groups": ["system:authenticated"]},
            "object": object,
            "oldObject": convert(old, &version)?,
        }});
        let answer = match hook.review(review.to_string().as_bytes(), client).await {
            Ok(answer) => answer,
            Err(_) if hook.failure_policy == FailurePolicy::Ignore => return Ok(None),
            Err(Failure::Review(why) | Failure::Webhook(why)) => return Err(failed(why)),
        };
        let answer: Value = serde_json::from_str(&answer).map_err(Error::Json)?;
        let response = &answer["response"];
        if response["allowed"] != true {
            let (status, text) = (&response["status"], response["status"]["message"].as_str().unwrap_or_default());
            let message = format!("admission webhook {:?} denied the request: {text}", hook.name());
            let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(403);
            return Err(Error::from_status(code, status["reason"].as_str().unwrap_or_default(), &message));
        }
        let Some(patch) = response["patch"].as_str() else { return Ok(None) };
        let patch: k8s_openapi::ByteString = serde_json::from_value(patch.into()).map_err(Error::Json)?;
        let patch: json_patch::Patch = serde_json::from_slice(&patch.0).map_err(Error::Json)?;
        let mut changed = object;
        json_patch::patch(&mut changed, &patch).map_err(|error| failed(error.to_string()))?;
        convert(&changed, &stored).map(Some)
    }
}
