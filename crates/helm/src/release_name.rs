//! Validates release names. Counterpart: Helm's `pkg/chart/common/util/validate_name.go`.

use crate::dns::is_subdomain;

/// Maximum length of a release name, in bytes: Helm's own limit.
pub const MAX_LENGTH: usize = 53;

/// A name that Helm rejects. The text is Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "release name {0:?}: invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than {MAX_LENGTH}"
)]
pub struct InvalidName(String);

/// Checks a release name. Counterpart: `chartutil.ValidateReleaseName`.
///
/// # Errors
/// The name is empty, longer than [`MAX_LENGTH`], or not a sequence of DNS labels separated by dots.
pub fn check(name: &str) -> Result<(), InvalidName> {
    let is_valid = name.len() <= MAX_LENGTH && is_subdomain(name);
    if is_valid { Ok(()) } else { Err(InvalidName(name.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_with_dots_between_them() {
        for (name, valid) in [("web", true), ("a.b-c", true), ("", false), ("Web", false), ("-a", false), ("a.", false)]
        {
            assert_eq!(check(name).is_ok(), valid, "{name}");
        }
        assert!(check(&"a".repeat(53)).is_ok() && check(&"a".repeat(54)).is_err());
    }
}
