//! The content of `Chart.yaml`, and Helm's checks of it. Counterparts: Helm's `pkg/chart/v2/{metadata,dependency}.go`.

use std::collections::HashSet;

use go_template::Value;
use golibs::semver::Version;
use golibs::shorten::{MAX_MESSAGE, shorten};

/// Maximum number of dependencies and subcharts of a chart, because each is compared with each. The largest public charts have about a hundred.
pub const MAX_DEPENDENCIES: usize = 1_000;

/// The content of `Chart.yaml`. Absent fields are empty.
///
/// The `Debug` output is part of the chart's digest, which release records keep: renaming a field makes every recorded chart look changed.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: Vec<(String, String)>,
    pub kube_version: String,
    pub dependencies: Vec<Dependency>,
    /// `type`: empty, `application` or `library`.
    pub kind: String,
    /// The first list that contains a null item. As in Helm, only [`validate`](Metadata::validate) rejects it.
    pub(super) with_null: Option<&'static str>,
}

/// A maintainer of the chart.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// An entry of `dependencies`: a chart that must be below `charts/`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)] // The names are Chart.yaml's.
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    pub import_values: Vec<Value>,
    pub alias: String,
}

/// The reason why Helm rejects metadata. The texts are Helm's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetadata {
    /// A required field is absent or empty.
    #[error("chart.metadata.{0} is required")]
    Missing(&'static str),
    /// The name is a relative path.
    #[error("chart.metadata.name {0:?} is not allowed")]
    NameNotAllowed(String),
    /// The name contains a slash, or the version is not a semantic version.
    #[error("chart.metadata.{field} {text:?} is invalid")]
    Invalid {
        /// The field.
        field: &'static str,
        /// The field's content.
        text: String,
    },
    /// The type is unknown.
    #[error("chart.metadata.type must be application or library")]
    Type,
    /// A list contains a null.
    #[error("{0} must not contain empty or null nodes")]
    Null(&'static str),
    /// The alias of the named dependency contains characters other than letters, digits, `_` and `-`.
    #[error("dependency {0:?} has disallowed characters in the alias")]
    Alias(String),
    /// There are more than [`MAX_DEPENDENCIES`].
    #[error("more than {MAX_DEPENDENCIES} dependencies (limit MAX_DEPENDENCIES)")]
    TooManyDependencies,
    /// Two dependencies share a name or an alias.
    #[error("more than one dependency with name or alias {0:?}")]
    Duplicate(String),
}

impl InvalidMetadata {
    fn invalid(field: &'static str, text: &str) -> InvalidMetadata {
        InvalidMetadata::Invalid { field, text: shorten(text, MAX_MESSAGE).into_owned() }
    }
}

impl PartialEq for Dependency {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.version, &self.alias, &self.condition)
            == (&other.name, &other.version, &other.alias, &other.condition)
    }
}

impl Metadata {
    /// Returns whether this is a library chart, of which only the partials are used.
    pub(crate) fn is_library(&self) -> bool {
        self.kind.eq_ignore_ascii_case("library")
    }

    /// Sanitizes the texts, then performs Helm's checks.
    pub(super) fn validate(&mut self) -> Result<(), InvalidMetadata> {
        self.sanitize();
        let required = |field, text: &str| if text.is_empty() { Err(InvalidMetadata::Missing(field)) } else { Ok(()) };
        required("apiVersion", &self.api_version)?;
        required("name", &self.name)?;
        if self.name == "." || self.name == ".." {
            return Err(InvalidMetadata::NameNotAllowed(self.name.clone()));
        }
        if self.name.contains('/') {
            return Err(InvalidMetadata::invalid("name", &self.name));
        }
        required("version", &self.version)?;
        if Version::parse(&self.version).is_err() {
            return Err(InvalidMetadata::invalid("version", &self.version));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return Err(InvalidMetadata::Type);
        }
        if let Some(list) = self.with_null {
            return Err(InvalidMetadata::Null(list));
        }
        self.validate_dependencies()
    }

    fn sanitize(&mut self) {
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        texts.into_iter().for_each(sanitize);
        self.sources.iter_mut().chain(&mut self.keywords).for_each(sanitize);
        for maintainer in &mut self.maintainers {
            [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url].into_iter().for_each(sanitize);
        }
    }

    fn validate_dependencies(&mut self) -> Result<(), InvalidMetadata> {
        if self.dependencies.len() > MAX_DEPENDENCIES {
            return Err(InvalidMetadata::TooManyDependencies);
        }
        let mut seen = HashSet::new();
        for dependency in &mut self.dependencies {
            let texts =
                [&mut dependency.name, &mut dependency.version, &mut dependency.repository, &mut dependency.condition];
            texts.into_iter().chain(&mut dependency.tags).for_each(sanitize);
            let alias = &dependency.alias;
            if !alias.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(InvalidMetadata::Alias(dependency.name.clone()));
            }
            let key = if alias.is_empty() { dependency.name.clone() } else { alias.clone() };
            if !seen.insert(key.clone()) {
                return Err(InvalidMetadata::Duplicate(key));
            }
        }
        Ok(())
    }
}

/// Replaces white space by spaces and drops unprintable characters, so that a chart's text cannot control a terminal.
fn sanitize(text: &mut String) {
    *text = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| golibs::unicode::is_print(*c))
        .collect();
}
