//! Waits until the API server answers before anything else is tried, so that a single message explains why it does not
//! answer and what to check.

use std::time::Duration;

use outside::{Api, Call, Error};
use serde::de::IgnoredAny;
use tokio::time::{sleep, timeout};

use crate::report::chain;
use crate::runtime::backoff;
use crate::runtime::readiness::Requirement;

/// How long the server may take to return its version.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(5);

/// The reason why the API server cannot be used, and what to check.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    why: String,
    check: &'static str,
}

/// Waits until the server answers. Logs each reason why it does not, once. `server` is its address; empty if unknown.
pub(super) async fn reach(api: &dyn Api, server: &str, requirement: &Requirement) {
    let mut last = String::new();
    for attempt in 1.. {
        let answer = timeout(LIMIT, api.send(Call::get("/version"))).await;
        let answer = answer.ok().map(|answer| answer.and_then(|answer| answer.parse::<IgnoredAny>()).err());
        let Some(Trouble { why, check }) = trouble(answer) else { break };
        let text = format!("{why}; {check}");
        if last != text {
            tracing::error!(server, error = why, check, "Cannot use the API server: trying again");
            requirement.fails(&format!("{}{text}", place(server)));
            last = text;
        }
        sleep(backoff::wait(attempt).min(LONGEST)).await;
    }
    if !last.is_empty() {
        tracing::info!(server, "The API server answers");
    }
    requirement.meet();
}

fn place(server: &str) -> String {
    if server.is_empty() { String::new() } else { format!("{server}: ") }
}

/// Returns what is wrong, if anything is; `None` as an argument means no answer in time. A server that refuses to
/// return its version counts as reachable.
fn trouble(answer: Option<Option<Error>>) -> Option<Trouble> {
    let error = match answer {
        None => return Some(Trouble { why: format!("no answer within {} s", LIMIT.as_secs()), check: ADDRESS }),
        Some(error) => error?,
    };
    let why = chain(&error);
    let check = match &error {
        Error::Refused { code: 401, .. } => CREDENTIALS,
        Error::Refused { code: 400, .. } if why.contains("HTTP request to an HTTPS server") => PLAIN,
        Error::Refused { code: 429 | 500.., .. } | Error::TimedOut { .. } => STARTING,
        Error::Refused { code, .. } if why.trim_start().starts_with('<') => return Some(stranger(Some(*code))),
        Error::Json(_) => return Some(stranger(None)),
        Error::Transport(_) => return Some(unconnected(&why)),
        _ => return None,
    };
    Some(Trouble { why, check })
}

/// Describes an answer from a web server or a proxy. Its page is not worth logging.
fn stranger(code: Option<u16>) -> Trouble {
    let code = code.map(|code| format!(" with status {code}")).unwrap_or_default();
    Trouble { why: format!("the answer{code} is not from a Kubernetes API server"), check: STRANGER }
}

/// Describes a failed connection. Neither rustls nor the system has types for the cause here, so it is found in the
/// text.
fn unconnected(why: &str) -> Trouble {
    let known = [
        ("certificate expired", EXPIRED),
        ("certificate not valid yet", EXPIRED),
        ("certificate not valid for name", NAME),
        ("invalid peer certificate", AUTHORITY),
        ("InvalidContentType", NO_TLS),
        ("fatal alert", OWN_CERTIFICATE),
        ("certificate", CERTIFICATES),
        ("InvalidMessage", CERTIFICATES),
        ("corrupt message", CERTIFICATES),
    ];
    let check = known.iter().find(|(word, _)| why.contains(word)).map_or(ADDRESS, |(_, check)| *check);
    // The rest counts seconds, so each attempt would be logged as another reason.
    let why = why.split_once(": verification time").map_or(why, |(why, _)| why);
    Trouble { why: why.to_owned(), check }
}

const ADDRESS: &str = "check that the cluster runs, and the server's address in the kubeconfig";
const CREDENTIALS: &str =
    "check the token or client certificate in the kubeconfig, or the pod's service account: it is wrong or has expired";
const PLAIN: &str = "the server's address in the kubeconfig begins with http://: write https://";
const NO_TLS: &str = "the server does not speak TLS: check the scheme and the port of its address in the kubeconfig";
const STRANGER: &str = "check the server's address in the kubeconfig: its host, port and path, and any proxy";
const EXPIRED: &str = "renew the API server's certificate, or correct this machine's clock";
const NAME: &str =
    "write a server address into the kubeconfig that the certificate is valid for, or set tls-server-name";
