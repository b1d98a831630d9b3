//! Refuses to send writes once this process no longer leads. It sits below everything that waits or retries, so that
//! only the connection comes after it.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, FutureExt as _, MapErr, TryFutureExt as _};
use http::Request;
use tower::layer::layer_fn;
use tower::{BoxError, Layer, Service};

use crate::lease::Term;

/// Returns a layer that adds this check.
pub(super) fn within_term<S>(term: Term) -> impl Layer<S, Service = WithinTerm<S>> {
    layer_fn(move |inner| WithinTerm { inner, term: term.clone() })
}

#[derive(Clone)]
pub(super) struct WithinTerm<S> {
    inner: S,
    term: Term,
}

/// The response to a read, which costs nothing extra.
type Unlimited<F, E> = MapErr<F, fn(E) -> BoxError>;

impl<S, B> Service<Request<B>> for WithinTerm<S>
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
                // Without an answer, the server may still be handling it.
                let note = move |answer: &Result<_, _>| match answer {
                    Ok(_) => under_way.answered(),
                    Err(_) => drop(under_way),
                };
                Either::Left(Either::Right(sent.inspect(note).boxed()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_answer_is_lost_may_still_arrive() {
        for (answer, settles) in [(Ok(()), 0), (Err("connection reset"), 1)] {
            let term = Term::default();
            term.set_end(Instant::now() + Duration::from_secs(10));
            let server = tower::service_fn(move |_: Request<()>| ready(answer));
            let write = Request::patch("/api/v1/namespaces/ns/configmaps/a").body(()).unwrap();
            assert_eq!(within_term(term.clone()).layer(server).oneshot(write).await.is_ok(), answer.is_ok());
            let began = Instant::now();
            assert!(term.settle_by(began + Duration::from_secs(5)).await);
            assert_eq!(began.elapsed().as_secs(), settles, "{answer:?}");
        }
    }
}
