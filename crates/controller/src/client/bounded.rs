//! Limits how much of a response is read, and for how long: an ordinary response as a whole, a watch per event.
//! Exceeding the limit ends the response.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use outside::MAX_RESPONSE_BYTES;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::BoxError;

/// The limit for one watch event. etcd stores objects of up to 1.5 MiB, which may be several times larger as JSON.
const MAX_EVENT: usize = 16 << 20;

/// How long the body of a response may take to arrive, from its head. A large page of a list first waits for its turn,
/// for up to 55 s, and then arrives within 30 s.
const ARRIVAL: Duration = Duration::from_secs(90);

/// A response whose body did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not complete its answer within {} seconds", ARRIVAL.as_secs())]
struct Late;

/// A response that exceeded its limit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooLarge {
    #[error("the API server's answer exceeds {0} bytes")]
    Answer(usize),
    #[error("an event of the API server's watch exceeds {0} bytes")]
    Event(usize),
}

/// The body of a response, with a limit.
pub(super) struct Bounded<B> {
    inner: B,
    /// Bytes read of the response, or of the current event.
    read: usize,
    limit: usize,
    /// Whether each line is an event.
    lines: bool,
    /// When it must be complete; `None` if it may last for ever.
    until: Option<Instant>,
    /// Wakes the reader then; `None` while nothing has been waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> Bounded<B> {
    pub(super) fn answer(inner: B) -> Bounded<B> {
        Bounded { until: Some(Instant::now() + ARRIVAL), ..Bounded::log(inner) }
    }

    /// Limits a log, which may be followed for as long as its container runs.
    pub(super) fn log(inner: B) -> Bounded<B> {
        Bounded { inner, read: 0, limit: MAX_RESPONSE_BYTES, lines: false, until: None, late: None }
    }

    pub(super) fn watch(inner: B) -> Bounded<B> {
        Bounded { limit: MAX_EVENT, lines: true, ..Bounded::log(inner) }
    }

    fn count(&mut self, data: &[u8]) -> Result<(), TooLarge> {
        let lines = self.lines;
        // Every part but the first starts a new event.
        for (at, part) in data.split(|byte| lines && *byte == b'\n').enumerate() {
            self.read = if at == 0 { self.read + part.len() } else { part.len() };
            if self.read > self.limit {
                return Err(if lines { TooLarge::Event(self.limit) } else { TooLarge::Answer(self.limit) });
            }
        }
        Ok(())
    }

    /// Completes when the response is late.
    fn poll_late(&mut self, task: &mut Context<'_>) -> Poll<Late> {
        let Some(until) = self.until else { return Poll::Pending };
        let late = self.late.get_or_insert_with(|| Box::pin(sleep_until(until)));
        late.as_mut().poll(task).map(|()| Late)
    }
}

impl<B> Body for Bounded<B>
where
    B: Body + Unpin,
    B::Data: AsRef<[u8]>,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let frame = match Pin::new(&mut self.inner).poll_frame(task) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => return self.poll_late(task).map(|late| Some(Err(late.into()))),
        };
        let counted = frame.data_ref().map_or(Ok(()), |data| self.count(data.as_ref()));
        Poll::Ready(Some(counted.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut body: Bounded<()>, limit: usize, pieces: &[&str], expected: Result<usize, TooLarge>) {
        body.limit = limit;
        let counted = pieces.iter().try_for_each(|piece| body.count(piece.as_bytes()));
        assert_eq!(counted.map(|()| body.read), expected, "{pieces:?}");
    }

    #[test]
    fn an_answer_is_bounded_as_a_whole() {
        let check = |pieces: &[&str], expected| check(Bounded::answer(()), 4, pieces, expected);
        check(&[], Ok(0));
        check(&["ab", "cd"], Ok(4));
        check(&["ab", "cde"], Err(TooLarge::Answer(4)));
        check(&["a\nb\n", "c"], Err(TooLarge::Answer(4)));
    }

    #[test]
    fn a_watch_is_bounded_by_its_events() {
        let check = |pieces: &[&str], expected| check(Bounded::watch(()), 4, pieces, expected);
        check(&["abcd\n", "efgh\ni"], Ok(1));
        check(&["abcd\n"], Ok(0));
        check(&["ab", "cd\nefgh\n\n"], Ok(0));
        check(&["ab", "cde\n"], Err(TooLarge::Event(4)));
        check(&["a\nbcdef"], Err(TooLarge::Event(4)));
        check(&["a\nbcd", "e", "f\n"], Err(TooLarge::Event(4)));
    }

    #[tokio::test]
    async fn exceeding_the_limit_ends_the_answer() {
        use http_body_util::{BodyExt as _, Full};
        let body = |text: &'static str| Full::new(text.as_bytes());
        let read = async |mut bounded: Bounded<Full<&'static [u8]>>| {
            bounded.limit = 4;
            bounded.collect().await.map(|read| read.to_bytes().to_vec()).map_err(|error| error.to_string())
        };
        assert_eq!(read(Bounded::answer(body("abcd"))).await.unwrap(), b"abcd");
        let error = read(Bounded::answer(body("abcde"))).await.unwrap_err();
        assert_eq!(error, "the API server's answer exceeds 4 bytes");
        let error = read(Bounded::watch(body("a\nbcdef"))).await.unwrap_err();
        assert_eq!(error, "an event of the API server's watch exceeds 4 bytes");
        assert_eq!(read(Bounded::watch(body("abcd\nefgh\n"))).await.unwrap(), b"abcd\nefgh\n");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_body_stalls_ends_but_a_watch_and_a_log_wait() {
        use futures::{StreamExt as _, stream};
        use http_body_util::{BodyExt as _, StreamBody};
        let stalled = || {
            let begun = stream::iter([Ok::<_, BoxError>(Frame::data(&b"{"[..]))]);
            StreamBody::new(begun.chain(stream::pending()))
        };
        let began = Instant::now();
        let error = Bounded::answer(stalled()).collect().await.map(drop).unwrap_err();
        assert_eq!(error.to_string(), "the API server did not complete its answer within 90 seconds");
        assert!(began.elapsed() >= ARRIVAL && began.elapsed() < 2 * ARRIVAL, "{:?}", began.elapsed());
        for endless in [Bounded::watch(stalled()), Bounded::log(stalled())] {
            assert!(tokio::time::timeout(10 * ARRIVAL, endless.collect()).await.is_err());
        }
    }

    #[test]
    fn the_limits_fit_the_largest_objects_of_a_server() {
        assert_eq!((Bounded::answer(()).limit, Bounded::watch(()).limit), (67_108_864, 16_777_216));
    }
}