const AUTHORITY: &str = "check certificate-authority-data and the server's address in the kubeconfig: that authority did not sign the server's certificate";
const OWN_CERTIFICATE: &str =
    "the server refuses the client's certificate: check client-certificate-data and client-key-data in the kubeconfig";
const CERTIFICATES: &str =
    "check certificate-authority-data, client-certificate-data and the server's address in the kubeconfig";
const STARTING: &str = "the API server is starting, or overloaded";

#[cfg(test)]
mod tests {
    use std::io;

    use outside::{Disturbance, MemoryApi};

    use super::*;
    use crate::runtime::readiness::Readiness;

    fn lost(why: &str) -> Option<Option<Error>> {
        Some(Some(Error::Transport(io::Error::other(why.to_owned()).into())))
    }

    fn refused(code: u16, reason: &str) -> Option<Option<Error>> {
        Some(Some(Error::from_status(code, reason, reason)))
    }

    #[test]
    fn every_trouble_names_its_cause_and_what_to_check() {
        let check = |answer, expected: Option<(&str, &'static str)>| {
            let expected = expected.map(|(why, check)| Trouble { why: why.to_owned(), check });
            assert_eq!(trouble(answer), expected);
        };
        let unreachable = "cannot reach the API server: Connection refused (os error 111)";
        check(lost("Connection refused (os error 111)"), Some((unreachable, ADDRESS)));
        check(None, Some(("no answer within 10 s", ADDRESS)));
        check(refused(401, "Unauthorized"), Some(("Unauthorized", CREDENTIALS)));
        let check_tls = |cause: &str, shown: &str, expected| {
            check(lost(cause), Some((&*format!("cannot reach the API server: {shown}"), expected)));
        };
        let is = "invalid peer certificate";
        check_tls(&format!("{is}: UnknownIssuer"), &format!("{is}: UnknownIssuer"), AUTHORITY);
        for seconds in [5, 6] {
            let expired = format!(
                "{is}: certificate expired: verification time {seconds} (UNIX), but certificate is not valid after 3 ({seconds} seconds ago)"
            );
            check_tls(&expired, &format!("{is}: certificate expired"), EXPIRED);
        }
        let name = format!(
            "{is}: certificate not valid for name \"10.0.0.1\"; certificate is only valid for DnsName(\"here\")"
        );
        check_tls(&name, &name, NAME);
        let plain = "received corrupt message of type InvalidContentType";
        check_tls(plain, plain, NO_TLS);
        check_tls(
            "received fatal alert: CertificateExpired",
            "received fatal alert: CertificateExpired",
            OWN_CERTIFICATE,
        );
        let http = "Client sent an HTTP request to an HTTPS server.";
        check(refused(400, http), Some((http, PLAIN)));
        let page = "the answer with status 404 is not from a Kubernetes API server";
        check(refused(404, "<!DOCTYPE HTML>\n<html>"), Some((page, STRANGER)));
        let page = "the answer is not from a Kubernetes API server";
        let json = serde_json::from_str::<IgnoredAny>("<html>").unwrap_err();
        check(Some(Some(Error::Json(json))), Some((page, STRANGER)));
        check(refused(503, "ServiceUnavailable"), Some(("ServiceUnavailable", STARTING)));
        check(refused(403, "Forbidden"), None);
        check(refused(404, "NotFound"), None);
        check(Some(None), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_comes_late_is_found_and_meanwhile_the_reason_stands() {
        let (server, readiness) = (MemoryApi::new(), Readiness::default());
        server.disturb("/version", 3, Disturbance::Refused(503));
        let requirement = readiness.require("API server", "has not answered yet");
        let unready = timeout(Duration::from_secs(1), reach(&server, "https://here:6443", &requirement)).await;
        assert!(unready.is_err());
        let [line] = &readiness.unmet()[..] else { panic!("{:?}", readiness.unmet()) };
        assert!(line.starts_with("API server: https://here:6443: ") && line.ends_with(STARTING), "{line}");
        reach(&server, "https://here:6443", &requirement).await;
        assert!(readiness.unmet().is_empty());
    }
}
