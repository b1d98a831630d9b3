//! The whole of `helm template`: a command line in, rendered text out. Counterpart: Helm's `pkg/cmd/template.go`.

mod options;
mod output;
#[cfg(test)]
mod tests;
mod user_values;

pub use options::Options;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use go_template::{FuncMap, Value};
use golibs::strconv::parse_bool;

use crate::chart::{Chart, LoadError};
use crate::engine::{self, Capabilities, Engine, KubeVersion, Lookup, ReleaseOptions, RenderError, Rendered, Request};
use crate::release_name;

/// What the command prints, and what it wrote.
#[derive(Debug, Default)]
pub struct Output {
    /// For standard output.
    pub text: Vec<u8>,
    /// For standard error, a line each: nothing that stopped the rendering.
    pub warnings: Vec<String>,
    /// What failed although there is something to print: a template, or output that is no YAML, with `--debug`.
    pub failed: Option<Error>,
}

/// What stands for the cluster.
pub struct Cluster {
    /// What it can do.
    pub capabilities: Capabilities,
    /// What `lookup` reads.
    pub lookup: Arc<dyn Lookup>,
}

/// Why nothing could be rendered, with Helm's texts.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line.
    #[error("{0}")]
    Usage(String),
    /// The chart.
    #[error("{0}")]
    Chart(#[from] LoadError),
    /// A subchart that is not there.
    #[error(
        "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {0}"
    )]
    MissingDependencies(String),
    /// The user's values.
    #[error("{0}")]
    Values(String),
    /// The rendering.
    #[error("{0}")]
    Render(#[from] engine::Error),
    /// A template that fails, or output that is no YAML.
    #[error("{0}\n\nUse --debug flag to render out invalid YAML")]
    InvalidYaml(engine::Error),
    /// `--show-only` of what did not render.
    #[error("could not find template {0} in chart")]
    NoTemplate(String),
    /// `--output-dir`.
    #[error("cannot write {path}: {cause}")]
    Write {
        /// The file.
        path: String,
        /// Why not.
        cause: io::Error,
    },
}

impl Error {
    /// What a template says is wrong, with its places, if that is what this error is about.
    pub fn in_template(&self) -> Option<&RenderError> {
        match self {
            Error::Render(engine::Error::Template(error)) | Error::InvalidYaml(engine::Error::Template(error)) => {
                Some(error)
            }
            _ => None,
        }
    }
}

