//! A port at work: connections taken, handshakes made, and what is ready handed on to whoever speaks it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use auth::Certified;
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::denials::Denials;
use crate::directory::{Port, Verdict, directions};
use crate::protocol::{FIRST_BYTES, Opening, Protocol};
use crate::stream::Stream;
use crate::tls::{Tls, TlsOfPort, shown_wrong};

/// Pause before connections are accepted again when the process has no file handles left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// First bytes and handshake together take no longer.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);
/// Handshakes at a time. Beyond it connections wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 10_000;
/// The same where other nodes come in, which are few.
const PEER_HANDSHAKES_MAX: usize = 1_000;
/// Handed on and not taken yet.
const READY_MAX: usize = 64;
/// TLS for "no": a record of two bytes that holds a fatal alert, handshake_failure (RFC 8446, 6.2).
const FATAL_ALERT: [u8; 7] = [0x15, 3, 1, 0, 2, 2, 40];
/// A client that was told no hangs up by itself within this, or is hung up on.
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);
/// Of what it goes on to say meanwhile.
const FAREWELL_BYTES_MAX: u64 = 64 * 1024;
/// Of what nobody knows, so many bytes are shown in the log.
const SHOWN_BYTES: usize = 16;

/// A connection whose client can be spoken to.
pub struct Arrival {
    pub stream: Stream,
    pub peer: SocketAddr,
    /// When it came: what a client may take until it is let in counts from there.
    pub accepted_at: Instant,
    /// It came to a port that does not take what it speaks: it is told this, and nothing else.
    pub misdirected: Option<Arc<str>>,
    /// It speaks HTTP/2, and not for gRPC, which is told this.
    pub http_2: Option<Arc<str>>,
    /// What its client has shown of itself; an authority for clients vouches for that.
    pub certified: Option<Arc<Certified>>,
    /// Its bytes are encrypted, here or by what carries it.
    pub is_tls: bool,
    /// It is carried by a WebSocket.
    pub is_web_socket: bool,
    /// The host that its client wants to speak with, where it was said on the way here: to the WebSocket, or in the TLS
    /// handshake.
    pub host: Option<Arc<str>>,
}

impl Arrival {
    /// One that is right where it came, at this moment.
    pub fn now(stream: Stream, peer: SocketAddr) -> Arrival {
        Arrival {
            is_tls: stream.is_tls(),
            host: stream.asked_host().map(Arc::from),
            stream,
            peer,
            accepted_at: Instant::now(),
            misdirected: None,
            http_2: None,
            certified: None,
            is_web_socket: false,
        }
    }
}

/// Where a dialect gets its connections from, of one port or several.
pub type Arrivals = mpsc::Receiver<Arrival>;

/// Who gets the connections of each protocol, from all ports.
#[derive(Clone, Debug)]
pub struct Lines {
    pub amqp: mpsc::Sender<Arrival>,
    pub http_1: mpsc::Sender<Arrival>,
    pub http_2: mpsc::Sender<Arrival>,
}

impl Lines {
    fn of(&self, protocol: Protocol) -> &mpsc::Sender<Arrival> {
        match protocol {
            Protocol::Amqp => &self.amqp,
            Protocol::Http1 => &self.http_1,
            Protocol::Http2 => &self.http_2,
        }
    }

    /// Resolves when something that a port takes has nobody to speak it any more.
    async fn closed(&self, port: &Port) {
        let is_of = |protocol| port.protocols().any(|taken| taken == protocol);
        tokio::select! {
            () = self.amqp.closed(), if is_of(Protocol::Amqp) => (),
            () = self.http_1.closed(), if is_of(Protocol::Http1) => (),
            () = self.http_2.closed(), if is_of(Protocol::Http2) => (),
            else => (),
        }
    }
}

/// What the ports of a node share: who speaks what, where else, and with what certificate.
#[derive(Clone, Debug)]
pub struct Reception {
    /// All of the node's, so that whoever is wrong at one is sent to another.
    pub ports: Arc<[Port]>,
    pub lines: Lines,
    /// Without it no port makes handshakes.
    pub tls: Option<Tls>,
    pub handles: HandleReserve,
}

