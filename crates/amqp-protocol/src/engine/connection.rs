//! The connection: what it remembers, and the way from bytes to events.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use super::event::{Event, LinkId, Millis, SessionId, Side};
use super::fault::Fault;
use super::link::Link;
use super::login::{Mechanism, Stage};
use super::output::Output;
use super::session::Session;
use super::slots::Slots;
use super::timing::Timing;
use crate::Limits;
use crate::codec::{
    Close, Composite, DeliveryState, Error, Map, Open, Performative, Reader, Role, Symbols, frame,
};
use crate::condition;

/// What one side of a connection says of itself.
#[derive(Clone, Debug)]
pub struct Config {
    pub container_id: ByteString,
    /// As client: the name of the host one wants to reach.
    pub hostname: Option<ByteString>,
    pub properties: Option<Map>,
    pub limits: Limits,
}

/// One AMQP connection. See the module for how it is driven.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: Config,
    pub(crate) stage: Stage,
    /// As client.
    pub(crate) mechanism: Mechanism,
    pub(crate) remote: Remote,
    pub(crate) output: Output,
    pub(crate) sessions: Slots<Session>,
    pub(crate) links: Slots<Link>,
    /// Channels of this side and of the peer.
    pub(crate) channels: BTreeMap<u16, SessionId>,
    pub(crate) remote_channels: BTreeMap<u16, SessionId>,
    pub(crate) dirty_sessions: Vec<SessionId>,
    pub(crate) dirty_links: Vec<LinkId>,
    /// A disposition whose deliveries are handed out one by one.
    pub(crate) disposing: Option<Disposing>,
    /// Deliveries without a verdict, their bytes, and the bytes of those still arriving.
    pub(crate) incoming_unsettled: u32,
    pub(crate) incoming_bytes: u64,
    pub(crate) partial_bytes: u64,
    /// The last event, once there is no way back.
    pub(crate) farewell: Option<Event>,
    pub(crate) timing: Timing,
}

/// What the peer announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub frame_bytes_max: u32,
    pub channel_max: u16,
}

/// What is left of a disposition.
#[derive(Debug)]
pub(crate) struct Disposing {
    pub session: SessionId,
    /// The peer's.
    pub role: Role,
    pub next: u32,
    pub last: u32,
    pub settled: bool,
    pub state: Option<DeliveryState>,
}

impl Connection {
    /// The side that listens.
    pub fn server(config: Config, now: Millis) -> Connection {
        Connection::new(config, Stage::ServerSaslHeader, now)
    }

    /// The side that connects. It opens without being asked to.
    pub fn client(config: Config, mechanism: Mechanism, now: Millis) -> Connection {
        let mut connection = Connection::new(config, Stage::ClientSaslHeader, now);
        connection.mechanism = mechanism;
        connection.output.tail().extend_from_slice(&frame::SASL_HEADER);
        connection
    }

    fn new(config: Config, stage: Stage, now: Millis) -> Connection {
        let timing = Timing::new(&config.limits, now);
        Connection {
            config,
            stage,
            mechanism: Mechanism::Anonymous,
            remote: Remote { frame_bytes_max: u32::MAX, channel_max: u16::MAX },
            output: Output::default(),
            sessions: Slots::default(),
            links: Slots::default(),
            channels: BTreeMap::new(),
            remote_channels: BTreeMap::new(),
            dirty_sessions: Vec::new(),
            dirty_links: Vec::new(),
            disposing: None,
            incoming_unsettled: 0,
            incoming_bytes: 0,
            partial_bytes: 0,
            farewell: None,
            timing,
        }
    }

    /// The next event, taking whole frames off `input`; what is left there is the beginning of a frame,
    /// or waits until [`Connection::wants_input`]. `None`: read on, after a flush.
    pub fn poll(&mut self, input: &mut BytesMut, now: Millis) -> Option<Event> {
        self.timing.now = self.timing.now.max(now);
        self.see_pause();
        loop {
            if let Some(event) = self.next_disposed() {
                return Some(event);
            }
            if self.stage == Stage::Finished {
                input.clear();
                return self.farewell.take();
            }
            if !self.wants_input() {
                self.see_pause();
                return None;
            }
            let step = match self.step(input) {
                Ok(step) => step,
                Err(fault) => Step::of(self.punish(fault)),
            };
            match step {
                Step::Event(event) => return Some(event),
                Step::Again => {}
                Step::Wait => return None,
            }
        }
    }

    /// Whether reading from the socket leads anywhere: not while a login is undecided, nor while too
    /// much waits to be written or to be settled.
    pub fn wants_input(&self) -> bool {
        let limits = &self.config.limits;
        !matches!(self.stage, Stage::ServerVerdict | Stage::Finished)
            && self.output.remaining() <= limits.output_bytes_max
            && self.incoming_unsettled < limits.incoming_unsettled_max
            && self.incoming_bytes < limits.incoming_bytes_max
    }

    /// What waits to be written. Call [`Connection::flush`] first.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Nothing more will be read or said. Once the output is written the socket can be closed.
    pub fn is_finished(&self) -> bool {
        self.stage == Stage::Finished
    }

    fn step(&mut self, input: &mut BytesMut) -> Result<Step, Fault> {
        match self.stage {
            Stage::ServerSaslHeader
            | Stage::ClientSaslHeader
            | Stage::ServerAmqpHeader
            | Stage::ClientAmqpHeader => Ok(self.header_step(input)),
            Stage::ServerSaslInit | Stage::ServerSaslResponse | Stage::ClientSasl => {
                self.sasl_step(input)
            }
            Stage::AwaitOpen | Stage::Opened | Stage::CloseSent => self.frame_step(input),
            Stage::ServerVerdict | Stage::Finished => Ok(Step::Wait),
        }
    }

