//! What peers are reached through where it is not TCP: a simulation's network.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// A connection's end.
pub trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub type BoxSocket = Box<dyn Socket>;

/// Connects nodes.
pub trait Sockets: fmt::Debug + Send + Sync {
    /// Connects to an address as [`crate::Config::peers`] has it.
    fn connect(&self, to: String) -> BoxFuture<'static, io::Result<BoxSocket>>;

    fn listen(&self, on: SocketAddr) -> io::Result<BoxStream<'static, io::Result<BoxSocket>>>;
}

/// Takes the connections of peers in the place of a plain listener, as one that tells strangers apart
/// does.
pub trait Doorkeeper: fmt::Debug + Send + Sync {
    /// Called once, in the runtime that is to carry the connections. The stream ends with the port.
    fn listen(&self, on: SocketAddr) -> io::Result<BoxStream<'static, io::Result<BoxSocket>>>;
}

/// An accepted connection, as tonic wants it.
pub(crate) struct Accepted(pub BoxSocket);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
