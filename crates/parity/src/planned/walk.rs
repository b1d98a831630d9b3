//! Takes one chart through all changes: plans each, makes it, waits for the operator, and compares.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use go_encoding::{json, yaml};
use helm::{manifest, template};
use http::Method;
use serde_json::{Value, json};

use super::agree::{self, Agreement, Sent, States};
use super::audit::Log;
use super::serving::{Serving, resource};
use super::{Change, controllers, copy};
use crate::corpus::{Case, Chart};
use crate::operator::{outcome_of, resources, values};
use crate::plane::{NAMESPACE, Plane};
use crate::walk::RELEASE;

/// How long the operator may take for a change.
const LIMIT: Duration = Duration::from_secs(60);
/// How many objects exist before an install, and how many drift.
const FOREIGN: usize = 2;
/// The field manager of a person.
const SOMEONE: &str = "fieldManager=someone";
/// The kinds that someone creates before an install, with their collections.
const ADOPTED: [(&str, &str); 3] = [
    ("ConfigMap", "/api/v1/namespaces/ns/configmaps"),
    ("ServiceAccount", "/api/v1/namespaces/ns/serviceaccounts"),
    ("Service", "/api/v1/namespaces/ns/services"),
];

/// What became of one planned change.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) change: Change,
    pub(super) summary: String,
    /// Why the plan says that the reconcile fails.
    pub(super) failure: Option<String>,
    pub(super) agreement: Agreement,
}

/// Takes the chart through all changes. Ends early if it cannot be installed, or if something else cannot be done.
pub(super) async fn walk(
    plane: &Plane,
    binary: &Path,
    chart: &Chart,
    crds: &[Value],
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    plane.add_crds(crds).await?;
    let mut serving = Serving::new(plane, binary, &chart.folder)?;
    let log = Log::open(plane.cluster.folder().join("audit.log"))?;
    let mut journey = Journey { serving: &mut serving, chart, log, rows, managed: Vec::new() };
    let ended = tokio::select! {
        ended = journey.changes() => ended,
        never = controllers::act(plane) => match never {},
    };
    ended.with_context(|| format!("broke off; {}", serving.log()))?;
    serving.stop().await
}

struct Journey<'j, 'a> {
    serving: &'j mut Serving<'a>,
    chart: &'j Chart,
    log: Log,
    rows: &'j mut Vec<Row>,
    /// The paths of the objects that the install left.
    managed: Vec<String>,
}

impl Journey<'_, '_> {
    async fn changes(&mut self) -> anyhow::Result<()> {
        for change in Change::ALL {
            self.prepare(change).await?;
            self.change(change).await?;
            if change == Change::Adopted && self.rows.last().is_none_or(|row| row.failure.is_some()) {
                break;
            }
            self.recover(change).await?;
        }
        self.serving.start()?;
        self.serving.plane.send(Method::DELETE, &self.path(), &Value::Null).await?;
        self.until(Value::is_null).await
    }

    /// Returns to deployable values after a failure, because an operator that keeps retrying would not wait for a plan.
    async fn recover(&mut self, change: Change) -> anyhow::Result<()> {
        let is_deployed = |resource: &Value| outcome_of(resource).is_some_and(|outcome| outcome.is_done());
        if is_deployed(&self.resource().await?) {
            return Ok(());
        }
        if change >= Change::Immutable {
            self.serving.stop().await?;
            self.serving.set_watches(Change::Drift)?;
            self.serving.start()?;
        }
        let base = if change < Change::Prune { Change::Adopted } else { Change::Drift };
        self.set(&self.spec(base)?).await?;
        self.until(is_deployed).await?;
        self.log.read().map(drop)
    }

    /// Returns the resource's `spec` for a change.
    fn spec(&self, change: Change) -> anyhow::Result<Value> {
        let case: &Case = match change {
            Change::Values => self.chart.cases.last(),
            _ => self.chart.cases.first(),
        }
        .context("a chart without cases")?;
        Ok(copy::spec(change, values(case)?))
    }

    /// Prepares what a change needs besides the resource: someone else's objects and fields, watches and charts.
    async fn prepare(&mut self, change: Change) -> anyhow::Result<()> {
        match change {
            Change::Adopted => {
                self.serving.set_watches(change)?;
                self.leave_objects().await?;
                self.serving.start()?;
            }
            Change::Values | Change::Prune | Change::Hook | Change::Refused => {}
            Change::Conflict => {
                let map = json!({"metadata": {"name": "planned-foreign"}, "data": {"value": "someone's"}});
                let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps?{SOMEONE}");
                self.serving.plane.create(&maps, &map).await?;
            }
            Change::Drift => {
                self.serving.stop().await?;
                self.late()?;
                self.drift().await?;
            }
            Change::Immutable => {
                self.serving.stop().await?;
                self.serving.set_watches(change)?;
            }
            Change::Version => {
                self.serving.stop().await?;
                self.serving.copy.next_version()?;
            }
        }
        self.late().map(drop)
    }

