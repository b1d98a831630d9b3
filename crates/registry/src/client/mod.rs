//! Asks servers over HTTP: bounded, without leading credentials to other hosts.

mod challenge;
mod connect;

use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use serde::Deserialize;
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::credentials::Credentials;
use crate::{Error, Location};
use challenge::Challenge;
pub use connect::Hop;

/// How long one answer may take, with its content.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// The maximum size of an answer with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// The program's name in requests.
const AGENT: &str = concat!("helm-operator/", env!("CARGO_PKG_VERSION"));

/// A client of one server. Remembers what the server wants to see from it.
pub(crate) struct Client {
    http: Hop,
    scheme: Scheme,
    host: Authority,
    credentials: Option<Credentials>,
    authorization: Option<HeaderValue>,
}

pub(crate) struct Ask<'a> {
    /// The path, with the query.
    pub(crate) path: &'a str,
    /// The media type that is wanted.
    pub(crate) accept: &'a str,
    /// A word for the content, for errors.
    pub(crate) what: &'static str,
    /// The maximum size of the content, in bytes.
    pub(crate) limit: u64,
}

pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Client {
    /// Creates a client of the server at a location. Certificates in PEM are trusted besides the system's. Requests are
    /// sent over `hop`, if there is one, and else over the network.
    pub(crate) fn new(
        location: &Location,
        scheme: Scheme,
        ca: &[u8],
        credentials: Option<Credentials>,
        hop: Option<&Hop>,
    ) -> Result<Client, Error> {
        let host = match location.host() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        Ok(Client {
            http: hop.map_or_else(|| connect::network(ca), |hop| Ok(hop.clone()))?,
            scheme,
            host: host.parse().map_err(|_| Error::Tls(format!("{host} is not a host")))?,
            credentials,
            authorization: None,
        })
    }

    /// Sends a request, and again with credentials if the server requires them.
    pub(crate) async fn get(&mut self, ask: &Ask<'_>) -> Result<Answer, Error> {
        let challenges = match self.follow(ask).await? {
            Ok(answer) => return Ok(answer),
            Err(challenges) => challenges,
        };
        self.authorize(&challenges).await?;
        match self.follow(ask).await? {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.refusal(&self.uri(ask.path)?, StatusCode::UNAUTHORIZED)),
        }
    }

    /// Follows redirects. Only the server itself receives the credentials. Returns the inner error, with the
    /// challenges, if the server requires authentication.
    async fn follow(&self, ask: &Ask<'_>) -> Result<Result<Answer, HeaderMap>, Error> {
        let mut uri = self.uri(ask.path)?;
        for _ in 0..=MAX_REDIRECTS {
            let is_own = uri.authority() == Some(&self.host) && uri.scheme() == Some(&self.scheme);
            let authorization = self.authorization.as_ref().filter(|_| is_own);
            match self.send(&uri, authorization, ask).await? {
                Reply::Answer(answer) => return Ok(Ok(answer)),
                Reply::Challenged(challenges) if is_own => return Ok(Err(challenges)),
                Reply::Challenged(_) => return Err(self.refusal(&uri, StatusCode::UNAUTHORIZED)),
                Reply::Redirect(to) => uri = self.redirected(&uri, &to)?,
            }
        }
        Err(self.answer("too many redirects"))
    }

    async fn send(&self, uri: &Uri, authorization: Option<&HeaderValue>, ask: &Ask<'_>) -> Result<Reply, Error> {
        let host = || uri.authority().map(ToString::to_string).unwrap_or_default();
        let mut request = Request::get(uri).header(header::ACCEPT, ask.accept).header(header::USER_AGENT, AGENT);
        if let (Some(value), Some(headers)) = (authorization, request.headers_mut()) {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        let request = request.body(Empty::new()).map_err(|_| self.answer("an address that cannot be asked"))?;
        let asked = async {
            let answer = self.http.clone().oneshot(request).await;
            let answer = answer.map_err(|source| Error::Request { host: host(), source })?;
            let (parts, body) = answer.into_parts();
            match parts.status {
                StatusCode::UNAUTHORIZED => return Ok(Reply::Challenged(parts.headers)),
                status if status.is_redirection() => {
                    let to = parts.headers.get(header::LOCATION).and_then(|to| to.to_str().ok());
                    return Ok(Reply::Redirect(to.ok_or_else(|| self.answer("a redirect to nowhere"))?.to_owned()));
                }
                StatusCode::OK => {}
                status => return Err(self.refusal(uri, status)),
            }
            let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX);
            let too_large = || Error::TooLarge { what: ask.what, limit: ask.limit };
            // Do not read any of a body that declares itself too large.
            let length =
                parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
            if length.is_some_and(|length: u64| length > ask.limit) {
                return Err(too_large());
            }
            let body =
                Limited::new(body, limit).collect().await.map_err(|source| match source.is::<LengthLimitError>() {
                    true => too_large(),
                    false => Error::Request { host: host(), source },
                })?;
            Ok(Reply::Answer(Answer { headers: parts.headers, body: body.to_bytes() }))
        };
        let slow = || Error::Slow { host: host(), limit: ANSWER_LIMIT };
        timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(slow()))
    }

    /// Authenticates, in a way that the server accepts.
    async fn authorize(&mut self, headers: &HeaderMap) -> Result<(), Error> {
        let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges: Vec<Challenge> = values.filter_map(challenge::parse).collect();
        let refused = || self.refusal(&self.uri("/v2/").unwrap_or_default(), StatusCode::UNAUTHORIZED);
        let bearer = challenges.iter().find(|one| matches!(one, Challenge::Bearer { .. }));
        self.authorization = match (bearer, challenges.first()) {
            (Some(challenge), _) => Some(self.token(challenge).await?),
            (None, Some(_)) => Some(self.credentials.as_ref().and_then(Credentials::basic).ok_or_else(refused)?),
            (None, None) => return Err(refused()),
        };
        Ok(())
    }

    /// Fetches a token for a challenge, anonymously without credentials.
    async fn token(&self, challenge: &Challenge) -> Result<HeaderValue, Error> {
        let uri = challenge.uri().ok_or_else(|| self.answer("a challenge that names no URL"))?;
        let is_own = uri.authority() == Some(&self.host) && uri.scheme() == Some(&self.scheme);
        if !is_own && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(self.answer("a challenge whose URL is not encrypted"));
        }
        let basic = self.credentials.as_ref().and_then(Credentials::basic);
        let ask = Ask { path: "", accept: "application/json", what: "the token", limit: MAX_TOKEN_BYTES };
        match self.send(&uri, basic.as_ref(), &ask).await? {
            Reply::Answer(answer) => bearer(&answer.body).ok_or_else(|| self.answer("no token")),
            Reply::Challenged(_) => Err(self.refusal(&uri, StatusCode::UNAUTHORIZED)),
            // The credentials are for this address.
            Reply::Redirect(_) => Err(self.answer("a redirect instead of a token")),
        }
    }

    fn uri(&self, path: &str) -> Result<Uri, Error> {
        let built =
            Uri::builder().scheme(self.scheme.clone()).authority(self.host.clone()).path_and_query(path).build();
        built.map_err(|_| self.answer("a path that cannot be asked"))
    }

    /// Returns the address that a redirect leads to. An encrypted connection must not be redirected to an unencrypted
    /// one.
    fn redirected(&self, from: &Uri, to: &str) -> Result<Uri, Error> {
        let bad = || self.answer("a redirect that cannot be followed");
        let to: Uri = to.parse().map_err(|_| bad())?;
        let mut parts = to.into_parts();
        if parts.authority.is_none() {
            (parts.authority, parts.scheme) = (from.authority().cloned(), from.scheme().cloned());
        }
        let to = Uri::from_parts(parts).map_err(|_| bad())?;
        let is_safe =
            to.scheme() == Some(&Scheme::HTTPS) || (to.scheme() == Some(&Scheme::HTTP) && self.scheme == Scheme::HTTP);
        let names_user = to.authority().is_none_or(|authority| authority.as_str().contains('@'));
        if is_safe && !names_user { Ok(to) } else { Err(bad()) }
    }

    fn answer(&self, what: &'static str) -> Error {
        Error::Answer { host: self.host.to_string(), what }
    }

    fn refusal(&self, uri: &Uri, status: StatusCode) -> Error {
        let host = uri.authority().map(ToString::to_string).unwrap_or_default();
        Error::Status { host, what: uri.path().to_owned(), status }
    }
}

enum Reply {
    Answer(Answer),
    Challenged(HeaderMap),
    Redirect(String),
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

/// Returns the header with the token of an answer.
fn bearer(body: &[u8]) -> Option<HeaderValue> {
    let Token { token, access_token } = serde_json::from_slice(body).ok()?;
    let token = if token.is_empty() { access_token } else { token };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok().filter(|_| !token.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}
