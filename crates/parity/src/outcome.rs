//! The outcome of a step: done, or refused for a cause. Helm and the operator may word a refusal differently; the cause
//! must match.

use std::fmt;

/// The outcome of an install, upgrade or uninstall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step succeeded.
    Done,
    /// The step was refused, with the error text.
    Refused(Cause, String),
}

/// Why a step was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The chart does not render with these values.
    Chart,
    /// The API server does not serve the kind.
    UnservedKind,
    /// The API server rejects an object.
    Object,
    /// An object exists already, or belongs to another release.
    Conflict,
    /// Something that an object needs, such as its namespace, does not exist.
    NotFound,
    /// The step timed out.
    Stuck,
    /// Anything else.
    Other,
}

/// Text fragments that identify a cause; the first match wins. `Chart` comes first, because text from a chart may
/// contain any other fragment.
const SIGNS: [(Cause, &[&str]); 6] = [
    (
        Cause::Chart,
        &[
            "execution error at",
            "error calling",
            "values don't meet the specifications",
            "RenderError",
            "InvalidValues",
        ],
    ),
    (Cause::UnservedKind, &["no matches for kind", "ensure CRDs are installed first", "serves no kind"]),
    (Cause::Conflict, &["invalid ownership metadata", "already exists", "ReleaseConflict", "more than once"]),
    (Cause::NotFound, &["not found"]),
    (
        Cause::Object,
        &[
            "is invalid",
            "does not fit its schema",
            "Invalid value",
            "Forbidden",
            "is forbidden",
            "error validating",
            "cannot be handled as",
            "cannot unmarshal",
            "failed to create typed patch object",
            "failed to create resource",
            "strict decoding error",
            "cannot patch",
            "resource name may not be empty",
        ],
    ),
    (Cause::Chart, &["template", "YAML", "schema", "chart requires kubeVersion"]),
];

impl Outcome {
    /// Returns a refusal with the cause that the text indicates.
    pub fn refused(text: &str) -> Outcome {
        Outcome::Refused(Cause::of(text), text.trim().to_owned())
    }

    /// Returns whether the step succeeded.
    pub fn is_done(&self) -> bool {
        *self == Outcome::Done
    }
}

impl Cause {
    fn of(text: &str) -> Cause {
        let found = SIGNS.iter().find(|(_, signs)| signs.iter().any(|sign| text.contains(sign)));
        found.map_or(Cause::Other, |(cause, _)| *cause)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("done"),
            Outcome::Refused(cause, text) => write!(f, "refused ({cause:?}): {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_recognised_in_both_sides_texts() {
        let cases = [
            ("Error: INSTALLATION FAILED: execution error at (c/templates/a.yaml:1:4): not found", Cause::Chart),
            ("values don't meet the specifications of the schema(s)", Cause::Chart),
            (
                "resource mapping not found for name: \"x\": no matches for kind \"X\" in version \"x/v1\"",
                Cause::UnservedKind,
            ),
            ("Service \"x\" is invalid: spec.ports: Required value", Cause::Object),
            ("Deployment \"x\": does not fit its schema: .spec.replicas: expected number, got string", Cause::Object),
            ("failed to create typed patch object (ns/x; apps/v1, Kind=Deployment)", Cause::Object),
            ("ClusterRole \"x\" exists and cannot be imported: invalid ownership metadata", Cause::Conflict),
            ("namespaces \"monitoring\" not found", Cause::NotFound),
            ("the sky is grey", Cause::Other),
        ];
        for (text, cause) in cases {
            assert_eq!(Outcome::refused(text), Outcome::Refused(cause, text.to_owned()), "{text}");
        }
        assert!(Outcome::Done.is_done() && !Outcome::refused("x").is_done());
    }
}
