//! Notices when code that never returns blocks all threads of the controllers. The lease has its own thread, so it would be
//! renewed forever, and no other process would take over.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::runtime::liveness::Liveness;

/// How often the threads are asked for a turn.
const PERIOD: Duration = Duration::from_secs(60);

/// How long a turn may take to come. The threads share their time among tasks that wait for the API server.
const LIMIT: Duration = Duration::from_secs(10);

/// Spawns a task on `workers` once a period. `liveness` counts it as work until one of the threads runs it. Must run on
/// another thread.
pub(super) async fn watch(workers: Handle, liveness: Liveness) {
    loop {
        let turn = liveness.begin("a turn on the threads of the controllers".to_owned(), LIMIT);
        // Fails only when the process ends.
        _ = workers.spawn(async move { drop(turn) }).await;
        sleep(PERIOD).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::Builder;
    use tokio::task::yield_now;
    use tokio_util::task::AbortOnDropHandle;

    use super::*;
    use crate::runtime::liveness::OVERDUE;

    #[tokio::test(start_paused = true)]
    async fn a_process_fails_while_all_threads_of_its_controllers_are_blocked() {
        let workers = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let liveness = Liveness::default();
        let block = || {
            let (begun, begins) = mpsc::channel();
            let (ends, end) = mpsc::channel::<()>();
            workers.spawn(async move { _ = (begun.send(()), end.recv()) });
            begins.recv().unwrap();
            ends
        };
        let (first, second) = (block(), block());
        let _watch = AbortOnDropHandle::new(tokio::spawn(watch(workers.handle().clone(), liveness.clone())));
        sleep(LIMIT + OVERDUE - Duration::from_secs(1)).await;
        assert_eq!(liveness.failure(), None, "it may still come");
        sleep(Duration::from_secs(2)).await;
        assert!(liveness.failure().is_some());
        drop(first);
        while liveness.failure().is_some() {
            yield_now().await;
        }
        drop(second);
        workers.shutdown_background();
    }
}
