//! Waits until the API server answers at all, before anything else is tried: one place says why it does not, and what to check.

use std::time::Duration;

use helm_release::kube::{Api, Call, Error};
use tokio::time::{sleep, timeout};

use crate::report::chain;
use crate::runtime::backoff;
use crate::runtime::readiness::Requirement;

/// How long the server may take to tell its version.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest pause between two attempts.
const LONGEST: Duration = Duration::from_secs(5);

/// Why the API server cannot be used, and what to check.
#[derive(Debug, PartialEq, Eq)]
struct Trouble {
    why: String,
    check: &'static str,
}

/// Returns once the server answers. Logs each reason why it does not, once. `server` is its address, empty if unknown.
pub(super) async fn reach(api: &dyn Api, server: &str, requirement: &Requirement) {
    let mut last = String::new();
    for attempt in 1.. {
        let answer = timeout(LIMIT, api.send(Call::get("/version"))).await;
        let Some(Trouble { why, check }) = trouble(answer.ok().map(Result::err)) else { break };
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

/// What is wrong, if anything is. `None`: no answer in time. A server that refuses to tell its version is there.
fn trouble(answer: Option<Option<Error>>) -> Option<Trouble> {
    let error = match answer {
        None => return Some(Trouble { why: format!("no answer within {} s", LIMIT.as_secs()), check: ADDRESS }),
        Some(error) => error?,
    };
    let why = chain(&error);
    let check = match &error {
        Error::Refused { code: 401, .. } => CREDENTIALS,
        Error::Transport(_) if is_about_certificates(&why) => CERTIFICATES,
        Error::Transport(_) => ADDRESS,
        Error::Refused { code: 429 | 500.., .. } | Error::TimedOut { .. } => STARTING,
        _ => return None,
    };
    Some(Trouble { why, check })
}

const ADDRESS: &str = "check that the cluster runs, and the server's address in the kubeconfig";
const CREDENTIALS: &str =
    "check the token or client certificate in the kubeconfig, or the pod's service account: it is wrong or has expired";
const CERTIFICATES: &str =
    "check certificate-authority-data, client-certificate-data and the server's address in the kubeconfig";
const STARTING: &str = "the API server is starting, or overloaded";

/// Whether the connection was refused by either side's certificate. rustls and the system have no type for it here.
fn is_about_certificates(why: &str) -> bool {
    ["certificate", "AlertReceived", "fatal alert", "InvalidMessage", "corrupt message"]
        .iter()
        .any(|word| why.contains(word))
}

#[cfg(test)]
mod tests {
    use std::io;

    use helm_release::kube::{Disturbance, MemoryApi};

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
        let untrusted = "cannot reach the API server: invalid peer certificate: UnknownIssuer";
        check(lost("invalid peer certificate: UnknownIssuer"), Some((untrusted, CERTIFICATES)));
        let plain = "cannot reach the API server: received corrupt message of type InvalidContentType";
        check(lost("received corrupt message of type InvalidContentType"), Some((plain, CERTIFICATES)));
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
