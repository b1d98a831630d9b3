//! Which version of a chart is wanted, and which of a repository's tags that is.

use golibs::semver::{Constraint, Version};

use crate::Digest;

/// The version of a chart that is wanted.
#[derive(Clone, Debug)]
pub enum Wanted {
    /// Exactly this content, which never changes.
    Digest(Digest),
    /// One version. It is looked up once, because a version is not published twice.
    Version(String),
    /// The newest version in a range, such as `^1.2`.
    Range {
        /// The range as it is written.
        text: String,
        /// The parsed constraint, by Helm's rules.
        constraint: Constraint,
    },
}

/// The text is neither a version nor a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a version such as 1.2.3, or a range such as ^1.2 or >=1.2 <3")]
pub struct WantedError;

impl Wanted {
    /// Parses a version or a range. A complete version is one; anything shorter, such as `1.2`, is a range as in Helm.
    ///
    /// # Errors
    /// The text is neither.
    pub fn parse(text: &str) -> Result<Wanted, WantedError> {
        if Version::parse_strict(text).is_ok() {
            return Ok(Wanted::Version(text.to_owned()));
        }
        let constraint = Constraint::parse(text).map_err(|_| WantedError)?;
        Ok(Wanted::Range { text: text.to_owned(), constraint })
    }

    /// Returns whether another chart may be the one that is wanted later.
    pub fn moves(&self) -> bool {
        matches!(self, Wanted::Range { .. })
    }
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Wanted::Digest(digest) => write!(f, "{digest}"),
            Wanted::Version(text) | Wanted::Range { text, .. } => f.write_str(text),
        }
    }
}

/// Returns the tag of a version: tags have no `+`, so Helm writes `_`.
pub(crate) fn tag(version: &str) -> String {
    version.replace('+', "_")
}

/// Returns the tag with the newest version that satisfies the constraint. Tags that are not versions are ignored, and
/// among tags of equal versions the last in the order of their texts wins, so that the choice does not depend on the
/// registry's order.
pub(crate) fn newest<'t>(constraint: &Constraint, tags: impl IntoIterator<Item = &'t String>) -> Option<&'t str> {
    let parsed = |tag: &'t String| Some((Version::parse(&tag.replace('_', "+")).ok()?, tag.as_str()));
    let fitting = tags.into_iter().filter_map(parsed).filter(|(version, _)| constraint.check(version));
    fitting.max_by(|(a, first), (b, second)| a.cmp(b).then(first.cmp(second))).map(|(_, tag)| tag)
}

/// Returns whether a tag names an older version than this one.
pub(crate) fn is_older(tag: &str, version: &str) -> bool {
    let parsed = |text: &str| Version::parse(text).ok();
    let versions = parsed(&tag.replace('_', "+")).zip(parsed(version));
    versions.is_some_and(|(found, before)| found < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(range: &str, tags: &[&str]) -> Option<String> {
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        newest(&Constraint::parse(range).unwrap(), &tags).map(str::to_owned)
    }

    #[test]
    fn the_newest_version_in_the_range_is_chosen_by_its_number() {
        let tags = ["1.9.0", "1.10.0", "2.0.0", "1.11.0-rc.1", "latest", "sha256-00.sig", "v1.2.0"];
        assert_eq!(chosen("^1.2", &tags).as_deref(), Some("1.10.0"));
        assert_eq!(chosen("*", &tags).as_deref(), Some("2.0.0"));
        assert_eq!(chosen("^1.2-0", &tags).as_deref(), Some("1.11.0-rc.1"));
        assert_eq!(chosen("1.2", &tags).as_deref(), Some("v1.2.0"));
        assert_eq!(chosen(">=3", &tags), None);
    }

    #[test]
    fn build_metadata_is_an_underscore_in_tags_and_the_order_of_tags_does_not_matter() {
        assert_eq!(tag("1.0.0+a.1"), "1.0.0_a.1");
        assert_eq!(chosen("^1", &["1.0.0_a", "1.0.0_b"]).as_deref(), Some("1.0.0_b"));
        assert_eq!(chosen("^1", &["1.0.0_b", "1.0.0_a"]).as_deref(), Some("1.0.0_b"));
    }

    #[test]
    fn a_complete_version_is_one_and_anything_else_a_range() {
        assert!(matches!(Wanted::parse("1.2.3+x"), Ok(Wanted::Version(_))));
        assert!(Wanted::parse("1.2").unwrap().moves() && Wanted::parse(">=1, <2").unwrap().moves());
        assert!(!Wanted::parse("1.2.3").unwrap().moves());
        assert!(Wanted::parse("latest").is_err() && Wanted::parse("1.0.0 and more").is_err());
    }
}
