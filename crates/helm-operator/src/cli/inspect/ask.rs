//! Finds the resource that a person means, reads it, and renders the answer.

use std::io;
use std::sync::Arc;

use controller::report::chain;
use helm_release::kube::{Api, Resource};
use helm_release::storage::Home;
use serde::Serialize;
use serde_json::Value;

use super::read::Reader;
use super::records::Records;
use super::{Answer, Get, Output, Target};
use crate::inspect::build::{build, plan_name};
use crate::inspect::model::State;
use crate::inspect::revisions::{Revision, revisions};
use crate::inspect::{overview, text};
use crate::mask::Mask;
use crate::plan;
use crate::plan::account::Account;
use crate::plan::diff::Colour;
use crate::plan::text::Style;
use crate::view::primary::Received;
use crate::watches::{self, Watch};
use outside::group_of;

/// The maximum number of revisions between two compared ones that are read.
const MAX_ACCOUNTS: usize = 10;

/// A person's question, and the connection that answers it.
pub(super) struct Asked {
    reader: Reader,
    namespace: String,
    is_namespace_given: bool,
    output: Output,
    /// The entries of the watches file, or why there are none.
    watches: Result<Vec<Watch>, String>,
}

impl Asked {
    /// Prepares a question to this API server.
    ///
    /// # Errors
    /// The watches file exists, but is invalid.
    pub(super) fn new(api: Arc<dyn Api>, namespace: String, target: &Target) -> Result<Asked, String> {
        let file = &target.watches_file;
        let watches = match file.exists() {
            true => Ok(watches::load(file).map_err(|error| chain(&error))?),
            false => Err(format!("there is no {}, which would name the kinds", file.display())),
        };
        let (is_namespace_given, output) = (target.namespace.is_some(), target.output);
        Ok(Asked { reader: Reader::new(api), namespace, is_namespace_given, output, watches })
    }

    pub(super) async fn status(&self, what: &[String]) -> Result<Answer, String> {
        if what.is_empty() {
            return self.kinds().await;
        }
        let (_, resource) = self.find(what).await?;
        let records = self.records(&resource)?;
        let seen = self.reader.release(resource, &records).await;
        let mut release = build(&seen, outside::now());
        if let Some(cause) = &mut release.cause
            && let Some(container) = &cause.container
        {
            cause.log = self.reader.log(container).await;
        }
        let is_ready = release.state == State::Ready;
        self.answer(&release, is_ready, || text::release(&release, outside::now()))
    }

    pub(super) async fn get(&self, asked: &Get) -> Result<Answer, String> {
        let kind = self.kind(&asked.kind).await?;
        let namespace = if asked.all_namespaces { "" } else { &*self.namespace };
        let all = self.reader.resources(&kind, namespace).await.map_err(|error| chain(&error))?;
        let mut lines: Vec<_> = all.into_iter().map(|one| overview::line(one, outside::now())).collect();
        overview::sort(&mut lines);
        let is_ready = lines.iter().all(|line| line.state == State::Ready);
        self.answer(&lines, is_ready, || text::lines(&lines))
    }

    pub(super) async fn history(&self, what: &[String], max: usize) -> Result<Answer, String> {
        let (_, resource) = self.find(what).await?;
        let records = self.records(&resource)?;
        let all = match records.revisions(&*self.reader.api, max).await {
            Ok(seen) => revisions(&seen),
            // People who may not read Secrets can still read the status.
            Err(error) if error.is_forbidden() => revisions_in_status(&resource),
            Err(error) => return Err(chain(&error)),
        };
        self.answer(&all, true, || text::revisions(&all))
    }

