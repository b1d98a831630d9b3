//! The threads of a process: one for the lease and the probes, which no reconcile and no scrape can block, and others
//! for the controllers, metrics, webhooks and the site.

use std::io;
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime};

/// The maximum number of threads for controllers. More would only cost memory, because all work waits for the API
/// server.
const MAX_WORKERS: usize = 4;

/// The threads of a process. Dropping it waits for nothing that still runs on them.
pub struct Threads {
    control: Runtime,
    workers: Option<Runtime>,
    handle: Handle,
}

impl Threads {
    /// Starts the threads: for controllers as many as there are processors, at least 2 and at most 4.
    ///
    /// # Errors
    /// The system refuses another thread.
    pub fn start() -> io::Result<Threads> {
        let count = available_parallelism().map_or(2, usize::from).clamp(2, MAX_WORKERS);
        let workers = Builder::new_multi_thread().worker_threads(count).enable_all().build()?;
        let control = Builder::new_current_thread().enable_all().build()?;
        Ok(Threads { control, handle: workers.handle().clone(), workers: Some(workers) })
    }

    /// Returns the runtime for controllers, for [`Manager::controllers_on`](super::Manager::controllers_on).
    pub fn workers(&self) -> &Handle {
        &self.handle
    }

    /// Runs a manager to its end.
    pub fn run<T>(&self, manager: impl Future<Output = T>) -> T {
        self.control.block_on(manager)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Tasks that exceed the grace period must not hold up the end of the process.
        self.workers.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
