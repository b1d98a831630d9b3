//! Installs releases with the `helm` command.

use std::time::Duration;

use anyhow::Context as _;

use crate::corpus::{Case, Chart};
use crate::outcome::Outcome;
use crate::plane::{NAMESPACE, Plane};
use crate::walk::{Installer, RELEASE};

/// Timeout of one command.
const LIMIT: Duration = Duration::from_secs(120);

/// Helm in one of its two modes.
pub(crate) struct Helm<'a> {
    pub(crate) plane: &'a Plane,
    /// Whether Helm uses server-side apply, its default; otherwise runs with `--server-side=false`.
    pub(crate) server_side: bool,
}

impl Helm<'_> {
    async fn change(&self, verb: &str, chart: &Chart, case: &Case, flag: &[&str]) -> anyhow::Result<Outcome> {
        let folder = chart.folder.to_string_lossy();
        let mut arguments = vec![verb, RELEASE, &folder, "--no-hooks"];
        arguments.extend(flag);
        if !self.server_side {
            arguments.push("--server-side=false");
        }
        let values = case.values.as_ref().map(|file| format!("--values={}", file.display()));
        arguments.extend(values.as_deref());
        self.run(&arguments).await
    }

    async fn run(&self, arguments: &[&str]) -> anyhow::Result<Outcome> {
        let mut command = tokio::process::Command::from(self.plane.cluster.command("helm"));
        command.args(arguments).args(["--namespace", NAMESPACE]).kill_on_drop(true);
        // Contact no chart repository.
        command.env("HELM_REPOSITORY_CONFIG", "/dev/null").env("TZ", "UTC");
        let Ok(output) = tokio::time::timeout(LIMIT, command.output()).await else {
            return Ok(Outcome::Refused(crate::outcome::Cause::Stuck, format!("no exit after {} s", LIMIT.as_secs())));
        };
        let output = output.context("cannot run helm; `make cluster` builds it")?;
        if output.status.success() {
            return Ok(Outcome::Done);
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let error = text.lines().position(|line| line.starts_with("Error:")).unwrap_or_default();
        Ok(Outcome::refused(&text.lines().skip(error).collect::<Vec<_>>().join("\n")))
    }
}

impl Installer for Helm<'_> {
    fn name(&self) -> &'static str {
        if self.server_side { "helm" } else { "helm --server-side=false" }
    }

    fn plane(&self) -> &Plane {
        self.plane
    }

    async fn install(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome> {
        self.change("install", chart, case, &[]).await
    }

    /// Resets values, because without a values file Helm would reuse the previous revision's.
    async fn upgrade(&self, chart: &Chart, case: &Case) -> anyhow::Result<Outcome> {
        self.change("upgrade", chart, case, &["--reset-values"]).await
    }

    async fn uninstall(&self, _: &Chart) -> anyhow::Result<Outcome> {
        self.run(&["uninstall", RELEASE, "--no-hooks"]).await
    }
}
