//! `init`: starts a project in the current directory.

use std::path::PathBuf;

use clap::Args;
use scaffold::{Project, Settings, disk, init, take_over};

use super::create::{Api, add};
use super::plugins::{self, Plugin};
use super::{Error, edit, library};

/// The default domain of a project, as in operator-sdk.
const DOMAIN: &str = "my.domain";

/// The flags of `init`: operator-sdk's, and some of this program's own.
#[derive(Args, Clone, Debug)]
pub(crate) struct Init {
    /// What the groups of the project's APIs end with [default: my.domain]
    #[arg(long, value_name = "DOMAIN")]
    domain: Option<String>,

    /// The project's name: its program, and the prefix of its objects [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    project_name: Option<String>,

    /// Where the project's sources are, such as example.com/cache-operator
    #[arg(long, value_name = "REPO")]
    repo: Option<String>,

    /// Make a Cargo project, in which Rust may serve kinds, too, or make one of a project of charts; without it, charts serve all kinds and nothing is compiled
    #[arg(long)]
    hybrid: bool,

    /// Depend on the library in this clone of its repository, in place, instead of a copy in the project; with --hybrid
    #[arg(long, value_name = "DIR")]
    library_path: Option<String>,

    /// Take over a Helm project of operator-sdk: copy what the current folder lacks, change what has to change, and say what that is
    #[arg(long, value_name = "DIR")]
    from_operator_sdk: Option<PathBuf>,

    /// Upstream's names: helm.sdk.operatorframework.io or hybrid.helm.sdk.operatorframework.io
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    plugins: Vec<String>,

    /// The form of the PROJECT file; only 3
    #[arg(long, default_value = "3", hide = true, value_name = "VERSION")]
    project_version: String,

    /// Accepted for old scripts and ignored
    #[arg(long, hide = true, value_name = "LICENSE")]
    license: Option<String>,

    /// Accepted for old scripts and ignored
    #[arg(long, hide = true, value_name = "OWNER")]
    owner: Option<String>,

    /// A first API, as 'create api' takes it
    #[command(flatten)]
    api: Api,
}

pub(super) fn run(args: &Init) -> Result<(), Error> {
    if let Some(folder) = &args.from_operator_sdk {
        let from = disk::read(folder)?;
        return edit(|project| {
            project.take_modes_from(folder);
            Ok(take_over(project, &from, &folder.display().to_string())?)
        });
    }
    edit(|project| {
        let options = options(args, project)?;
        let mut notes = init(project, &options)?;
        if args.api.is_given() {
            notes = add(project, &args.api, None)?;
        }
        Ok(notes)
    })
}

/// Returns what the flags request. Omitted names are those of the existing project.
pub(super) fn options(args: &Init, project: &Project) -> Result<scaffold::Init, Error> {
    if args.project_version != "3" {
        return Err(Error::ProjectVersion(args.project_version.clone()));
    }
    let hybrid = match plugins::parse(&args.plugins)? {
        None => args.hybrid || args.library_path.is_some(),
        Some(Plugin::Helm) if args.hybrid => return Err(Error::Both("hybrid", "plugins")),
        Some(plugin) => plugin != Plugin::Helm,
    };
    let library = hybrid.then(|| library::find(args.library_path.as_deref())).transpose()?;
    let known = Settings::of(project)?;
    let known = |field: fn(Settings) -> String| known.clone().map(field);
    let name = args.project_name.clone().or_else(|| known(|settings| settings.name)).or_else(folder_name);
    let domain = args.domain.clone().or_else(|| known(|settings| settings.domain));
    Ok(scaffold::Init {
        name: name.ok_or(Error::NoName)?,
        domain: domain.unwrap_or_else(|| DOMAIN.to_owned()),
        repo: args.repo.clone(),
        hybrid: library,
    })
}

/// Returns the current directory's name in lower case, with dashes for other separators.
fn folder_name() -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    Some(folder.file_name()?.to_str()?.to_lowercase().replace(['_', '.', ' '], "-"))
}
