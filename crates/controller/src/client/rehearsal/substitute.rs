//! The creation of an object that a rehearsal deleted, under a name that the API server does not know: under its own
//! name, the object still exists there.

use http::Method;
use outside::Target;
use serde_json::Value;

use super::layer::Sent;

/// The end of the other name.
const SUFFIX: &str = "-x7qzk";

/// The maximum length of a name that kinds with short names accept.
const MAX_NAME: usize = 63;

/// A request that creates an object under another name.
pub(super) struct Substitute {
    pub(super) request: Sent,
    name: String,
    other: String,
}

impl Substitute {
    /// Returns the request for the object at `path`; `None` if `request` does not contain the whole object.
    pub(super) fn of(request: &Sent, path: &str) -> Option<Substitute> {
        let mut object: Value = serde_json::from_slice(&request.body).ok()?;
        object["kind"].as_str()?;
        let name = Target::of(path)?.name.to_owned();
        let end = name.floor_char_boundary(MAX_NAME - SUFFIX.len());
        let other = format!("{}{SUFFIX}", name[..end].trim_end_matches(['-', '.']));
        object["metadata"]["name"] = other.as_str().into();
        // These identify the existing object, and the API server would refuse to create another one with them.
        let metadata = object["metadata"].as_object_mut()?;
        ["uid", "resourceVersion"].iter().for_each(|field| _ = metadata.remove(*field));
        let mut parts = request.parts.clone();
        if parts.method == Method::PATCH {
            let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
            parts.uri = format!("{}{other}{query}", path.strip_suffix(&name)?).parse().ok()?;
        }
        parts.headers.remove(http::header::CONTENT_LENGTH);
        let request = Sent { parts, body: request.body_of(&object) };
        Some(Substitute { request, name, other })
    }

    /// Returns the API server's answer with the object's own name, also where the server repeats it, as in a Job's
    /// labels.
    pub(super) fn renamed(&self, body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let mut object: Value = serde_json::from_slice(body)?;
        self.rename(&mut object);
        Ok(object.to_string().into_bytes())
    }

    fn rename(&self, value: &mut Value) {
        match value {
            Value::String(text) if *text == self.other => text.clone_from(&self.name),
            Value::Object(map) => map.values_mut().for_each(|inner| self.rename(inner)),
            Value::Array(list) => list.iter_mut().for_each(|inner| self.rename(inner)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use serde_json::json;

    use super::*;

    const PATH: &str = "/apis/batch/v1/namespaces/a/jobs/load";

    fn substitute(method: &str, uri: &str, path: &str) -> Option<Substitute> {
        let (parts, ()) = Request::builder().method(method).uri(uri).body(()).unwrap().into_parts();
        let body = match method {
            "DELETE" => json!({"preconditions": {}}),
            _ => {
                json!({"kind": "Job", "metadata": {"name": Target::of(path)?.name, "uid": "u", "resourceVersion": "1"}})
            }
        };
        Substitute::of(&Sent { parts, body: body.to_string().into_bytes() }, path)
    }

    #[test]
    fn an_object_is_created_under_a_name_that_fits() {
        for (method, uri, expected) in [
            ("POST", "/apis/batch/v1/namespaces/a/jobs?x=1", "/apis/batch/v1/namespaces/a/jobs?x=1"),
            ("PATCH", &format!("{PATH}?force=true"), &format!("{PATH}-x7qzk?force=true")),
        ] {
            let made = substitute(method, uri, PATH).unwrap();
            assert_eq!(made.request.parts.uri.to_string(), expected);
            let body: Value = serde_json::from_slice(&made.request.body).unwrap();
            assert_eq!(body["metadata"], json!({"name": "load-x7qzk"}));
        }
        let long = format!("/apis/batch/v1/namespaces/a/jobs/{}", "a-".repeat(31) + "a");
        let made = substitute("POST", "/apis/batch/v1/namespaces/a/jobs", &long).unwrap();
        assert_eq!(made.other, "a-".repeat(28) + "a" + SUFFIX, "63 bytes, without the double hyphen");
        assert!(substitute("DELETE", PATH, PATH).is_none(), "no object");
    }

    #[test]
    fn what_yaml_reads_differently_stays_escaped_in_an_apply() {
        let apply = Request::patch(PATH).header("content-type", "application/apply-patch+yaml").body(()).unwrap();
        let (parts, ()) = apply.into_parts();
        let body = br#"{"kind":"Job","metadata":{"name":"load"},"x":"a\u0085b"}"#.to_vec();
        let made = Substitute::of(&Sent { parts, body }, PATH).unwrap();
        let body = String::from_utf8(made.request.body).unwrap();
        assert!(body.contains(r#""a\u0085b""#), "{body}");
    }

    #[test]
    fn the_answer_has_the_objects_own_name_everywhere() {
        let made = substitute("POST", "/apis/batch/v1/namespaces/a/jobs", PATH).unwrap();
        let answer = json!({"metadata": {"name": "load-x7qzk"}, "labels": ["load-x7qzk", "load-x7qzk-y"]});
        let renamed: Value = serde_json::from_slice(&made.renamed(answer.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(renamed, json!({"metadata": {"name": "load"}, "labels": ["load", "load-x7qzk-y"]}));
    }
}
