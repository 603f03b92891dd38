//! AMQP without manners: bytes and frames by hand, whatever the other side thinks of them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use amqp_protocol::codec::{
    Attach, Begin, Composite, Flow, Open, Role, SaslFrame, SaslInit, Symbol, Symbols, frame,
};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};

/// A write that has not moved for so long does not move.
const STUCK_AFTER: Duration = Duration::from_secs(2);
const READ_EVERY: Duration = Duration::from_millis(20);

/// A connection whose client says what it likes.
pub struct RawAmqp {
    stream: TcpStream,
    heard: Vec<u8>,
    is_closed: bool,
}

impl RawAmqp {
    /// Nothing is said yet.
    pub fn connect(address: &str) -> anyhow::Result<RawAmqp> {
        let stream = TcpStream::connect(address).with_context(|| address.to_owned())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_EVERY))?;
        stream.set_write_timeout(Some(STUCK_AFTER))?;
        Ok(RawAmqp { stream, heard: Vec::new(), is_closed: false })
    }

    /// Logged in, opened, and a session begun on channel 0.
    pub fn open(address: &str) -> anyhow::Result<RawAmqp> {
        let mut raw = RawAmqp::connect(address)?;
        let mut out = BytesMut::from(&frame::SASL_HEADER[..]);
        let start = frame::begin(&mut out, frame::FrameType::Sasl, 0);
        let init = SaslInit {
            mechanism: Symbol::from_static("ANONYMOUS"),
            initial_response: Some(Bytes::new()),
            hostname: None,
        };
        SaslFrame::Init(init).write(&mut out);
        frame::end(&mut out, start, 0);
        out.extend_from_slice(&frame::AMQP_HEADER);
        out.extend_from_slice(&framed(&open(), &[]));
        out.extend_from_slice(&framed(&begin(), &[]));
        ensure!(raw.say(&out)?, "the login is not taken");
        // The answer to `begin` is the last that comes.
        ensure!(raw.hears(b"\x00\x53\x11", Duration::from_secs(20))?, "no session");
        Ok(raw)
    }

    /// A link at this handle, from or to an address.
    pub fn attach(&mut self, handle: u32, address: &str, role: Role) -> anyhow::Result<()> {
        self.heard.clear();
        ensure!(self.frame(&attach(handle, address, role), &[])?, "an attach is not taken");
        ensure!(self.hears(b"\x00\x53\x12", Duration::from_secs(20))?, "no link");
        Ok(())
    }

    /// One frame on channel 0; whether it was taken.
    pub fn frame(&mut self, performative: &impl Composite, payload: &[u8]) -> anyhow::Result<bool> {
        self.say(&framed(performative, payload))
    }

    /// Bytes; `false`: the other side has hung up, or does not take them.
    pub fn say(&mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        match self.stream.write_all(bytes) {
            Ok(()) => Ok(true),
            Err(error) if is_end(error.kind()) => {
                self.is_closed = true;
                Ok(false)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether these bytes come within a time; what was heard before counts.
    pub fn hears(&mut self, what: &[u8], within: Duration) -> anyhow::Result<bool> {
        self.hears_any(&[what], within)
    }

    /// Whether any of these comes within a time; what was heard before counts.
    pub fn hears_any(&mut self, whats: &[&[u8]], within: Duration) -> anyhow::Result<bool> {
        let until = Instant::now() + within;
        let is_in = |heard: &[u8], what: &[u8]| heard.windows(what.len()).any(|part| part == what);
        loop {
            if whats.iter().any(|what| is_in(&self.heard, what)) {
                return Ok(true);
            }
            if self.is_closed || Instant::now() >= until {
                return Ok(false);
            }
            self.listen()?;
        }
    }

    /// Whether the other side hangs up within a time.
    pub fn is_hung_up_on(&mut self, within: Duration) -> anyhow::Result<bool> {
        let until = Instant::now() + within;
        while !self.is_closed && Instant::now() < until {
            self.listen()?;
        }
        Ok(self.is_closed)
    }

    /// Asks for a sign of life of the session.
    pub fn is_served(&mut self) -> anyhow::Result<bool> {
        self.heard.clear();
        let echo = Flow {
            next_incoming_id: Some(0),
            incoming_window: 5_000,
            outgoing_window: 5_000,
            echo: true,
            ..Flow::default()
        };
        Ok(self.frame(&echo, &[])? && self.hears(b"\x00\x53\x13", Duration::from_secs(20))?)
    }

    /// Forgets what was heard.
    pub fn forget(&mut self) {
        self.heard.clear();
    }

    fn listen(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(count) => self.heard.extend_from_slice(&buffer[..count]),
            Err(error) if is_end(error.kind()) => self.is_closed = true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// A frame on channel 0.
pub fn framed(performative: &impl Composite, payload: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    let start = frame::begin(&mut out, frame::FrameType::Amqp, 0);
    performative.write(&mut out);
    out.extend_from_slice(payload);
    frame::end(&mut out, start, 0);
    out.freeze()
}

fn open() -> Open {
    Open {
        container_id: "raw".into(),
        hostname: None,
        max_frame_size: 65_536,
        channel_max: 10,
        idle_time_out: None,
        outgoing_locales: Symbols::default(),
        incoming_locales: Symbols::default(),
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    }
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 5_000,
        outgoing_window: 5_000,
        handle_max: 100,
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    }
}

fn attach(handle: u32, address: &str, role: Role) -> Attach {
    let name = format!("{role:?}-{handle}");
    let attach = match role {
        Role::Sender => Attach::sender(&name, address),
        Role::Receiver => Attach::receiver(&name, address),
    };
    Attach { handle, ..attach }
}
