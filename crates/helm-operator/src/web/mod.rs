//! The page: the releases as this process knows them, for people on call. It shows each caller what their own rights
//! allow, and reads only, unless the server takes forms: then [`actions`] offers buttons, and [`submit`] sends what they
//! ask for as the caller's own patch.
//!
//! [`address`] parses the request, and [`sight`] finds what the caller may see. [`model`] describes many releases,
//! [`detail`], [`values`] and [`differences`] describe one, and [`process`] the process itself, all with the models of
//! [`inspect`](crate::inspect) and of other commands. [`html`] writes the page. The server itself, with tokens, limits
//! and headers, is [`controller::server`]'s.

pub(crate) mod actions;
pub(crate) mod address;
pub(crate) mod model;
pub(crate) mod process;

pub(crate) mod sight;

pub(crate) mod detail;
pub(crate) mod differences;
pub(crate) mod submit;
pub(crate) mod values;

pub(crate) mod html;

#[cfg(test)]
mod leaks;
#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use controller::lease::Holder;
use controller::runtime::readiness::Readiness;
use controller::server::{Form, Page, Site, Submitted, Visit};
use futures::future::{BoxFuture, FutureExt as _};
use helm_release::kube::Error;
use http::StatusCode;
use maud::Markup;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::charts::running::Running;
use actions::PageAction;
use address::{Address, View, Wanted};
use html::Frame;
use model::Caches;
use submit::Refused;

/// The response for anything that does not exist, or that the caller may not read.
const NOTHING: &str = "There is nothing here that you may read.";

/// The answer of a replica that serves no resources.
const IDLE: &str =
    "This replica serves no resources yet: another one leads, or it has just started. Ask again, or ask the other.";

/// The answer to callers who may not read the state of the process.
const UNKNOWN_PROCESS: &str = "To see the state of this process, you need the right to get the path /metrics.";

/// How many views at a time may read records or merge values, which takes memory.
const MAX_LARGE: usize = 2;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// The page of a process.
pub(crate) struct Web {
    running: Arc<Running>,
    readiness: Readiness,
    holder: Holder,
    /// The name of the pod or host.
    replica: Option<String>,
    large: Semaphore,
}

impl Web {
    /// Creates the page of these chart controllers.
    pub(crate) fn of(running: Arc<Running>, readiness: Readiness, holder: Holder, replica: Option<String>) -> Web {
        Web { running, readiness, holder, replica, large: Semaphore::new(MAX_LARGE) }
    }

    async fn page(&self, visit: Visit<'_>) -> Result<Page, Error> {
        let controllers = self.running.all();
        match Address::parse(visit.path, visit.query) {
            Address::Style => Ok(page(StatusCode::OK, "text/css; charset=utf-8", html::STYLE)),
            Address::Script => Ok(page(StatusCode::OK, "text/javascript; charset=utf-8", html::SCRIPT)),
            Address::Nothing => Ok(notice(visit, StatusCode::NOT_FOUND, NOTHING)),
            Address::Process => self.process(visit).await,
            Address::Overview(_) if controllers.is_empty() && !visit.as_json => self.idle(visit).await,
            _ if controllers.is_empty() => Ok(notice(visit, StatusCode::SERVICE_UNAVAILABLE, IDLE)),
            Address::Overview(filter) => {
                let (now, caches) = (outside::now(), self.caches());
                let listed = sight::listed(&controllers, visit.access, &filter).await?;
                let version = sight::version(&listed, caches);
                let tables = sight::tables(&listed, &filter, now);
                let overview = model::overview(filter, caches, tables);
                Ok(either(visit, &overview, || html::overview::overview(&overview, version, now)))
            }
            Address::Release(wanted, view) => self.release(visit, &wanted, view).await,
        }
    }

    fn caches(&self) -> Caches {
        if self.readiness.unmet().is_empty() { Caches::Complete } else { Caches::Filling }
    }

    async fn release(&self, visit: Visit<'_>, wanted: &Wanted, view: View) -> Result<Page, Error> {
        let Some(found) = sight::find(&self.running.all(), visit.access, wanted).await? else {
            return Ok(notice(visit, StatusCode::NOT_FOUND, NOTHING));
        };
        let now = outside::now();
        // The semaphore is never closed.
        let _permit = if view == View::Whole { None } else { self.large.acquire().await.ok() };
        match view {
            View::Whole => {
                // First, so that the page follows what changes while it is made.
                let version = detail::version(&found, visit.access).await?;
                let mut detail = detail::detail(&found, visit.access, now).await?;
                if visit.takes_forms {
                    detail = detail.with_actions(&found, visit.access).await?;
                }
                let asked = PageAction::parse(visit.query).filter(|_| visit.takes_forms);
                Ok(either(visit, &detail, || html::release::release(&detail, asked, version, now)))
            }
            View::Values(rows) => {
                let values = values::values(&found, visit.access, rows).await?;
                Ok(page(StatusCode::OK, HTML, html::values::values(&values).into_string()))
            }
            View::Differences { from, to } => {
                let differences = differences::differences(&found, visit.access, from, to).await?;
                Ok(match (&differences.found, visit.as_json) {
                    (Ok(compared), true) => page(StatusCode::OK, JSON, compared.json(to).to_string()),
                    (Err(why), true) => notice(visit, StatusCode::NOT_FOUND, why),
                    _ => page(StatusCode::OK, HTML, html::differences::differences(&differences).into_string()),
                })
            }
        }
    }

