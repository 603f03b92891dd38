//! One connection with one session and one link, driven by whoever owns it.

use std::io::{self, IoSlice};
use std::time::{Duration, Instant};

use amqp_protocol::Limits;
use amqp_protocol::codec::{
    AnyTarget, Attach, ReceiverSettleMode, Role, SenderSettleMode, Source, Symbols, Target,
};
use amqp_protocol::engine::{Config, Connection, Event, LinkId, Mechanism, Millis, SessionId};
use bytes::{Buf, BytesMut};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Lost;

/// Every step until the link is attached takes no longer.
const STEP_WITHIN: Duration = Duration::from_secs(10);
/// A silent connection is looked after this often: heartbeats are the engine's.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const READ_BYTES: usize = 64 * 1024;
/// Slices written at a time.
const SLICES_MAX: usize = 32;
/// The rule whose key the cluster's secret is.
const ROOT: &str = "RootManageSharedAccessKey";

pub(super) struct Link {
    socket: TcpStream,
    input: BytesMut,
    started: Instant,
    pub engine: Connection,
    pub id: LinkId,
}

/// A connection without a link.
struct Opening {
    socket: TcpStream,
    input: BytesMut,
    started: Instant,
    engine: Connection,
}

impl Link {
    /// Connects, and tells the name by which the node greets.
    pub async fn greet(address: &str, secret: Option<&str>) -> Result<String, Lost> {
        let mut opening = Opening::connect(address, secret).await?;
        let name = opening.opened().await?;
        opening.engine.close(None);
        opening.turn().await?;
        Ok(name)
    }

    pub async fn open(
        address: &str,
        secret: Option<&str>,
        queue: &str,
        role: Role,
    ) -> Result<Link, Lost> {
        let mut opening = Opening::connect(address, secret).await?;
        opening.opened().await?;
        let session = opening.begun().await?;
        let id = opening.attached(session, queue, role).await?;
        let Opening { socket, input, started, engine } = opening;
        Ok(Link { socket, input, started, engine, id })
    }

    /// Writes what there is to write, and waits until something was read or all was written, a second
    /// at most. Cancelling it loses nothing.
    pub async fn turn(&mut self) -> io::Result<()> {
        exchange(&self.socket, &mut self.engine, &mut self.input, self.started).await
    }

    /// The next event of what was read.
    pub fn poll(&mut self) -> Result<Option<Event>, Lost> {
        next(&mut self.engine, &mut self.input, self.started)
    }

    /// Says goodbye; whether it is heard does not matter.
    pub async fn close(mut self) {
        self.engine.close(None);
        let _ = self.turn().await;
    }
}

impl Opening {
    async fn connect(address: &str, secret: Option<&str>) -> Result<Opening, Lost> {
        let socket = timeout(STEP_WITHIN, TcpStream::connect(address)).await;
        let socket = socket.unwrap_or_else(|late| Err(late.into()))?;
        socket.set_nodelay(true)?;
        let config = Config {
            container_id: "mayfly-bench".into(),
            hostname: address.rsplit_once(':').map(|(host, _)| host.into()),
            properties: None,
            limits: Limits::default(),
        };
        let mechanism = match secret {
            Some(secret) => Mechanism::plain(ROOT, secret),
            None => Mechanism::Anonymous,
        };
        let engine = Connection::client(config, mechanism, Millis(0));
        Ok(Opening { socket, input: BytesMut::new(), started: Instant::now(), engine })
    }

    async fn opened(&mut self) -> Result<String, Lost> {
        self.wait(|event| match event {
            Event::Opened(open) => Some(open.container_id.to_string()),
            _ => None,
        })
        .await
    }

    async fn begun(&mut self) -> Result<SessionId, Lost> {
        let session = self.engine.begin().ok_or_else(|| ended("no session is to be had"))?;
        self.wait(|event| matches!(event, Event::Began(_)).then_some(session)).await
    }

    async fn attached(
        &mut self,
        session: SessionId,
        queue: &str,
        role: Role,
    ) -> Result<LinkId, Lost> {
        let attach = attach(queue, role);
        let link = self.engine.attach(session, attach).map_err(|_| ended("the session is gone"))?;
        let is_accepted = move |event: Event| match event {
            Event::Attached { attach, .. } => match role {
                // A refusal shows a link without a terminus on that side, and then ends it.
                Role::Sender => attach.target.is_some().then_some(link),
                Role::Receiver => attach.source.is_some().then_some(link),
            },
            _ => None,
        };
        self.wait(is_accepted).await
    }

    async fn turn(&mut self) -> io::Result<()> {
        exchange(&self.socket, &mut self.engine, &mut self.input, self.started).await
    }

    /// What is made of the first event that fits.
    async fn wait<T>(&mut self, fits: impl Fn(Event) -> Option<T>) -> Result<T, Lost> {
        let until = Instant::now() + STEP_WITHIN;
        while Instant::now() < until {
            self.turn().await?;
            while let Some(event) = next(&mut self.engine, &mut self.input, self.started)? {
                if let Some(found) = fits(event) {
                    return Ok(found);
                }
            }
        }
        Err(ended("the node does not answer"))
    }
}

fn ended(why: &str) -> Lost {
    Lost::Ended(why.to_owned())
}

fn attach(queue: &str, role: Role) -> Attach {
    let address = Some(queue.into());
    Attach {
        name: format!("bench-{queue}").into(),
        handle: 0,
        role,
        snd_settle_mode: SenderSettleMode::Unsettled,
        rcv_settle_mode: match role {
            Role::Sender => ReceiverSettleMode::First,
            // Verdicts are answered (SETTLE-4).
            Role::Receiver => ReceiverSettleMode::Second,
        },
        source: Some(Source { address, ..Source::default() }),
        target: Some(AnyTarget::Node(Target { address: Some(queue.into()), ..Target::default() })),
        unsettled: None,
        incomplete_unsettled: false,
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    }
}

fn now(started: Instant) -> Millis {
    Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// An event, unless it is the end of the link.
fn next(
    engine: &mut Connection,
    input: &mut BytesMut,
    started: Instant,
) -> Result<Option<Event>, Lost> {
    match engine.poll(input, now(started)) {
        Some(
            Event::Closed { error, .. }
            | Event::Ended { error, .. }
            | Event::Detached { error, .. },
        ) => {
            let named = |error: amqp_protocol::codec::Error| error.condition.to_string();
            Err(Lost::Ended(error.map_or_else(|| "the node let go".to_owned(), named)))
        }
        event => Ok(event),
    }
}

async fn exchange(
    socket: &TcpStream,
    engine: &mut Connection,
    input: &mut BytesMut,
    started: Instant,
) -> io::Result<()> {
    engine.tick(now(started));
    engine.flush();
    write(socket, engine)?;
    let mut interest = Interest::READABLE;
    if engine.output().has_remaining() {
        interest |= Interest::WRITABLE;
    }
    let Ok(ready) = timeout(LOOK_EVERY, socket.ready(interest)).await else { return Ok(()) };
    if ready?.is_readable() {
        input.reserve(READ_BYTES);
        match socket.try_read_buf(input) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    write(socket, engine)
}

/// Writes what the socket takes at once.
fn write(socket: &TcpStream, engine: &mut Connection) -> io::Result<()> {
    let output = engine.output();
    while output.has_remaining() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = output.chunks_vectored(&mut slices);
        match socket.try_write_vectored(&slices[..count]) {
            Ok(written) => output.advance(written),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
