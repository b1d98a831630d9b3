//! The page: the releases as this process knows them, for people on call. It reads only, and shows each caller what their
//! own rights allow.
//!
//! [`address`] reads what is asked, [`sight`] finds what the caller may see, [`model`] and
//! [`inspect`](crate::inspect) say what that is, [`html`] writes it. The server itself, with tokens, limits and
//! headers, is [`controller::server`]'s.

pub(crate) mod address;
pub(crate) mod model;

pub(crate) mod sight;

pub(crate) mod html;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use controller::runtime::readiness::Readiness;
use controller::server::{Page, Site, Visit};
use futures::future::{BoxFuture, FutureExt as _};
use helm_release::kube::Error;
use http::StatusCode;
use maud::Markup;
use serde::Serialize;
use serde_json::json;

use crate::charts::running::Running;
use address::Address;

/// The answer for anything that does not exist or that the caller may not read.
const NOTHING: &str = "There is nothing here that you may read.";

/// The answer of a replica that serves no resources.
const IDLE: &str =
    "This replica serves no resources yet: another one leads, or it has just started. Ask again, or ask the other.";

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The page of a process.
pub(crate) struct Web {
    running: Arc<Running>,
    readiness: Readiness,
}

impl Web {
    /// Creates the page of these chart controllers.
    pub(crate) fn of(running: Arc<Running>, readiness: Readiness) -> Web {
        Web { running, readiness }
    }

    async fn page(&self, visit: Visit<'_>) -> Result<Page, Error> {
        let (now, controllers) = (outside::now(), self.running.all());
        match Address::parse(visit.path, visit.query) {
            Address::Style => Ok(page(StatusCode::OK, "text/css; charset=utf-8", html::STYLE)),
            Address::Nothing => Ok(told(visit, StatusCode::NOT_FOUND, NOTHING)),
            _ if controllers.is_empty() => Ok(told(visit, StatusCode::SERVICE_UNAVAILABLE, IDLE)),
            Address::Overview(filter) => {
                let tables = sight::tables(&controllers, visit.rights, &filter, now).await?;
                let overview = model::overview(filter, self.readiness.unmet().is_empty(), tables);
                Ok(either(visit, &overview, || html::overview(&overview, now)))
            }
            Address::Release(wanted) => match sight::release(&controllers, visit.rights, &wanted, now).await? {
                Some(release) => Ok(either(visit, &release, || html::release(&release, now))),
                None => Ok(told(visit, StatusCode::NOT_FOUND, NOTHING)),
            },
        }
    }
}

impl Site for Web {
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, Error>> {
        self.page(visit).boxed()
    }
}

fn page(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Page {
    Page { status, content_type, body: body.into().into_bytes() }
}

/// Returns the model as JSON or HTML.
fn either(visit: Visit<'_>, model: &impl Serialize, markup: impl FnOnce() -> Markup) -> Page {
    match visit.as_json {
        // The model has no map with keys other than text.
        true => page(StatusCode::OK, JSON, serde_json::to_string(model).unwrap_or_default()),
        false => page(StatusCode::OK, HTML, markup().into_string()),
    }
}

fn told(visit: Visit<'_>, status: StatusCode, what: &str) -> Page {
    match visit.as_json {
        true => page(status, JSON, json!({"error": what}).to_string()),
        false => page(status, HTML, html::notice(what).into_string()),
    }
}
