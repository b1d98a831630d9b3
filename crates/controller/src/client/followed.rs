//! Notices the end of a watch's stream, independently of its reader.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::contact::{Contact, Ended};

/// The body of a response; if it is a watch's stream, its end is reported to the contact.
pub(super) struct Followed<B> {
    inner: B,
    stream: Option<Stream>,
}

/// The stream of a watch. It ends once.
pub(super) struct Stream {
    contact: Contact,
    selection: String,
    ended: Ended,
    /// Ends it early.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.contact.ended(&self.selection, self.ended);
    }
}

impl<B> Followed<B> {
    /// Follows the stream of the watch with this selection, until `end` is cancelled.
    pub(super) fn by(contact: Contact, selection: String, end: CancellationToken, inner: B) -> Followed<B> {
        let end = Box::pin(end.cancelled_owned());
        Followed { inner, stream: Some(Stream { contact, selection, ended: Ended::Unread, end }) }
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

impl<B: Body + Unpin> Body for Followed<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if self.stream.as_mut().is_some_and(|stream| stream.end.as_mut().poll(task).is_ready()) {
            self.end(Ended::Broken);
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(task));
        match &frame {
            Some(Ok(_)) => {}
            Some(Err(_)) => self.end(Ended::Broken),
            None => self.end(Ended::Whole),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