    /// Plans a change, makes it, and compares the two.
    async fn change(&mut self, change: Change) -> anyhow::Result<()> {
        let is_live = matches!(change, Change::Drift | Change::Immutable | Change::Version);
        let spec = self.spec(change)?;
        let wanted = (!is_live).then_some(&spec);
        let plan = self.serving.plan(wanted).await?;
        let dry = self.late()?;
        let is_random = self.is_random(&spec)?;
        let again = if is_random { self.serving.plan(wanted).await? } else { plan.clone() };
        let before = self.states(&plan, &[]).await?;
        self.log.read()?;
        match is_live {
            true => self.serving.start()?,
            false => self.set(&spec).await?,
        }
        let sent = self.follow(&plan).await?;
        let after = self.states(&plan, &sent).await?;
        if change == Change::Adopted {
            self.managed = after.iter().filter(|(_, object)| object.is_some()).map(|(path, _)| path.clone()).collect();
        }
        let mut agreement = agree::writes(&plan, &sent);
        agreement.add(agree::fields(&plan, &again, &before, &after));
        if !is_random {
            agreement.differences.extend(agree::bodies(&dry, &sent));
        }
        let notice = &plan["notice"];
        let failure = (notice["fails"] == true).then(|| notice["reason"].as_str().unwrap_or_default().to_owned());
        if failure.is_some() && !agreement.differences.is_empty() {
            let why = notice["message"].as_str().unwrap_or_default();
            agreement.differences.insert(0, format!("planned to fail: {why}"));
        }
        let summary = plan["summary"].as_str().unwrap_or_default().to_owned();
        self.rows.push(Row { change, summary, failure, agreement });
        Ok(())
    }

    /// Returns dry runs since the last look at the log. Writes are those that no plan of the last change named; after a
    /// failure, they are those of further attempts.
    fn late(&mut self) -> anyhow::Result<Vec<Sent>> {
        let (dry, late): (Vec<Sent>, Vec<Sent>) = self.log.read()?.into_iter().partition(|write| write.is_dry_run);
        if let Some(row) = self.rows.last_mut().filter(|row| row.failure.is_none()) {
            row.agreement.differences.extend(agree::writes(&Value::Null, &late).differences);
        }
        Ok(dry)
    }

    /// Returns what the operator sends until the writes are the planned ones and the resource has an outcome, or too
    /// much time has passed.
    async fn follow(&mut self, plan: &Value) -> anyhow::Result<Vec<Sent>> {
        let (began, mut sent) = (Instant::now(), Vec::new());
        loop {
            sent.extend(self.log.read()?);
            let outcome = outcome_of(&self.resource().await?);
            // The log is behind what a response shows.
            sent.extend(self.log.read()?);
            let is_equal = agree::writes(plan, &sent).differences.is_empty();
            if is_equal && outcome.is_some() || !Serving::pause(began, LIMIT).await {
                return Ok(sent);
            }
        }
    }

    /// Returns the objects that a plan or the operator writes, as they are.
    async fn states(&self, plan: &Value, sent: &[Sent]) -> anyhow::Result<States> {
        let path = self.path();
        let mut paths = agree::objects(plan, &path);
        let writes: Vec<Value> =
            sent.iter().filter(|write| !write.is_dry_run).map(|write| json!({"path": write.path})).collect();
        paths.extend(agree::objects(&json!({"writes": writes}), &path));
        let mut states = States::new();
        for path in paths {
            let object = self.get(&path).await?;
            // The finalizers of others end, as far as a plan is concerned.
            let is_there = !object.is_null() && object["metadata"]["deletionTimestamp"].is_null();
            states.insert(path, is_there.then_some(object));
        }
        Ok(states)
    }

