//! Decodes how a chart is fetched: a `chart` that is a URL, and `pull` in watches.yaml. Upstream has no counterpart, so
//! unknown keys are errors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::uri::Scheme;
use registry::{Location, Source, Wanted};

use super::decode::wrong;
use super::duration::parse_duration;
use super::node::{Entry, Node};
use super::rules::{boolean, string, unknown};
use super::{Error, Warning, Watch};

/// How often to look for a newer version, if the entry does not say it.
const INTERVAL: Duration = Duration::from_secs(600);

/// The minimum of that, because others share the registry.
const LEAST_INTERVAL: Duration = Duration::from_secs(10);

/// The default version: the newest that is not a prerelease.
const NEWEST: &str = "*";

const KEYS: &[&str] = &["version", "digest", "interval", "secret", "ca", "verify", "plainHttp"];

/// How a chart is fetched that is not on disk.
#[derive(Clone, Debug)]
pub struct Pull {
    /// Where it is, and which version.
    pub source: Source,
    /// How often to look for a newer one; zero means never.
    pub interval: Duration,
    /// The Secret with credentials, in the operator's own namespace. `None`: the pod's configuration of Docker, if it
    /// has one.
    pub secret: Option<String>,
    /// Certificates that are trusted besides the system's.
    pub ca: Option<Pem>,
    /// The public key of cosign that has to vouch for the chart.
    pub key: Option<Pem>,
}

impl Pull {
    /// Returns the names of the Secrets that a fetch reads.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let names = self.ca.iter().chain(&self.key).filter_map(|pem| match pem {
            Pem::Secret { name, .. } => Some(name.as_str()),
            Pem::File(_) => None,
        });
        self.secret.as_deref().into_iter().chain(names)
    }
}

impl Watch {
    /// Serves another chart: one on disk, or `oci://registry/name:version`, `oci://registry/name@digest` or an
    /// archive's URL, which is fetched with the certificate authority, key and Secret of the watch's own chart.
    ///
    /// # Errors
    /// The path is a URL, but not a valid one; the text says why.
    pub(crate) fn replace_chart(&mut self, chart: &Path) -> Result<(), String> {
        let before = self.pull.take();
        self.chart = chart.to_owned();
        let Some(text) = chart.to_str().filter(|text| Location::is_meant(text)) else { return Ok(()) };
        let (location, wanted) = named(text).map_err(|why| format!("{text}: {why}"))?;
        let is_plain_allowed = before.as_ref().is_some_and(|pull| pull.source.plain);
        let plain = match &location {
            Location::Registry { .. } => is_plain_allowed,
            Location::Archive(uri) => uri.scheme() == Some(&Scheme::HTTP),
        };
        if plain && !is_plain_allowed {
            return Err(format!("{text}: must be https"));
        }
        self.chart = location.to_string().into();
        let Pull { secret, ca, key, .. } =
            before.unwrap_or_else(|| Pull::of(Source { location: location.clone(), wanted: None, plain }));
        self.pull = Some(Pull { secret, ca, key, ..Pull::of(Source { location, wanted, plain }) });
        Ok(())
    }
}

impl Pull {
    /// Returns how a chart is fetched without credentials and checks, and never looked up again.
    fn of(source: Source) -> Pull {
        Pull { source, interval: Duration::ZERO, secret: None, ca: None, key: None }
    }
}

/// Parses `oci://registry/name:version`, `oci://registry/name@digest` or the URL of an archive.
fn named(text: &str) -> Result<(Location, Option<Wanted>), String> {
    let path = text.strip_prefix("oci://").map_or(0, |rest| text.len() - rest.len() + rest.rfind('/').unwrap_or(0));
    let (base, said) = match (path, text[path..].find(['@', ':'])) {
        (1.., Some(at)) => (&text[..path + at], Some(&text[path + at..])),
        _ => (text, None),
    };
    let location: Location = base.parse().map_err(|cause: registry::LocationError| cause.to_string())?;
    let wanted = match (&location, said) {
        (Location::Archive(_), _) => None,
        (_, Some(digest)) if digest.starts_with('@') => {
            Some(Wanted::Digest(digest[1..].parse().map_err(|cause| format!("{cause}"))?))
        }
        // Tags spell `+` as `_`.
        (_, said) => {
            let version = said.map_or(NEWEST.to_owned(), |said| said[1..].replace('_', "+"));
            Some(Wanted::parse(&version).map_err(|cause| format!("version {cause}"))?)
        }
    };
    Ok((location, wanted))
}

