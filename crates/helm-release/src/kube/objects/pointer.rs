//! JSON pointers (RFC 6901) to fields of a chart's object: `/spec/template/spec/containers/[name=web]/image`.

use serde_json::Value;

use crate::kube::objects::decorate::{
    CHART_LABEL, MANAGED_BY_LABEL, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION, RELEASE_NAME, RELEASE_NAMESPACE,
};

/// Labels and annotations that prove who owns an object.
const OWNERSHIP: [&str; 6] =
    [CHART_LABEL, MANAGED_BY_LABEL, PRIMARY_ANNOTATION, PRIMARY_TYPE_ANNOTATION, RELEASE_NAME, RELEASE_NAMESPACE];

/// A JSON pointer to a field. `~1` stands for a slash and `~0` for a tilde. A list item is named by its index in the
/// chart's object, from 0, or preferably by its fields: `[name=web]`, `[containerPort=80,protocol=TCP]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pointer(Box<[Box<str>]>);

/// Why a text is not a usable pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It does not start with a slash, or has nothing between two slashes.
    #[error("must look like /spec/replicas")]
    Syntax,
    /// A tilde without 0 or 1.
    #[error("a ~ must be written as ~0, and a / in a name as ~1")]
    Escape,
    /// The release needs the field.
    #[error("the release needs this field; in metadata, only single labels and annotations of the chart can be named")]
    Reserved,
}

impl Pointer {
    /// Parses a pointer.
    ///
    /// # Errors
    /// The text is malformed, or points to a field that identifies the object or its owner.
    pub fn parse(text: &str) -> Result<Pointer, PointerError> {
        let rest = text.strip_prefix('/').ok_or(PointerError::Syntax)?;
        let steps = rest.split('/').map(unescape).collect::<Result<Box<[Box<str>]>, PointerError>>()?;
        if steps.iter().any(|step| step.is_empty()) {
            return Err(PointerError::Syntax);
        }
        if is_reserved(&steps) { Err(PointerError::Reserved) } else { Ok(Pointer(steps)) }
    }

    /// Returns the pointer to the field that autoscalers write.
    pub(crate) fn replicas() -> Pointer {
        Pointer(["spec", "replicas"].map(Into::into).into())
    }

    pub(in crate::kube) fn steps(&self) -> &[Box<str>] {
        &self.0
    }
}

fn unescape(step: &str) -> Result<Box<str>, PointerError> {
    let mut parts = step.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match part.as_bytes().first() {
            Some(b'0') => ('~', &part[1..]),
            Some(b'1') => ('/', &part[1..]),
            _ => return Err(PointerError::Escape),
        };
        text.push(sign);
        text.push_str(rest);
    }
    Ok(text.into())
}

fn is_reserved(steps: &[Box<str>]) -> bool {
    match steps.iter().map(|step| &**step).collect::<Vec<&str>>()[..] {
        ["apiVersion" | "kind", ..] => true,
        ["metadata", "labels" | "annotations", key] => OWNERSHIP.contains(&key),
        ["metadata", ..] => true,
        _ => false,
    }
}

/// Finds the list item that a step names.
pub(in crate::kube) fn index_of(items: &[Value], step: &str) -> Option<usize> {
    let Some(fields) = step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) else {
        return step.parse().ok().filter(|index| *index < items.len());
    };
    let fields: Vec<(&str, &str)> = fields.split(',').map(|field| field.split_once('=')).collect::<Option<_>>()?;
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let has = |item: &Value, name: &str, text: &str| item.get(name).map(shown).as_deref() == Some(text);
    items.iter().position(|item| fields.iter().all(|(name, text)| has(item, name, text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_unescaped() {
        let steps = |text: &str| Pointer::parse(text).map(|pointer| pointer.0.join("|"));
        assert_eq!(steps("/spec/replicas").unwrap(), "spec|replicas");
        assert_eq!(steps("/metadata/annotations/a.b~1c~0d~01").unwrap(), "metadata|annotations|a.b/c~d~1");
        for text in ["", "/", "spec", "/spec//a", "/spec/"] {
            assert_eq!(steps(text), Err(PointerError::Syntax), "{text}");
        }
        for text in ["/a~", "/a~2b", "/~ä"] {
            assert_eq!(steps(text), Err(PointerError::Escape), "{text}");
        }
    }

    #[test]
    fn what_identifies_an_object_and_its_owner_is_reserved() {
        for text in [
            "/apiVersion",
            "/kind",
            "/metadata",
            "/metadata/name",
            "/metadata/labels",
            "/metadata/annotations",
            "/metadata/ownerReferences/0",
            "/metadata/labels/app.kubernetes.io~1managed-by",
            "/metadata/annotations/meta.helm.sh~1release-name",
        ] {
            assert_eq!(Pointer::parse(text), Err(PointerError::Reserved), "{text}");
        }
        assert!(Pointer::parse("/metadata/labels/team").is_ok() && Pointer::parse("/spec").is_ok());
    }

    #[test]
    fn items_are_found_by_index_or_fields() {
        let items = json!([{"name": "a", "port": 80, "protocol": "TCP"}, {"name": "b", "port": 80, "protocol": "UDP"}]);
        for (step, expected) in [
            ("1", Some(1)),
            ("2", None),
            ("x", None),
            ("[name=b]", Some(1)),
            ("[port=80]", Some(0)),
            ("[port=80,protocol=UDP]", Some(1)),
            ("[name=c]", None),
            ("[name]", None),
        ] {
            assert_eq!(index_of(items.as_array().unwrap(), step), expected, "{step}");
        }
    }
}
