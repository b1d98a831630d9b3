//! Installs releases through custom resources: one operator process serves one kind per chart.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use go_encoding::{json, yaml};
use http::Method;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::corpus::{Case, Chart};
use crate::live::GROUP;
use crate::outcome::{Cause, Outcome};
use crate::plane::{NAMESPACE, Plane};
use crate::walk::{Installer, RELEASE};

/// Timeout of one step.
const LIMIT: Duration = Duration::from_secs(60);
/// Time after which a failed first attempt has been retried.
const RETRIED: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(30);
const LOG_LINES: usize = 10;

/// An operator process on an API server.
pub(crate) struct Operator<'a> {
    plane: &'a Plane,
    /// Kind numbers by chart name.
    numbers: BTreeMap<&'a str, usize>,
    /// Charts that fail to load, with their errors.
    broken: BTreeMap<&'a str, String>,
    binary: &'a Path,
    folder: tempfile::TempDir,
    process: Mutex<Child>,
}

/// Returns one CRD per chart.
pub(crate) fn crds(charts: usize) -> Vec<Value> {
    let crd = |number| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "metadata": {"name": format!("{}.{GROUP}", plural(number))},
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": {"kind": kind(number), "plural": plural(number), "singular": kind(number).to_lowercase()},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }],
            },
        })
    };
    (0..charts).map(crd).collect()
}

pub(crate) fn kind(number: usize) -> String {
    format!("Chart{number:04}")
}

fn plural(number: usize) -> String {
    format!("chart{number:04}s")
}