/// File handles that are kept for the node itself: its databases open files while they run, and stop for
/// good where they cannot. A process is given the lowest handle that is free, so a connection whose own
/// is too high shows that all below it are taken.
#[derive(Clone, Copy, Debug)]
pub struct HandleReserve {
    clients_below: u64,
    peers_below: u64,
}

impl HandleReserve {
    /// Of a process that may have so many handles: half of them, and 2,048 at most. A quarter of those
    /// is open to peers as well, so that clients keep none of them out.
    pub fn of(handles_max: u64) -> HandleReserve {
        let reserve = (handles_max / 2).min(2_048);
        let clients_below = handles_max - reserve;
        HandleReserve { clients_below, peers_below: clients_below + reserve / 4 }
    }

    fn admits(self, stream: &TcpStream, port: &Port) -> bool {
        let below = if port.is_internal { self.peers_below } else { self.clients_below };
        u64::try_from(stream.as_raw_fd()).is_ok_and(|handle| handle < below)
    }
}

impl Default for HandleReserve {
    /// None.
    fn default() -> HandleReserve {
        HandleReserve { clients_below: u64::MAX, peers_below: u64::MAX }
    }
}

/// A way for connections of several ports to one dialect.
pub fn channel() -> (mpsc::Sender<Arrival>, Arrivals) {
    mpsc::channel(READY_MAX)
}

/// Connections of one port, whatever they begin with.
pub fn plain(listener: TcpListener) -> Arrivals {
    let (ready, arrivals) = channel();
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = ready.closed() => return,
                accepted = listener.accept() => accepted,
            };
            let Some((stream, peer)) = taken(accepted).await else { continue };
            // Fails only when nobody takes them any more.
            drop(ready.send(Arrival::now(Stream::Plain(stream), peer)).await);
        }
    });
    arrivals
}

impl Reception {
    /// Hands on connections of a port until nobody takes them any more.
    pub async fn accept(self, listener: TcpListener, port: Port) {
        let handles = self.handles;
        let handshakes_max = if port.is_internal { PEER_HANDSHAKES_MAX } else { HANDSHAKES_MAX };
        let desk = Arc::new(Desk::new(self, port));
        let mut handshakes = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = desk.lines.closed(&desk.port) => return,
                accepted = listener.accept(), if handshakes.len() < handshakes_max => accepted,
                Some(_) = handshakes.join_next() => continue,
            };
            let Some((stream, peer)) = taken(accepted).await else { continue };
            if !handles.admits(&stream, &desk.port) {
                drop(stream);
                desk.tell(
                    peer,
                    "the file handles that are left are the node's own; raise the limit \
                                 (ulimit -n, LimitNOFILE)",
                );
                // Whoever comes meanwhile waits in the kernel's queue.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
            let desk = desk.clone();
            handshakes.spawn(async move { desk.meet(stream, peer).await });
        }
    }
}

