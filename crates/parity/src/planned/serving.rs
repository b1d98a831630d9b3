//! The operator's process for one chart, and its plans.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::Change;
use super::copy::{self, Copy};
use crate::live::GROUP;
use crate::operator::{kind, spawn};
use crate::plane::{NAMESPACE, Plane};
use crate::walk::RELEASE;

/// How long an exit or a plan may take.
const LIMIT: Duration = Duration::from_secs(120);

/// An operator that serves a copy of a chart.
pub(super) struct Serving<'a> {
    pub(super) plane: &'a Plane,
    pub(super) copy: Copy,
    binary: &'a Path,
    process: Option<Child>,
}

impl<'a> Serving<'a> {
    /// Copies the chart. Nothing runs yet.
    pub(super) fn new(plane: &'a Plane, binary: &'a Path, chart: &Path) -> anyhow::Result<Serving<'a>> {
        Ok(Serving { plane, copy: Copy::of(chart)?, binary, process: None })
    }

    pub(super) fn set_watches(&self, change: Change) -> anyhow::Result<()> {
        let watch = copy::watch(change, GROUP, &kind(0), &self.copy.chart());
        Ok(fs::write(self.copy.folder().join("watches.yaml"), json!([watch]).to_string())?)
    }

    /// Starts the operator, unless it runs.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        if self.process.is_none() {
            self.process = Some(spawn(self.plane, self.binary, self.copy.folder())?);
        }
        Ok(())
    }

    /// Ends the operator as Kubernetes would.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut process) = self.process.take() else { return Ok(()) };
        let Some(pid) = process.id() else { bail!("the operator has exited: {}", self.log()) };
        Command::new("kill").arg(pid.to_string()).status().await?;
        tokio::time::timeout(LIMIT, process.wait()).await.context("the operator does not exit")??;
        Ok(())
    }

    /// Plans the resource with this `spec`, or as it is. Like the operator, the plan knows the objects of all namespaces.
    pub(super) async fn plan(&self, spec: Option<&Value>) -> anyhow::Result<Value> {
        let mut command = Command::new(self.binary);
        command.current_dir(self.copy.folder()).args(["diff", "-o", "json", "-A", "-n", NAMESPACE, "--kubeconfig"]);
        command.arg(self.plane.cluster.operator_kubeconfig_path()).args(["--watches-file", "watches.yaml"]);
        match spec {
            Some(spec) => {
                fs::write(self.copy.folder().join("resource.yaml"), resource(spec).to_string())?;
                command.args(["-f", "resource.yaml"]);
            }
            None => _ = command.args([&kind(0), RELEASE]),
        }
        let output = command.env("TZ", "UTC").stdin(Stdio::null()).kill_on_drop(true).output();
        let output = tokio::time::timeout(LIMIT, output).await.context("no plan in time")??;
        let plans: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("no plan: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
        Ok(plans[0].clone())
    }

    /// Returns the end of the operator's log.
    pub(super) fn log(&self) -> String {
        let log = fs::read_to_string(self.copy.folder().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(3)..].join("\n")
    }

    /// Waits a moment; fails after the limit.
    pub(super) async fn pause(began: Instant, limit: Duration) -> bool {
        tokio::time::sleep(Duration::from_millis(50)).await;
        began.elapsed() < limit
    }
}

/// Returns the resource as a person would write it.
pub(super) fn resource(spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind(0), "spec": spec,
        "metadata": {"name": RELEASE, "namespace": NAMESPACE},
    })
}