    /// Answers `history --diff`.
    pub(super) async fn differences(&self, what: &[String], [from, to]: [u32; 2]) -> Result<Answer, String> {
        let (_, resource) = self.find(what).await?;
        let records = self.records(&resource)?;
        let before = match from {
            0 => None,
            _ => Some(records.read(from).await.map_err(|error| chain(&error))?.0),
        };
        let (after, did) = records.read(to).await.map_err(|error| chain(&error))?;
        let mut accounts = self.accounts_between(&records, from, to).await?;
        accounts.extend(did.map(|did| (to, did)));
        let name = plan_name(&resource.primary);
        let (plan, mask) = plan::revisions::between(name, before.as_ref(), Some(&after));
        let text = match self.output {
            Output::Json => {
                let mut json = plan::json::json(&plan, &mask);
                json["applied"] = accounts.iter().map(|(revision, did)| applied(*revision, did, &mask)).collect();
                format!("{json:#}\n")
            }
            Output::Text => {
                let style = Style { colour: Colour::of(&io::stdout()), max_lines: None };
                let applied = accounts.iter().map(|(revision, did)| text::account(*revision, did, &mask));
                plan::text::text(&plan, &mask, style) + &applied.collect::<String>()
            }
        };
        Ok(Answer { text, is_ready: true })
    }

    /// Returns the recorded effects of the last revisions between two others.
    async fn accounts_between(&self, records: &Records, from: u32, to: u32) -> Result<Vec<(u32, Account)>, String> {
        if from.saturating_add(1) >= to {
            return Ok(Vec::new());
        }
        let all = records.list(&*self.reader.api).await.map_err(|error| chain(&error))?;
        let between: Vec<u32> = all.iter().map(|one| one.version).filter(|one| (from + 1..to).contains(one)).collect();
        let mut accounts = Vec::new();
        for version in &between[between.len().saturating_sub(MAX_ACCOUNTS)..] {
            // An unreadable record counts as one without an account.
            if let Ok((_, Some(did))) = records.read(*version).await {
                accounts.push((*version, did));
            }
        }
        Ok(accounts)
    }

    /// Answers `status` without a resource.
    async fn kinds(&self) -> Result<Answer, String> {
        let watches = self.watches.as_ref().map_err(|why| format!("name a resource: {why}"))?;
        let namespace = if self.is_namespace_given { &*self.namespace } else { "" };
        let mut kinds: Vec<overview::KindSummary> = Vec::new();
        for watch in watches {
            // Versions of one kind show the same resources.
            if kinds.iter().any(|known| known.group == watch.group && known.kind == watch.kind) {
                continue;
            }
            kinds.push(self.summary(watch, namespace).await);
        }
        let is_ready = kinds.iter().all(|kind| kind.error.is_empty() && kind.ready == kind.total);
        self.answer(&kinds, is_ready, || text::kinds(&kinds))
    }

    async fn summary(&self, watch: &Watch, namespace: &str) -> overview::KindSummary {
        let read = async {
            let kind = self.reader.mapper.any_version(&api_version(watch), &watch.kind).await?;
            self.reader.resources(&kind, namespace).await
        };
        let name = (watch.group.as_str(), watch.kind.as_str());
        match read.await {
            Ok(all) => overview::kind(name, all.into_iter().map(|one| overview::line(one, outside::now())).collect()),
            Err(error) => overview::KindSummary { error: chain(&error), ..overview::kind(name, Vec::new()) },
        }
    }

    fn answer<T: Serialize>(&self, model: &T, is_ready: bool, text: impl FnOnce() -> String) -> Result<Answer, String> {
        let text = match self.output {
            Output::Text => text(),
            Output::Json => serde_json::to_string_pretty(model).map_err(|error| error.to_string())? + "\n",
        };
        Ok(Answer { text, is_ready })
    }