    /// Creates the resource, or changes its `spec`.
    async fn set(&self, spec: &Value) -> anyhow::Result<()> {
        let plane = self.serving.plane;
        loop {
            let mut wanted = resource(spec);
            let answer = match self.resource().await? {
                Value::Null => plane.create(&resources(0, NAMESPACE), &wanted).await,
                live => {
                    wanted["metadata"] = live["metadata"].clone();
                    plane.send(Method::PUT, &self.path(), &wanted).await
                }
            };
            match answer {
                // The operator wrote since the read, so the update conflicts: read again.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => return Ok(answer.map(drop)?),
            }
        }
    }

    async fn until(&self, holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let resource = self.resource().await?;
            if holds(&resource) {
                return Ok(());
            }
            anyhow::ensure!(Serving::pause(began, LIMIT).await, "waited in vain: {}", resource["status"]);
        }
    }

    fn path(&self) -> String {
        format!("{}/{RELEASE}", resources(0, NAMESPACE))
    }

    async fn resource(&self) -> anyhow::Result<Value> {
        self.get(&self.path()).await
    }

    /// Returns an object; null if it does not exist, or its kind is not served.
    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        match self.serving.plane.get(path).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(Value::Null),
            answer => answer.with_context(|| format!("cannot read {path}")),
        }
    }

    /// Creates some of the release's objects as another installation of Helm would have left them, but changed.
    async fn leave_objects(&self) -> anyhow::Result<()> {
        let mut left = 0;
        for mut object in self.rendered(&self.spec(Change::Adopted)?)? {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            let Some((_, path)) = ADOPTED.iter().find(|(adopted, _)| *adopted == kind) else { continue };
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let is_ours = object["metadata"]["namespace"].as_str().is_none_or(|namespace| namespace == NAMESPACE);
            let is_hook = object["metadata"]["annotations"]["helm.sh/hook"].is_string();
            if !is_ours || is_hook || left >= FOREIGN && name != "planned-adopted" {
                continue;
            }
            object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "Helm".into();
            object["metadata"]["labels"]["someone"] = "1".into();
            object["metadata"]["annotations"]["meta.helm.sh/release-name"] = RELEASE.into();
            object["metadata"]["annotations"]["meta.helm.sh/release-namespace"] = NAMESPACE.into();
            if kind == "ConfigMap" {
                object["data"]["someones"] = "1".into();
            }
            // The API server also refuses these objects to the operator.
            left += usize::from(self.serving.plane.create(&format!("{path}?{SOMEONE}"), &object).await.is_ok());
        }
        Ok(())
    }

    /// Changes some of the release's objects, and deletes one.
    async fn drift(&self) -> anyhow::Result<()> {
        let maps = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let plane = self.serving.plane;
        let data = json!({"data": {"value": "drifted"}});
        plane.send(Method::PATCH, &format!("{maps}/planned-always?{SOMEONE}"), &data).await?;
        plane.send(Method::DELETE, &format!("{maps}/planned-adopted"), &Value::Null).await?;
        let mut drifted = 0;
        for path in self.managed.iter().filter(|path| !path.contains("/planned-")) {
            let object = self.get(path).await?;
            let Some(label) = object["metadata"]["labels"].as_object().and_then(|labels| labels.keys().next()) else {
                continue;
            };
            let labels = json!({"metadata": {"labels": {label: "drifted"}}});
            drifted += usize::from(plane.send(Method::PATCH, &format!("{path}?{SOMEONE}"), &labels).await.is_ok());
            if drifted == FOREIGN {
                break;
            }
        }
        Ok(())
    }

    /// Returns the objects that the chart renders with this `spec`.
    fn rendered(&self, spec: &Value) -> anyhow::Result<Vec<Value>> {
        let text = self.render(spec)?;
        let documents = manifest::split(&text);
        Ok(documents
            .iter()
            .filter_map(|one| yaml::parse(one.as_bytes()).ok())
            .map(|one| json::to_serde(&one))
            .collect())
    }

    /// Returns whether two renders differ.
    fn is_random(&self, spec: &Value) -> anyhow::Result<bool> {
        Ok(self.render(spec)? != self.render(spec)?)
    }

    /// Renders the chart; empty if it fails.
    fn render(&self, spec: &Value) -> anyhow::Result<String> {
        let file = self.serving.copy.folder().join("values.json");
        std::fs::write(&file, spec.to_string())?;
        let options = template::Options {
            name_and_chart: vec![RELEASE.into(), self.serving.copy.chart().to_string_lossy().into_owned()],
            namespace: NAMESPACE.into(),
            values: vec![file.to_string_lossy().into_owned()],
            ..template::Options::default()
        };
        Ok(options.run().map(|output| String::from_utf8_lossy(&output.text).into_owned()).unwrap_or_default())
    }
}
