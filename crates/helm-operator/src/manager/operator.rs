//! Defines a whole operator: the charts and reconcilers that one process runs.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use controller::reconciler::{self, Controller, Kind, Reconciler, Served};
use controller::webhooks::{Mutate, Validate, Webhooks};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource as _};
use scaffold::rbac;
use scaffold::webhooks::Service;

use crate::charts::chart_controller::ChartController;
use crate::manager::{Config, Error, Manager, definitions};
use crate::telemetry;
use crate::watches::{self, Watch};

pub(crate) type Customise = Box<dyn FnOnce(ChartController) -> ChartController + Send>;

/// A whole operator: charts, reconcilers in Rust, or both, under one manager.
///
/// This program serves the charts of watches.yaml, with the command line of `helm-operator`:
///
/// ```no_run
/// use helm_operator::Operator;
///
/// fn main() -> std::process::ExitCode {
///     Operator::new().main()
/// }
/// ```
///
/// See [`chart`](Self::chart) for code around a chart, and [`reconciler`](Self::reconciler) for kinds without one.
#[derive(Default)]
pub struct Operator {
    /// The entries of watches files.
    watches: Vec<Watch>,
    /// The last watches file.
    pub(super) file: Option<PathBuf>,
    /// The watches added in code.
    own: Vec<(Watch, Customise)>,
    /// The code to run around the charts of a kind.
    charts: Vec<(String, Customise)>,
    controllers: Vec<Box<dyn Controller>>,
    pub(crate) webhooks: Webhooks,
    /// The definitions that `generate crds` writes, one per version of a kind.
    definitions: Vec<CustomResourceDefinition>,
    /// The permissions of the reconcilers, from which `generate rbac` writes their roles.
    pub(crate) natives: Vec<rbac::Native>,
    pub(crate) log: telemetry::Options,
}

impl Operator {
    /// Creates an operator that serves only what [`main`](Self::main) finds in watches.yaml.
    pub fn new() -> Operator {
        Operator::default()
    }

    /// Adds the charts of a watches file. [`main`](Self::main) adds the file named by `--watches-file`.
    ///
    /// # Errors
    /// The file cannot be used: [`watches::load`].
    pub fn watches(mut self, path: impl AsRef<Path>) -> Result<Operator, Error> {
        let loaded = watches::load(path.as_ref())?;
        watches::log_unset(path.as_ref(), &loaded);
        self.watches.extend(loaded);
        self.file = Some(path.as_ref().to_owned());
        Ok(self)
    }

    /// Adds code around the chart that watches.yaml names for a kind, such as `Memcached`, or
    /// `Memcached.cache.my.domain` if groups share the kind. Startup fails if the file has no such entry.
    #[must_use]
    pub fn chart(
        mut self,
        kind: &str,
        customise: impl FnOnce(ChartController) -> ChartController + Send + 'static,
    ) -> Operator {
        self.charts.push((kind.to_owned(), Box::new(customise)));
        self
    }

    /// Adds a chart without watches.yaml. Startup fails if another watch serves the same version of the kind.
    #[must_use]
    pub fn watch(
        mut self,
        watch: Watch,
        customise: impl FnOnce(ChartController) -> ChartController + Send + 'static,
    ) -> Operator {
        self.own.push((watch, Box::new(customise)));
        self
    }

    /// Adds a reconciler in Rust.
    #[must_use]
    pub fn reconciler<R: Reconciler>(mut self, reconciler: R) -> Operator {
        self.natives.push(rights_of(&reconciler));
        self.controller(Served::new(reconciler))
    }

    /// Adds a validating webhook for a kind.
    #[must_use]
    pub fn validate<V: Validate>(self, hook: V) -> Operator {
        Operator { webhooks: self.webhooks.validate(hook), ..self }
    }

    /// Adds a mutating webhook for a kind.
    #[must_use]
    pub fn mutate<M: Mutate>(self, hook: M) -> Operator {
        Operator { webhooks: self.webhooks.mutate(hook), ..self }
    }

    /// Adds the conversion between two versions of a kind, in both directions, for the API server. The first version
    /// must be the stored one: that of the kind's first [`crd`](Self::crd).
    #[must_use]
    pub fn convert<A, B>(self) -> Operator
    where
        A: Kind + TryFrom<B, Error: Display>,
        B: Kind + TryFrom<A, Error: Display>,
    {
        Operator { webhooks: self.webhooks.convert::<A, B>(), ..self }
    }

    /// Sets all webhooks, instead of those added one by one. Define them in a function of their own, which tests can
    /// also use: [`testing::Server::with_webhooks`](crate::testing::Server::with_webhooks).
    #[must_use]
    pub fn webhooks(self, webhooks: Webhooks) -> Operator {
        Operator { webhooks, ..self }
    }