    /// Finds a resource by `NAME`, `KIND NAME` or `KIND/NAME`.
    async fn find(&self, what: &[String]) -> Result<(Arc<Resource>, Received), String> {
        let (kinds, name) = match what {
            [kind, name] => (vec![self.kind(kind).await?], name.as_str()),
            [one] => match one.split_once('/') {
                Some((kind, name)) => (vec![self.kind(kind).await?], name),
                None => (self.watched().await?, one.as_str()),
            },
            _ => return Err("name one resource".to_owned()),
        };
        let mut found = Vec::new();
        for kind in &kinds {
            let read = self.reader.resource(kind, &self.namespace, name).await.map_err(|error| chain(&error))?;
            found.extend(read.map(|resource| (kind.clone(), resource)));
        }
        let names = |kinds: &mut dyn Iterator<Item = &Arc<Resource>>| {
            kinds.map(|kind| kind.kind.to_string()).collect::<Vec<_>>().join(", ")
        };
        match found.len() {
            0 => Err(format!("there is no {} {name:?} in namespace {:?}", names(&mut kinds.iter()), self.namespace)),
            1 => Ok(found.swap_remove(0)),
            _ => Err(format!(
                "name the kind: {name:?} is one of each: {}",
                names(&mut found.iter().map(|(kind, _)| kind))
            )),
        }
    }

    /// Returns the kind that a word means. Kinds of watches.yaml take precedence.
    async fn kind(&self, word: &str) -> Result<Arc<Resource>, String> {
        let mut all = self.reader.mapper.named(word).await.map_err(|error| chain(&error))?;
        let is_watched = |kind: &Arc<Resource>| {
            let mut watches = self.watches.iter().flatten();
            watches.any(|watch| watch.group == kind.group() && watch.kind == *kind.kind)
        };
        if all.len() > 1 && all.iter().any(&is_watched) {
            all.retain(is_watched);
        }
        match all.len() {
            0 => Err(format!("the server serves no kind {word:?}")),
            1 => Ok(all.swap_remove(0)),
            _ => {
                let names: Vec<String> = all.iter().map(|kind| kind.full_name()).collect();
                Err(format!("{word:?} may be any of {}: name one of these", names.join(", ")))
            }
        }
    }

    async fn watched(&self) -> Result<Vec<Arc<Resource>>, String> {
        let watches = self.watches.as_ref().map_err(|why| format!("name the kind: {why}"))?;
        let mut kinds: Vec<Arc<Resource>> = Vec::new();
        for watch in watches {
            let kind = self.reader.mapper.any_version(&api_version(watch), &watch.kind).await;
            let kind = kind.map_err(|error| chain(&error))?;
            if !kinds.iter().any(|known| known.group() == kind.group() && known.kind == kind.kind) {
                kinds.push(kind);
            }
        }
        Ok(kinds)
    }

    /// Returns where a resource's release is recorded according to its watch.
    fn records(&self, resource: &Received) -> Result<Records, String> {
        let primary = &resource.primary;
        let group = group_of(&primary.api_version);
        let mut watches = self.watches.iter().flatten();
        let watch = watches.find(|watch| watch.group == group && watch.kind == *primary.kind);
        let release = match primary.namespace() {
            "" => watch.and_then(|watch| watch.release_namespace.as_deref()).unwrap_or(&self.namespace),
            own => own,
        };
        let home = watch.map_or_else(Home::default, |watch| watch.home(&self.namespace));
        Records::new(&self.reader.api, home, release, primary.name()).ok_or_else(|| "no key".to_owned())
    }
}

fn applied(revision: u32, did: &Account, mask: &Mask) -> Value {
    let mut json = did.json(mask);
    json["revision"] = revision.into();
    json
}

fn api_version(watch: &Watch) -> String {
    if watch.group.is_empty() { watch.version.clone() } else { format!("{}/{}", watch.group, watch.version) }
}

/// Returns the revisions that the status names, for those who may not read the records.
fn revisions_in_status(resource: &Received) -> Vec<Revision> {
    let history = resource.primary.status.history.iter();
    let of = |entry: &crate::status::history::HistoryEntry| Revision {
        revision: entry.revision,
        updated: entry.updated,
        status: entry.outcome.to_string(),
        chart: entry.chart.to_string(),
        app_version: String::new(),
        description: "from the status; the record may not be read".to_owned(),
        did: String::new(),
        cause: entry.cause_or_action(),
    };
    history.map(of).collect()
}
