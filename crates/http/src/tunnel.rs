//! AMQP through a WebSocket (CONN-2): binary frames carry its bytes, and where one
//! frame ends means nothing.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use transport::Arrival;

use crate::caller::{CertifiedPeer, OverTls, Peer, asked_host};
use crate::failure::refuse;

pub(crate) const PATH: &str = "/$servicebus/websocket";
/// As .NET writes it.
pub(crate) const PATH_WITH_SLASH: &str = "/$servicebus/websocket/";
/// Subprotocols, of which the first that a client names is taken: the Azure SDKs', and what .NET's asks
/// for. They are the same.
const PROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];
/// Of one frame from a client. Larger than any that an SDK sends: they cut at AMQP's frames.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// Of one frame to a client.
const WRITE_BYTES_MAX: usize = 64 * 1024;
/// An idle connection holds as much, so little.
const READ_BYTES: usize = 8 * 1024;

/// Opens a WebSocket and hands its bytes to whoever speaks AMQP.
pub(crate) async fn open(
    Extension(tunnels): Extension<Option<mpsc::Sender<Arrival>>>,
    Extension(Peer(peer)): Extension<Peer>,
    Extension(CertifiedPeer(certified)): Extension<CertifiedPeer>,
    Extension(OverTls(is_tls)): Extension<OverTls>,
    headers: HeaderMap,
    uri: Uri,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Some(tunnels) = tunnels else {
        let why = "this node does not speak AMQP; listen.amqp or listen.any would have it do so";
        return refuse(StatusCode::NOT_FOUND, why.to_owned());
    };
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(rejection) => {
            let why = format!("{PATH} is a WebSocket for AMQP: {}", rejection.body_text());
            return refuse(rejection.status(), why);
        }
    };
    let host = asked_host(&headers, &uri).map(Arc::from);
    let mut upgrade = upgrade
        .max_frame_size(FRAME_BYTES_MAX)
        .max_message_size(FRAME_BYTES_MAX)
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES_MAX);
    match subprotocol(upgrade.requested_protocols()).map(Option::<&_>::cloned) {
        Ok(None) => (),
        Ok(Some(chosen)) => upgrade.set_selected_protocol(chosen),
        Err(why) => return refuse(StatusCode::BAD_REQUEST, why),
    }
    upgrade.on_upgrade(async move |socket| {
        let stream = transport::Stream::Tunnel(Box::new(Tunnel::new(socket)));
        // Fails only when the node ends.
        let arrival = Arrival::now(stream, peer);
        drop(
            tunnels.send(Arrival { certified, is_tls, is_web_socket: true, host, ..arrival }).await,
        );
    })
}

/// The subprotocol to go on with, as the client wrote it, which some compare letter for letter; none if
/// it asks for none (CONN-2).
fn subprotocol<'a>(
    asked: impl Iterator<Item = &'a HeaderValue>,
) -> Result<Option<&'a HeaderValue>, String> {
    let asked: Vec<&HeaderValue> = asked.filter(|asked| !asked.is_empty()).collect();
    let is =
        |asked: &HeaderValue, known: &str| asked.as_bytes().eq_ignore_ascii_case(known.as_bytes());
    let chosen = |known| asked.iter().copied().find(|asked| is(asked, known));
    match PROTOCOLS.into_iter().find_map(chosen) {
        None if !asked.is_empty() => {
            let known = PROTOCOLS.join(" or ");
            Err(format!("open the WebSocket with the subprotocol {known}, or with none"))
        }
        chosen => Ok(chosen),
    }
}

/// The bytes in a WebSocket's frames.
struct Tunnel {
    socket: WebSocket,
    unread: Bytes,
    /// The client was told that nothing more comes.
    is_ended: bool,
}

impl Tunnel {
    fn new(socket: WebSocket) -> Tunnel {
        Tunnel { socket, unread: Bytes::new(), is_ended: false }
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(Message::Binary(bytes))) => self.unread = bytes,
                // Pongs are sent without being asked for here.
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Text(_))) => {
                    let why = "AMQP comes in binary frames";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
                }
                Some(Ok(Message::Close(_))) | None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
            }
        }
        let count = self.unread.len().min(into.remaining());
        into.put_slice(&self.unread[..count]);
        self.unread.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    /// All slices in one frame, as far as they fit.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io::Error::other)?;
        let mut frame = BytesMut::new();
        for slice in slices {
            let room = WRITE_BYTES_MAX - frame.len();
            frame.extend_from_slice(&slice[..slice.len().min(room)]);
        }
        let count = frame.len();
        if count == 0 {
            return Poll::Ready(Ok(0)); // A frame of nothing: see `poll_shutdown`.
        }
        let sent = Pin::new(&mut self.socket).start_send(Message::Binary(frame.freeze()));
        Poll::Ready(sent.map(|()| count).map_err(io::Error::other))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(io::Error::other)
    }

    /// Closes with a reason, as Service Bus does. Java's SDK reads a frame without a payload, which a close
    /// without one is, over and over, and its thread does nothing else any more; Go's takes such a close for
    /// an error.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ended {
            ready!(Pin::new(&mut self.socket).poll_ready(cx)).map_err(io::Error::other)?;
            let close = CloseFrame { code: close_code::NORMAL, reason: Utf8Bytes::default() };
            let sent = Pin::new(&mut self.socket).start_send(Message::Close(Some(close)));
            sent.map_err(io::Error::other)?;
            self.is_ended = true;
        }
        Pin::new(&mut self.socket).poll_close(cx).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: what a client asks for, and what it gets.
    #[test]
    fn conn_2_a_subprotocol_is_chosen_as_the_client_wrote_it() {
        for (asked, chosen) in [
            (&[][..], Ok(None)),
            (&[""], Ok(None)),
            (&["AMQPWSB10"], Ok(Some("AMQPWSB10"))),
            (&["amqp"], Ok(Some("amqp"))),
            (&["AMQP"], Ok(Some("AMQP"))),
            (&["amqp", "AMQPWSB10"], Ok(Some("AMQPWSB10"))),
            (&["mqtt", "amqp"], Ok(Some("amqp"))),
            (&["mqtt"], Err(())),
            (&["amqps"], Err(())),
        ] {
            let asked: Vec<HeaderValue> =
                asked.iter().map(|asked| HeaderValue::from_static(asked)).collect();
            let found = subprotocol(asked.iter());
            let found = found.map(|found| found.map(|found| found.to_str().expect("text")));
            assert_eq!(found.map_err(drop), chosen, "{asked:?}");
        }
    }
}
