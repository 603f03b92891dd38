//! Byte streams to a node's ports as clients make them: TCP, TLS that trusts one certificate, and a
//! WebSocket over that.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

/// Longer than a handshake on a busy machine.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(20);
/// Afterwards a read that finds nothing ends soon, and is tried again.
const READ_EVERY: Duration = Duration::from_millis(20);

/// Bytes both ways.
pub trait Wire: Read + Write + Send + Unpin {}

impl<T: Read + Write + Send + Unpin> Wire for T {}

/// A stream of blocking calls as one of asynchronous ones. A read that finds nothing is tried again at
/// once: it waits by itself.
pub(crate) struct Blocking<W>(pub W);

impl<W: Wire> AsyncRead for Blocking<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.read(into.initialize_unfilled());
        again(read, cx).map_ok(|count| into.advance(count))
    }
}

impl<W: Wire> AsyncWrite for Blocking<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        again(self.0.write(bytes), cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        again(self.0.flush(), cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

fn again<T>(result: io::Result<T>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        result => Poll::Ready(result),
    }
}

/// What ALPN settled on.
pub fn spoken(stream: &TlsStream) -> Option<String> {
    let name = stream.conn.alpn_protocol()?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// TLS over TCP.
pub type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Plain.
pub fn tcp(address: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| address.to_owned())?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_EVERY))?;
    Ok(stream)
}

/// The same from another address of this machine than clients have by default.
pub fn tcp_from(own: IpAddr, address: &str) -> anyhow::Result<TcpStream> {
    let to = address.parse()?;
    // Only what is asynchronous binds before it connects.
    let connected = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind((own, 0).into())?;
            socket.connect(to).await?.into_std()
        })
    });
    let stream = connected.join().map_err(|_| anyhow::anyhow!("a thread"))??;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(READ_EVERY))?;
    Ok(stream)
}

/// TLS, for a server that has this certificate or one signed with it.
pub fn tls(address: &str, trusted: &Path) -> anyhow::Result<TlsStream> {
    tls_showing(address, trusted, None)
}

/// The same, with a certificate and its key for a server that asks for one, each as PEM.
pub fn tls_showing(
    address: &str,
    trusted: &Path,
    own: Option<&(String, String)>,
) -> anyhow::Result<TlsStream> {
    tls_offering(address, trusted, own, &[])
}

/// The same, to speak one of these, by ALPN's names; none are told if there are none.
pub fn tls_offering(
    address: &str,
    trusted: &Path,
    own: Option<&(String, String)>,
    protocols: &[&str],
) -> anyhow::Result<TlsStream> {
    tls_for("localhost", address, trusted, own, protocols)
}

/// TLS to a host that the server is called by.
pub fn tls_to(host: &str, address: &str, trusted: &Path) -> anyhow::Result<TlsStream> {
    tls_for(host, address, trusted, None, &[])
}

fn tls_for(
    host: &str,
    address: &str,
    trusted: &Path,
    own: Option<&(String, String)>,
    protocols: &[&str],
) -> anyhow::Result<TlsStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
            config.with_client_auth_cert(chain?, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let connection =
        ClientConnection::new(Arc::new(config), ServerName::try_from(host.to_owned())?)?;
    let stream = TcpStream::connect(address).with_context(|| address.to_owned())?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANDSHAKE_WITHIN))?;
    let mut tls = StreamOwned::new(connection, stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    tls.sock.set_read_timeout(Some(READ_EVERY))?;
    Ok(tls)
}

/// A WebSocket for AMQP, over TLS.
pub fn websocket(address: &str, trusted: &Path, path: &str) -> anyhow::Result<impl Wire + use<>> {
    websocket_showing(address, trusted, path, None)
}

/// The same, as [`tls_showing`] has it.
pub fn websocket_showing(
    address: &str,
    trusted: &Path,
    path: &str,
    own: Option<&(String, String)>,
) -> anyhow::Result<impl Wire + use<>> {
    let stream = tls_showing(address, trusted, own)?;
    stream.sock.set_read_timeout(Some(HANDSHAKE_WITHIN))?;
    let timeouts = stream.sock.try_clone()?;
    let socket = handshake(stream, "localhost", path, Some("AMQPWSB10"))?;
    timeouts.set_read_timeout(Some(READ_EVERY))?;
    Ok(Frames { socket, unread: io::Cursor::default() })
}

/// A WebSocket without TLS, with a subprotocol or none. The server has to choose what is asked for.
pub fn plain_websocket(
    address: &str,
    path: &str,
    subprotocol: Option<&'static str>,
) -> anyhow::Result<impl Wire + use<>> {
    websocket_to(address, "localhost", path, subprotocol)
}

/// The same to a host that the server is called by.
pub fn websocket_to(
    address: &str,
    host: &str,
    path: &str,
    subprotocol: Option<&'static str>,
) -> anyhow::Result<impl Wire + use<>> {
    let stream = tcp(address)?;
    stream.set_read_timeout(Some(HANDSHAKE_WITHIN))?;
    let timeouts = stream.try_clone()?;
    let socket = handshake(stream, host, path, subprotocol)?;
    timeouts.set_read_timeout(Some(READ_EVERY))?;
    Ok(Frames { socket, unread: io::Cursor::default() })
}

fn handshake<S: Wire>(
    stream: S,
    host: &str,
    path: &str,
    subprotocol: Option<&'static str>,
) -> anyhow::Result<WebSocket<S>> {
    let mut request = format!("wss://{host}{path}").into_client_request()?;
    if let Some(asked) = subprotocol {
        let asked = HeaderValue::from_static(asked);
        request.headers_mut().insert("Sec-WebSocket-Protocol", asked);
    }
    let (socket, answer) = tungstenite::client::client(request, stream)
        .map_err(|error| anyhow::anyhow!("no WebSocket: {error}"))?;
    let chosen = answer.headers().get("Sec-WebSocket-Protocol");
    let chosen = chosen.map(HeaderValue::to_str).transpose()?;
    anyhow::ensure!(chosen == subprotocol, "asked for {subprotocol:?}, got {chosen:?}");
    Ok(socket)
}

/// The bytes in a WebSocket's frames.
struct Frames<S: Wire> {
    socket: WebSocket<S>,
    unread: io::Cursor<Vec<u8>>,
}

impl<S: Wire> Read for Frames<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.unread.read(into)?;
        if count > 0 {
            return Ok(count);
        }
        match self.socket.read() {
            // Java's SDK never comes to the end of a frame that has nothing in it.
            Ok(Message::Binary(bytes)) if bytes.is_empty() => {
                return Err(io::Error::other("an empty frame"));
            }
            Ok(Message::Binary(bytes)) => self.unread = io::Cursor::new(bytes.to_vec()),
            Ok(Message::Close(Some(close))) if close.code == CloseCode::Normal => return Ok(0),
            Ok(Message::Close(close)) => {
                return Err(io::Error::other(format!("closed with {close:?}")));
            }
            Ok(_) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(tungstenite::Error::Io(error)) => return Err(error),
            Err(error) => return Err(io::Error::other(error)),
        }
        self.unread.read(into)
    }
}

impl<S: Wire> Write for Frames<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.socket.send(Message::binary(bytes.to_vec()));
        sent.map(|()| bytes.len()).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush().map_err(io::Error::other)
    }
}
