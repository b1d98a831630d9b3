//! Finds the user and password for a registry in Docker's configuration, the format that image pull Secrets also use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use serde::Deserialize;
use std::collections::BTreeMap;

use crate::{Error, Location};

/// The user and password for a registry. Not printable.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    user: String,
    password: String,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
}

/// Docker's registry has another name in its configuration.
const DOCKER_HUB: [&str; 2] = ["index.docker.io", "docker.io"];

impl Credentials {
    /// Returns the header that proves them to whom it is sent.
    pub(crate) fn basic(&self) -> Option<HeaderValue> {
        let text = STANDARD.encode(format!("{}:{}", self.user, self.password));
        let mut value = HeaderValue::from_str(&format!("Basic {text}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Returns the credentials for a location: those of the longest entry that it is below.
pub(crate) fn find(config: &[u8], location: &Location) -> Result<Option<Credentials>, Error> {
    // The parser's message could quote a password.
    let config: Config = serde_json::from_slice(config).map_err(|_| Error::Credentials)?;
    let fitting = config.auths.iter().filter(|(key, _)| covers(key, location));
    let best = fitting.max_by_key(|(key, _)| trimmed(key).len());
    Ok(best.and_then(|(_, entry)| credentials(entry)))
}

fn credentials(entry: &Entry) -> Option<Credentials> {
    if !entry.username.is_empty() {
        return Some(Credentials { user: entry.username.clone(), password: entry.password.clone() });
    }
    let text = String::from_utf8(STANDARD.decode(entry.auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials { user: user.to_owned(), password: password.to_owned() })
}

/// Returns an entry's key without scheme and version of the protocol.
fn trimmed(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    key.strip_suffix("/v1").or_else(|| key.strip_suffix("/v2")).unwrap_or(key)
}

fn covers(key: &str, location: &Location) -> bool {
    let (key, host) = (trimmed(key), location.host());
    let is_hub = DOCKER_HUB.contains(&key) && (host == "docker.io" || host == "registry-1.docker.io");
    let path = match location {
        Location::Registry { repository, .. } => repository,
        Location::Archive(uri) => uri.path().trim_start_matches('/'),
    };
    let Some(below) = key.strip_prefix(host) else { return is_hub };
    below.is_empty()
        || below.strip_prefix('/').and_then(|below| path.strip_prefix(below)).is_some_and(|rest| {
            // A word of the path counts as a whole.
            rest.is_empty() || rest.starts_with('/')
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(config: serde_json::Value, location: &str) -> Option<String> {
        let found = find(config.to_string().as_bytes(), &location.parse().unwrap()).unwrap();
        found.map(|found| format!("{}:{}", found.user, found.password))
    }

    #[test]
    fn the_longest_entry_that_a_place_is_below_decides() {
        let config = json!({"auths": {
            "r.io": {"auth": STANDARD.encode("all:a:b")},
            "r.io/charts": {"username": "charts", "password": "c"},
            "https://other.io:5000/v2/": {"auth": STANDARD.encode("other:o")},
            "https://index.docker.io/v1/": {"auth": STANDARD.encode("hub:h")},
            "bad.io": {"auth": "%%%"},
        }});
        let of = |location: &str| user(config.clone(), location);
        assert_eq!(of("oci://r.io/shop").as_deref(), Some("all:a:b"));
        assert_eq!(of("oci://r.io/charts/shop").as_deref(), Some("charts:c"));
        assert_eq!(of("oci://r.io/charts").as_deref(), Some("charts:c"));
        assert_eq!(of("oci://r.io/chartsandmore/shop").as_deref(), Some("all:a:b"));
        assert_eq!(of("oci://other.io:5000/shop").as_deref(), Some("other:o"));
        assert_eq!(of("oci://registry-1.docker.io/team/shop").as_deref(), Some("hub:h"));
        assert_eq!(of("https://r.io/charts/shop.tgz").as_deref(), Some("charts:c"));
        for location in ["oci://other.io/shop", "oci://r.io.evil.com/shop", "oci://r.io:5000/shop", "oci://bad.io/shop"]
        {
            assert_eq!(of(location), None, "{location}");
        }
        assert_eq!(user(json!({}), "oci://r.io/shop"), None);
    }

    #[test]
    fn a_broken_configuration_is_not_quoted() {
        let Err(error) = find(b"{\"auths\": s3cret}", &"oci://r.io/shop".parse().unwrap()) else {
            panic!("it is read")
        };
        assert!(!error.to_string().contains("s3cret"), "{error}");
    }
}
