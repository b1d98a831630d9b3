//! `create api`: adds a kind to the project in the current directory.

use std::io::{self, BufRead, Write as _};

use clap::{Args, Subcommand};
use scaffold::{CreateApi, Native, Project, Settings, Source, add_rust, create_api, disk};

use super::plugins::{self, Plugin};
use super::{Error, edit, library};

/// What to create.
#[derive(Args, Clone, Debug)]
pub(crate) struct Create {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Adds a kind: its chart or code, CRD, roles and sample
    Api(Box<CreateApiFlags>),
}

/// The flags of `create api`.
#[derive(Args, Clone, Debug)]
pub(super) struct CreateApiFlags {
    #[command(flatten)]
    api: Api,

    /// Serve the kind with Rust; a project of charts becomes hybrid by its first such kind
    #[arg(long)]
    native: bool,

    /// Write the native kind's type without asking
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    resource: Option<bool>,

    /// Write the native kind's controller without asking
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    controller: Option<bool>,

    /// Upstream's names: helm.sdk.operatorframework.io/v1, or go/v4 for a native kind
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    plugins: Vec<String>,

    /// Accepted for old scripts and ignored
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    make: Option<bool>,

    /// Accepted for old scripts; kinds are namespaced
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    namespaced: Option<bool>,
}

/// The flags that `init` also takes.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Api {
    /// The API group without the domain
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// The API version, such as v1 or v1alpha1
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,

    /// The kind, such as Memcached
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,

    /// The chart that serves the kind: a folder or a .tgz file [default: a new chart to start from]
    #[arg(long, value_name = "DIR|TGZ")]
    helm_chart: Option<String>,

    /// Not supported: charts are not downloaded
    #[arg(long, hide = true, value_name = "URL")]
    helm_chart_repo: Option<String>,

    /// Not supported: charts are not downloaded
    #[arg(long, hide = true, value_name = "VERSION")]
    helm_chart_version: Option<String>,

    /// Only v1
    #[arg(long, hide = true, value_name = "VERSION")]
    crd_version: Option<String>,
}

impl Api {
    pub(super) fn is_given(&self) -> bool {
        [&self.group, &self.version, &self.kind, &self.helm_chart].iter().any(|flag| flag.is_some())
    }

    fn check(&self) -> Result<(), Error> {
        match &self.crd_version {
            Some(version) if version != "v1" => return Err(Error::CrdVersion(version.clone())),
            _ => {}
        }
        let remote = [("helm-chart-repo", &self.helm_chart_repo), ("helm-chart-version", &self.helm_chart_version)];
        match remote.into_iter().find(|(_, flag)| flag.is_some()) {
            Some((flag, _)) => Err(Error::Repository(flag)),
            None => Ok(()),
        }
    }
}

pub(super) fn run(args: &Create) -> Result<(), Error> {
    let What::Api(flags) = &args.what;
    let native = native(flags, &mut io::stdin().lock())?;
    edit(|project| add(project, &flags.api, native))
}

/// Adds the API to the project; returns notes.
pub(super) fn add(project: &mut Project, api: &Api, native: Option<Native>) -> Result<Vec<String>, Error> {
    api.check()?;
    let source = match (&api.helm_chart, native) {
        (Some(_), Some(_)) => return Err(Error::Both("native", "helm-chart")),
        (Some(chart), None) => Source::Chart(disk::read_chart(chart)?),
        (None, Some(native)) => Source::Native(native),
        (None, None) => Source::Starter,
    };
    let (group, version, kind) = (api.group.clone(), api.version.clone(), api.kind.clone());
    let mut notes = if native.is_some() { prepare_rust(project)? } else { Vec::new() };
    notes.extend(create_api(project, &CreateApi { group, version, kind, source })?);
    Ok(notes)
}

/// Turns a project of charts into a hybrid one; returns notes.
fn prepare_rust(project: &mut Project) -> Result<Vec<String>, Error> {
    match Settings::of(project)? {
        Some(settings) if !settings.is_hybrid => Ok(add_rust(project, &library::find(None)?)?),
        _ => Ok(Vec::new()),
    }
}

/// Returns the parts of a native kind to write; `None` for a kind with a chart. Asks as kubebuilder does, unless the
/// flags answer.
fn native(flags: &CreateApiFlags, input: &mut impl BufRead) -> Result<Option<Native>, Error> {
    let plugin = plugins::parse(&flags.plugins)?;
    if plugin == Some(Plugin::Helm) && flags.native {
        return Err(Error::Both("native", "plugins"));
    }
    let asked = flags.resource.is_some() || flags.controller.is_some();
    if !(flags.native || plugin == Some(Plugin::Native) || (asked && plugin.is_none())) {
        return Ok(None);
    }
    let mut answer = |flag: Option<bool>, question, name| match flag {
        Some(yes) => Ok(yes),
        None if flags.native => Ok(true),
        None => ask(question, name, input),
    };
    let resource = answer(flags.resource, "Create Resource [y/n]", "resource")?;
    let controller = answer(flags.controller, "Create Controller [y/n]", "controller")?;
    Ok(Some(Native { resource, controller }))
}

/// Asks until the answer is yes or no.
fn ask(question: &'static str, flag: &'static str, input: &mut impl BufRead) -> Result<bool, Error> {
    loop {
        super::super::print(question);
        io::stdout().flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Err(Error::NoAnswer(question, flag));
        }
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn what_flags_do_not_say_is_asked() {
        let plugins = |names: &str| names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let flags = |names: &str, native, resource, controller| CreateApiFlags {
            api: Api::default(),
            native,
            resource,
            controller,
            plugins: plugins(names),
            make: None,
            namespaced: None,
        };
        let check = |flags: CreateApiFlags, answers: &str, expected: Option<(bool, bool)>| {
            let found = native(&flags, &mut answers.as_bytes()).unwrap();
            assert_eq!(found.map(|native| (native.resource, native.controller)), expected, "{flags:?}");
        };
        check(flags("", false, None, None), "", None);
        check(flags("helm.sdk.operatorframework.io/v1", false, None, None), "", None);
        check(flags("", true, None, None), "", Some((true, true)));
        check(flags("go/v3", false, Some(true), Some(true)), "", Some((true, true)));
        check(flags("go/v4", false, None, None), "what\ny\nNO\n", Some((true, false)));
        check(flags("", false, Some(true), None), "yes\n", Some((true, true)));
        let error = native(&flags("go/v3", false, None, None), &mut "".as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), r#"no answer to "Create Resource [y/n]"; pass --resource or --resource=false"#);
    }
}
