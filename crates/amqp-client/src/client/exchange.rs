//! Bytes between a stream and the engine.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use amqp_protocol::engine::{Connection, Event, Millis};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{timeout, timeout_at};
use tokio_util::io::poll_read_buf;

use crate::Error;

/// A silent connection is looked after this often: heartbeats are the engine's.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;
/// Slices written at a time.
const SLICES_MAX: usize = 32;

/// A byte stream: TCP, or whatever is laid over it.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

pub(super) struct Exchange {
    stream: Box<dyn Transport>,
    /// All that was written to the stream has left it.
    is_flushed: bool,
    /// Read and not understood yet.
    input: BytesMut,
    started: Instant,
    pub engine: Connection,
}

impl Exchange {
    pub fn new(stream: Box<dyn Transport>, engine: Connection) -> Exchange {
        let (input, started) = (BytesMut::new(), Instant::now());
        Exchange { stream, is_flushed: true, input, started, engine }
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// The next event of what was read.
    pub fn poll(&mut self) -> Option<Event> {
        let now = self.now();
        self.engine.poll(&mut self.input, now)
    }

    /// Writes what there is to write, and waits until something was read or what the stream did not take
    /// at once was written, [`LOOK_EVERY`] at most.
    pub async fn turn(&mut self) -> io::Result<()> {
        self.engine.tick(self.now());
        self.engine.flush();
        let mut was_stuck = false;
        let exchanged = poll_fn(|cx| {
            match self.poll_write(cx)? {
                Poll::Ready(()) if was_stuck => return Poll::Ready(Ok(())),
                Poll::Ready(()) => {}
                Poll::Pending => was_stuck = true,
            }
            self.poll_read(cx)
        });
        timeout(LOOK_EVERY, exchanged).await.unwrap_or(Ok(()))
    }

    /// Writes what there is to write.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.engine.flush();
        poll_fn(|cx| self.poll_write(cx)).await
    }

    /// The first event that fits, of those seen before or those to come.
    pub async fn wait(
        &mut self,
        unclaimed: &mut VecDeque<Event>,
        fits: impl Fn(&Event) -> bool,
        by: Instant,
        what: &'static str,
    ) -> Result<Event, Error> {
        let mut seen = 0;
        loop {
            while let Some(event) = self.poll() {
                unclaimed.push_back(event);
            }
            let found = unclaimed.range(seen..).position(&fits);
            if let Some(event) = found.and_then(|at| unclaimed.remove(seen + at)) {
                return Ok(event);
            }
            for event in unclaimed.range(seen..) {
                if let Event::Closed { error, .. } = event {
                    return Err(Error::Ended(error.clone()));
                }
            }
            seen = unclaimed.len();
            let turned = timeout_at(by.into(), self.turn()).await;
            turned.map_err(|_| Error::Late(what))??;
        }
    }

    /// Ready when all is written and has left the stream's own buffers, which TLS and tunnels have.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let output = self.engine.output();
        while output.has_remaining() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = output.chunks_vectored(&mut slices);
            let stream = Pin::new(&mut self.stream);
            match ready!(stream.poll_write_vectored(cx, &slices[..count]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => output.advance(written),
            }
            self.is_flushed = false;
        }
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.reserve(READ_BYTES);
        match ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.input))? {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => Poll::Ready(Ok(())),
        }
    }
}