impl<'a> Operator<'a> {
    /// Starts the operator. [`crds`] must be installed.
    pub(crate) fn start(plane: &'a Plane, binary: &'a Path, charts: &'a [Chart]) -> anyhow::Result<Operator<'a>> {
        let folder = tempfile::tempdir()?;
        let watch = |(number, chart): (usize, &Chart)| json!({"group": GROUP, "version": "v1", "kind": kind(number), "chart": chart.folder});
        let broken = broken(charts);
        let served = charts.iter().enumerate().filter(|(_, chart)| !broken.contains_key(chart.name.as_str()));
        let watches: Vec<Value> = served.map(watch).collect();
        fs::write(folder.path().join("watches.yaml"), Value::from(watches).to_string())?;
        let process = Mutex::new(spawn(plane, binary, folder.path())?);
        let numbers = charts.iter().enumerate().map(|(number, chart)| (chart.name.as_str(), number)).collect();
        Ok(Operator { plane, numbers, broken, binary, folder, process })
    }

    /// Terminates the operator as Kubernetes would, and starts it again.
    pub(crate) async fn restart(&self) -> anyhow::Result<()> {
        let pid = self.process().id().context("the operator has exited")?;
        Command::new("kill").arg(pid.to_string()).status().await?;
        let began = Instant::now();
        while self.process().try_wait()?.is_none() {
            self.wait(began, "the operator to exit").await?;
        }
        *self.process() = spawn(self.plane, self.binary, self.folder.path())?;
        Ok(())
    }

    /// Creates the resource or changes its values, without waiting for the operator.
    pub(crate) async fn set(&self, chart: &Chart, case: &Case, namespace: &str) -> anyhow::Result<()> {
        let number = self.number(chart)?;
        let path = resources(number, namespace);
        let mut resource = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind(number), "spec": values(case)?,
            "metadata": {"name": RELEASE, "annotations": no_hooks()},
        });
        loop {
            let answer = match self.plane.get(&format!("{path}/{RELEASE}")).await {
                Ok(old) => {
                    resource["metadata"] = old["metadata"].clone();
                    self.plane.send(Method::PUT, &format!("{path}/{RELEASE}"), &resource).await
                }
                Err(kube::Error::Api(status)) if status.code == 404 => self.plane.create(&path, &resource).await,
                Err(error) => Err(error),
            };
            match answer {
                // The operator has written the status since the read.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                answer => return Ok(answer.map(drop)?),
            }
        }
    }

    /// Waits until the resource's conditions report an outcome.
    pub(crate) async fn outcome(&self, chart: &Chart, namespace: &str) -> anyhow::Result<Outcome> {
        let path = format!("{}/{RELEASE}", resources(self.number(chart)?, namespace));
        let began = Instant::now();
        loop {
            let resource = self.plane.get(&path).await?;
            match outcome_of(&resource) {
                // It may have rendered with outdated discovery. Helm runs discovery for each command, and so does the
                // operator's retry.
                Some(Outcome::Refused(Cause::UnservedKind, _)) if began.elapsed() < RETRIED => {}
                Some(outcome) => return Ok(outcome),
                None => {}
            }
            if self.wait(began, "a condition").await.is_err() {
                self.check_running()?;
                return Ok(Outcome::Refused(
                    Cause::Stuck,
                    format!("after {} s: {}", LIMIT.as_secs(), resource["status"]),
                ));
            }
        }
    }

    /// Returns the number of reconciles since the start by controller.
    pub(crate) async fn reconciles(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let text = self.metrics().await?;
        let mut counts = BTreeMap::new();
        for line in text.lines().filter(|line| line.starts_with("controller_runtime_reconcile_total{")) {
            let controller = line.split('"').nth(1).unwrap_or_default().to_owned();
            let count: f64 = line.rsplit(' ').next().unwrap_or_default().parse().unwrap_or_default();
            *counts.entry(controller).or_default() += count as u64;
        }
        Ok(counts)
    }

    /// Returns the name of the chart's controller in metrics.
    pub(crate) fn controller(&self, chart: &Chart) -> anyhow::Result<String> {
        Ok(format!("{}-controller", kind(self.number(chart)?).to_lowercase()))
    }

    /// Returns the log since the last start.
    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let began = Instant::now();
        let address = loop {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("bindAddress") && line.to_lowercase().contains("metrics"));
            if let Some(line) = line {
                let line: Value = serde_json::from_str(line)?;
                break line["bindAddress"].as_str().context("the log line has no metrics address")?.to_owned();
            }
            self.wait(began, "metrics").await?;
        };
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    pub(crate) async fn wait(&self, began: Instant, what: &str) -> anyhow::Result<()> {
        if began.elapsed() > LIMIT {
            bail!("waited {} s for {what}", LIMIT.as_secs());
        }
        tokio::time::sleep(POLL).await;
        Ok(())
    }

    fn number(&self, chart: &Chart) -> anyhow::Result<usize> {
        self.numbers.get(chart.name.as_str()).copied().ok_or_else(|| anyhow!("chart {} is not served", chart.name))
    }

    fn check_running(&self) -> anyhow::Result<()> {
        let Some(status) = self.process().try_wait()? else { return Ok(()) };
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        bail!("the operator exited with {status}:\n{}", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"))
    }

    fn process(&self) -> std::sync::MutexGuard<'_, Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Installer for Operator<'_> {
    fn name(&self) -> &'static str {
        "operator"
    }

    fn plane(&self) -> &Plane {
        self.plane
    }

    async fn install(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome> {
        if let Some(why) = self.broken.get(chart.name.as_str()) {
            return Ok(Outcome::refused(why));
        }
        self.set(chart, case, NAMESPACE).await?;
        self.outcome(chart, NAMESPACE).await
    }

    async fn upgrade(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome> {
        self.install(chart, case).await
    }

    /// Uninstalls the release. Removes the finalizers of a stuck resource, so that the next chart starts clean.
    async fn uninstall(&self, chart: &Chart) -> anyhow::Result<Outcome> {
        if self.broken.contains_key(chart.name.as_str()) {
            return Ok(Outcome::Done);
        }
        let path = format!("{}/{RELEASE}", resources(self.number(chart)?, NAMESPACE));
        self.plane.send(Method::DELETE, &path, &Value::Null).await?;
        let began = Instant::now();
        while let Ok(resource) = self.plane.get(&path).await {
            if self.wait(began, "an uninstall").await.is_err() {
                self.check_running()?;
                self.plane.send(Method::PATCH, &path, &json!({"metadata": {"finalizers": null}})).await?;
                return Ok(Outcome::Refused(
                    Cause::Stuck,
                    format!("after {} s: {}", LIMIT.as_secs(), resource["status"]),
                ));
            }
        }
        Ok(Outcome::Done)
    }
}

/// Returns the load errors of charts that do not load.
fn broken(charts: &[Chart]) -> BTreeMap<&str, String> {
    let why = |chart: &Chart| helm::chart::Chart::load(&chart.folder).err().map(|error| error.to_string());
    charts.iter().filter_map(|chart| Some((chart.name.as_str(), why(chart)?))).collect()
}

pub(crate) fn spawn(plane: &Plane, binary: &Path, folder: &Path) -> anyhow::Result<Child> {
    let watches = format!("--watches-file={}", folder.join("watches.yaml").display());
    let mut command = Command::new(binary);
    command.args(["run", &watches, "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=0"]);
    command.env("KUBECONFIG", plane.cluster.operator_kubeconfig_path()).env_remove("WATCH_NAMESPACE").env("TZ", "UTC");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(folder.join("log"))?).kill_on_drop(true);
    command.spawn().with_context(|| format!("cannot start {}", binary.display()))
}

pub(crate) fn resources(number: usize, namespace: &str) -> String {
    format!("/apis/{GROUP}/v1/namespaces/{namespace}/{}", plural(number))
}

fn no_hooks() -> Value {
    let annotation = |action| (format!("helm.sdk.operatorframework.io/{action}-disable-hooks"), "true".into());
    Value::Object(["install", "upgrade", "uninstall"].map(annotation).into_iter().collect())
}

/// Returns the values file as the `spec` that a user would write.
pub(crate) fn values(case: &Case) -> anyhow::Result<Value> {
    let Some(file) = &case.values else { return Ok(json!({})) };
    let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let values = yaml::parse_map(&text).map_err(|error| anyhow!("{}: {error}", file.display()))?;
    let text = json::encode(&values.into(), json::EscapeHtml::No, json::Layout::Compact)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Returns the outcome that the conditions report for the current generation, if any.
pub(crate) fn outcome_of(resource: &Value) -> Option<Outcome> {
    let generation = &resource["metadata"]["generation"];
    let conditions = resource["status"]["conditions"].as_array()?;
    let current = |kind: &str| {
        let is = |c: &&Value| c["type"] == kind && c["status"] == "True" && c["observedGeneration"] == *generation;
        conditions.iter().find(is)
    };
    if let Some(failed) = current("ReleaseFailed").or_else(|| current("Irreconcilable")) {
        let text = |field: &str| failed[field].as_str().unwrap_or_default().to_owned();
        return Some(Outcome::refused(&format!("{}: {}", text("reason"), text("message"))));
    }
    current("Deployed").map(|_| Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(conditions: &[(&str, &str, i64)]) -> Value {
        let condition = |(kind, status, generation): &(&str, &str, i64)| json!({"type": kind, "status": status, "observedGeneration": generation, "reason": "R", "message": "is invalid"});
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}})
    }

    #[test]
    fn only_conditions_of_the_current_generation_count() {
        assert_eq!(outcome_of(&json!({"metadata": {"generation": 1}})), None);
        assert_eq!(outcome_of(&resource(&[("Deployed", "True", 1)])), None);
        assert_eq!(outcome_of(&resource(&[("Deployed", "False", 2)])), None);
        assert_eq!(outcome_of(&resource(&[("Deployed", "True", 2)])), Some(Outcome::Done));
        let refused = Some(Outcome::Refused(Cause::Object, "R: is invalid".into()));
        assert_eq!(outcome_of(&resource(&[("Deployed", "True", 2), ("ReleaseFailed", "True", 2)])), refused);
        assert_eq!(outcome_of(&resource(&[("Irreconcilable", "True", 2)])), refused);
    }

    #[test]
    fn a_values_file_becomes_a_spec_with_integers_preserved() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("values.yaml");
        fs::write(&file, "a: 1000000\nb: 1.5\nc: null\nd: on\n").unwrap();
        let case = Case { name: "x".into(), values: Some(file) };
        assert_eq!(values(&case).unwrap().to_string(), r#"{"a":1000000,"b":1.5,"c":null,"d":true}"#);
        assert_eq!(values(&Case { name: "x".into(), values: None }).unwrap(), json!({}));
    }

    #[test]
    fn charts_that_do_not_load_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let chart = |name: &str, about: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("Chart.yaml"), about).unwrap();
            Chart { name: name.into(), folder: path, cases: Vec::new() }
        };
        let charts = [chart("nameless", "version: 1.0.0"), chart("whole", "apiVersion: v2\nname: a\nversion: 1.0.0")];
        let reported = broken(&charts);
        assert_eq!(reported.keys().copied().collect::<Vec<_>>(), ["nameless"]);
        assert!(reported["nameless"].contains("chart.metadata.name is required"), "{reported:?}");
    }

    #[test]
    fn every_chart_has_its_own_kind() {
        let crds = crds(2);
        assert_eq!(crds[1]["metadata"]["name"], "chart0001s.parity.example.com");
        assert_eq!(crds[1]["spec"]["names"]["kind"], "Chart0001");
        assert_eq!(resources(1, "ns"), "/apis/parity.example.com/v1/namespaces/ns/chart0001s");
        assert_eq!(no_hooks()["helm.sdk.operatorframework.io/upgrade-disable-hooks"], "true");
    }
}
