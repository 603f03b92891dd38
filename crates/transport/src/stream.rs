//! One connection's bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::shown::Shown;

/// Of all connections of this process, as their protocols see them: behind TLS.
static RECEIVED: AtomicU64 = AtomicU64::new(0);
static SENT: AtomicU64 = AtomicU64::new(0);

/// Bytes that connections brought, and took, since the process started. What goes through a WebSocket counts for its
/// connection and for what is spoken inside.
pub fn bytes() -> (u64, u64) {
    (RECEIVED.load(Ordering::Relaxed), SENT.load(Ordering::Relaxed))
}

fn sent(written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
    if let Poll::Ready(Ok(count)) = written {
        SENT.fetch_add(count as u64, Ordering::Relaxed);
    }
    written
}

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, whatever it runs over.
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Through another protocol, such as a WebSocket.
    Tunnel(Box<dyn Duplex>),
    /// Some of it was read to tell what is spoken. Once that is read again, it is the stream itself.
    Begun(Box<Begun>),
}

/// A connection whose first bytes were read already.
pub struct Begun {
    head: Bytes,
    rest: Stream,
}

impl Stream {
    /// Bytes that came before those of a stream.
    pub(crate) fn begun(head: Bytes, rest: Stream) -> Stream {
        match head.is_empty() {
            true => rest,
            false => Stream::Begun(Box::new(Begun { head, rest })),
        }
    }

    /// Whether the client had to be shown a certificate on this connection itself.
    pub fn is_tls(&self) -> bool {
        match self {
            Stream::Tls(_) => true,
            Stream::Plain(_) | Stream::Tunnel(_) => false,
            Stream::Begun(begun) => begun.rest.is_tls(),
        }
    }

    /// What the client has shown of itself on this connection, where it was asked.
    pub fn shown(&self) -> Shown {
        match self {
            Stream::Tls(stream) => Shown::of(stream.get_ref().1.peer_certificates()),
            Stream::Plain(_) | Stream::Tunnel(_) => Shown::default(),
            Stream::Begun(begun) => begun.rest.shown(),
        }
    }

    /// The host that the client wants to speak with, where it said so in a handshake of this connection itself.
    pub fn asked_host(&self) -> Option<&str> {
        match self {
            Stream::Tls(stream) => stream.get_ref().1.server_name(),
            Stream::Plain(_) | Stream::Tunnel(_) => None,
            Stream::Begun(begun) => begun.rest.asked_host(),
        }
    }

    /// Has the connection be reset when it is dropped, so that the other side finds it broken and no end. Through a
    /// tunnel nobody can: there it just ends.
    pub fn reset_when_dropped(&self) {
        let socket = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Tunnel(_) => return,
            Stream::Begun(begun) => return begun.rest.reset_when_dropped(),
        };
        // One that is broken already needs none.
        let _ = socket.set_zero_linger();
    }

    fn inner(self: Pin<&mut Self>) -> Pin<&mut dyn Duplex> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream),
            Stream::Tls(stream) => Pin::new(stream.as_mut()),
            Stream::Tunnel(stream) => Pin::new(stream.as_mut()),
            Stream::Begun(begun) => Pin::new(&mut begun.rest),
        }
    }

    /// Gives out what was read before; whether there was anything.
    fn give_head(&mut self, into: &mut ReadBuf<'_>) -> bool {
        let Stream::Begun(begun) = self else { return false };
        let count = begun.head.len().min(into.remaining());
        into.put_slice(&begun.head.split_to(count));
        if begun.head.is_empty() {
            // Nothing stays between a connection and its reader.
            let rest = Stream::Tunnel(Box::new(tokio::io::empty()));
            *self = std::mem::replace(&mut begun.rest, rest);
        }
        count > 0
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.give_head(into) {
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let read = self.inner().poll_read(cx, into);
        RECEIVED.fetch_add((into.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        sent(self.inner().poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        sent(self.inner().poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
            Stream::Tunnel(stream) => stream.is_write_vectored(),
            Stream::Begun(begun) => begun.rest.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_read_before_comes_first_and_then_nothing_stands_between() {
        let (near, mut far) = tokio::io::duplex(64);
        far.write_all(b"world").await.expect("written");
        let near = Stream::Tunnel(Box::new(near));
        let mut stream = Stream::begun(Bytes::from_static(b"hello, "), near);
        let mut few = [0; 3];
        stream.read_exact(&mut few).await.expect("some of the head");
        assert_eq!(&few, b"hel");
        assert!(matches!(stream, Stream::Begun(_)));
        let mut others = [0; 9];
        stream.read_exact(&mut others).await.expect("the others");
        assert_eq!(&others, b"lo, world");
        assert!(matches!(stream, Stream::Tunnel(_)), "the head falls away");
        stream.write_all(b"back").await.expect("written");
        let mut back = [0; 4];
        far.read_exact(&mut back).await.expect("an answer");
        assert_eq!(&back, b"back");
        assert!(matches!(Stream::begun(Bytes::new(), stream), Stream::Tunnel(_)));
    }
}
