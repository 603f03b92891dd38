//! A connection as tonic takes it, and how many there may be.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use auth::Certified;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::Connected;
use transport::Arrival;

/// Connections over the maximum, or at a port that is not theirs, that are told so at a time; more are
/// closed without a word.
const SURPLUS_MAX: usize = 256;
/// A client over the limit asks and is told within this, and is cut off then: it goes elsewhere, or
/// comes back when there may be a free slot.
const SURPLUS_FOR: Duration = Duration::from_secs(2);

pub(crate) struct Connection {
    arrival: Arrival,
    /// `None`: the connection has a slot of its own.
    surplus: Option<Surplus>,
    _permit: OwnedSemaphorePermit,
}

struct Surplus {
    connections_max: usize,
    ends: Pin<Box<Sleep>>,
}

/// What requests know of their connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionSlot {
    /// The connection is one more than these, which are as many as there may be.
    pub surplus_to: Option<usize>,
    /// It came to a port that does not take gRPC (CONN-24).
    pub misdirected: Option<Arc<str>>,
    /// What the client has shown of itself.
    pub certified: Option<Arc<Certified>>,
    /// Where it comes from.
    pub peer: Option<SocketAddr>,
}

/// The slots there are for connections (QUOTA-13).
pub(crate) struct ConnectionSlots {
    connections_max: usize,
    own: Arc<Semaphore>,
    surplus: Arc<Semaphore>,
}

impl ConnectionSlots {
    pub fn new(connections_max: usize) -> ConnectionSlots {
        let (own, surplus) = (Semaphore::new(connections_max), Semaphore::new(SURPLUS_MAX));
        ConnectionSlots { connections_max, own: Arc::new(own), surplus: Arc::new(surplus) }
    }

    /// `None`: not even a refusal is to be had.
    pub fn admit(&self, arrival: Arrival) -> Option<Connection> {
        if arrival.misdirected.is_none()
            && let Ok(permit) = self.own.clone().try_acquire_owned()
        {
            return Some(Connection { arrival, surplus: None, _permit: permit });
        }
        let permit = self.surplus.clone().try_acquire_owned().ok()?;
        let ends = Box::pin(tokio::time::sleep(SURPLUS_FOR));
        let surplus = Surplus { connections_max: self.connections_max, ends };
        Some(Connection { arrival, surplus: Some(surplus), _permit: permit })
    }
}

impl Connection {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut transport::Stream> {
        Pin::new(&mut self.get_mut().arrival.stream)
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionSlot;

    fn connect_info(&self) -> ConnectionSlot {
        let misdirected = self.arrival.misdirected.clone();
        let surplus = self.surplus.as_ref().filter(|_| misdirected.is_none());
        let surplus_to = surplus.map(|surplus| surplus.connections_max);
        let Arrival { certified, peer, .. } = &self.arrival;
        ConnectionSlot { surplus_to, misdirected, certified: certified.clone(), peer: Some(*peer) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(surplus) = &mut self.surplus
            && surplus.ends.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(())); // As if its client had hung up.
        }
        self.stream().poll_read(cx, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.arrival.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
