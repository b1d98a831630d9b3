//! Runs a manager in the process of a test, against a real API server: breakpoints and coverage include it.

use std::path::Path;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::{self, Error, NoCluster};
use crate::lease::Term;
use crate::metrics::Metrics;
use crate::report::chain;

/// The user agent of the manager's client.
const PROGRAM: &str = "test";

/// A manager that runs on threads of its own. Dropping it asks the manager to stop, and does not wait.
pub struct InProcess<E> {
    shutdown: DropGuard,
    thread: JoinHandle<Result<(), E>>,
}

impl<E: Send + 'static> InProcess<E> {
    /// Starts a manager as the user of this kubeconfig: an administrator, or a ServiceAccount, so that a missing rule
    /// of its role shows.
    ///
    /// ```no_run
    /// # use controller::manager::{Config, Manager};
    /// # use controller::testing::InProcess;
    /// # fn test(kubeconfig: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config { metrics_bind_address: "0".into(), health_probe_bind_address: "0".into(), ..Config::default() };
    /// let manager = Manager::new(config); // .reconciler(…)
    /// let running = InProcess::start(kubeconfig, |client, shutdown| manager.run_until(client, shutdown))?;
    /// // Write resources, wait for effects.
    /// running.stop()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub fn start<R, F>(kubeconfig: &Path, run: R) -> Result<InProcess<E>, Error>
    where
        R: FnOnce(Client, CancellationToken) -> F + Send + 'static,
        F: Future<Output = Result<(), E>>,
    {
        let (kubeconfig, shutdown) = (kubeconfig.to_owned(), CancellationToken::new());
        let (stopped, (connected, answer)) = (shutdown.clone(), mpsc::channel());
        let thread = thread::spawn(move || {
            let (runtime, client) = match open(&kubeconfig) {
                Ok(opened) => opened,
                Err(error) => {
                    let _ = connected.send(Err(error));
                    return Ok(());
                }
            };
            let _ = connected.send(Ok(()));
            runtime.block_on(run(client, stopped))
        });
        answer.recv().unwrap_or(Ok(()))?;
        Ok(InProcess { shutdown: shutdown.drop_guard(), thread })
    }

    /// Asks the manager to stop, waits until it has, and returns its result.
    ///
    /// # Errors
    /// The manager's own, even if it ended earlier.
    ///
    /// # Panics
    /// If the manager panicked.
    pub fn stop(self) -> Result<(), E> {
        drop(self.shutdown);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn open(kubeconfig: &Path) -> Result<(Runtime, Client), Error> {
    let invalid = |why: String| NoCluster::Invalid { path: kubeconfig.display().to_string(), why };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| invalid(error.to_string()))?;
    let client = runtime.block_on(async {
        let file = Kubeconfig::read_from(kubeconfig).map_err(|error| invalid(chain(&error)))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| invalid(chain(&error)))?;
        client::connect(config, PROGRAM, &Metrics::of(PROGRAM), &Term::default()).map(|connection| connection.client)
    })?;
    Ok((runtime, client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_named() {
        let started = InProcess::start(Path::new("/no/such/file"), |_, _| async { Ok::<(), ()>(()) });
        let error = started.err().unwrap().to_string();
        assert!(error.contains("/no/such/file"), "{error}");
    }
}
