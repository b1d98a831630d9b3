//! The place of a release's records: in the release's namespace under its name, or in one namespace with those of all
//! other releases.

use std::borrow::Cow;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// Maximum length of a label value.
const LONGEST: usize = 63;

/// The place of releases' records.
///
/// In one namespace for all releases, two releases with the same name must not collide: a record has the name
/// `<release's namespace>.<release's name>`, which is unique because namespaces contain no dots. `helm list`,
/// `history`, `status` and `get` accept that name. Names that are too long for a label are cut and end in a hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home(Option<Arc<str>>);

impl Home {
    /// Creates a home in one namespace for the records of all releases. [`Home::default`] keeps each release's records
    /// in the release's namespace.
    pub fn in_namespace(namespace: &str) -> Home {
        Home(Some(namespace.into()))
    }

    /// Returns the namespace and the name of a release's records.
    pub fn record<'a>(&'a self, namespace: &'a str, name: &'a str) -> (&'a str, Cow<'a, str>) {
        match &self.0 {
            None => (namespace, Cow::Borrowed(name)),
            Some(home) => (home, Cow::Owned(Home::shared_name(namespace, name))),
        }
    }

    /// Returns the namespace and name of the release whose records have this namespace and name; `None` if no release
    /// here has them, or if the name was cut.
    pub fn release<'a>(&self, namespace: &'a str, record: &'a str) -> Option<(&'a str, &'a str)> {
        match &self.0 {
            None => Some((namespace, record)),
            Some(home) if **home == *namespace => {
                record.split_once('.').filter(|(namespace, name)| Home::shared_name(namespace, name) == record)
            }
            Some(_) => None,
        }
    }

    /// Returns the name of a release's records in a namespace for those of all releases.
    pub fn shared_name(namespace: &str, name: &str) -> String {
        let whole = format!("{namespace}.{name}");
        if whole.len() <= LONGEST {
            return whole;
        }
        let hash: String = Sha256::digest(&whole).iter().take(HASH / 2).map(|byte| format!("{byte:02x}")).collect();
        // Without a dot, it cannot be another release's name.
        let kept = whole.get(..LONGEST - HASH - 1).unwrap_or_default().replace('.', "-");
        format!("{kept}-{hash}")
    }

    /// Returns whether records with this name may be in a namespace for those of all releases.
    pub fn may_be_shared(record: &str) -> bool {
        record.contains('.') || record.len() == LONGEST
    }

    /// Returns whether a record may have a shortened name, which does not tell its release.
    pub fn may_be_cut(&self, namespace: &str, record: &str) -> bool {
        let hash = record.rsplit_once('-').map_or("", |(_, hash)| hash);
        self.0.as_deref() == Some(namespace) && hash.len() == HASH
    }
}

/// Number of hexadecimal digits of a hash; enough to make collisions infeasible.
const HASH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_recorded_beside_itself_by_default() {
        let home = Home::default();
        assert_eq!(home.record("shop", "web"), ("shop", "web".into()));
        assert_eq!(home.release("shop", "we.b"), Some(("shop", "we.b")));
    }

    #[test]
    fn the_name_of_records_shows_whether_they_may_be_beside_those_of_other_releases() {
        let long = Home::shared_name(&"n".repeat(40), &"w".repeat(40));
        assert!(Home::may_be_shared(&long) && !long.contains('.'), "{long}");
        assert_eq!(Home::shared_name("shop", "web"), Home::in_namespace("records").record("shop", "web").1);
        assert!(Home::may_be_shared("shop.web") && !Home::may_be_shared("web"));
    }

    #[test]
    fn releases_of_one_name_have_different_records_in_one_namespace() {
        let home = Home::in_namespace("records");
        for (namespace, name, record) in [
            ("shop", "web", "shop.web"),
            ("bank", "web", "bank.web"),
            ("shop", "a.b", "shop.a.b"),
            ("records", "web", "records.web"),
        ] {
            assert_eq!(home.record(namespace, name), ("records", record.into()));
            assert_eq!(home.release("records", record), Some((namespace, name)));
            assert_eq!(home.release(namespace, name).filter(|_| namespace != "records"), None, "a record elsewhere");
        }
        assert_eq!(home.release("records", "web"), None, "somebody else's");
    }

    #[test]
    fn a_name_that_no_label_holds_is_cut_and_stays_unique() {
        let home = Home::in_namespace("records");
        let (namespace, dotted) = ("n".repeat(63), format!("{}.{}", "n".repeat(29), "x".repeat(50)));
        let mut seen = std::collections::HashSet::new();
        for (namespace, name) in
            [(&*namespace, "web"), (&namespace, "web2"), (&namespace[..40], &*"x".repeat(53)), ("n", &dotted)]
        {
            let (_, record) = home.record(namespace, name);
            assert!(
                record.len() <= LONGEST && home.may_be_cut("records", &record) && !record.contains('.'),
                "{record}"
            );
            assert_eq!(home.release("records", &record), None);
            assert!(seen.insert(record.into_owned()));
        }
        let (namespace, name) = ("n".repeat(9), "x".repeat(53));
        let (_, longest) = home.record(&namespace, &name);
        assert_eq!((longest.len(), home.release("records", &longest)), (63, Some((&*namespace, &*name))));
    }
}
