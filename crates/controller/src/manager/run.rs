//! Runs everything in order: servers, then the lease, then the controllers. Stops them in reverse.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::election::{NAMESPACE_FILE, election, lease_name, own_namespace, rivals};
use super::{pulse, reach};
use crate::context::{Context, ControllerConfig};
use crate::lease::{self, Election, Rivals};
use crate::manager::{Clients, Config, Error, Manager};
use crate::notifications::Notifications;
use crate::reconciler::{self, Controller};
use crate::runtime::liveness::Liveness;
use crate::runtime::namespaces::Namespaces;
use crate::runtime::readiness::Requirement;
use crate::server::{self, Listener, Senders, Server, Site};
use crate::webhooks::{self, Certificates, Endpoint, NeedsCertificate, Publisher, Replicas, Webhooks};

/// How long waiting events may delay the end of the process.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// How long aborted controllers may take to end. The deadline for the release of the lease includes it.
const STOPPING: Duration = Duration::from_secs(1);

/// How long servers may take to stop after the grace period was exceeded. If reconciles block all threads, they do not
/// stop at all. The rest of the scaffold's `terminationGracePeriodSeconds`, 10, is for the lease.
const LATE: Duration = Duration::from_millis(250);

/// How long the sharder may take to finish moves that it decided before this shard had its lease. A process with the
/// shard's name lists its resources only after that, because some may still be on their way to other shards. The
/// sharder goes through all resources with the shards that it knew when it began: 3,000 took it 22 s.
const MOVES: Duration = Duration::from_secs(30);

type Named = (String, Box<dyn Controller>);
type Running = JoinSet<(String, Result<(), reconciler::Error>)>;

/// Runs the manager until `shutdown` is cancelled, the lease is lost or a controller ends.
pub(super) async fn run(manager: Manager, clients: Clients, shutdown: CancellationToken) -> Result<(), Error> {
    let Manager { config, metrics, mut controllers, webhooks, site, readiness, parts, .. } = manager;
    let (term, holder, server, workers) = (manager.term, manager.holder, manager.server, manager.workers);
    check(&config.controllers, &controllers, &webhooks)?;
    let hooks = match webhooks.is_empty() {
        true => None,
        false => Some(Hooks::bind(&config, webhooks).await?),
    };
    controllers.extend(hooks.as_ref().map(Hooks::publisher));
    let controllers = name(controllers);
    let context = Context::new(clients.controllers, config.controllers.clone(), metrics, CancellationToken::new());
    let context = context.sharing(parts, readiness);
    if hooks.is_some() {
        context.readiness.answer_webhooks();
    }
    let context = notifying(context, &config)?;
    let kinds: BTreeSet<String> = controllers.iter().filter_map(|(_, controller)| controller.serves()).collect();
    let workers = workers.unwrap_or_else(Handle::current);
    let client = clients.own;
    let election = election(&context, &config, (client.clone(), term))?;
    let mut election = election.map(|election| election.serving(&kinds).shown_by(holder));
    let rivals = rivals(&context, &config, &kinds, client.clone())?;
    let answers = context.readiness.require("API server", "has not answered yet");
    if election.is_none() {
        prepare(&context, &controllers);
    }
    let mut servers = Servers::start(&config, &context, &workers).await?;
    if let Some(hooks) = hooks {
        servers.add_webhooks(hooks, &context, &workers);
    }
    if let Some(site) = site {
        servers.add_site(&config, (site, clients.people), &context, &workers).await?;
    }
    log_namespaces(&context.config.namespaces);
    // Processes of other ranges serve the same kinds.
    let is_alone = election.is_none() && config.controllers.shard_selector.is_none();
    let answering = answering((&client, &server), &answers, is_alone.then_some(&kinds));
    let leading = lead((&context, &workers), &config, controllers, (election.as_mut(), rivals), shutdown.clone());
    let result = lead_once_answered(&context, answering, leading, &shutdown).await;
    if let Some(election) = &mut election {
        context.metrics.follows(&lease_name(&config));
        if !matches!(result, Err(Error::Lost(_))) {
            election.release().await;
        }
    }
    servers.stop_after(&result).await;
    result
}

/// Checks that the process may serve its share of the resources, with these webhooks and controllers.
fn check(config: &ControllerConfig, controllers: &[Box<dyn Controller>], webhooks: &Webhooks) -> Result<(), Error> {
    if let (Some(_), Some(_)) = (&config.ring, &config.shard_selector) {
        return Err(Error::RangeInRing);
    }
    if !webhooks.is_empty() {
        check_webhooks(config)?;
    }
    check_field_managers(controllers)
}

