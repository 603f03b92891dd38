//! From the first byte to `open`: protocol headers and SASL (CONN-3, SASL-1 to SASL-8).

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use super::connection::{Connection, Step};
use super::event::{Credentials, Event, Side};
use super::fault::Fault;
use crate::codec::{
    Error, Reader, SaslChallenge, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse,
    Symbol, frame,
};
use crate::condition;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    ServerSaslHeader,
    ServerSaslInit,
    /// PLAIN without an initial response: it was asked for.
    ServerSaslResponse,
    /// The owner decides on a login.
    ServerVerdict,
    ServerAmqpHeader,
    ClientSaslHeader,
    ClientSasl,
    ClientAmqpHeader,
    AwaitOpen,
    Opened,
    CloseSent,
    Finished,
}

/// How a client logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Anonymous,
    Mssbcbs,
    Plain { user: ByteString, password: ByteString },
}

impl Mechanism {
    /// PLAIN: a rule's name and its key.
    pub fn plain(user: &str, password: &str) -> Mechanism {
        Mechanism::Plain { user: user.into(), password: password.into() }
    }

    fn name(&self) -> &'static str {
        match self {
            Mechanism::Anonymous => ANONYMOUS,
            Mechanism::Mssbcbs => MSSBCBS,
            Mechanism::Plain { .. } => PLAIN,
        }
    }

    fn initial_response(&self) -> Bytes {
        match self {
            Mechanism::Anonymous | Mechanism::Mssbcbs => Bytes::new(),
            Mechanism::Plain { user, password } => format!("\0{user}\0{password}").into(),
        }
    }
}

const ANONYMOUS: &str = "ANONYMOUS";
const MSSBCBS: &str = "MSSBCBS";
const PLAIN: &str = "PLAIN";
/// A login of more bytes is none.
const SASL_FRAME_BYTES_MAX: u32 = 8192;
/// `sasl-outcome` codes (AMQP 1.0, part 5, 5.3.3.6).
const OK: u8 = 0;
const AUTH: u8 = 1;

impl Connection {
    /// Decides on an [`Event::Login`]. A refused peer is told and the connection is over.
    pub fn login(&mut self, accepted: bool) {
        if self.stage != Stage::ServerVerdict {
            return;
        }
        self.write_sasl(&SaslFrame::Outcome(SaslOutcome {
            code: if accepted { OK } else { AUTH },
            additional_data: None,
        }));
        if accepted {
            self.stage = Stage::ServerAmqpHeader;
        } else {
            let error = Error::new(condition::UNAUTHORIZED_ACCESS, "the login was refused");
            self.finish(Event::Closed { error: Some(error), by: Side::Us });
        }
    }

    /// Eight bytes that say which protocol follows. One that is not spoken here is answered with the
    /// one that is, and that was all (CONN-3).
    pub(super) fn header_step(&mut self, input: &mut BytesMut) -> Step {
        let Some(found) = input.first_chunk::<8>().copied() else { return Step::Wait };
        input.advance(found.len());
        let expected = match self.stage {
            Stage::ServerSaslHeader | Stage::ClientSaslHeader => frame::SASL_HEADER,
            _ => frame::AMQP_HEADER,
        };
        let is_server = matches!(self.stage, Stage::ServerSaslHeader | Stage::ServerAmqpHeader);
        if is_server {
            self.output.tail().extend_from_slice(&expected);
        }
        if found != expected {
            let why = "the protocol header is not the one expected here";
            self.fail(Error::new(condition::FRAMING_ERROR, why));
            return Step::Again;
        }
        self.stage = match self.stage {
            Stage::ServerSaslHeader => {
                let mechanisms = [MSSBCBS, PLAIN, ANONYMOUS].map(Symbol::from_static);
                let mechanisms = mechanisms.into_iter().collect();
                self.write_sasl(&SaslFrame::Mechanisms(SaslMechanisms { mechanisms }));
                Stage::ServerSaslInit
            }
            Stage::ClientSaslHeader => Stage::ClientSasl,
            _ => Stage::AwaitOpen,
        };
        Step::Again
    }

