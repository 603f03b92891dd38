//! How long a request's body is, told in two ways (HTTP-25): a proxy that takes the one and a server that
//! takes the other see different requests in the same bytes. The library settles on one and forgets that
//! there was another, so the heads are looked through as they pass.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use limits::Slot;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use transport::Stream;

/// What was found out of the requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Framing(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    is_ambiguous: AtomicBool,
    is_last: AtomicBool,
    is_upgraded: AtomicBool,
}

impl Framing {
    /// Whether a request came that says its length in two ways.
    pub fn is_ambiguous(&self) -> bool {
        self.0.is_ambiguous.load(Ordering::Relaxed)
    }

    /// Whether what follows is not looked through: the connection ends with this request.
    pub fn is_last(&self) -> bool {
        self.0.is_last.load(Ordering::Relaxed)
    }

    /// From here on the connection speaks another protocol: there are no heads in it.
    pub fn upgrade(&self) {
        self.0.is_upgraded.store(true, Ordering::Relaxed);
    }
}

/// A connection whose requests' heads are looked through as they are read.
pub(crate) struct WatchedStream {
    stream: Stream,
    place: Place,
    framing: Framing,
    /// Where its bytes are counted, until it speaks another protocol.
    slot: Option<Slot>,
}

/// Where the next byte stands.
enum Place {
    Head(Vec<u8>),
    Body {
        left: u64,
    },
    /// Nothing is looked at any more.
    Beyond,
}

impl WatchedStream {
    /// `slot`: where its bytes are counted.
    pub fn new(stream: Stream, slot: Option<Slot>) -> (WatchedStream, Framing) {
        let framing = Framing::default();
        let place = Place::Head(Vec::new());
        (WatchedStream { stream, place, framing: framing.clone(), slot }, framing)
    }

    fn count_written(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.count(0, if let Poll::Ready(Ok(count)) = written { count } else { 0 });
        written
    }

    fn count(&mut self, received: usize, sent: usize) {
        if self.framing.0.is_upgraded.load(Ordering::Relaxed) {
            // Whoever speaks the other protocol has a place of its own for it.
            self.slot = None;
        }
        if let Some(slot) = &self.slot {
            slot.count_bytes(received as u64, sent as u64);
        }
    }
}

impl Place {
    fn pass(&mut self, mut bytes: &[u8], framing: &Framing) {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self {
                Place::Beyond => return,
                Place::Body { left } => {
                    let count = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes = &bytes[count..];
                    *left -= count as u64;
                    if *left == 0 {
                        *self = Place::Head(Vec::new());
                    }
                }
                Place::Head(head) => {
                    bytes = rest;
                    // Empty lines before a request are passed over (RFC 9112, 2.2).
                    if head.is_empty() && matches!(byte, b'\r' | b'\n') {
                        continue;
                    }
                    head.push(byte);
                    if head.ends_with(b"\n\r\n") || head.ends_with(b"\n\n") {
                        *self = after(head, framing);
                    }
                }
            }
        }
    }
}

/// What comes behind a head.
fn after(head: &[u8], framing: &Framing) -> Place {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let values = |name: &'static str| {
        let fields = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(move |(found, _)| found.trim() == name).map(|(_, value)| value.trim())
    };
    let (length, encoding) = (values("content-length").next(), values("transfer-encoding").next());
    framing.0.is_ambiguous.fetch_or(length.is_some() && encoding.is_some(), Ordering::Relaxed);
    match (encoding, length.map(str::parse)) {
        (None, None | Some(Ok(0))) => Place::Head(Vec::new()),
        (None, Some(Ok(left))) => Place::Body { left },
        // Where it ends is not known here, or not as the library reads it, which takes "3, 3" for 3.
        (Some(_), _) | (None, Some(Err(_))) => {
            framing.0.is_last.store(true, Ordering::Relaxed);
            Place::Beyond
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        self.count(into.filled().len() - before, 0);
        let WatchedStream { place, framing, .. } = &mut *self;
        if framing.0.is_upgraded.load(Ordering::Relaxed) {
            *place = Place::Beyond;
        }
        place.pass(&into.filled()[before..], framing);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.count_written(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.count_written(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_25_a_length_told_twice_is_seen_wherever_it_stands() {
        const BOTH: &str =
            "POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 3\r\n\r\n";
        const PLAIN: &str = "POST /q HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
        const CHUNKED: &str = "POST /q HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        const GET: &str = "GET /q HTTP/1.1\r\nX: content-length\r\n\r\n";
        for (requests, is_ambiguous, is_last) in [
            (BOTH.to_owned(), true, true),
            (format!("{GET}{BOTH}"), true, true),
            (format!("{PLAIN}abc{BOTH}"), true, true),
            (format!("{PLAIN}abc\r\n{GET}"), false, false),
            (format!("{CHUNKED}3\r\nabc\r\n0\r\n\r\n"), false, true),
            (BOTH.replace("\r\n", "\n"), true, true),
            // An upgrade that nobody makes hides nothing.
            (format!("{}{BOTH}", GET.replace("X:", "Upgrade:")), true, true),
            (format!("CONNECT q:1 HTTP/1.1\r\n\r\n{BOTH}"), true, true),
            (format!("{}abc", PLAIN.replace('3', "3, 3")), false, true),
            // A body may look like anything.
            (format!("{}{BOTH}", PLAIN.replace('3', &BOTH.len().to_string())), false, false),
        ] {
            for part in [1, 7, requests.len()] {
                let (framing, mut place) = (Framing::default(), Place::Head(Vec::new()));
                for bytes in requests.as_bytes().chunks(part) {
                    place.pass(bytes, &framing);
                }
                let found = (framing.is_ambiguous(), framing.is_last());
                assert_eq!(found, (is_ambiguous, is_last), "{requests}");
            }
        }
    }
}
