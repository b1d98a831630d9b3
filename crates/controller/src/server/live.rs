//! Notifies a browser, by server-sent events, that what its reader may see at an address has changed. The browser then
//! loads the page again by an ordinary request, so neither a stream nor a slow reader keeps content in memory.
//!
//! Each event is a digest of what this caller may see there, so it reveals no change of anything else. A stream ends
//! after a minute. Browsers then open another, for which the token is reviewed again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures::Stream;
use futures::stream;
use http::Uri;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::callers::Caller;
use super::site::{Guarded, Visit};

/// How often to look for changes.
const PAUSE: Duration = Duration::from_millis(250);
const LIFE: Duration = Duration::from_secs(60);
/// How soon a browser opens another stream.
const RETRY: Duration = Duration::from_millis(500);
/// How often a silent stream shows that it is alive, which also finds readers who have left.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// The stream of one open page.
pub(super) struct Follower {
    guarded: Arc<Guarded>,
    caller: Caller,
    address: Uri,
    ticks: Interval,
    until: Instant,
    /// The last generation of the site that was read.
    seen: Option<u64>,
    /// The last digest that was sent.
    sent: Option<u64>,
}

/// Returns the events for a caller who has this address open. The first one comes at once.
pub(super) fn follow(
    guarded: Arc<Guarded>,
    caller: Caller,
    address: Uri,
) -> Sse<KeepAliveStream<impl Stream<Item = Result<Event, Infallible>>>> {
    let events = stream::unfold(Follower::new(guarded, caller, address), |mut follower| async move {
        let version = follower.next().await?;
        let event = Event::default().retry(RETRY).data(version.to_string());
        Some((Ok(event), follower))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE))
}

impl Follower {
    pub(super) fn new(guarded: Arc<Guarded>, caller: Caller, address: Uri) -> Follower {
        let mut ticks = interval(PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let until = Instant::now() + LIFE;
        Follower { guarded, caller, address, ticks, until, seen: None, sent: None }
    }

    /// Waits for the next digest; returns `None` at the end, or if the API server does not say what the caller may read.
    pub(super) async fn next(&mut self) -> Option<u64> {
        loop {
            let now = self.ticks.tick().await;
            if now >= self.until {
                return None;
            }
            let generation = self.guarded.site.generation();
            if self.seen == Some(generation) {
                continue;
            }
            let (path, query) = (self.address.path(), self.address.query().unwrap_or_default());
            let visit = Visit { path, query, as_json: false, takes_forms: false, access: &self.caller };
            let version = self.guarded.site.version(visit).await.ok()?;
            self.seen = Some(generation);
            if self.sent != Some(version) {
                self.sent = Some(version);
                return Some(version);
            }
        }
    }
}