impl Options {
    /// Renders without a cluster.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self) -> Result<Output, Error> {
        self.run_with(None)
    }

    /// Whether the cluster is to be asked: `--validate` or `--dry-run=server`.
    pub fn wants_cluster(&self) -> bool {
        self.validate || self.dry_run.as_deref() == Some("server")
    }

    /// Whether the simulation that was asked for is one; rendering checks it, too. Counterpart: `cmdGetDryRunFlagStrategy`.
    ///
    /// # Errors
    /// With Helm's text, what `--dry-run` allows.
    pub fn check(&self) -> Result<(), Error> {
        let flag = |text: &str| parse_bool(text.as_bytes());
        let allowed = match self.dry_run.as_deref() {
            None | Some("client" | "server" | "unset") => return Ok(()),
            Some(text) if flag(text) == Ok(true) => return Ok(()),
            Some(text) if text == "none" || flag(text) == Ok(false) => r#""server" or "client""#,
            Some(_) => r#""none", "server", or "client""#,
        };
        let given = self.dry_run.as_deref().unwrap_or_default();
        Err(Error::Usage(format!("invalid dry-run value ({given:?}). Must be {allowed}")))
    }

    /// Renders with what the cluster can do, where there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_with(&self, cluster: Option<Cluster>) -> Result<Output, Error> {
        let (rendered, warnings) = self.render(cluster)?;
        self.output(rendered, warnings)
    }

    /// What the command prints of a rendering: of all documents those that were asked for, or why there are none.
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
            // Helm prints the manifest that there is, which is none.
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

    /// Renders to manifests, hooks and notes, for callers that do more than print.
    ///
    /// # Errors
    /// The outer one for what is wrong before the chart renders, the inner one for the rendering.
    #[allow(clippy::type_complexity)] // Two stages of failure, told apart by the caller.
    pub fn render(&self, cluster: Option<Cluster>) -> Result<(Result<Rendered, engine::Error>, Vec<String>), Error> {
        self.check()?;
        let capabilities = self.capabilities(cluster.as_ref())?;
        let (name, path) = self.name_and_chart()?;
        let path = locate(&path)?;
        let values = user_values::merged(self).map_err(Error::Values)?;
        let chart = Chart::load(&path)?;
        check_installable(&chart)?;
        release_name::check(&name).map_err(|error| Error::Usage(format!("release name check failed: {error}")))?;
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

    fn capabilities(&self, cluster: Option<&Cluster>) -> Result<Capabilities, Error> {
        if let Some(cluster) = cluster {
            return Ok(cluster.capabilities.clone());
        }
        let mut capabilities = Capabilities::default();
        if let Some(version) = &self.kube_version {
            capabilities.kube_version = KubeVersion::parse(version)
                .map_err(|cause| Error::Usage(format!("invalid kube version '{version}': {cause}")))?;
        }
        let further = self.api_versions.iter().map(|version| version.as_str().into());
        Arc::make_mut(&mut capabilities.api_versions).extend(further);
        Ok(capabilities)
    }

    fn name_and_chart(&self) -> Result<(String, String), Error> {
        let usage = |text: &str| Err(Error::Usage(text.to_owned()));
        match self.name_and_chart.as_slice() {
            [_, _] if self.generate_name => usage("cannot set --generate-name and also specify a name"),
            [_, _] if self.name_template.is_some() => usage("cannot set --name-template and also specify a name"),
            [name, chart] => Ok((name.clone(), chart.clone())),
            [chart] => Ok((self.default_name()?, chart.clone())),
            _ => usage("give a chart, or a release's name and a chart"),
        }
    }

    fn default_name(&self) -> Result<String, Error> {
        let Some(template) = self.name_template.as_ref().filter(|template| !template.is_empty()) else {
            return Ok("release-name".to_owned());
        };
        let failed = |error: String| Error::Usage(error);
        let funcs: FuncMap = sprig::func_map();
        let parsed =
            go_template::parse("name-template", template.as_str(), &funcs).map_err(|e| failed(e.to_string()))?;
        let mut templates = go_template::Templates::new("name-template");
        templates.add(&parsed);
        let name = Arc::new(templates).execute("name-template", &Value::Nil).map_err(|e| failed(e.to_string()))?;
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
                // What was written is not printed, so there is nothing to choose from.
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

/// The chart on disk, as an absolute path.
fn locate(path: &str) -> Result<PathBuf, Error> {
    let path = path.trim();
    let usage = |text: String| Err(Error::Usage(text));
    if path.contains("://") {
        return usage(format!(
            "cannot fetch chart {path:?}: only charts on disk are rendered; fetch it first with 'helm pull'"
        ));
    }
    if !path.is_empty() && fs::metadata(path).is_ok() {
        return Ok(std::path::absolute(path).unwrap_or_else(|_| path.into()));
    }
    match path.split_once('/') {
        _ if path.starts_with(['.', '/']) => usage(format!("path {path:?} not found")),
        Some((repository, _)) => usage(format!(
            "repo {repository} not found: only charts on disk are rendered; fetch it first with 'helm pull {path}'"
        )),
        None => usage(format!("non-absolute URLs should be in form of repo_name/path_to_chart, got: {path}")),
    }
}

fn check_installable(chart: &Chart) -> Result<(), Error> {
    if let Some(reason) = chart.not_installable() {
        return Err(Error::Usage(reason));
    }
    let missing = chart.missing_dependencies();
    if missing.is_empty() { Ok(()) } else { Err(Error::MissingDependencies(missing.join(", "))) }
}