    /// Performs the action of a form on a release's page.
    async fn act(&self, visit: Visit<'_>, form: Form<'_>) -> Result<Submitted, Error> {
        let refused = |status, why: &str| Ok(Submitted::Refused(notice(visit, status, why)));
        let controllers = self.running.all();
        if controllers.is_empty() {
            return refused(StatusCode::SERVICE_UNAVAILABLE, IDLE);
        }
        let Address::Release(wanted, View::Whole) = Address::parse(visit.path, visit.query) else {
            return refused(StatusCode::NOT_FOUND, NOTHING);
        };
        let Some(found) = sight::find(&controllers, visit.access, &wanted).await? else {
            return refused(StatusCode::NOT_FOUND, NOTHING);
        };
        match submit::submit(&found, form).await {
            Ok(action) => Ok(Submitted::Done(address::after(&found.name(), action))),
            Err(Refused { status, why }) => refused(status, &why),
        }
    }

    /// Shows the state of the process to callers who may read its metrics.
    async fn process(&self, visit: Visit<'_>) -> Result<Page, Error> {
        if !visit.access.gets(process::RIGHT).await? {
            return Ok(notice(visit, StatusCode::FORBIDDEN, UNKNOWN_PROCESS));
        }
        let process = process::process(self.replica.clone(), &self.holder, &self.readiness, &self.running);
        Ok(either(visit, &process, || html::process::process(&process)))
    }

    /// Shows a replica that serves no resources: its own state, or only that it serves none.
    async fn idle(&self, visit: Visit<'_>) -> Result<Page, Error> {
        let process = match visit.access.gets(process::RIGHT).await? {
            true => Some(process::process(self.replica.clone(), &self.holder, &self.readiness, &self.running)),
            false => None,
        };
        let markup = html::process::idle(IDLE, process.as_ref(), self.generation());
        Ok(page(StatusCode::OK, HTML, markup.into_string()))
    }

    async fn digest(&self, visit: Visit<'_>) -> Result<u64, Error> {
        let controllers = self.running.all();
        match Address::parse(visit.path, visit.query) {
            Address::Overview(_) if controllers.is_empty() => Ok(self.generation()),
            Address::Overview(filter) => {
                let listed = sight::listed(&controllers, visit.access, &filter).await?;
                Ok(sight::version(&listed, self.caches()))
            }
            Address::Release(wanted, View::Whole) => match sight::find(&controllers, visit.access, &wanted).await? {
                Some(found) => detail::version(&found, visit.access).await,
                None => Ok(0),
            },
            _ => Ok(0),
        }
    }
}

impl Site for Web {
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, Error>> {
        self.page(visit).boxed()
    }

    fn submit<'s>(&'s self, visit: Visit<'s>, form: Form<'s>) -> BoxFuture<'s, Result<Submitted, Error>> {
        self.act(visit, form).boxed()
    }

    fn generation(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        let controllers = self.running.all();
        controllers.len().hash(&mut digest);
        controllers.iter().for_each(|one| one.cache.generation().hash(&mut digest));
        (self.holder.identity(), self.readiness.unmet().is_empty()).hash(&mut digest);
        digest.finish()
    }

    fn version<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<u64, Error>> {
        self.digest(visit).boxed()
    }
}

fn page(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Page {
    Page { status, content_type, body: body.into().into_bytes() }
}

/// Returns the model as JSON or HTML.
fn either(visit: Visit<'_>, model: &impl Serialize, markup: impl FnOnce() -> Markup) -> Page {
    match visit.as_json {
        // Never fails: the model's maps have strings as keys.
        true => page(StatusCode::OK, JSON, serde_json::to_string(model).unwrap_or_default()),
        false => page(StatusCode::OK, HTML, markup().into_string()),
    }
}

fn notice(visit: Visit<'_>, status: StatusCode, what: &str) -> Page {
    match visit.as_json {
        true => page(status, JSON, json!({"error": what}).to_string()),
        false => page(status, HTML, Frame::of("Releases").notice(what).into_string()),
    }
}