async fn taken(accepted: io::Result<(TcpStream, SocketAddr)>) -> Option<(TcpStream, SocketAddr)> {
    match accepted {
        Ok((stream, peer)) => {
            // Dialects gather what they write already. A socket that refuses works all the same.
            drop(stream.set_nodelay(true));
            Some((stream, peer))
        }
        Err(error) => {
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

/// Where the connections of one port are met.
struct Desk {
    port: Port,
    ports: Arc<[Port]>,
    lines: Lines,
    tls: Option<TlsOfPort>,
    denials: Denials,
    /// The zero of the denials' time.
    started: Instant,
}

/// A connection whose client has said what it speaks.
struct Met {
    /// Who speaks it with him.
    line: Protocol,
    stream: Stream,
    misdirected: Option<Arc<str>>,
    http_2: Option<Arc<str>>,
}

/// Why a connection comes to nothing.
enum Lost {
    /// Nobody is there any more, or nothing is wrong that a person could put right.
    Quietly(io::Error),
    /// Told to the client as far as it can be, and to the log.
    Told { why: String, stream: Option<Stream>, word: &'static [u8] },
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Lost {
        Lost::Quietly(error)
    }
}

impl Desk {
    fn new(reception: Reception, port: Port) -> Desk {
        let Reception { ports, lines, tls, handles: _ } = reception;
        let tls = tls.filter(|_| port.makes_handshakes());
        let tls = tls.map(|tls| tls.of_port(&port.preferred()));
        Desk { port, ports, lines, tls, denials: Denials::default(), started: Instant::now() }
    }

    async fn meet(&self, stream: TcpStream, peer: SocketAddr) {
        let accepted_at = Instant::now();
        let begun = timeout_at(accepted_at + BEGIN_WITHIN, self.begin(stream)).await;
        match begun {
            Ok(Ok(Met { line, stream, misdirected, http_2 })) => {
                if let Some(why) = &misdirected {
                    self.tell(peer, &format!("{} was spoken: {why}", line.name()));
                }
                let certified = stream.shown().certified();
                let now = Arrival::now(stream, peer);
                let arrival = Arrival { accepted_at, misdirected, http_2, certified, ..now };
                // Fails only when nobody takes them any more.
                drop(self.lines.of(line).send(arrival).await);
            }
            Ok(Err(Lost::Told { why, stream, word })) => {
                self.tell(peer, &why);
                if let Some(stream) = stream {
                    farewell(stream, word).await;
                }
            }
            Ok(Err(Lost::Quietly(error))) => tracing::debug!(%peer, %error, "no connection"),
            Err(_) => tracing::debug!(%peer, "nothing was spoken in time"),
        }
    }

    /// From the first byte to what is spoken, and why it is not served here if it is not.
    async fn begin(&self, stream: TcpStream) -> Result<Met, Lost> {
        let (opening, stream) = match peeked(&stream).await? {
            Some(opening) => (opening, Stream::Plain(stream)),
            None => read(Stream::Plain(stream)).await?,
        };
        match (self.port.judge(opening, false), stream, &self.tls) {
            (Verdict::Handshake, Stream::Plain(stream), Some(tls)) => {
                self.begin_inside(stream, tls).await
            }
            (verdict, stream, _) => self.settle(verdict, opening, stream, false).await,
        }
    }

    async fn begin_inside(&self, stream: TcpStream, tls: &TlsOfPort) -> Result<Met, Lost> {
        let stream = match tls.handshake(stream).await {
            Ok(stream) => stream,
            // A probe that went away.
            Err((error, _)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Lost::Quietly(error));
            }
            Err((error, stream)) => {
                let authority = if self.port.is_internal {
                    "tls.peer.authority"
                } else {
                    "tls.clients.authority"
                };
                let why = shown_wrong(&error, authority).unwrap_or_else(|| {
                    let directions = self.directions(Opening::Tls, false);
                    format!("no TLS connection, {error}: {directions}")
                });
                return Err(Lost::Told { why, stream: stream.map(Stream::Plain), word: &[] });
            }
        };
        let asked = TlsOfPort::protocol(&stream);
        let stream = Stream::Tls(Box::new(stream));
        // Where ALPN says what will be spoken, and it is right, no byte is waited for.
        if let Some(opening) = asked.map(Opening::Spoken)
            && let verdict @ (Verdict::Serve(_) | Verdict::ServeHttp2) =
                self.port.judge(opening, true)
        {
            return self.settle(verdict, opening, stream, true).await;
        }
        let (opening, stream) = read(stream).await?;
        self.settle(self.port.judge(opening, true), opening, stream, true).await
    }

    async fn settle(
        &self,
        verdict: Verdict,
        opening: Opening,
        mut stream: Stream,
        is_tls: bool,
    ) -> Result<Met, Lost> {
        match verdict {
            Verdict::Serve(line) => Ok(Met { line, stream, misdirected: None, http_2: None }),
            Verdict::ServeHttp2 => {
                let http_2 = Some(self.directions(opening, is_tls).into());
                Ok(Met { line: Protocol::Http1, stream, misdirected: None, http_2 })
            }
            Verdict::Refuse(line) => {
                let misdirected = Some(self.directions(opening, is_tls).into());
                Ok(Met { line, stream, misdirected, http_2: None })
            }
            Verdict::Alert | Verdict::Handshake => {
                let why = format!("TLS was spoken: {}", self.directions(opening, is_tls));
                Err(Lost::Told { why, stream: Some(stream), word: &FATAL_ALERT })
            }
            Verdict::LetGo => {
                let mut shown = [0; SHOWN_BYTES];
                let count = stream.read(&mut shown).await?;
                let shown = shown[..count].escape_ascii();
                let directions = self.directions(opening, is_tls);
                let why = format!("nothing known was spoken, '{shown}': {directions}");
                Err(Lost::Told { why, stream: None, word: &[] })
            }
        }
    }

    fn directions(&self, opening: Opening, is_tls: bool) -> String {
        directions(&self.ports, &self.port, opening, is_tls)
    }

    fn tell(&self, peer: SocketAddr, why: &str) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if let Some(untold) = self.denials.count(now_ms) {
            tracing::warn!(%peer, untold, "client refused: {why}");
        }
    }
}

/// What a connection begins with. Nothing is taken from it, so that one that tells at once, as nearly
/// all do, is handed on as it came.
async fn peeked(stream: &TcpStream) -> io::Result<Option<Opening>> {
    let mut first = [0; FIRST_BYTES];
    match stream.peek(&mut first).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(Opening::of(&first[..count])),
    }
}

/// The same where bytes come one by one, or out of TLS.
async fn read(mut stream: Stream) -> io::Result<(Opening, Stream)> {
    let mut head = BytesMut::with_capacity(FIRST_BYTES);
    loop {
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(opening) = Opening::of(&head) {
            return Ok((opening, Stream::begun(head.freeze(), stream)));
        }
    }
}

/// Says a last word and waits until the client hangs up: hung up on in the middle of what it says, it
/// would lose the word as well.
async fn farewell(mut stream: Stream, word: &[u8]) {
    let goodbye = async {
        stream.write_all(word).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(FAREWELL_BYTES_MAX), &mut tokio::io::sink()).await
    };
    // However it ends, it is over.
    drop(timeout(FAREWELL_WITHIN, goodbye).await);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::directory::Encryption;

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

    /// A port that takes something, and who gets what came to it.
    struct Tried {
        address: SocketAddr,
        amqp: Arrivals,
        http_1: Arrivals,
        http_2: Arrivals,
    }

    async fn tried(protocol: Protocol, encryption: Encryption, tls: Option<&Tls>) -> Tried {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let [(to_amqp, amqp), (to_http_1, http_1), (to_http_2, http_2)] =
            [(); 3].map(|()| mpsc::channel(1));
        let lines = Lines { amqp: to_amqp, http_1: to_http_1, http_2: to_http_2 };
        let takes = vec![(protocol, encryption)];
        let port = Port { key: "listen.one".to_owned(), address, takes, is_internal: false };
        let handles = HandleReserve::default();
        let (ports, tls) = ([port.clone()].into(), tls.cloned());
        let reception = Reception { ports, lines, tls, handles };
        tokio::spawn(reception.accept(listener, port));
        Tried { address, amqp, http_1, http_2 }
    }

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n";

    /// Sends back what comes; whether it came through TLS, and whether it is misdirected.
    async fn echo_one(arrivals: &mut Arrivals) -> (bool, bool) {
        let Arrival { mut stream, misdirected, .. } = arrivals.recv().await.expect("an arrival");
        let mut said = [0; REQUEST.len()];
        stream.read_exact(&mut said).await.expect("a request");
        stream.write_all(&said).await.expect("written");
        stream.flush().await.expect("flushed");
        (stream.is_tls(), misdirected.is_some())
    }

    async fn say(stream: &mut (impl crate::Duplex + ?Sized), parts: &[&[u8]]) {
        for part in parts {
            stream.write_all(part).await.expect("written");
            stream.flush().await.expect("flushed");
            tokio::task::yield_now().await;
        }
        let mut heard = [0; REQUEST.len()];
        stream.read_exact(&mut heard).await.expect("an echo");
        assert_eq!(heard, REQUEST);
    }

    async fn encrypted(trusting: &TlsConnector, address: SocketAddr) -> impl crate::Duplex + use<> {
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TcpStream::connect(address).await.expect("connected");
        trusting.connect(name, stream).await.expect("a handshake")
    }

    #[tokio::test]
    async fn one_port_takes_both_and_stallers_hold_nobody_up() {
        let Certified { tls, trusting, _dir } = certified();
        let mut port = tried(Protocol::Http1, Encryption::Either, Some(&tls)).await;
        // One says nothing, one half a handshake, one nonsense that begins like one, one half a word.
        let mut stallers = Vec::new();
        for bytes in [&b""[..], b"\x16\x03\x01", &[0x16; 600], b"AMQ"] {
            let mut stream = TcpStream::connect(port.address).await.expect("connected");
            stream.write_all(bytes).await.expect("written");
            stallers.push(stream);
        }
        let address = port.address;
        let client = async {
            let mut plain = TcpStream::connect(address).await.expect("connected");
            say(&mut plain, &[REQUEST]).await;
            let mut plain = TcpStream::connect(address).await.expect("connected");
            plain.set_nodelay(true).expect("a socket");
            say(&mut plain, &[b"G", b"E", &REQUEST[2..]]).await;
            say(&mut encrypted(&trusting, address).await, &[REQUEST]).await;
        };
        let arrivals = &mut port.http_1;
        let server = async {
            let mut were_tls = Vec::new();
            for _ in 0..3 {
                were_tls.push(echo_one(arrivals).await);
            }
            were_tls
        };
        let ((), were) = tokio::join!(client, server);
        assert_eq!(were, [(false, false), (false, false), (true, false)]);
    }

    /// CONN-24: whoever speaks it gets it, so as to tell the client; TLS is refused as TLS does it.
    #[tokio::test]
    async fn conn_24_what_a_port_does_not_take_goes_to_whoever_speaks_it() {
        let mut port = tried(Protocol::Amqp, Encryption::Never, None).await;
        let address = port.address;
        let client = async {
            let mut plain = TcpStream::connect(address).await.expect("connected");
            say(&mut plain, &[REQUEST]).await;
        };
        let ((), was) = tokio::join!(client, echo_one(&mut port.http_1));
        assert_eq!(was, (false, true));

        let mut plain = TcpStream::connect(address).await.expect("connected");
        plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
        let arrival = port.http_2.recv().await.expect("an arrival");
        assert!(arrival.misdirected.is_some());

        let mut plain = TcpStream::connect(address).await.expect("connected");
        plain.write_all(b"AMQP\x03\x01\x00\x00").await.expect("written");
        let arrival = port.amqp.recv().await.expect("an arrival");
        assert!(arrival.misdirected.is_none() && matches!(arrival.stream, Stream::Plain(_)));

        for (said, heard) in
            [(&b"\x16\x03\x01\x02\x00\x01"[..], &FATAL_ALERT[..]), (b"SSH-2.0\r\n", b"")]
        {
            let mut plain = TcpStream::connect(address).await.expect("connected");
            plain.write_all(said).await.expect("written");
            let mut answer = Vec::new();
            // What was said and is not read ends it as well.
            let _ = plain.read_to_end(&mut answer).await;
            assert_eq!(answer, heard);
        }
        let Certified { trusting, .. } = certified();
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TcpStream::connect(address).await.expect("connected");
        let refused = trusting.connect(name, stream).await.expect_err("there is no TLS");
        assert!(refused.to_string().contains("HandshakeFailure"), "{refused}");
    }

    #[tokio::test]
    async fn a_port_closes_when_nobody_takes_its_connections() {
        let Tried { address, http_1, .. } = tried(Protocol::Http1, Encryption::Never, None).await;
        drop(TcpStream::connect(address).await.expect("open"));
        drop(http_1);
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
