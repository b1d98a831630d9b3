//! Formats an error and its causes as one line: what was attempted, and the first cause. Leaves out the layers that
//! libraries add in between.
//!
//! kube's own messages contain whole responses in Rust's debug notation, and repeat their causes.

use std::borrow::Cow;
use std::error::Error;

use kube::client::AuthError;
use kube::core::Status;
use kube::runtime::watcher;

/// kube's reason for a response that is not a `Status`.
const NO_STATUS: &str = "Failed to parse error data";

/// Returns an error's message and those of its causes, as `a: b: c`. Leaves out a message that the text so far already
/// ends with.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut next) = (String::new(), Some(error));
    while let Some(error) = next {
        let (message, cause) = link(error);
        if !text.ends_with(&*message) {
            text = if text.is_empty() { message.into_owned() } else { format!("{text}: {message}") };
        }
        next = cause;
    }
    text
}

type Link<'a> = (Cow<'a, str>, Option<&'a (dyn Error + 'static)>);

/// Returns one error's message and its cause. The message is empty if the cause says everything.
fn link<'a>(error: &'a (dyn Error + 'static)) -> Link<'a> {
    if let Some(error) = error.downcast_ref::<kube::Error>() {
        return of_client(error);
    }
    if let Some(error) = error.downcast_ref::<watcher::Error>() {
        return of_watch(error);
    }
    match status_of(error) {
        Some(status) => (of_status(status), None),
        None => (own_part(error).into(), error.source()),
    }
}

/// Returns the API server's status, if the error is one. kube boxes it.
fn status_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    error.downcast_ref::<Status>().or_else(|| error.downcast_ref::<Box<Status>>().map(|status| &**status))
}

/// Returns an error's message without its cause's, if it ends with that.
fn own_part(error: &(dyn Error + 'static)) -> String {
    let (mut text, Some(cause)) = (error.to_string(), error.source()) else { return error.to_string() };
    let repeated = match status_of(cause) {
        Some(status) => kube::Error::Api(status.clone().boxed()).to_string(),
        None => cause.to_string(),
    };
    let own = text.strip_suffix(&*repeated).map(|own| own.strip_suffix(": ").unwrap_or(own));
    if let Some(length) = own.filter(|own| !own.ends_with(' ')).map(str::len) {
        text.truncate(length);
    }
    text
}

fn of_client(error: &kube::Error) -> Link<'_> {
    match error {
        kube::Error::Api(status) => (of_status(status), None),
        kube::Error::Service(lost) => (root(&**lost).into(), None),
        kube::Error::HyperError(lost) => (root(lost).into(), None),
        other => (other.source().map_or_else(|| other.to_string(), |_| String::new()).into(), other.source()),
    }
}

fn of_watch(error: &watcher::Error) -> Link<'_> {
    match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => (Cow::default(), Some(cause)),
        watcher::Error::WatchError(status) => (of_status(status), None),
        other => (other.to_string().into(), None),
    }
}

/// Returns the server's message. A response that is not a `Status` comes from the server's router or from a proxy.
fn of_status(status: &Status) -> Cow<'_, str> {
    let first = status.message.lines().next().unwrap_or_default().trim();
    match (&*status.reason, status.code, first) {
        (NO_STATUS, 404, _) => {
            "the server does not serve this path (404): install the definition of its kind; nothing needs a restart"
                .into()
        }
        (NO_STATUS, code, text) if !text.is_empty() => format!("the server answers {code}: {text}").into(),
        (_, code, "") => format!("the server answers {code} {}", status.reason).trim_end().to_owned().into(),
        _ => status.message.trim().into(),
    }
}

/// Returns the first cause of a lost request, without the layers of the connection.
fn root(error: &(dyn Error + 'static)) -> String {
    let mut first = error;
    while let Some(cause) = first.source() {
        first = cause;
    }
    if first.is::<tokio::time::error::Elapsed>() {
        return "no answer in time".to_owned();
    }
    match first.downcast_ref::<AuthError>() {
        // kube's message contains everything that the command printed, in Rust's debug notation.
        Some(AuthError::AuthExecRun { cmd, out }) => {
            format!("the command {cmd:?} for credentials failed: {}", out.status)
        }
        _ => first.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn an_error_chain_names_each_cause_once() {
        let check = |texts: [&'static str; 3], expected: &str| {
            let [a, b, c] = texts;
            let error = Layer(a, Some(Box::new(Layer(b, Some(Box::new(Layer(c, None)))))));
            assert_eq!(chain(&error), expected);
        };
        check(["cannot install", "cannot apply", "refused"], "cannot install: cannot apply: refused");
        check(["cannot install", "cannot apply: refused", "refused"], "cannot install: cannot apply: refused");
    }

    fn status(code: u16, reason: &str, message: &str) -> Box<Status> {
        Box::new(Status::failure(message, reason).with_code(code))
    }

    #[test]
    fn responses_are_shown_by_their_message_and_never_in_rusts_notation() {
        let forbidden = || status(403, "Forbidden", "shops is forbidden: User \"a\" cannot list resource \"shops\"");
        let said = "shops is forbidden: User \"a\" cannot list resource \"shops\"";
        let refused: [(Box<dyn Error>, &str); 9] = [
            (Box::new(kube::Error::Api(forbidden())), said),
            (Box::new(watcher::Error::InitialListFailed(kube::Error::Api(forbidden()))), said),
            (Box::new(watcher::Error::WatchStartFailed(kube::Error::Api(forbidden()))), said),
            (Box::new(watcher::Error::WatchFailed(kube::Error::Api(forbidden()))), said),
            (Box::new(watcher::Error::WatchError(forbidden())), said),
            (Box::new(kube::Error::Api(status(401, "Unauthorized", "Unauthorized"))), "Unauthorized"),
            (
                Box::new(kube::Error::Api(status(404, NO_STATUS, "404 page not found\n"))),
                "the server does not serve this path (404): install the definition of its kind; nothing needs a restart",
            ),
            (Box::new(kube::Error::Api(status(502, NO_STATUS, "<html>\n<body>"))), "the server answers 502: <html>"),
            (Box::new(kube::Error::Api(status(500, "", ""))), "the server answers 500"),
        ];
        for (error, expected) in refused {
            assert_eq!(chain(&*error), expected);
        }
    }

    #[derive(Debug, thiserror::Error)]
    enum Own {
        #[error("cannot list: {0}")]
        Lost(#[source] kube::Error),
        #[error(transparent)]
        Plain(kube::Error),
    }

    #[test]
    fn errors_of_programs_that_repeat_kubes_are_shown_in_words_too() {
        let refused = || kube::Error::Api(status(403, "Forbidden", "pods is forbidden"));
        assert_eq!(chain(&Own::Lost(refused())), "cannot list: pods is forbidden");
        assert_eq!(chain(&Own::Plain(refused())), "pods is forbidden");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connecting(#[source] io::Error);

    #[tokio::test(start_paused = true)]
    async fn a_lost_request_is_shown_by_its_first_cause() {
        let refused = Connecting(io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused"));
        let lost = kube::Error::Service(Box::new(refused));
        let error = crate::Error::Transport(Box::new(lost));
        assert_eq!(chain(&error), "cannot reach the API server: Connection refused");
        let late = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(chain(&kube::Error::Service(Box::new(late))), "no answer in time");
    }
}