/// Where a text in PEM is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pem {
    /// In a file of the operator.
    File(PathBuf),
    /// In a Secret in the operator's own namespace.
    Secret {
        /// The Secret's name.
        name: String,
        /// The key in it.
        key: String,
    },
}

/// Decodes how the entry's chart is fetched; returns `None` for a chart on disk. Adds likely mistakes to `warnings`.
pub(super) fn pull(
    chart: Option<&Entry>,
    settings: Option<&Entry>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Pull>, Error> {
    let settings = settings.filter(|entry| entry.value != Node::Null);
    let (entry, text) = match chart.map(|entry| (entry, &entry.value)) {
        Some((entry, Node::String(text))) if Location::is_meant(text) => (entry, text),
        _ => return settings.map_or(Ok(None), |entry| Err(wrong(entry, HAS_NO_EFFECT.to_owned()))),
    };
    let location: Location = text.parse().map_err(|cause: registry::LocationError| wrong(entry, cause.to_string()))?;
    let said = match settings {
        Some(settings) => said(settings).map_err(|what| wrong(settings, what))?,
        None => Said::default(),
    };
    let at = settings.unwrap_or(entry);
    let wanted = wanted(&location, &said).map_err(|what| wrong(at, what))?;
    let is_plain = match &location {
        Location::Registry { .. } => said.plain,
        Location::Archive(uri) => uri.scheme() == Some(&Scheme::HTTP),
    };
    if is_plain && !said.plain {
        return Err(wrong(entry, "must be https, unless pull.plainHttp allows http".to_owned()));
    }
    if is_plain && said.secret.is_some() {
        return Err(wrong(at, "secret: credentials are not sent without encryption (plainHttp)".to_owned()));
    }
    let mut warn = |what: &str| warnings.push(Warning { line: at.line, what: what.to_owned() });
    if wanted.is_none() {
        warn("the archive at this URL may be replaced at any time: name its digest in pull.digest");
    }
    if is_plain && said.key.is_none() && !matches!(wanted, Some(Wanted::Digest(_))) {
        warn(
            "whoever is in the network may replace the chart: name pull.digest or pull.verify, or leave out plainHttp",
        );
    }
    let source = Source { location, wanted, plain: is_plain };
    let Said { interval, secret, ca, key, .. } = said;
    Ok(Some(Pull { source, interval: interval.unwrap_or(INTERVAL), secret, ca, key }))
}

const HAS_NO_EFFECT: &str = "only a chart that is a URL is fetched, such as oci://registry.example.com/charts/shop";

/// The keys, before they are compared.
#[derive(Default)]
struct Said {
    version: Option<String>,
    digest: Option<registry::Digest>,
    interval: Option<Duration>,
    secret: Option<String>,
    ca: Option<Pem>,
    key: Option<Pem>,
    plain: bool,
}

fn said(settings: &Entry) -> Result<Said, String> {
    let mut said = Said::default();
    for Entry { key, value, .. } in settings.value.map()? {
        match key.as_str() {
            "version" => said.version = Some(string(key, value)?),
            "digest" => said.digest = Some(string(key, value)?.parse().map_err(|cause| format!("digest: {cause}"))?),
            "interval" => said.interval = Some(interval(&string(key, value)?)?),
            "secret" => said.secret = Some(string(key, value)?).filter(|name| !name.is_empty()),
            "ca" => said.ca = Some(pem(key, value)?),
            "verify" => said.key = Some(verify(value)?),
            "plainHttp" => said.plain = boolean(key, value)?,
            _ => return Err(unknown(key, KEYS)),
        }
    }
    Ok(said)
}

fn wanted(location: &Location, said: &Said) -> Result<Option<Wanted>, String> {
    match (location, &said.version, said.digest) {
        (_, Some(_), Some(_)) => Err("version and digest exclude each other: a digest never moves".to_owned()),
        (_, None, Some(digest)) => Ok(Some(Wanted::Digest(digest))),
        (Location::Registry { .. }, version, None) => {
            let version = version.as_deref().unwrap_or(NEWEST);
            Wanted::parse(version).map(Some).map_err(|cause| format!("version: {cause}"))
        }
        (Location::Archive(_), Some(_), None) => {
            Err("version: only registries have versions; an archive has a digest".to_owned())
        }
        (Location::Archive(_), None, None) => Ok(None),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|cause| format!("interval: {cause}"))?;
    if interval.is_zero() || interval >= LEAST_INTERVAL {
        Ok(interval)
    } else {
        Err(format!("interval: must be at least {LEAST_INTERVAL:?}, or 0 for never"))
    }
}

/// Decodes `verify: {cosign: {key: …}}`.
fn verify(value: &Node) -> Result<Pem, String> {
    let [Entry { key, value, .. }] = value.map()? else {
        return Err("verify: expected {cosign: {key: …}}".to_owned());
    };
    if key != "cosign" {
        return Err(format!("verify: {}", unknown(key, &["cosign"])));
    }
    let [Entry { key, value, .. }] = value.map()? else {
        return Err("verify.cosign: expected {key: …}".to_owned());
    };
    if key == "key" {
        pem("verify.cosign.key", value)
    } else {
        Err(format!("verify.cosign: {}", unknown(key, &["key"])))
    }
}

/// Decodes a path, or `{secret: name, key: name}`.
fn pem(what: &str, value: &Node) -> Result<Pem, String> {
    if let Node::String(path) = value {
        return Ok(Pem::File(path.into()));
    }
    let (mut secret, mut of) = (None, None);
    for Entry { key, value, .. } in value.map().map_err(|_| format!("{what}: expected a path, or secret and key"))? {
        match key.as_str() {
            "secret" => secret = Some(string(key, value)?),
            "key" => of = Some(string(key, value)?),
            _ => return Err(format!("{what}: {}", unknown(key, &["secret", "key"]))),
        }
    }
    match (secret, of) {
        (Some(name), Some(key)) => Ok(Pem::Secret { name, key }),
        _ => Err(format!("{what}: expected both secret and key")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watches::{Watch, parse};

    fn read(chart: &str, pull: &str) -> Result<(Watch, Vec<String>), String> {
        let pull = if pull.is_empty() { String::new() } else { format!("\n  pull: {pull}") };
        let text = format!("- group: g\n  version: v1\n  kind: Shop\n  chart: {chart}{pull}\n");
        let mut read = parse(&text, |_| None).map_err(|error| error.to_string())?;
        Ok((read.watches.remove(0), read.warnings.into_iter().map(|warning| warning.to_string()).collect()))
    }

    #[test]
    fn a_chart_is_fetched_if_it_is_a_url() {
        assert!(read("helm-charts/shop", "").unwrap().0.pull.is_none());
        let all = "{version: ^1.2, interval: 1h, secret: r, ca: /ca.crt, verify: {cosign: {key: {secret: c, key: k}}}}";
        let (watch, warnings) = read("oci://r.io/charts/shop", all).unwrap();
        let pull = watch.pull.unwrap();
        assert_eq!(watch.chart.to_str(), Some("oci://r.io/charts/shop"));
        assert_eq!(pull.source.location.to_string(), "oci://r.io/charts/shop");
        assert_eq!(pull.source.wanted.as_ref().map(ToString::to_string).as_deref(), Some("^1.2"));
        assert_eq!((pull.interval, pull.secret.as_deref()), (Duration::from_secs(3600), Some("r")));
        assert_eq!(pull.ca, Some(Pem::File("/ca.crt".into())));
        assert_eq!(pull.key, Some(Pem::Secret { name: "c".into(), key: "k".into() }));
        assert!(pull.source.moves() && !pull.source.plain && warnings.is_empty());
        let pull = read("oci://r.io/shop", "").unwrap().0.pull.unwrap();
        assert_eq!((pull.source.wanted.unwrap().to_string().as_str(), pull.interval), ("*", INTERVAL));
    }

    #[test]
    fn another_chart_is_named_with_its_version_and_fetched_like_the_one_before() {
        let before = "{version: ^1, ca: /ca.crt, verify: {cosign: {key: /c.pub}}}";
        let replaced = |pull: &str, chart: &str| {
            let mut watch = read("oci://r.io:5000/charts/shop", pull).unwrap().0;
            watch.replace_chart(Path::new(chart)).map(|()| watch)
        };
        let digest = format!("sha256:{}", "0".repeat(64));
        for (chart, location, wanted) in [
            ("oci://r.io:5000/charts/shop:1.2.0", "oci://r.io:5000/charts/shop", "1.2.0"),
            ("oci://r.io:5000/charts/shop:1.2.0_b1", "oci://r.io:5000/charts/shop", "1.2.0+b1"),
            ("oci://r.io:5000/shop", "oci://r.io:5000/shop", "*"),
            ("oci://r.io/shop:^2", "oci://r.io/shop", "^2"),
            (&format!("oci://r.io/shop@{digest}"), "oci://r.io/shop", &digest),
        ] {
            let pull = replaced(before, chart).unwrap().pull.unwrap();
            assert_eq!(pull.source.location.to_string(), location);
            assert_eq!(pull.source.wanted.map(|wanted| wanted.to_string()).as_deref(), Some(wanted), "{chart}");
            assert_eq!((pull.ca, pull.key), (Some(Pem::File("/ca.crt".into())), Some(Pem::File("/c.pub".into()))));
        }
        let archive = replaced("", "https://r.io/shop-1.0.0.tgz").unwrap();
        assert!(archive.pull.unwrap().source.wanted.is_none());
        assert!(replaced(before, "../shop").unwrap().pull.is_none());
        assert!(replaced("{plainHttp: true}", "oci://r.io/shop:1.0.0").unwrap().pull.unwrap().source.plain);
        for (chart, why) in [
            ("oci://r.io/shop:latest", "version must be a version such as 1.2.3"),
            ("oci://r.io/shop@sha256:00", "must be sha256: and 64"),
            ("http://r.io/shop.tgz", "must be https"),
            ("oci://r.io", "must be a URL such as"),
        ] {
            let error = replaced("", chart).unwrap_err();
            assert!(error.starts_with(chart) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_may_be_replaced_is_warned_about() {
        let digest = format!("{{digest: sha256:{}}}", "0".repeat(64));
        let warnings = |chart: &str, pull: &str| read(chart, pull).unwrap().1;
        assert!(
            warnings("https://r.io/shop.tgz", "")[0].starts_with("line 4: the archive at this URL may be replaced")
        );
        assert_eq!(warnings("https://r.io/shop.tgz", &digest), [""; 0]);
        assert!(warnings("oci://r.io/shop", "{plainHttp: true}")[0].starts_with("line 5: whoever is in the network"));
        assert_eq!(warnings("oci://r.io/shop", &digest.replace('}', ", plainHttp: true}")), [""; 0]);
    }

    #[test]
    fn contradictions_and_typos_are_errors_with_their_line() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (chart, pull, expected) in [
            ("helm-charts/shop", "{version: 1.0.0}", "line 5: pull: only a chart that is a URL is fetched"),
            ("oci://r.io/shop:1", "", "line 4: chart: must not contain a version or a digest"),
            ("http://r.io/shop.tgz", "", "line 4: chart: must be https, unless pull.plainHttp"),
            ("ftp://r.io/shop.tgz", "", "line 4: chart: must be a URL such as"),
            ("oci://r.io/shop", "{versoin: 1.0.0}", "did you mean \"version\"?"),
            ("oci://r.io/shop", "{version: latest}", "line 5: pull: version: must be a version such as"),
            ("oci://r.io/shop", "{digest: sha256:00}", "line 5: pull: digest: must be sha256: and 64"),
            ("oci://r.io/shop", &format!("{{version: 1.0.0, digest: '{digest}'}}"), "exclude each other"),
            ("https://r.io/shop.tgz", "{version: 1.0.0}", "only registries have versions"),
            ("oci://r.io/shop", "{interval: 1s}", "interval: must be at least 10s, or 0 for never"),
            ("oci://r.io/shop", "{plainHttp: true, secret: s}", "credentials are not sent without encryption"),
            ("oci://r.io/shop", "{verify: {}}", "verify: expected {cosign"),
            ("oci://r.io/shop", "{verify: {cosing: {key: k}}}", "did you mean \"cosign\"?"),
            ("oci://r.io/shop", "{verify: {cosign: {keys: k}}}", "did you mean \"key\"?"),
            ("oci://r.io/shop", "{ca: {secret: s}}", "ca: expected both secret and key"),
            ("oci://r.io/shop", "{ca: {secrets: s}}", "did you mean \"secret\"?"),
            ("oci://r.io/shop", "pinned", "line 5: pull: expected a mapping"),
        ] {
            let error = read(chart, pull).unwrap_err();
            assert!(error.contains(expected), "{chart} {pull}: {error}");
        }
    }
}
