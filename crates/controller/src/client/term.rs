//! Refuses to send writes once this process no longer leads. It sits below everything that waits or retries, so that
//! only the connection comes after it.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, FutureExt as _, MapErr, TryFutureExt as _};
use http::Request;
use tower::{BoxError, Layer, Service};

use crate::lease::Term;

/// A layer that adds this check.
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

/// The response to a read, which costs nothing extra.
type Unlimited<F, E> = MapErr<F, fn(E) -> BoxError>;

impl<S, B> Service<Request<B>> for WithinTermService<S>
where
    S: Service<Request<B>>,
    S::Response: 'static,
    S::Error: Into<BoxError> + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Either<
        Either<Ready<Result<S::Response, BoxError>>, BoxFuture<'static, Result<S::Response, BoxError>>>,
        Unlimited<S::Future, S::Error>,
    >;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let begun = self.term.begin(&request);
        let into = Into::into as fn(S::Error) -> BoxError;
        match begun {
            Err(lost) => Either::Left(Either::Left(ready(Err(lost.into())))),
            Ok(None) => Either::Right(self.inner.call(request).map_err(into)),
            Ok(Some(under_way)) => {
                let sent = self.inner.call(request).map_err(into);
                Either::Left(Either::Right(sent.inspect(move |_| under_way.answered()).boxed()))
            }
        }
    }
}