    pub(super) fn sasl_step(&mut self, input: &mut BytesMut) -> Result<Step, Fault> {
        let kind = frame::FrameType::Sasl;
        let Some(head) = frame::FrameHead::parse(input, kind, SASL_FRAME_BYTES_MAX)? else {
            return Ok(Step::Wait);
        };
        if input.len() < head.bytes {
            return Ok(Step::Wait);
        }
        let mut body = input.split_to(head.bytes).freeze();
        body.advance(head.body_at);
        let mut reader = Reader::new(&body, &self.config.limits);
        match (self.stage, SaslFrame::read(&mut reader)?) {
            (Stage::ServerSaslInit, SaslFrame::Init(init)) => Ok(Step::of(self.on_init(init))),
            (Stage::ServerSaslResponse, SaslFrame::Response(response)) => {
                Ok(Step::of(self.on_plain(&response.response)))
            }
            (Stage::ClientSasl, SaslFrame::Mechanisms(offered)) => self.on_mechanisms(&offered),
            (Stage::ClientSasl, SaslFrame::Challenge(_)) => {
                let response = SaslResponse { response: Bytes::new() };
                self.write_sasl(&SaslFrame::Response(response));
                Ok(Step::Again)
            }
            (Stage::ClientSasl, SaslFrame::Outcome(outcome)) => self.on_outcome(&outcome),
            _ => Err(Fault::framing("this SASL frame is out of turn")),
        }
    }

    fn on_init(&mut self, init: SaslInit) -> Option<Event> {
        match (init.mechanism.as_str(), init.initial_response) {
            (ANONYMOUS | MSSBCBS, _) => {
                self.stage = Stage::ServerVerdict;
                Some(Event::Login(Credentials::Anonymous))
            }
            (PLAIN, Some(response)) if !response.is_empty() => self.on_plain(&response),
            (PLAIN, _) => {
                let challenge = SaslChallenge { challenge: Bytes::new() };
                self.write_sasl(&SaslFrame::Challenge(challenge));
                self.stage = Stage::ServerSaslResponse;
                None
            }
            _ => self.refuse_login(),
        }
    }

    /// RFC 4616: whom to act as (ignored), user and password, each after a zero byte.
    fn on_plain(&mut self, response: &[u8]) -> Option<Event> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(ByteString::from);
        let mut parts = response.splitn(3, |byte| *byte == 0);
        let _authzid = parts.next();
        let user = parts.next().and_then(text);
        let password = parts.next().and_then(text);
        match (user, password) {
            (Some(user), Some(password)) => {
                self.stage = Stage::ServerVerdict;
                Some(Event::Login(Credentials::Plain { user, password }))
            }
            _ => self.refuse_login(),
        }
    }

    fn refuse_login(&mut self) -> Option<Event> {
        self.stage = Stage::ServerVerdict;
        self.login(false);
        None
    }

    fn on_mechanisms(&mut self, offered: &SaslMechanisms) -> Result<Step, Fault> {
        let mechanism = self.mechanism.clone();
        if !offered.mechanisms.contains(mechanism.name()) {
            return Err(Fault::framing("the server does not offer the mechanism"));
        }
        self.write_sasl(&SaslFrame::Init(SaslInit {
            mechanism: Symbol::from_static(mechanism.name()),
            initial_response: Some(mechanism.initial_response()),
            hostname: self.config.hostname.clone(),
        }));
        Ok(Step::Again)
    }

    fn on_outcome(&mut self, outcome: &SaslOutcome) -> Result<Step, Fault> {
        if outcome.code != OK {
            let error = Error::new(condition::UNAUTHORIZED_ACCESS, "the login was refused");
            return Err(Fault::Connection(error));
        }
        self.output.tail().extend_from_slice(&frame::AMQP_HEADER);
        self.write_open();
        self.stage = Stage::ClientAmqpHeader;
        Ok(Step::Again)
    }

    fn write_sasl(&mut self, sasl: &SaslFrame) {
        let out = self.output.tail();
        let start = frame::begin(out, frame::FrameType::Sasl, 0);
        sasl.write(out);
        frame::end(out, start, 0);
    }
}
