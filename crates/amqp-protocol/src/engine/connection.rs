//! The connection: what it remembers, and the way from bytes to events.

mod operations;

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use super::credit::CreditHandler;
use super::dispositions::{Disposing, DispositionHandler};
use super::event::{Event, Millis, Side};
use super::fault::Fault;
use super::frames::FrameWriter;
use super::handshake::{Handshake, Mechanism, Progress};
use super::incoming::DeliveryReceiver;
use super::links::LinkHandler;
use super::outgoing::DeliverySender;
use super::output::Output;
use super::registry::{RefusedCount, Registry};
use super::session::SessionPhase;
use super::sessions::SessionHandler;
use super::timing::{Due, Standing, Timing};
use crate::Limits;
use crate::codec::{Close, Error, Map, Open, Performative, Reader, Symbols, frame};
use crate::condition;

/// What one side of a connection says of itself.
#[derive(Clone, Debug)]
pub struct Config {
    pub container_id: ByteString,
    /// As client: the name of the host one wants to reach.
    pub hostname: Option<ByteString>,
    /// What this side can do beyond what the standard asks of everyone.
    pub offered_capabilities: Symbols,
    pub properties: Option<Map>,
    pub limits: Limits,
}

/// One AMQP connection. See the module for how it is driven.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    /// What is taken of the peer at present: what the configuration says, or less.
    allowance: Limits,
    phase: Phase,
    /// The peer's channel-max.
    channel_max: u16,
    frames: FrameWriter,
    pub(super) registry: Registry,
    /// A disposition whose deliveries are handed out one by one.
    disposing: Option<Disposing>,
    /// The last event, once there is no way back.
    farewell: Option<Event>,
    timing: Timing,
}

/// Where a connection stands.
#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    AwaitOpen {
        /// This side's was written: a client does not wait for the server's.
        is_open_sent: bool,
    },
    Opened,
    CloseSent,
    Finished,
}

impl Connection {
    /// The side that listens.
    pub fn server(config: Config, now: Millis) -> Connection {
        Connection::new(config, Handshake::server(false), now)
    }

    /// The same, to a client that has shown a certificate by which it may log in: EXTERNAL is offered
    /// (SASL-9).
    pub fn server_of_certified(config: Config, now: Millis) -> Connection {
        Connection::new(config, Handshake::server(true), now)
    }

    /// The side that connects. It opens without being asked to.
    pub fn client(config: Config, mechanism: Mechanism, now: Millis) -> Connection {
        let hostname = config.hostname.clone();
        let mut connection = Connection::new(config, Handshake::client(mechanism, hostname), now);
        connection.frames.write_header(frame::SASL_HEADER);
        connection
    }

    fn new(config: Config, handshake: Handshake, now: Millis) -> Connection {
        Connection {
            phase: Phase::Handshake(handshake),
            timing: Timing::new(&config.limits, now),
            allowance: config.limits.clone(),
            config,
            channel_max: u16::MAX,
            frames: FrameWriter::new(now),
            registry: Registry::default(),
            disposing: None,
            farewell: None,
        }
    }

    /// Takes little of the peer until [`Connection::trust`]: see [`Limits::before_proof`].
    pub fn distrust(&mut self) {
        self.allowance = self.config.limits.before_proof();
    }

    /// Takes as much of the peer as the configuration says.
    pub fn trust(&mut self) {
        self.allowance = self.config.limits.clone();
    }