    fn frame_step(&mut self, input: &mut BytesMut) -> Result<Step, Fault> {
        let bytes_max = self.config.limits.frame_bytes_max;
        let Some(head) = frame::FrameHead::parse(input, frame::FrameType::Amqp, bytes_max)? else {
            return Ok(Step::Wait);
        };
        if input.len() < head.bytes {
            return Ok(Step::Wait);
        }
        let mut body = input.split_to(head.bytes).freeze();
        body.advance(head.body_at);
        self.timing.received();
        if body.is_empty() {
            return Ok(Step::Again); // A heartbeat.
        }
        self.frame(head.channel, &body).map(Step::of)
    }

    fn frame(&mut self, channel: u16, body: &Bytes) -> Result<Option<Event>, Fault> {
        let mut reader = Reader::new(body, &self.config.limits);
        let performative = Performative::read(&mut reader)?;
        match (self.stage, performative) {
            (Stage::CloseSent, Performative::Close(_)) => {
                self.finish(Event::Closed { error: None, by: Side::Us });
                Ok(None)
            }
            (Stage::CloseSent, _) => Ok(None),
            (Stage::AwaitOpen, Performative::Open(open)) => self.on_open(open).map(Some),
            (Stage::AwaitOpen, _) => Err(Fault::framing("the first frame is not an open")),
            (_, Performative::Open(_)) => Err(Fault::framing("the connection is open already")),
            (_, Performative::Close(close)) => {
                self.flush();
                self.write(0, &Close { error: None });
                self.finish(Event::Closed { error: close.error, by: Side::Peer });
                Ok(None)
            }
            (_, Performative::Begin(begin)) => self.on_begin(channel, &begin).map(Some),
            (_, of_session) => self.on_session_frame(channel, of_session, reader.rest()),
        }
    }

    fn on_open(&mut self, open: Box<Open>) -> Result<Event, Fault> {
        if open.max_frame_size < Limits::FRAME_BYTES_MIN {
            return Err(Fault::framing("max-frame-size is below 512"));
        }
        self.remote =
            Remote { frame_bytes_max: open.max_frame_size, channel_max: open.channel_max };
        self.timing.opened(open.idle_time_out);
        if !self.timing.is_open_sent {
            self.write_open();
        }
        self.stage = Stage::Opened;
        Ok(Event::Opened(open))
    }

    pub(crate) fn write_open(&mut self) {
        self.timing.is_open_sent = true;
        let limits = &self.config.limits;
        let open = Open {
            container_id: self.config.container_id.clone(),
            hostname: self.config.hostname.clone(),
            max_frame_size: limits.frame_bytes_max.max(Limits::FRAME_BYTES_MIN),
            channel_max: limits.channel_max,
            idle_time_out: Some(limits.idle_ms),
            outgoing_locales: Symbols::default(),
            incoming_locales: Symbols::default(),
            offered_capabilities: Symbols::default(),
            desired_capabilities: Symbols::default(),
            properties: self.config.properties.clone(),
        };
        self.write(0, &open);
    }

    /// Writes one frame without payload.
    pub(crate) fn write(&mut self, channel: u16, performative: &impl Composite) {
        let out = self.output.tail();
        let start = frame::begin(out, frame::FrameType::Amqp, channel);
        performative.write(out);
        frame::end(out, start, 0);
        self.timing.sent();
        if out.len() - start > self.remote.frame_bytes_max as usize {
            // What cannot be said in the peer's frames, a long address for example, it cannot be told.
            out.truncate(start);
            self.remote.frame_bytes_max = u32::MAX;
            let why = "an answer does not fit your max-frame-size";
            self.fail(Error::new(condition::FRAME_SIZE_TOO_SMALL, why));
        }
    }

    /// Ends what the fault says is to end, and tells the owner.
    fn punish(&mut self, fault: Fault) -> Option<Event> {
        match fault {
            Fault::Connection(error) => {
                self.fail(error);
                None
            }
            Fault::Session(session, error) => {
                self.end(session, Some(error.clone())).ok()?;
                Some(Event::Ended { session, error: Some(error), by: Side::Us })
            }
            Fault::Link(link, error) => {
                self.detach(link, Some(error.clone())).ok()?;
                Some(Event::Detached { link, closed: true, error: Some(error), by: Side::Us })
            }
        }
    }

    /// Says why and stops, without waiting for an answer.
    pub(crate) fn fail(&mut self, error: Error) {
        match self.stage {
            Stage::AwaitOpen | Stage::Opened | Stage::CloseSent => {
                if !self.timing.is_open_sent {
                    self.write_open();
                }
                self.write(0, &Close { error: Some(error.clone()) });
            }
            // Before the open there is no frame to say it with.
            _ => {}
        }
        self.finish(Event::Closed { error: Some(error), by: Side::Us });
    }

    pub(crate) fn finish(&mut self, farewell: Event) {
        self.stage = Stage::Finished;
        self.disposing = None;
        self.farewell.get_or_insert(farewell);
    }
}

/// What one look at the input came to.
#[allow(clippy::large_enum_variant, reason = "moved once, never kept")]
pub(crate) enum Step {
    Event(Event),
    /// Something was taken; there may be more.
    Again,
    /// Bytes are missing.
    Wait,
}

impl Step {
    pub(crate) fn of(event: Option<Event>) -> Step {
        event.map_or(Step::Again, Step::Event)
    }
}
