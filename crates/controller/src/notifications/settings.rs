//! Where and how events are sent.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;

use super::Mode;
use crate::client::CertificatesError;

/// The settings of [`Notifications`](super::Notifications).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to send events.
    pub sink: Sink,
    /// The file with the key that signs each body; read again for each event, so that it can be replaced. `None`:
    /// nothing is signed.
    pub secret_file: Option<PathBuf>,
    /// The certificates that the sink's must lead to, in PEM. `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// How an event is written.
    pub mode: Mode,
    /// The attribute `source`: a URI reference that names the cluster and the operator.
    pub source: String,
    /// The prefix of the attribute `type`, before an event's reason.
    pub type_prefix: String,
}

/// An address that events may be sent to. Shown without path and query, which often contain a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Sink(Uri);

/// The reason why events cannot be sent. The messages never quote the address.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("the sink of CloudEvents must be a URL such as https://example.com/events")]
    Url,
    #[error(
        "the sink of CloudEvents must be an https URL; http is only for this host itself (localhost, 127.0.0.1, [::1])"
    )]
    Plain,
    #[error("the sink of CloudEvents must not contain a user or a password")]
    User,
    #[error("the source of CloudEvents must be a URI reference of printable ASCII characters, such as /clusters/prod")]
    Source,
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} has no secret", .0.display())]
    NoSecret(PathBuf),
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error("cannot send CloudEvents over TLS")]
    Tls(#[source] kube::Error),
}

impl FromStr for Sink {
    type Err = Error;

    fn from_str(text: &str) -> Result<Sink, Error> {
        let uri: Uri = text.parse().map_err(|_| Error::Url)?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return Err(Error::Url) };
        let host = authority.host();
        if authority.as_str().contains('@') {
            return Err(Error::User);
        }
        match scheme {
            "https" if !host.is_empty() => Ok(Sink(uri)),
            "http" if is_loopback(host) => Ok(Sink(uri)),
            "http" => Err(Error::Plain),
            _ => Err(Error::Url),
        }
    }
}

impl Sink {
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        write!(f, "{}://{authority}", self.0.scheme_str().unwrap_or_default())
    }
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Settings {
    /// Returns settings with the defaults of everything but the sink.
    pub fn to(sink: Sink) -> Settings {
        let (source, type_prefix) = ("/controller".to_owned(), String::new());
        Settings { sink, secret_file: None, ca_file: None, mode: Mode::default(), source, type_prefix }
    }

    /// Checks what does not depend on files.
    ///
    /// # Errors
    /// The source is not a URI reference.
    pub fn check(&self) -> Result<(), Error> {
        let is_allowed = |b: u8| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b);
        let is_reference = !self.source.is_empty() && self.source.bytes().all(is_allowed);
        if is_reference { Ok(()) } else { Err(Error::Source) }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_encrypted_or_on_this_host() {
        for text in [
            "https://example.com/hooks/t0ken?a=b",
            "https://[2001:db8::1]:8443",
            "http://localhost:80/a",
            "http://127.0.0.2/",
            "http://[::1]:1/",
        ] {
            assert!(text.parse::<Sink>().is_ok(), "{text}");
        }
        for (text, expected) in [
            ("http://example.com", "must be an https URL"),
            ("http://127.0.0.1.example.com/", "must be an https URL"),
            ("http://localhost.example.com/", "must be an https URL"),
            ("http://[::ffff:10.0.0.1]/", "must be an https URL"),
            ("https://a:s3cret@example.com", "must not contain a user"),
            ("ftp://example.com", "must be a URL"),
            ("example.com", "must be a URL"),
            ("/s3cret", "must be a URL"),
            ("https://", "must be a URL"),
        ] {
            let error = text.parse::<Sink>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{text}: {error}");
        }
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_a_token() {
        let settings = Settings::to("https://example.com:8443/hooks/t0ken?key=t0ken".parse().unwrap());
        assert_eq!(settings.sink.to_string(), "https://example.com:8443");
        assert!(!format!("{settings:?}").contains("t0ken"));
    }

    #[test]
    fn a_source_is_a_uri_reference() {
        let check = |source: &str| {
            let sink = "https://example.com".parse().unwrap();
            Settings { source: source.to_owned(), ..Settings::to(sink) }.check().is_ok()
        };
        assert!(check("/clusters/prod") && check("https://prod.example.com/a?b#c"));
        assert!(!check("") && !check("a b") && !check("a\nb") && !check("ü"));
    }
}