/// Checks that no two controllers write as one field manager, and none as a former one of another.
fn check_field_managers(controllers: &[Box<dyn Controller>]) -> Result<(), Error> {
    let mut taken = HashSet::new();
    let mut managers = controllers.iter().filter_map(|controller| controller.field_manager());
    if let Some(shared) = managers.find(|manager| !taken.insert(*manager)) {
        return Err(Error::SharedFieldManager(shared.to_owned()));
    }
    let mut former = controllers.iter().flat_map(|controller| controller.former_field_managers());
    match former.find(|manager| taken.contains(**manager)) {
        Some(used) => Err(Error::FormerFieldManager((*used).to_owned())),
        None => Ok(()),
    }
}

/// Checks that the process may publish webhooks: with shards, no leader owns their configuration.
pub(super) fn check_webhooks(config: &ControllerConfig) -> Result<(), Error> {
    match (&config.ring, &config.shard_selector) {
        (Some(_), _) => Err(Error::WebhooksInRing),
        (None, Some(_)) => Err(Error::WebhooksInRange),
        (None, None) => Ok(()),
    }
}

/// Returns the handles with events that are also sent where the configuration says.
fn notifying(mut context: Context, config: &Config) -> Result<Context, Error> {
    if let Some(settings) = &config.notifications {
        let notifications = Notifications::new(settings, &config.program, &context.metrics)?;
        context.events = context.events.heard_by(Arc::new(notifications));
    }
    Ok(context)
}

/// Waits until the API server answers. A process without leader election then warns of others that serve `kinds`.
async fn answering((client, server): (&Client, &str), answers: &Requirement, kinds: Option<&BTreeSet<String>>) {
    reach::reach(client, server, answers).await;
    if let Some(kinds) = kinds {
        lease::warn_of_others(client, kinds).await;
    }
}

/// Leads once the API server has answered, and logs meanwhile what keeps the process unready.
async fn lead_once_answered(
    context: &Context,
    answering: impl Future<Output = ()>,
    leading: impl Future<Output = Result<(), Error>>,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    let work = async {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = answering => {}
        }
        tokio::select! {
            biased;
            result = leading => result,
            () = context.rights.look_for_namespaces() => Ok(()),
        }
    };
    tokio::select! {
        biased;
        result = work => result,
        () = context.readiness.remind() => Ok(()),
    }
}

/// Waits for the lease, runs the controllers, and lets them finish while the process still holds the lease.
async fn lead(
    (context, workers): (&Context, &Handle),
    config: &Config,
    controllers: Vec<Named>,
    (mut election, rivals): (Option<&mut Election>, Option<Rivals>),
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let mut context = context.clone();
    if let Some(election) = &mut election {
        context.metrics.follows(&lease_name(config));
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            begun = begin(election, rivals) => begun?,
        }
        context.metrics.leads(&lease_name(config));
        context.process = election.reference();
        prepare(&context, &controllers);
    }
    let mut running = start(&context, workers, controllers);
    let result = tokio::select! {
        biased;
        // A lost lease stops everything at once: `running` drops its tasks.
        lost = hold(election.as_deref_mut()) => return Err(lost.into()),
        result = work(&context, &mut running, shutdown, config.shutdown_grace) => result,
    };
    if let Some(election) = election {
        election.end_term().await;
    }
    stop(&mut running).await;
    result
}

/// Waits until this process holds its lease, and no process that holds another one may write.
async fn begin(election: &mut Election, rivals: Option<Rivals>) -> Result<(), lease::Lost> {
    match rivals {
        None => election.acquire().await,
        // The sharder would assign resources to a shard that has its lease.
        Some(mut leader) if leader.goes_first() => loop {
            leader.gone().await;
            election.acquire().await;
            if leader.running().await.is_none() {
                break;
            }
            election.give_back().await;
        },
        Some(mut shards) => {
            election.acquire().await;
            if shards.running().await.is_some() {
                tokio::select! {
                    biased;
                    lost = election.hold() => return Err(lost),
                    () = shards.gone() => {}
                }
            }
        }
    }
    if election.took_over() {
        tokio::select! {
            biased;
            lost = election.hold() => return Err(lost),
            () = tokio::time::sleep(MOVES) => {}
        }
    }
    Ok(())
}

/// Aborts the controllers that are still running, and waits until they are dropped: they must not act after the lease
/// is released.
async fn stop(running: &mut Running) {
    running.abort_all();
    let gone = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(STOPPING, gone).await.is_err() {
        tracing::warn!("A controller does not stop");
    }
}

async fn hold(election: Option<&mut Election>) -> lease::Lost {
    match election {
        Some(election) => election.hold().await,
        None => std::future::pending().await,
    }
}

/// Registers what the controllers need, before which the process is not ready unless it answers webhooks. A candidate
/// requires this only once it leads.
fn prepare(context: &Context, controllers: &[Named]) {
    controllers.iter().for_each(|(name, controller)| controller.prepare(&context.for_controller(name)));
}

