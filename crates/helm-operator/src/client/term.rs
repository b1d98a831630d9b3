//! Refuses to send writes once this process no longer leads. Below everything that waits or repeats, so that only the connection comes after it.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures::future::{Either, MapErr, TryFutureExt as _};
use http::Request;
use tower::{BoxError, Layer, Service};

use crate::lease::Term;

/// Adds the check to a service.
#[derive(Clone)]
pub(super) struct WithinTerm(pub(super) Term);

#[derive(Clone)]
pub(super) struct WithinTermService<S> {
    inner: S,
    term: Term,
}

impl<S> Layer<S> for WithinTerm {
    type Service = WithinTermService<S>;

    fn layer(&self, inner: S) -> WithinTermService<S> {
        WithinTermService { inner, term: self.0.clone() }
    }
}

impl<S, B> Service<Request<B>> for WithinTermService<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<Ready<Result<S::Response, BoxError>>, MapErr<S::Future, fn(S::Error) -> BoxError>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.term.check() {
            Err(lost) if !request.method().is_safe() => Either::Left(ready(Err(lost.into()))),
            _ => Either::Right(self.inner.call(request).map_err(Into::into as fn(S::Error) -> BoxError)),
        }
    }
}
