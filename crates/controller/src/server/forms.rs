//! Decides which forms a site takes. Only its own pages may send them: a browser also adds its user's credentials, such
//! as a proxy's cookie, to requests that other sites make. Pure.

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, StatusCode};

/// The maximum size of a form, in bytes.
pub(super) const MAX_FORM: usize = 4 << 10;

/// The only type of a form's body.
const FORM: &str = "application/x-www-form-urlencoded";

/// Where a browser says which site a request comes from. No page can set it.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason why a form is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It comes from another site, or does not name its origin.
    Foreign,
    NoForm,
    /// The body is too large, or does not arrive.
    TooLarge,
}

impl Refusal {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Refusal::Foreign => StatusCode::FORBIDDEN,
            Refusal::NoForm => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Refusal::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Refusal::Foreign => "Only the page itself may send this, in a browser: a program uses kubectl\n",
            Refusal::NoForm => "The body must be a form: application/x-www-form-urlencoded\n",
            Refusal::TooLarge => "The form is too large\n",
        }
    }
}

/// Checks where a form comes from, and its type.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Refusal> {
    if !is_own(headers) {
        return Err(Refusal::Foreign);
    }
    let content_type = only(headers, CONTENT_TYPE).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(FORM) { Ok(()) } else { Err(Refusal::NoForm) }
}

/// Returns whether a page of this site sends the request. A browser that is too old for `Sec-Fetch-Site` names the
/// origin, which must be the host that is asked.
fn is_own(headers: &HeaderMap) -> bool {
    if headers.contains_key(SITE) {
        return only(headers, SITE) == Some("same-origin");
    }
    let origin = only(headers, ORIGIN).and_then(|origin| origin.strip_prefix("https://"));
    let host = only(headers, HOST).filter(|host| !host.is_empty());
    origin.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// Returns the value of a header that is there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut all = headers.get_all(name).iter();
    let value = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_forms_of_the_own_pages_are_taken() {
        let form = ("content-type", FORM);
        type Row<'r> = (&'r str, &'r [(&'r str, &'r str)], Result<(), Refusal>);
        let rows: [Row<'_>; 17] = [
            ("own", &[form, ("sec-fetch-site", "same-origin")], Ok(())),
            ("own, without referrer", &[form, ("sec-fetch-site", "same-origin"), ("origin", "null")], Ok(())),
            ("another site", &[form, ("sec-fetch-site", "cross-site")], Err(Refusal::Foreign)),
            ("a sibling", &[form, ("sec-fetch-site", "same-site")], Err(Refusal::Foreign)),
            ("typed", &[form, ("sec-fetch-site", "none")], Err(Refusal::Foreign)),
            (
                "another site that claims our origin",
                &[form, ("sec-fetch-site", "cross-site"), ("origin", "https://page:8443")],
                Err(Refusal::Foreign),
            ),
            (
                "two answers",
                &[form, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
                Err(Refusal::Foreign),
            ),
            ("an old browser", &[form, ("origin", "https://Page:8443")], Ok(())),
            ("an old browser elsewhere", &[form, ("origin", "https://evil")], Err(Refusal::Foreign)),
            ("another port", &[form, ("origin", "https://page:444")], Err(Refusal::Foreign)),
            ("in the clear", &[form, ("origin", "http://page:8443")], Err(Refusal::Foreign)),
            ("a prefix", &[form, ("origin", "https://page:8443.evil")], Err(Refusal::Foreign)),
            ("an old browser that hides it", &[form, ("origin", "null")], Err(Refusal::Foreign)),
            ("a program", &[form], Err(Refusal::Foreign)),
            (
                "with a charset",
                &[
                    ("content-type", "application/x-www-form-urlencoded; charset=UTF-8"),
                    ("sec-fetch-site", "same-origin"),
                ],
                Ok(()),
            ),
            ("text", &[("content-type", "text/plain"), ("sec-fetch-site", "same-origin")], Err(Refusal::NoForm)),
            ("no type", &[("sec-fetch-site", "same-origin")], Err(Refusal::NoForm)),
        ];
        for (what, pairs, expected) in rows {
            let mut headers = HeaderMap::from_iter([(HOST, "page:8443".parse().unwrap())]);
            for (name, value) in pairs {
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            assert_eq!(check(&headers), expected, "{what}");
        }
        let mut nowhere = HeaderMap::new();
        nowhere.insert(ORIGIN, "https://".parse().unwrap());
        nowhere.insert(HOST, "".parse().unwrap());
        assert_eq!(check(&nowhere), Err(Refusal::Foreign));
    }
}