    /// Makes `generate crds` write the definition of a kind with a Rust type into `config/crd`. Further versions of the
    /// kind are merged into it; the first one is stored. Versions whose schemas differ need
    /// [`convert`](Self::convert), which the definition then names.
    #[must_use]
    pub fn crd<K: CustomResourceExt>(mut self) -> Operator {
        self.definitions.push(K::crd());
        self
    }

    /// Sets the format of the log that `run` writes; `--zap-*` flags take precedence. Default: JSON lines, as
    /// upstream's. To use your own logger, install a `tracing` subscriber before [`main`](Self::main): see
    /// [`telemetry::init`].
    #[must_use]
    pub fn log(mut self, options: telemetry::Options) -> Operator {
        self.log = options;
        self
    }

    /// Adds any controller, which runs while this process leads.
    #[must_use]
    pub fn controller(mut self, controller: impl Controller) -> Operator {
        self.controllers.push(Box::new(controller));
        self
    }

    pub(crate) fn entries(&self) -> &[Watch] {
        &self.watches
    }

    /// Keeps only the charts that `serves` selects, without the program's own controllers and webhooks. They are loaded
    /// from `chart` if it is given.
    ///
    /// # Errors
    /// The chart is a URL that cannot be used.
    pub(crate) fn only(mut self, serves: impl Fn(&Watch) -> bool, chart: Option<&Path>) -> Result<Operator, String> {
        self.watches.retain(|watch| serves(watch));
        self.own.retain(|(watch, _)| serves(watch));
        self.charts.retain(|(kind, _)| self.watches.iter().any(|watch| is_named(watch, kind)));
        if let Some(chart) = chart {
            self.watches.iter_mut().try_for_each(|watch| watch.replace_chart(chart))?;
        }
        Ok(Operator { controllers: Vec::new(), webhooks: Webhooks::default(), ..self })
    }

    /// Returns the manager that runs all of this with the configuration.
    pub fn manager(self, config: Config) -> Manager {
        Manager::new(config, self)
    }

    /// Returns the definitions of the program's own kinds.
    pub(crate) fn definitions(&self) -> Result<Vec<serde_json::Value>, Error> {
        definitions::merged(&self.definitions)
    }

    /// Makes each definition whose objects the program converts name the Service of its webhooks.
    pub(crate) fn convert_at(&self, service: &Service, definitions: &mut [serde_json::Value]) {
        definitions::convert_at(service, &self.webhooks, definitions);
    }

    /// Returns the watches that the program itself adds.
    pub(crate) fn own_watches(&self) -> impl Iterator<Item = &Watch> {
        self.own.iter().map(|(watch, _)| watch)
    }

    /// Returns whether the program has code around the chart of a watch, which may change its values.
    pub(crate) fn customises(&self, watch: &Watch) -> bool {
        let is_own = self.own.iter().any(|(own, _)| own.gvk() == watch.gvk());
        is_own || self.charts.iter().any(|(kind, _)| is_named(watch, kind))
    }

    /// Returns whether the program itself adds nothing to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.controllers.is_empty() && self.webhooks.is_empty()
    }

    /// Loads every chart, and returns all controllers.
    ///
    /// # Errors
    /// Watches contradict each other, a chart cannot be served, or a kind that has no entry is customised.
    pub(crate) fn controllers(self) -> Result<Vec<Box<dyn Controller>>, Error> {
        let mut watches: Vec<(Watch, Vec<Customise>)> = self.watches.into_iter().map(|w| (w, Vec::new())).collect();
        for (kind, customise) in self.charts {
            match watches.iter_mut().find(|(watch, _)| is_named(watch, &kind)) {
                Some((_, customisers)) => customisers.push(customise),
                None => return Err(Error::NoChart(kind)),
            }
        }
        watches.extend(self.own.into_iter().map(|(watch, customise)| (watch, vec![customise])));
        let charts = crate::manager::charts::controllers(watches)?;
        Ok(charts.into_iter().chain(self.controllers).collect())
    }
}

/// Returns whether code names the watch: by its kind, or by kind and group.
fn is_named(watch: &Watch, kind: &str) -> bool {
    kind == watch.kind || kind == watch.full_name()
}

/// Returns a reconciler's permissions, in the form that generators take.
fn rights_of<R: Reconciler>(reconciler: &R) -> rbac::Native {
    let rules = reconciler::rights(reconciler).into_iter().map(|right| rbac::Rule {
        group: right.group,
        resource: right.resource,
        verbs: right.verbs.into_iter().map(str::to_owned).collect(),
    });
    rbac::Native {
        group: R::Resource::group(&()).into_owned(),
        kind: R::Resource::kind(&()).into_owned(),
        plural: R::Resource::plural(&()).into_owned(),
        owns_objects: reconciler.rights().owns_objects(),
        rules: rules.collect(),
    }
}