fn start(context: &Context, workers: &Handle, controllers: Vec<Named>) -> Running {
    let mut running = JoinSet::new();
    for (name, controller) in controllers {
        let context = context.for_controller(&name);
        tracing::info!(controller = name, "Starting Controller");
        running.spawn_on(async move { (name, controller.run(context).await) }, workers);
    }
    running
}

/// Waits for the shutdown, then stops the controllers and waits for them within the grace period.
async fn work(
    context: &Context,
    running: &mut Running,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), Error> {
    tokio::select! {
        biased;
        error = first_end(running) => return Err(error),
        () = shutdown.cancelled() => {}
    }
    tracing::info!(controllers = running.len(), "Stopping and waiting for controllers");
    context.shutdown.cancel();
    tokio::time::timeout(grace, all_ends(running)).await.map_err(|_| Error::Grace(grace))??;
    context.events.flush(LAST_EVENTS).await;
    Ok(())
}

async fn first_end(running: &mut Running) -> Error {
    match running.join_next().await {
        Some(ended) => ended_early(ended),
        None => std::future::pending().await,
    }
}

async fn all_ends(running: &mut Running) -> Result<(), Error> {
    while let Some(ended) = running.join_next().await {
        if !matches!(ended, Ok((_, Ok(())))) {
            return Err(ended_early(ended));
        }
    }
    tracing::info!("All controllers finished");
    Ok(())
}

fn ended_early(ended: Result<(String, Result<(), reconciler::Error>), tokio::task::JoinError>) -> Error {
    match ended {
        Ok((name, result)) => Error::Controller { name, source: result.err() },
        Err(panic) => Error::Controller { name: "?".to_owned(), source: Some(panic.into()) },
    }
}

/// Gives each controller a unique name. A second chart for the same kind in another group gets a number.
fn name(controllers: Vec<Box<dyn Controller>>) -> Vec<Named> {
    let mut taken = HashSet::new();
    let mut named = Vec::new();
    for controller in controllers {
        let name = free_name(controller.name(), &taken);
        taken.insert(name.clone());
        named.push((name, controller));
    }
    named
}

fn free_name(name: &str, taken: &HashSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    std::iter::once(name.to_owned()).chain(numbered).find(|n| !taken.contains(n)).unwrap_or_default()
}

fn log_namespaces(namespaces: &Namespaces) {
    match namespaces.is_all() {
        true => tracing::info!("Watching all namespaces"),
        false => tracing::info!(namespaces = namespaces.0.join(","), "Watching namespaces"),
    }
}

/// The webhooks of the process and the address that they are served at.
struct Hooks {
    webhooks: Webhooks,
    certificates: Certificates,
    certificate: server::Certificate,
    listener: Listener,
    replicas: Replicas,
}

impl Hooks {
    async fn bind(config: &Config, webhooks: Webhooks) -> Result<Hooks, Error> {
        let certificate = server::Certificate::default();
        let listener = server::webhooks(&config.webhooks.bind_address, certificate.clone()).await?;
        let own = Some(&config.leader_election_id).filter(|id| !id.is_empty()).unwrap_or(&config.program);
        let name = Some(config.webhooks.name.clone()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("{own}-webhook"));
        let namespace = own_namespace(Path::new(NAMESPACE_FILE), &config.leader_election_namespace);
        let place = Endpoint::of(&config.webhooks, name, namespace, listener.port());
        let certificates = Certificates::new(&config.webhooks, place);
        let replicas = if config.leader_elect { Replicas::Several } else { Replicas::One };
        Ok(Hooks { webhooks, certificates, certificate, listener, replicas })
    }

    fn publisher(&self) -> Box<dyn Controller> {
        let (webhooks, certificates) = (self.webhooks.clone(), self.certificates.clone());
        Box::new(Publisher { webhooks, certificates, replicas: self.replicas })
    }
}

/// The servers, which stop last.
struct Servers {
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
    /// How long they may take to stop.
    limit: Duration,
    liveness: Liveness,
    _pulse: AbortOnDropHandle<()>,
}

