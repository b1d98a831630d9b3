//! `helm template` as a function, from a command line to rendered text. Counterpart: Helm's `pkg/cmd/template.go`.

mod error;
mod options;
mod output;
#[cfg(test)]
mod tests;
mod user_values;

pub use error::{Error, UsageError};
pub use options::Options;
pub use user_values::ValuesError;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use go_template::{Map, Value};
use golibs::strconv::parse_bool;

use crate::chart::Chart;
use crate::engine::{self, Capabilities, Engine, KubeVersion, Lookup, ReleaseOptions, Rendered, Request};
use crate::{disk, release_name};

/// The output of the command.
#[derive(Debug, Default)]
pub struct Output {
    /// The text for standard output.
    pub text: Vec<u8>,
    /// Lines for standard error about problems that did not stop the render.
    pub warnings: Vec<String>,
    /// A failure that still prints output: with `--debug`, or `--output-dir` with `--show-only`.
    pub failed: Option<Error>,
}

/// The cluster to render for.
pub struct Cluster {
    /// Its version and APIs.
    pub capabilities: Capabilities,
    /// Serves `lookup`.
    pub lookup: Arc<dyn Lookup>,
}

impl Options {
    /// Renders without a cluster and prints.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Output, Error> {
        let (rendered, warnings) = self.render(None)?;
        self.output(rendered, warnings)
    }

    /// Returns whether the flags require a cluster: `--validate` or `--dry-run=server`.
    pub fn wants_cluster(&self) -> bool {
        self.validate || self.dry_run.as_deref() == Some("server")
    }

    /// Checks the value of `--dry-run`, as rendering does too. Counterpart: `cmdGetDryRunFlagStrategy`.
    ///
    /// # Errors
    /// The value is not allowed.
    pub fn check(&self) -> Result<(), UsageError> {
        let flag = |text: &str| parse_bool(text.as_bytes());
        let allowed = match self.dry_run.as_deref() {
            None | Some("client" | "server" | "unset") => return Ok(()),
            Some(text) if flag(text) == Ok(true) => return Ok(()),
            Some(text) if text == "none" || flag(text) == Ok(false) => r#""server" or "client""#,
            Some(_) => r#""none", "server", or "client""#,
        };
        Err(UsageError::DryRun { given: self.dry_run.clone().unwrap_or_default(), allowed })
    }

    /// Prints the documents that the flags select, or with `--debug`, those that rendered before an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn output(&self, rendered: Result<Rendered, engine::Error>, warnings: Vec<String>) -> Result<Output, Error> {
        match rendered {
            Ok(rendered) => self.print(rendered),
            Err(engine::Error::Manifest { error, files }) if self.debug => {
                let text = output::raw(&files);
                let text = if self.show_only.is_empty() {
                    text
                } else {
                    output::only(&text, &self.show_only).unwrap_or_default()
                };
                let failed = Some(engine::Error::Manifest { error, files: Vec::new() }.into());
                Ok(Output { text: text.into_bytes(), warnings, failed })
            }
            // Helm prints the manifest, which is empty.
            Err(error @ engine::Error::Template(_)) if self.debug => {
                let text = if self.show_only.is_empty() { b"\n".to_vec() } else { Vec::new() };
                Ok(Output { text, warnings, failed: Some(error.into()) })
            }
            Err(error @ (engine::Error::Manifest { .. } | engine::Error::Template(_))) => {
                Err(Error::InvalidYaml(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Renders to manifests, hooks and notes, with or without a cluster. [`output`](Options::output) prints them.
    ///
    /// # Errors
    /// The outer error concerns flags and charts, the inner error rendering.
    #[allow(clippy::type_complexity)] // Callers handle the two stages differently.
    pub fn render(&self, cluster: Option<Cluster>) -> Result<(Result<Rendered, engine::Error>, Vec<String>), Error> {
        self.render_over(cluster, Ok)
    }

    /// Renders as [`render`](Options::render) does, with values that the caller changes once more.
    ///
    /// # Errors
    /// As of [`render`](Options::render), and what `over` says.
    #[allow(clippy::type_complexity)] // Callers handle the two stages differently.
    pub fn render_over(
        &self,
        cluster: Option<Cluster>,
        over: impl FnOnce(Map) -> Result<Map, String>,
    ) -> Result<(Result<Rendered, engine::Error>, Vec<String>), Error> {
        self.check()?;
        let capabilities = self.capabilities(cluster.as_ref())?;
        let (name, path) = self.name_and_chart()?;
        let path = locate(&path)?;
        let values = over(user_values::merged(self)?).map_err(Error::Caller)?;
        let chart = Chart::load(&path)?;
        check_installable(&chart)?;
        release_name::check(&name).map_err(UsageError::ReleaseName)?;
        let release =
            ReleaseOptions { name, namespace: self.namespace.clone(), revision: 1, is_upgrade: self.is_upgrade };
        let request = Request {
            values: &values,
            release: &release,
            capabilities: &capabilities,
            lookup: cluster.map(|cluster| cluster.lookup),
            skip_schema: self.skip_schema_validation,
        };
        Ok((Engine::new(chart).render(&request), Vec::new()))
    }

    fn capabilities(&self, cluster: Option<&Cluster>) -> Result<Capabilities, UsageError> {
        if let Some(cluster) = cluster {
            return Ok(cluster.capabilities.clone());
        }
        let mut capabilities = Capabilities::default();
        if let Some(version) = &self.kube_version {
            capabilities.kube_version = KubeVersion::parse(version)
                .map_err(|cause| UsageError::KubeVersion { given: version.clone(), cause })?;
        }
        let more = self.api_versions.iter().map(|version| version.as_str().into());
        Arc::make_mut(&mut capabilities.api_versions).extend(more);
        Ok(capabilities)
    }

    fn name_and_chart(&self) -> Result<(String, String), UsageError> {
        match self.name_and_chart.as_slice() {
            [_, _] if self.generate_name => Err(UsageError::GenerateName),
            [_, _] if self.name_template.is_some() => Err(UsageError::NameTemplateAndName),
            [name, chart] => Ok((name.clone(), chart.clone())),
            [chart] => Ok((self.default_name()?, chart.clone())),
            _ => Err(UsageError::Arguments),
        }
    }

    fn default_name(&self) -> Result<String, UsageError> {
        let Some(template) = self.name_template.as_ref().filter(|template| !template.is_empty()) else {
            return Ok("release-name".to_owned());
        };
        let parsed = go_template::parse("name-template", template.as_str(), &sprig::func_map())?;
        let mut templates = go_template::Templates::new("name-template");
        templates.add(&parsed);
        let name = Arc::new(templates).execute("name-template", &Value::Nil)?;
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    fn print(&self, rendered: Rendered) -> Result<Output, Error> {
        let documents = output::Documents::of(&rendered, self);
        let mut output = Output { warnings: rendered.warnings, ..Output::default() };
        match &self.output_dir {
            Some(folder) => {
                let name = self.release_name.then(|| self.name_and_chart()).transpose()?;
                let folder = name.map_or_else(|| folder.clone(), |(name, _)| folder.join(name));
                output.text = documents.write(&folder)?;
                // Nothing is printed, so `--show-only` finds nothing, as in Helm.
                output.failed = self.show_only.first().map(|name| Error::NoTemplate(name.clone()));
                if output.failed.is_none() {
                    output.text.push(b'\n');
                }
            }
            None if self.show_only.is_empty() => output.text = documents.whole().into_bytes(),
            None => output.text = output::only(&documents.whole(), &self.show_only)?.into_bytes(),
        }
        Ok(output)
    }
}

/// Returns the chart's absolute path.
fn locate(path: &str) -> Result<PathBuf, UsageError> {
    let path = path.trim();
    if path.contains("://") {
        return Err(UsageError::RemoteChart(path.to_owned()));
    }
    if !path.is_empty() && disk::exists(Path::new(path)) {
        return Ok(std::path::absolute(path).unwrap_or_else(|_| path.into()));
    }
    match path.split_once('/') {
        _ if path.starts_with(['.', '/']) => Err(UsageError::NoChart(path.to_owned())),
        Some((repository, _)) => {
            Err(UsageError::RepositoryChart { repository: repository.to_owned(), path: path.to_owned() })
        }
        None => Err(UsageError::NotAPath(path.to_owned())),
    }
}

fn check_installable(chart: &Chart) -> Result<(), Error> {
    if let Some(reason) = chart.not_installable() {
        return Err(UsageError::NotInstallable(reason).into());
    }
    let missing = chart.missing_dependencies();
    if missing.is_empty() { Ok(()) } else { Err(Error::MissingDependencies(missing.join(", "))) }
}
