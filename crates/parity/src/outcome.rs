//! How a step ended: done, or refused and on what ground. Texts differ between Helm and the operator; grounds must not.

use std::fmt;

/// How an install, an upgrade or an uninstall ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As was asked for.
    Done,
    /// Not, with the reason's text.
    Refused(Ground, String),
}

/// Why a step was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// The chart does not render with these values.
    Chart,
    /// The API server serves no such kind.
    UnservedKind,
    /// The API server does not take an object.
    Object,
    /// An object belongs to another release, or is there already.
    Conflict,
    /// Something that an object needs, such as its namespace, is not there.
    NotFound,
    /// No end was reached in time.
    Stuck,
    /// Anything else.
    Other,
}

/// What a text has to contain to speak of a ground; the first that fits decides. A chart's own words may contain any of the later signs.
const SIGNS: [(Ground, &[&str]); 6] = [
    (
        Ground::Chart,
        &[
            "execution error at",
            "error calling",
            "values don't meet the specifications",
            "RenderError",
            "InvalidValues",
        ],
    ),
    (Ground::UnservedKind, &["no matches for kind", "ensure CRDs are installed first", "serves no kind"]),
    (Ground::Conflict, &["invalid ownership metadata", "already exists", "ReleaseConflict", "more than once"]),
    (Ground::NotFound, &["not found"]),
    (
        Ground::Object,
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
    (Ground::Chart, &["template", "YAML", "schema", "chart requires kubeVersion"]),
];

impl Outcome {
    /// Refused, on the ground that the text speaks of.
    #[must_use]
    pub fn refused(text: &str) -> Outcome {
        Outcome::Refused(Ground::of(text), text.trim().to_owned())
    }

    /// Whether it was done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Outcome::Done
    }
}

impl Ground {
    fn of(text: &str) -> Ground {
        let found = SIGNS.iter().find(|(_, signs)| signs.iter().any(|sign| text.contains(sign)));
        found.map_or(Ground::Other, |(ground, _)| *ground)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("done"),
            Outcome::Refused(ground, text) => write!(f, "refused ({ground:?}): {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ground_of_a_refusal_is_read_from_either_sides_words() {
        let cases = [
            ("Error: INSTALLATION FAILED: execution error at (c/templates/a.yaml:1:4): not found", Ground::Chart),
            ("values don't meet the specifications of the schema(s)", Ground::Chart),
            (
                "resource mapping not found for name: \"x\": no matches for kind \"X\" in version \"x/v1\"",
                Ground::UnservedKind,
            ),
            ("Service \"x\" is invalid: spec.ports: Required value", Ground::Object),
            ("Deployment \"x\": does not fit its schema: .spec.replicas: expected number, got string", Ground::Object),
            ("failed to create typed patch object (ns/x; apps/v1, Kind=Deployment)", Ground::Object),
            ("ClusterRole \"x\" exists and cannot be imported: invalid ownership metadata", Ground::Conflict),
            ("namespaces \"monitoring\" not found", Ground::NotFound),
            ("the sky is grey", Ground::Other),
        ];
        for (text, ground) in cases {
            assert_eq!(Outcome::refused(text), Outcome::Refused(ground, text.to_owned()), "{text}");
        }
        assert!(Outcome::Done.is_done() && !Outcome::refused("x").is_done());
    }
}
