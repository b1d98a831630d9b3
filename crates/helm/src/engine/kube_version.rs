//! Kubernetes versions, parsed like `k8s.io/apimachinery/pkg/util/version`: `.Capabilities.KubeVersion`.

use go_template::{Field, FuncError, Kind, Object, Param, Scope, Str, Value};

/// A Kubernetes version, in full and without suffixes such as `-gke.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// The whole version, with a leading `v`.
    pub version: String,
    normalized: String,
    /// The first number.
    pub major: String,
    /// The second number.
    pub minor: String,
}

impl KubeVersion {
    /// Parses versions such as `v1.36.3-gke.1` and `1.36`.
    ///
    /// # Errors
    /// The text does not consist of two or more numbers separated by dots.
    pub fn parse(text: &str) -> Result<KubeVersion, InvalidKubeVersion> {
        let trimmed = text.trim().trim_start_matches('v');
        let numeric = trimmed.find(|c: char| c != '.' && !c.is_ascii_digit()).map_or(trimmed, |end| &trimmed[..end]);
        let components: Vec<&str> = numeric.split('.').collect();
        if numeric.is_empty() || numeric.starts_with('.') {
            return Err(InvalidKubeVersion::Malformed(text.to_owned()));
        }
        if components.len() < 2 {
            return Err(InvalidKubeVersion::TooShort(text.to_owned()));
        }
        let mut numbers = Vec::new();
        for component in components {
            let invalid = |problem| {
                let (component, version) = (component.to_owned(), text.to_owned());
                InvalidKubeVersion::Component { problem, component, version }
            };
            if component.len() > 1 && component.starts_with('0') {
                return Err(invalid("zero-prefixed"));
            }
            let number: u64 = component.parse().map_err(|_| invalid("non-numeric"))?;
            numbers.push(number.to_string());
        }
        let version = if text.starts_with('v') { text.to_owned() } else { format!("v{text}") };
        Ok(KubeVersion {
            version,
            normalized: format!("v{}", numbers.join(".")),
            major: numbers[0].clone(),
            minor: numbers[1].clone(),
        })
    }

    /// Creates a version from its parts without checking them.
    pub fn bare(version: &str, major: &str, minor: &str) -> KubeVersion {
        KubeVersion { version: version.into(), normalized: String::new(), major: major.into(), minor: minor.into() }
    }

    /// Returns the version that constraints are checked against.
    pub(super) fn normalized(&self) -> &str {
        if self.normalized.is_empty() { &self.version } else { &self.normalized }
    }
}

/// A text that is not a Kubernetes version, in the words of `k8s.io/apimachinery/pkg/util/version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKubeVersion {
    /// The text does not start with a number.
    #[error("could not parse {0:?} as version")]
    Malformed(String),
    /// The text has only one number.
    #[error("illegal version string {0:?}")]
    TooShort(String),
    /// A part of the text is not a number.
    #[error("illegal {problem} version component {component:?} in {version:?}")]
    Component {
        /// `zero-prefixed` or `non-numeric`.
        problem: &'static str,
        /// The part.
        component: String,
        /// The whole text.
        version: String,
    },
}

impl Object for KubeVersion {
    fn type_name(&self) -> &str {
        "common.KubeVersion"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(self.version.as_str().into()),
            "Major" => Some(self.major.as_str().into()),
            "Minor" => Some(self.minor.as_str().into()),
            _ => None,
        }
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        matches!(method, "String" | "GitVersion").then_some((&[], None))
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, _: &[Value]) -> Option<Result<Value, FuncError>> {
        match method {
            "String" => Some(Ok(self.normalized().into())),
            "GitVersion" => Some(Ok(self.version.as_str().into())),
            _ => None,
        }
    }

    // Go finds the pointer's method `String` only when it prints a pointer.
    fn display_in_place(&self) -> Option<Str> {
        Some(self.normalized().into())
    }

    fn fields(&self) -> Vec<Field> {
        vec![
            Field::new("Version", self.version.as_str()),
            Field::new("normalizedVersion", self.normalized.as_str()),
            Field::new("Major", self.major.as_str()),
            Field::new("Minor", self.minor.as_str()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_keep_their_suffix_but_are_compared_without_it() {
        let version = KubeVersion::parse("1.33.4-gke.1245000").unwrap();
        assert_eq!(version.version, "v1.33.4-gke.1245000");
        assert_eq!(version.normalized(), "v1.33.4");
        assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "33"));
    }

    #[test]
    fn versions_of_one_number_are_rejected() {
        assert_eq!(KubeVersion::parse("1").unwrap_err().to_string(), "illegal version string \"1\"");
        assert_eq!(KubeVersion::parse("x").unwrap_err().to_string(), "could not parse \"x\" as version");
    }
}
