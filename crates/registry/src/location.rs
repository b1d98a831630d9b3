//! Where a chart is: in a registry (`oci://host/name`) or on a web server (`https://host/path.tgz`).

use std::fmt;
use std::str::FromStr;

use golibs::semver::Version;
use http::Uri;
use http::uri::{Authority, Scheme};

/// The maximum length of a repository's name, as registries limit it.
const MAX_NAME: usize = 255;

/// The location of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A repository of a registry, whose tags are versions.
    Registry {
        /// The registry's host, with the port if there is one.
        host: Authority,
        /// The repository's name.
        repository: String,
    },
    /// A packed chart on a web server.
    Archive(Uri),
}

/// Why a text is not a valid location. The messages never quote what may be a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It is not a URL with a host and a path.
    #[error("must be a URL such as oci://registry.example.com/charts/shop or https://example.com/shop-1.0.0.tgz")]
    Url,
    /// The URL contains a user or a password.
    #[error("must not contain a user or a password: name a Secret instead")]
    User,
    /// The URL contains a query or a fragment, which may be a secret and would appear in logs.
    #[error("must not contain a query or a fragment")]
    Query,
    /// A version or digest is part of the URL.
    #[error("must not contain a version or a digest: they are keys of their own")]
    Version,
    /// The name is not one that registries accept.
    #[error("must end with a repository's name: words of a-z and 0-9, separated by /, ., _ or -")]
    Name,
}

impl Location {
    /// Returns whether a text is meant as the location of a chart to fetch, not as a path.
    pub fn is_meant(text: &str) -> bool {
        text.contains("://")
    }

    /// Returns the host, with the port if there is one.
    pub fn host(&self) -> &str {
        match self {
            Location::Registry { host, .. } => host.as_str(),
            Location::Archive(uri) => uri.authority().map_or("", Authority::as_str),
        }
    }

    /// Returns the last part of the path, without an archive's version and extension: usually the chart's name.
    pub fn name(&self) -> &str {
        match self {
            Location::Registry { repository, .. } => last(repository),
            Location::Archive(uri) => {
                let file = last(uri.path());
                let packed = file.strip_suffix(".tgz").or_else(|| file.strip_suffix(".tar.gz")).unwrap_or(file);
                name_of(packed).unwrap_or(packed)
            }
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the chart's name in a text such as `shop-1.2.3`; `None` if it does not end with a version.
pub fn name_of(versioned: &str) -> Option<&str> {
    let before = |is_version: fn(&str) -> bool| {
        let mut ends = versioned.match_indices('-').map(|(at, _)| (&versioned[..at], &versioned[at + 1..]));
        ends.find(|(name, version)| !name.is_empty() && is_version(version)).map(|(name, _)| name)
    };
    before(|text| Version::parse_strict(text).is_ok()).or_else(|| before(|text| Version::parse(text).is_ok()))
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Location, LocationError> {
        match text.strip_prefix("oci://") {
            Some(rest) => repository(rest),
            None => archive(text),
        }
    }
}

fn repository(text: &str) -> Result<Location, LocationError> {
    let (host, name) = text.split_once('/').ok_or(LocationError::Url)?;
    if host.contains('@') {
        return Err(LocationError::User);
    }
    if name.contains(['?', '#']) {
        return Err(LocationError::Query);
    }
    if name.contains([':', '@']) {
        return Err(LocationError::Version);
    }
    let host: Authority = host.parse().map_err(|_| LocationError::Url)?;
    let fits = name.len() <= MAX_NAME && name.split('/').all(is_word);
    if fits { Ok(Location::Registry { host, repository: name.to_owned() }) } else { Err(LocationError::Name) }
}

/// Returns whether a part of a name consists of lower-case letters and digits, with single separators in between.
fn is_word(part: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends_plain = part.as_bytes().first().is_some_and(is_plain) && part.as_bytes().last().is_some_and(is_plain);
    ends_plain && part.bytes().all(|byte| is_plain(&byte) || b"._-".contains(&byte)) && !part.contains("..")
}

fn archive(text: &str) -> Result<Location, LocationError> {
    if text.contains('#') {
        return Err(LocationError::Query);
    }
    let uri: Uri = text.parse().map_err(|_| LocationError::Url)?;
    let Some(authority) = uri.authority() else { return Err(LocationError::Url) };
    if authority.as_str().contains('@') {
        return Err(LocationError::User);
    }
    if uri.query().is_some() {
        return Err(LocationError::Query);
    }
    let is_web = uri.scheme() == Some(&Scheme::HTTPS) || uri.scheme() == Some(&Scheme::HTTP);
    if is_web && !authority.host().is_empty() && uri.path().len() > 1 {
        Ok(Location::Archive(uri))
    } else {
        Err(LocationError::Url)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Registry { host, repository } => write!(f, "oci://{host}/{repository}"),
            Location::Archive(uri) => write!(f, "{uri}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_repository_or_an_archive_on_a_web_server() {
        for text in [
            "oci://registry.example.com/charts/shop",
            "oci://localhost:5000/shop",
            "oci://[::1]:5000/a/b.c/d_e--f",
            "https://example.com/charts/shop-1.0.0.tgz",
            "http://127.0.0.1:80/shop.tgz",
        ] {
            assert_eq!(text.parse::<Location>().unwrap().to_string(), text);
            assert!(Location::is_meant(text));
        }
        assert_eq!("https://a:1/b/shop.tgz".parse::<Location>().unwrap().host(), "a:1");
        assert!(!Location::is_meant("helm-charts/shop"));
    }

    #[test]
    fn a_location_usually_ends_with_the_name_of_its_chart() {
        for (text, expected) in [
            ("oci://a/b/shop", "shop"),
            ("oci://a/b/shop-1.0.0", "shop-1.0.0"),
            ("https://a/b/shop-1.2.3.tgz", "shop"),
            ("https://a/b/shop-cart-2-1.2.3-rc.1.tar.gz", "shop-cart-2"),
            ("https://a/b/shop-v1.2.tgz", "shop"),
            ("https://a/b/latest.tgz", "latest"),
            ("https://a/b/-1.0.0.tgz", "-1.0.0"),
            ("https://a/b/download", "download"),
        ] {
            assert_eq!(text.parse::<Location>().unwrap().name(), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_is_refused_without_quoting_it() {
        for (text, expected) in [
            ("oci://registry.example.com", LocationError::Url),
            ("oci://registry.example.com/", LocationError::Name),
            ("oci://registry.example.com/Shop", LocationError::Name),
            ("oci://registry.example.com/a//b", LocationError::Name),
            ("oci://registry.example.com/a/../b", LocationError::Name),
            ("oci://registry.example.com/shop:1.0.0", LocationError::Version),
            ("oci://registry.example.com/shop@sha256:00", LocationError::Version),
            ("oci://user:pass@registry.example.com/shop", LocationError::User),
            ("https://user:pass@example.com/shop.tgz", LocationError::User),
            ("https://example.com/shop.tgz?token=s3cret", LocationError::Query),
            ("https://example.com/shop.tgz#s3cret", LocationError::Query),
            ("https://example.com", LocationError::Url),
            ("https://example.com/", LocationError::Url),
            ("ftp://example.com/shop.tgz", LocationError::Url),
            ("git+https://example.com/shop", LocationError::Url),
        ] {
            assert_eq!(text.parse::<Location>(), Err(expected), "{text}");
        }
        let long = format!("oci://a/{}", "x".repeat(MAX_NAME + 1));
        assert_eq!(long.parse::<Location>(), Err(LocationError::Name));
    }
}