    /// The next event, taking whole frames off `input`; what is left there is the beginning of a frame,
    /// or waits until [`Connection::wants_input`]. `None`: read on, after a flush.
    pub fn poll(&mut self, input: &mut BytesMut, now: Millis) -> Option<Event> {
        self.see_time(now);
        loop {
            self.see_overflow();
            if let Some(event) = self.next_disposed() {
                return Some(event);
            }
            if let Phase::Finished = self.phase {
                input.clear();
                return self.farewell.take();
            }
            if !self.wants_input() {
                self.timing.see_pause(true, self.frames.now);
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

    fn see_time(&mut self, now: Millis) {
        self.frames.now = self.frames.now.max(now);
        self.timing.see_pause(!self.wants_input(), self.frames.now);
    }

    /// Ends the connection if a frame did not fit: the peer was told.
    fn see_overflow(&mut self) {
        if self.frames.has_overflowed()
            && let Some(error) = self.frames.take_overflow()
        {
            self.finish(Event::Closed { error: Some(error), by: Side::Us });
        }
    }

    /// Whether reading from the socket leads anywhere: not while a login is undecided, nor while too
    /// much waits to be written or to be settled.
    pub fn wants_input(&self) -> bool {
        let limits = &self.allowance;
        let incoming = &self.registry.incoming;
        self.is_reading()
            && self.frames.waiting() <= limits.output_bytes_max
            && incoming.unsettled < limits.incoming_unsettled_max
            && incoming.bytes < limits.incoming_bytes_max
    }

    /// While a login is undecided: the host that its client means, where it said so.
    pub fn login_hostname(&self) -> Option<&str> {
        match &self.phase {
            Phase::Handshake(handshake) => handshake.hostname().map(|host| &**host),
            Phase::AwaitOpen { .. } | Phase::Opened | Phase::CloseSent | Phase::Finished => None,
        }
    }

    fn is_reading(&self) -> bool {
        match &self.phase {
            Phase::Handshake(handshake) => !handshake.awaits_verdict(),
            Phase::AwaitOpen { .. } | Phase::Opened | Phase::CloseSent => {
                !self.frames.has_overflowed()
            }
            Phase::Finished => false,
        }
    }

    /// Links and sessions there are at present.
    pub fn held(&self) -> (usize, usize) {
        (self.registry.links.len(), self.registry.sessions.len())
    }

    /// Bytes of deliveries that wait for this side's verdict, or are still arriving.
    pub fn incoming_bytes(&self) -> u64 {
        self.registry.incoming.bytes + self.registry.incoming.partial_bytes
    }

    /// Deliveries that wait for this side's verdict.
    pub fn undecided(&self) -> u32 {
        self.registry.incoming.unsettled
    }

    pub fn refused(&self) -> RefusedCount {
        self.registry.refused
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.frames.waiting()
    }

    /// What waits to be written. Call [`Connection::flush`] first.
    pub fn output(&mut self) -> &mut Output {
        &mut self.frames.output
    }

    /// Nothing more will be read or said. Once the output is written the socket can be closed.
    pub fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished) || self.frames.has_overflowed()
    }

    /// When [`Connection::tick`] is next needed, if nothing happens until then. `None`: never.
    pub fn deadline(&self) -> Option<Millis> {
        let deadline = self.timing.deadline(&self.standing());
        deadline.into_iter().chain(self.registry.held_until).min().filter(|_| !self.is_finished())
    }

    /// Does what is due: a heartbeat, or the end of a connection that kept one waiting too long. What
    /// became of it, [`Connection::poll`] tells.
    pub fn tick(&mut self, now: Millis) {
        self.frames.now = self.frames.now.max(now);
        self.see_overflow();
        if let Phase::Finished = self.phase {
            return;
        }
        let (taken, has_output) = (self.frames.output.taken(), self.frames.waiting() > 0);
        self.timing.see_progress(taken, has_output, self.frames.now);
        self.timing.see_pause(!self.wants_input(), self.frames.now);
        let (condition, why) = match self.timing.due(&self.standing()) {
            None => return,
            Some(Due::Heartbeat) => return self.frames.write_heartbeat(),
            Some(Due::CloseAnswer) => {
                return self.finish(Event::Closed { error: None, by: Side::Us });
            }
            Some(Due::Open) => (condition::CONNECTION_FORCED, "the connection was not opened"),
            Some(Due::Silence) => {
                let why = "nothing was received for twice the idle time-out";
                (condition::RESOURCE_LIMIT_EXCEEDED, why)
            }
            Some(Due::Stall) => {
                (condition::CONNECTION_FORCED, "the peer does not read what is sent to it")
            }
        };
        self.fail(Error::new(condition, why));
    }

    fn standing(&self) -> Standing<'_> {
        Standing {
            limits: &self.allowance,
            now: self.frames.now,
            is_opened: matches!(self.phase, Phase::Opened),
            wants_input: self.wants_input(),
            has_output: self.frames.waiting() > 0,
            sent_at: self.frames.sent_at,
        }
    }

