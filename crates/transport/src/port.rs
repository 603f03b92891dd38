//! A port: connections taken, handshakes made, and what is ready handed on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::stream::Stream;
use crate::tls::Tls;

/// Pause before connections are accepted again when the process has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// First byte and handshake together take no longer.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Handshakes at a time. Beyond it connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 10_000;
/// Handed on and not taken yet.
const READY_MAX: usize = 64;
/// The first byte of a TLS connection: a record that holds a handshake. No text and no AMQP begins
/// with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A connection whose client can be spoken to.
pub struct Arrival {
    pub stream: Stream,
    pub peer: SocketAddr,
}

/// Where a dialect gets its connections from, of one port or several.
pub type Arrivals = mpsc::Receiver<Arrival>;

/// What a port offers.
#[derive(Clone)]
pub enum Offer {
    Plain,
    /// With the protocols that ALPN may choose; none: any.
    Tls(Tls, &'static [&'static str]),
    /// Whichever the client begins with.
    Either(Tls, &'static [&'static str]),
}

/// What a port does with a new connection.
#[derive(Clone)]
enum Handshake {
    None,
    Tls(TlsAcceptor),
    Either(TlsAcceptor),
}

/// A way for connections of several ports to one dialect.
pub fn channel() -> (mpsc::Sender<Arrival>, Arrivals) {
    mpsc::channel(READY_MAX)
}

/// Plain connections of one port.
pub fn plain(listener: TcpListener) -> Arrivals {
    let (ready, arrivals) = channel();
    tokio::spawn(accept(listener, Offer::Plain, ready));
    arrivals
}

/// Hands on connections of a port until nobody takes them any more.
pub async fn accept(listener: TcpListener, offer: Offer, ready: mpsc::Sender<Arrival>) {
    let handshake = match offer {
        Offer::Plain => Handshake::None,
        Offer::Tls(tls, protocols) => Handshake::Tls(tls.acceptor(protocols)),
        Offer::Either(tls, protocols) => Handshake::Either(tls.acceptor(protocols)),
    };
    let mut handshakes = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = ready.closed() => return,
            accepted = listener.accept(), if handshakes.len() < HANDSHAKES_MAX => accepted,
            Some(_) = handshakes.join_next() => continue,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Dialects gather what they write already. A socket that refuses works all the same.
        drop(stream.set_nodelay(true));
        if let Handshake::None = handshake {
            // Fails only when nobody takes them any more.
            drop(ready.send(Arrival { stream: Stream::Plain(stream), peer }).await);
            continue;
        }
        let (handshake, ready) = (handshake.clone(), ready.clone());
        handshakes.spawn(async move {
            match timeout(HANDSHAKE_WITHIN, handshake.make(stream)).await {
                Ok(Ok(stream)) => drop(ready.send(Arrival { stream, peer }).await),
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS connection"),
                Err(_) => tracing::debug!(%peer, "a handshake took too long"),
            }
        });
    }
}

impl Handshake {
    async fn make(self, stream: TcpStream) -> io::Result<Stream> {
        let acceptor = match self {
            Handshake::None => return Ok(Stream::Plain(stream)),
            Handshake::Tls(acceptor) => acceptor,
            Handshake::Either(acceptor) => {
                let mut first = [0];
                if stream.peek(&mut first).await? == 0 || first[0] != HANDSHAKE_RECORD {
                    return Ok(Stream::Plain(stream));
                }
                acceptor
            }
        };
        Ok(Stream::Tls(Box::new(acceptor.accept(stream).await?)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;

    use super::*;

    struct Certified {
        tls: Tls,
        trusting: TlsConnector,
        _dir: tempfile::TempDir,
    }

    fn certified() -> Certified {
        let dir = tempfile::tempdir().expect("a directory");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("one");
        let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let tls = Tls::load(&certificate, &key).expect("good files");
        Certified { tls, trusting: TlsConnector::from(Arc::new(config)), _dir: dir }
    }

    async fn port(offer: Offer) -> (SocketAddr, Arrivals) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (ready, arrivals) = mpsc::channel(1);
        tokio::spawn(accept(listener, offer, ready));
        (address, arrivals)
    }

    async fn echo_one(arrivals: &mut Arrivals) -> bool {
        let mut stream = arrivals.recv().await.expect("an arrival").stream;
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.expect("a word");
        stream.write_all(&word).await.expect("written");
        stream.flush().await.expect("flushed");
        stream.is_tls()
    }

    async fn say(stream: &mut (impl crate::Duplex + ?Sized)) {
        stream.write_all(b"word").await.expect("written");
        stream.flush().await.expect("flushed");
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.expect("an echo");
        assert_eq!(&word, b"word");
    }

    #[tokio::test]
    async fn one_port_takes_both_and_stallers_hold_nobody_up() {
        let Certified { tls, trusting, _dir } = certified();
        let (address, mut arrivals) = port(Offer::Either(tls, &["http/1.1"])).await;
        // One says nothing, one half a handshake, one nonsense that begins like one.
        let mut stallers = Vec::new();
        for bytes in [&b""[..], &[HANDSHAKE_RECORD, 3, 1], &[HANDSHAKE_RECORD; 600]] {
            let mut stream = TcpStream::connect(address).await.expect("connected");
            stream.write_all(bytes).await.expect("written");
            stallers.push(stream);
        }
        let client = async {
            let mut plain = TcpStream::connect(address).await.expect("connected");
            say(&mut plain).await;
            let name = ServerName::try_from("localhost").expect("a name");
            let stream = TcpStream::connect(address).await.expect("connected");
            let mut tls = trusting.connect(name, stream).await.expect("a handshake");
            say(&mut tls).await;
        };
        let server = async { [echo_one(&mut arrivals).await, echo_one(&mut arrivals).await] };
        let ((), was_tls) = tokio::join!(client, server);
        assert_eq!(was_tls, [false, true]);
    }

    #[tokio::test]
    async fn a_port_closes_when_nobody_takes_its_connections() {
        let (address, arrivals) = port(Offer::Plain).await;
        drop(TcpStream::connect(address).await.expect("open"));
        drop(arrivals);
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