impl Servers {
    /// Serves the probes on the thread of the lease, and metrics beside the controllers: a scrape of many resources
    /// delays neither the lease nor the probes. `/healthz` fails if no thread of the controllers is free for long.
    async fn start(config: &Config, context: &Context, workers: &Handle) -> Result<Servers, Error> {
        let (shutdown, liveness) = (CancellationToken::new(), Liveness::default());
        let (tasks, limit) = (JoinSet::new(), Duration::ZERO);
        let pulse = AbortOnDropHandle::new(tokio::spawn(pulse::watch(workers.clone(), liveness.clone())));
        let mut servers = Servers { shutdown, tasks, limit, liveness: liveness.clone(), _pulse: pulse };
        // Not the lease's client: a connection is driven by the runtime that sends its first request.
        let (metrics, api) = (context.metrics.clone(), Arc::new(context.client.clone()));
        let tls = config.metrics_tls.as_ref();
        let metrics = server::metrics(&config.metrics_bind_address, tls, metrics, api).await?;
        servers.add("Serving metrics server", metrics, workers);
        let probes = server::probes(&config.health_probe_bind_address, context.readiness.clone(), liveness).await?;
        servers.add("Serving health probes", probes, &Handle::current());
        Ok(servers)
    }

    fn add(&mut self, what: &str, server: Option<Server>, on: &Handle) {
        if let Some(server) = server {
            tracing::info!(bindAddress = %server.address, secure = server.is_secure(), "{what}");
            self.spawn(server, on);
        }
    }

    fn spawn(&mut self, server: Server, on: &Handle) {
        self.limit = self.limit.max(server.ends_within());
        self.tasks.spawn_on(server.serve(self.shutdown.clone()), on);
    }

    /// Serves webhooks beside the controllers, so that authors' code delays neither the lease nor the probes.
    fn add_webhooks(&mut self, hooks: Hooks, context: &Context, workers: &Handle) {
        let Hooks { webhooks, certificates, certificate, listener, .. } = hooks;
        let (client, metrics) = (context.client.clone(), context.metrics.clone());
        let router = webhooks::router(webhooks.clone(), client, metrics, self.liveness.clone());
        let server = listener.routes(router);
        tracing::info!(bindAddress = %server.address, secure = true, "Serving webhooks");
        self.spawn(server, workers);
        let needs = NeedsCertificate(context.readiness.require("certificate of webhooks", "not read yet"));
        let (client, stop) = (context.client.clone(), self.shutdown.clone());
        let keeping = async move {
            tokio::select! {
                () = certificates.run(client, webhooks, certificate, needs) => {}
                () = stop.cancelled() => {}
            }
        };
        self.tasks.spawn_on(keeping, workers);
    }

    /// Serves a site beside the controllers, so that its readers delay neither the lease nor the probes.
    async fn add_site(
        &mut self,
        config: &Config,
        (site, senders): (Arc<dyn Site>, Option<Senders>),
        context: &Context,
        workers: &Handle,
    ) -> Result<(), Error> {
        let (files, api) = (config.web_certificate.clone(), Arc::new(context.client.clone()));
        let actions = senders.is_some();
        if let Some(server) = server::site(&config.web_bind_address, files, site, api, senders).await? {
            tracing::info!(bindAddress = %server.address, secure = server.is_secure(), actions, "Serving page");
            self.spawn(server, workers);
        }
        Ok(())
    }

    /// Stops the servers, after the manager ended like this, and closes open connections, which Prometheus would keep.
    /// Abandons servers that do not stop: reconciles may block all of their threads.
    async fn stop_after(self, ended: &Result<(), Error>) {
        let Servers { shutdown, mut tasks, limit, .. } = self;
        let limit = if let Err(Error::Grace(_)) = ended { limit.min(LATE) } else { limit };
        shutdown.cancel();
        let gone = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, gone).await.is_err() {
            tracing::warn!("A server does not stop");
        }
    }
}

/// Cancels `shutdown` on the first SIGTERM or SIGINT, and `abort` on the second.
pub(super) async fn signals(shutdown: CancellationToken, abort: CancellationToken) {
    for token in [shutdown, abort] {
        if let Err(error) = signal().await {
            tracing::error!(%error, "Cannot listen for signals");
            return std::future::pending().await;
        }
        tracing::info!("Stopping: signal received");
        token.cancel();
    }
}

async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_threads_are_blocked_ends_within_the_scaffolds_grace_period() {
        let grace = Config::default().shutdown_grace;
        for (ended, expected) in [(Err(Error::Grace(grace)), LATE), (Ok(()), Duration::from_secs(3))] {
            let (shutdown, liveness) = (CancellationToken::new(), Liveness::default());
            let (mut tasks, limit) = (JoinSet::new(), Duration::from_secs(3));
            tasks.spawn(std::future::pending());
            let began = Instant::now();
            let pulse = AbortOnDropHandle::new(tokio::spawn(std::future::pending()));
            Servers { shutdown, tasks, limit, liveness, _pulse: pulse }.stop_after(&ended).await;
            let took = began.elapsed();
            assert!(took >= expected && took < expected + Duration::from_millis(10), "{took:?} after {ended:?}");
        }
        let all = grace + lease::SETTLING.max(lease::ANSWERS + STOPPING) + LATE;
        assert!(all < Duration::from_secs(10), "{all:?}");
    }
}