    fn step(&mut self, input: &mut BytesMut) -> Result<Step, Fault> {
        let handshake = match &mut self.phase {
            Phase::Handshake(handshake) => handshake,
            Phase::AwaitOpen { .. } | Phase::Opened | Phase::CloseSent => {
                return self.frame_step(input);
            }
            Phase::Finished => return Ok(Step::Wait),
        };
        match handshake.step(input, &self.allowance, &mut self.frames)? {
            Progress::Again => Ok(Step::Again),
            Progress::Wait => Ok(Step::Wait),
            Progress::Login(credentials) => Ok(Step::Event(Event::Login(credentials))),
            Progress::Open => {
                self.write_open();
                Ok(Step::Again)
            }
            Progress::Done => {
                let is_open_sent = matches!(handshake, Handshake::Client { .. });
                self.phase = Phase::AwaitOpen { is_open_sent };
                Ok(Step::Again)
            }
        }
    }

    fn frame_step(&mut self, input: &mut BytesMut) -> Result<Step, Fault> {
        let bytes_max = self.config.limits.frame_bytes_max;
        let Some(head) = frame::FrameHead::parse(input, frame::FrameType::Amqp, bytes_max)? else {
            return Ok(Step::Wait);
        };
        let bytes_max = self.allowance.frame_bytes_max;
        if head.bytes > bytes_max as usize {
            let why = format!(
                "a frame of {} bytes, and {bytes_max} are the most before a token came",
                head.bytes
            );
            return Err(Fault::Connection(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)));
        }
        if input.len() < head.bytes {
            return Ok(Step::Wait);
        }
        let mut body = input.split_to(head.bytes).freeze();
        body.advance(head.body_at);
        self.timing.received(self.frames.now);
        if body.is_empty() {
            return Ok(Step::Again); // A heartbeat.
        }
        self.on_frame(head.channel, &body).map(Step::of)
    }

    fn on_frame(&mut self, channel: u16, body: &Bytes) -> Result<Option<Event>, Fault> {
        let mut reader = Reader::new(body, &self.allowance);
        let performative = Performative::read(&mut reader)?;
        match (&self.phase, performative) {
            (Phase::CloseSent, Performative::Close(_)) => {
                self.finish(Event::Closed { error: None, by: Side::Us });
                Ok(None)
            }
            (Phase::CloseSent, _) => Ok(None),
            (&Phase::AwaitOpen { is_open_sent }, Performative::Open(open)) => {
                self.on_open(open, is_open_sent).map(Some)
            }
            (Phase::AwaitOpen { .. }, _) => Err(Fault::framing("the first frame is not an open")),
            (_, Performative::Open(_)) => Err(Fault::framing("the connection is open already")),
            (_, Performative::Close(close)) => {
                self.flush();
                self.frames.write(0, &Close { error: None });
                self.finish(Event::Closed { error: close.error, by: Side::Peer });
                Ok(None)
            }
            (_, Performative::Begin(begin)) => self.sessions().on_begin(channel, &begin).map(Some),
            (_, of_session) => self.on_session_frame(channel, of_session, reader.rest()),
        }
    }

    fn on_open(&mut self, open: Box<Open>, is_open_sent: bool) -> Result<Event, Fault> {
        if open.max_frame_size < Limits::FRAME_BYTES_MIN {
            return Err(Fault::framing("max-frame-size is below 512"));
        }
        self.frames.bytes_max = open.max_frame_size;
        self.channel_max = open.channel_max;
        self.timing.opened(open.idle_time_out);
        if !is_open_sent {
            self.write_open();
        }
        self.phase = Phase::Opened;
        Ok(Event::Opened(open))
    }

    fn write_open(&mut self) {
        let limits = &self.config.limits;
        let open = Open {
            container_id: self.config.container_id.clone(),
            hostname: self.config.hostname.clone(),
            max_frame_size: limits.frame_bytes_max.max(Limits::FRAME_BYTES_MIN),
            channel_max: limits.channel_max,
            idle_time_out: Some(limits.idle_ms),
            outgoing_locales: Symbols::default(),
            incoming_locales: Symbols::default(),
            offered_capabilities: self.config.offered_capabilities.clone(),
            desired_capabilities: Symbols::default(),
            properties: self.config.properties.clone(),
        };
        self.frames.write(0, &open);
    }

    fn on_session_frame(
        &mut self,
        channel: u16,
        performative: Performative,
        payload: Bytes,
    ) -> Result<Option<Event>, Fault> {
        let Some(&id) = self.registry.remote_channels.get(&channel) else {
            return match performative {
                // Python answers the answers to its own detach and end.
                Performative::End(_) | Performative::Detach(_) => Ok(None),
                _ => Err(Fault::framing("no session has begun on this channel")),
            };
        };
        let phase = self.registry.session(id).map(|session| session.phase);
        match (phase, performative) {
            (_, Performative::End(end)) => Ok(self.sessions().on_end(channel, id, end)),
            (Some(SessionPhase::EndSent) | None, _) => Ok(None),
            (_, Performative::Attach(attach)) => self.links().on_attach(id, attach),
            (_, Performative::Flow(flow)) => self.credits().on_flow(id, &flow),
            (_, Performative::Transfer(transfer)) => {
                self.receiving().on_transfer(id, transfer, payload)
            }
            (_, Performative::Disposition(disposition)) => {
                self.disposing = Some(Disposing::new(id, disposition));
                Ok(None)
            }
            (_, Performative::Detach(detach)) => Ok(self.links().on_detach(id, detach)),
            (_, Performative::Open(_) | Performative::Begin(_) | Performative::Close(_)) => {
                Err(Fault::framing("this frame is not one of a session"))
            }
        }
    }

    fn next_disposed(&mut self) -> Option<Event> {
        let disposing = self.disposing.as_mut()?;
        let outcome_delay_ms = self.config.limits.outcome_delay_ms;
        let (registry, frames) = (&mut self.registry, &mut self.frames);
        let event = DispositionHandler { outcome_delay_ms, registry, frames }.next(disposing);
        if event.is_none() {
            self.disposing = None;
        }
        event
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
    fn fail(&mut self, error: Error) {
        match self.phase {
            // Before the frames of AMQP there is none to say it with.
            Phase::Handshake(_) | Phase::Finished => {}
            Phase::AwaitOpen { .. } | Phase::Opened | Phase::CloseSent => {
                if let Phase::AwaitOpen { is_open_sent: false } = self.phase {
                    self.write_open();
                }
                self.frames.write_reason(0, Close { error: Some(error.clone()) });
            }
        }
        self.finish(Event::Closed { error: Some(error), by: Side::Us });
    }

    fn finish(&mut self, farewell: Event) {
        self.phase = Phase::Finished;
        self.frames.end();
        self.disposing = None;
        self.farewell.get_or_insert(farewell);
    }

    fn sessions(&mut self) -> SessionHandler<'_> {
        SessionHandler {
            limits: &self.allowance,
            channel_max: self.channel_max,
            registry: &mut self.registry,
            frames: &mut self.frames,
        }
    }

    fn links(&mut self) -> LinkHandler<'_> {
        let Connection { allowance, registry, frames, .. } = self;
        LinkHandler { limits: allowance, registry, frames }
    }

    fn credits(&mut self) -> CreditHandler<'_> {
        let Connection { config, registry, frames, .. } = self;
        CreditHandler { incoming_window: config.limits.incoming_window, registry, frames }
    }

    fn sending(&mut self) -> DeliverySender<'_> {
        let Connection { allowance, registry, frames, .. } = self;
        DeliverySender { limits: allowance, registry, frames }
    }

    fn receiving(&mut self) -> DeliveryReceiver<'_> {
        let Connection { allowance, registry, frames, .. } = self;
        DeliveryReceiver { limits: allowance, now: frames.now, registry }
    }
}

/// What one look at the input came to.
#[allow(clippy::large_enum_variant, reason = "moved once, never kept")]
enum Step {
    Event(Event),
    /// Something was taken; there may be more.
    Again,
    /// Bytes are missing.
    Wait,
}

impl Step {
    fn of(event: Option<Event>) -> Step {
        event.map_or(Step::Again, Step::Event)
    }
}
