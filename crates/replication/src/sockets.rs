//! What peers are reached through where it is not plain TCP: TLS, or a simulation's network.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// A connection's end.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub type BoxSocket = Box<dyn Socket>;

/// Reaches other nodes.
pub trait Dialler: fmt::Debug + Send + Sync {
    /// Connects to an address as [`crate::Config::peers`] has it, where that node is expected: a dialler
    /// that can tell connects to no other.
    fn connect(&self, node: u64, to: String) -> BoxFuture<'static, io::Result<BoxSocket>>;
}

/// Takes the connections of peers in the place of a plain listener, as one that tells strangers apart
/// does.
pub trait Doorkeeper: fmt::Debug + Send + Sync {
    /// Called once, in the runtime that is to carry the connections. The stream ends with the port.
    fn listen(&self, on: SocketAddr) -> io::Result<BoxStream<'static, io::Result<Visitor>>>;
}

/// A connection that was taken.
pub struct Visitor {
    pub socket: BoxSocket,
    /// What the other end has shown of itself, if anything.
    pub credential: Option<Arc<dyn Credential>>,
}

/// What whoever opened a connection has shown of itself, by which it is known.
pub trait Credential: fmt::Debug + Send + Sync {
    /// Whether that is a node of this number, which is reached at this address as far as it is known.
    ///
    /// # Errors
    /// One sentence: why not, and what to change.
    fn vouches_for(&self, node: u64, address: Option<&str>) -> Result<(), String>;
}

/// An accepted connection, as tonic wants it.
pub(crate) struct Accepted(pub Visitor);

/// The credential of the connection that a call came over.
#[derive(Clone, Debug)]
pub(crate) struct Shown(pub Option<Arc<dyn Credential>>);

impl Connected for Accepted {
    type ConnectInfo = Shown;

    fn connect_info(&self) -> Shown {
        Shown(self.0.credential.clone())
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.socket).poll_shutdown(cx)
    }
}
