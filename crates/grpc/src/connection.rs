//! A connection as tonic takes it, and how many there may be.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use auth::Certified;
use limits::{Exceeded, FrontEnd, Ledger, Origin, Slot};
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
    place: Place,
}

enum Place {
    /// One of its own.
    Own(Slot),
    /// One for as long as it is told why it has none.
    Surplus(Surplus),
}

impl Place {
    fn count_bytes(&self, received: usize, sent: usize) {
        if let Place::Own(slot) = self {
            slot.count_bytes(received as u64, sent as u64);
        }
    }

    fn count_written(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = written {
            self.count_bytes(0, count);
        }
        written
    }
}

struct Surplus {
    /// Absent where it came to a port that is not its own.
    exceeded: Option<Exceeded>,
    ends: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

/// What requests know of their connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionSlot {
    /// The connection is one too many.
    pub surplus: Option<Exceeded>,
    /// Its place, where it has one.
    pub slot: Option<Slot>,
    /// It came to a port that does not take gRPC (CONN-24).
    pub misdirected: Option<Arc<str>>,
    /// What the client has shown of itself.
    pub certified: Option<Arc<Certified>>,
    /// Where it comes from.
    pub peer: Option<SocketAddr>,
}

/// The slots there are for connections (QUOTA-13).
pub(crate) struct ConnectionSlots {
    ledger: Ledger,
    surplus: Arc<Semaphore>,
}

impl ConnectionSlots {
    pub fn new(ledger: Ledger) -> ConnectionSlots {
        ConnectionSlots { ledger, surplus: Arc::new(Semaphore::new(SURPLUS_MAX)) }
    }

    /// `None`: not even a refusal is to be had.
    pub fn admit(&self, arrival: Arrival) -> Option<Connection> {
        let opened = match arrival.misdirected {
            None => {
                let Arrival { peer, is_tls, is_web_socket, .. } = arrival;
                let origin = Origin { peer, is_tls, is_web_socket };
                self.ledger.open(FrontEnd::Grpc, origin).map_err(Some)
            }
            Some(_) => Err(None),
        };
        let exceeded = match opened {
            Ok(slot) => return Some(Connection { arrival, place: Place::Own(slot) }),
            Err(exceeded) => exceeded,
        };
        let _permit = self.surplus.clone().try_acquire_owned().ok()?;
        let ends = Box::pin(tokio::time::sleep(SURPLUS_FOR));
        let place = Place::Surplus(Surplus { exceeded, ends, _permit });
        Some(Connection { arrival, place })
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
        let Arrival { misdirected, certified, peer, .. } = &self.arrival;
        let (surplus, slot) = match &self.place {
            Place::Own(slot) => (None, Some(slot.clone())),
            Place::Surplus(surplus) => (surplus.exceeded, None),
        };
        let (misdirected, certified) = (misdirected.clone(), certified.clone());
        ConnectionSlot { surplus, slot, misdirected, certified, peer: Some(*peer) }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_over = match &mut self.place {
            Place::Surplus(surplus) => surplus.ends.as_mut().poll(cx).is_ready(),
            Place::Own(slot) => slot.poll_closing(cx).is_ready(),
        };
        if is_over {
            return Poll::Ready(Ok(())); // As if its client had hung up.
        }
        let before = into.filled().len();
        let read = self.as_mut().stream().poll_read(cx, into);
        self.place.count_bytes(into.filled().len() - before, 0);
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write(cx, bytes);
        self.place.count_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = self.as_mut().stream().poll_write_vectored(cx, slices);
        self.place.count_written(written)
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
