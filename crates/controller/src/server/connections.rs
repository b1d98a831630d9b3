//! Limits how many clients a server holds, and for how long a client may stop reading. Anyone who reaches the port
//! could otherwise use up the process's memory and file descriptors.
//!
//! A full server accepts the newest client, so that probes and scrapes are answered: the address with the most
//! connections loses its oldest.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum_server::accept::Accept;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use outside::sync::lock;

/// How long a client may read nothing of a response.
pub(super) const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The open connections of a server.
#[derive(Clone)]
pub(super) struct Connections(Arc<Mutex<Table>>);

struct Table {
    most: usize,
    next: u64,
    /// By age, oldest first.
    open: BTreeMap<u64, Open>,
}

struct Open {
    from: IpAddr,
    end: CancellationToken,
}

/// A connection's entry in the table, until it is dropped.
struct Entry {
    number: u64,
    table: Arc<Mutex<Table>>,
}

impl Connections {
    pub(super) fn at_most(most: usize) -> Connections {
        Connections(Arc::new(Mutex::new(Table { most, next: 0, open: BTreeMap::new() })))
    }

    /// Adds a client, and ends another connection if the table is full.
    fn enter(&self, from: IpAddr) -> (Entry, CancellationToken) {
        let mut table = lock(&self.0);
        let (number, end) = (table.next, CancellationToken::new());
        table.next += 1;
        table.open.insert(number, Open { from, end: end.clone() });
        if table.open.len() > table.most
            && let Some(loser) = table.loser()
            && let Some(open) = table.open.remove(&loser)
        {
            open.end.cancel();
        }
        (Entry { number, table: self.0.clone() }, end)
    }
}

impl Table {
    /// Returns the oldest connection of the address that has the most.
    fn loser(&self) -> Option<u64> {
        let mut counts = HashMap::<IpAddr, usize>::new();
        self.open.values().for_each(|open| *counts.entry(open.from).or_default() += 1);
        let most = counts.values().copied().max()?;
        self.open.iter().find(|(_, open)| counts[&open.from] == most).map(|(number, _)| *number)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.table).open.remove(&self.number);
    }
}

/// Accepts connections within these limits, then passes them to the inner acceptor.
#[derive(Clone)]
pub(super) struct Limited<A> {
    pub(super) inner: A,
    pub(super) connections: Connections,
}

impl<A: Accept<Bounded, S>, S> Accept<TcpStream, S> for Limited<A> {
    type Stream = A::Stream;
    type Service = A::Service;
    type Future = futures::future::Either<A::Future, std::future::Ready<io::Result<(A::Stream, A::Service)>>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        match stream.peer_addr() {
            Ok(peer) => {
                let (place, end) = self.connections.enter(peer.ip().to_canonical());
                let ended = Box::pin(end.cancelled_owned());
                let bounded = Bounded { stream, ended, stalled: None, _entry: place };
                futures::future::Either::Left(self.inner.accept(bounded, service))
            }
            Err(error) => futures::future::Either::Right(std::future::ready(Err(error))),
        }
    }
}

/// A connection that ends when another takes its place, or when its client stops reading.
pub(super) struct Bounded {
    stream: TcpStream,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The timeout that runs while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
    _entry: Entry,
}

impl Bounded {
    fn check(&mut self, task: &mut Context<'_>) -> io::Result<()> {
        if self.ended.as_mut().poll(task).is_ready() { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    /// Returns the result of a write, and limits how long it may wait.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, task: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(WRITE_LIMIT)));
        ready!(stalled.as_mut().poll(task));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Bounded {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(task)?;
        Pin::new(&mut self.stream).poll_read(task, into)
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(task)?;
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.in_time(written, task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(task)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, parts);
        self.in_time(written, task)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_disconnected() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let acceptor =
            Limited { inner: axum_server::accept::DefaultAcceptor::new(), connections: Connections::at_most(1) };
        let (mut bounded, ()) = acceptor.accept(listener.accept().await.unwrap().0, ()).await.unwrap();
        let began = tokio::time::Instant::now();
        let error = loop {
            if let Err(error) = bounded.write_all(&[0; 1 << 16]).await {
                break error;
            }
        };
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, WRITE_LIMIT.as_secs()));
    }

    #[test]
    fn the_address_with_the_most_connections_loses_its_oldest() {
        let connections = Connections::at_most(4);
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let entered: Vec<_> = [1, 2, 2, 2, 3, 2, 4].into_iter().map(|last| connections.enter(ip(last))).collect();
        let ended: Vec<bool> = entered.iter().map(|(_, end)| end.is_cancelled()).collect();
        assert_eq!(ended, [false, true, true, true, false, false, false]);
        drop(entered);
        assert!(connections.0.lock().unwrap().open.is_empty());
    }
}
