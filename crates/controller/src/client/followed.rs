//! Notices the end of a watch's stream, independently of its reader.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tower::BoxError;

use super::contact::{Contact, Ended};

/// A stream that ends earlier has failed if it delivered nothing, as in client-go. An API server ends a watch after
/// minutes.
const BRIEF: Duration = Duration::from_secs(1);

/// The end of a stream that has just begun. kube opens a watch that ends without an error again at once.
#[derive(Debug, thiserror::Error)]
#[error("the watch ended at once, without an event")]
struct EndedAtOnce;

/// The body of a response; if it is a watch's stream, its end is reported to the contact.
pub(super) struct Followed<B> {
    inner: B,
    stream: Option<Stream>,
}

/// The stream of a watch. It ends once.
pub(super) struct Stream {
    contact: Contact,
    selection: String,
    /// When it began; `None` once it has delivered something.
    silent_since: Option<Instant>,
    ended: Ended,
    /// Ends it early.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Stream {
    /// Returns whether it has just begun and has delivered nothing.
    fn is_brief(&self) -> bool {
        self.silent_since.is_some_and(|began| began.elapsed() < BRIEF)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.contact.ended(&self.selection, self.ended);
    }
}

impl<B> Followed<B> {
    /// Follows the stream of the watch with this selection, until `end` is cancelled.
    pub(super) fn by(contact: Contact, selection: String, end: CancellationToken, inner: B) -> Followed<B> {
        let (silent_since, end) = (Some(Instant::now()), Box::pin(end.cancelled_owned()));
        Followed { inner, stream: Some(Stream { contact, selection, silent_since, ended: Ended::Unread, end }) }
    }

    /// Wraps a response that is not a stream.
    pub(super) fn nowhere(inner: B) -> Followed<B> {
        Followed { inner, stream: None }
    }

    fn end(&mut self, how: Ended) {
        if let Some(mut stream) = self.stream.take() {
            stream.ended = how;
        }
    }
}

impl<B: Body<Error: Into<BoxError>> + Unpin> Body for Followed<B> {
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if self.stream.as_mut().is_some_and(|stream| stream.end.as_mut().poll(task).is_ready()) {
            self.end(Ended::Broken);
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(task));
        let is_brief = self.stream.as_ref().is_some_and(Stream::is_brief);
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                self.stream.iter_mut().for_each(|stream| stream.silent_since = None);
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                self.end(Ended::Broken);
                // kube treats some of these errors as a normal end.
                Some(Err(if is_brief { EndedAtOnce.into() } else { error.into() }))
            }
            None => {
                self.end(Ended::Whole);
                is_brief.then(|| Err(EndedAtOnce.into()))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::ready;
    use futures::stream::{self, StreamExt as _};
    use http_body_util::{BodyExt as _, StreamBody};
    use tokio::time::sleep;

    use super::*;

    type Piece = Result<&'static str, &'static str>;

    /// Reads a stream that delivers this after so many seconds, and then ends.
    async fn read(seconds: u64, piece: Option<Piece>, end: CancellationToken) -> Result<usize, String> {
        let mut frame = piece.map(|piece| piece.map(|text| Frame::data(text.as_bytes())).map_err(BoxError::from));
        let frames = stream::once(sleep(Duration::from_secs(seconds))).filter_map(move |()| ready(frame.take()));
        let followed = Followed::by(Contact::default(), "all".to_owned(), end, StreamBody::new(frames.boxed()));
        followed.collect().await.map(|read| read.to_bytes().len()).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_at_once_without_an_event_has_failed() {
        let failed = Err("the watch ended at once, without an event".to_owned());
        for (seconds, piece, expected) in [
            (0, None, failed.clone()),
            (0, Some(Err("broken")), failed),
            (0, Some(Ok("event")), Ok(5)),
            (1, None, Ok(0)),
            (1, Some(Err("broken")), Err("broken".to_owned())),
        ] {
            assert_eq!(read(seconds, piece, CancellationToken::new()).await, expected, "{seconds} s, {piece:?}");
        }
        let end = CancellationToken::new();
        end.cancel();
        assert_eq!(read(0, None, end).await, Ok(0), "this process ends it");
    }
}
