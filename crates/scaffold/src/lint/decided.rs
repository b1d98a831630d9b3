//! Checks whether watches.yaml decides with whose permissions releases are applied and who may read their records. The
//! defaults are operator-sdk's: the operator's permissions, and everyone who can read Secrets in the release's
//! namespace.

/// The keys, each with its default and the setting that makes the default explicit.
const KEYS: [(&str, &str, &str); 2] = [
    (
        "serviceAccountName",
        "the chart acts with all rights of the operator",
        "serviceAccountName: $(operator) says that this is meant, the name of an account limits it",
    ),
    (
        "storageNamespace",
        "records, with the values of every revision, are Secrets beside the release",
        "storageNamespace: $(release) says that this is meant, $(operator) or another namespace keeps them from users",
    ),
];

/// Returns the keys that an entry of watches.yaml lacks.
pub fn undecided(has: impl Fn(&str) -> bool) -> Vec<&'static str> {
    KEYS.iter().map(|(key, ..)| *key).filter(|key| !has(key)).collect()
}

/// Describes the defaults of these keys, and the settings that decide them.
pub fn left_open(keys: &[&str]) -> Option<String> {
    let open: Vec<_> = KEYS.iter().filter(|(key, ..)| keys.contains(key)).collect();
    let join = |texts: Vec<&str>, with: &str| texts.join(with);
    let names = join(open.iter().map(|(key, ..)| *key).collect(), " and ");
    let defaults = join(open.iter().map(|(_, default, _)| *default).collect(), ", and ");
    let keys = join(open.iter().map(|(_, _, key)| *key).collect(), "; ");
    let verb = if open.len() == 1 { "is" } else { "are" };
    (!open.is_empty()).then(|| format!("{names} {verb} not set: {defaults}; {keys}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_named_with_what_decides_it() {
        assert_eq!(left_open(&undecided(|_| true)), None);
        assert_eq!(
            left_open(&undecided(|key| key == "storageNamespace")).unwrap(),
            "serviceAccountName is not set: the chart acts with all rights of the operator; serviceAccountName: $(operator) says that this is meant, \
             the name of an account limits it"
        );
        let both = left_open(&undecided(|_| false)).unwrap();
        assert!(both.starts_with("serviceAccountName and storageNamespace are not set: the chart acts"), "{both}");
    }
}
