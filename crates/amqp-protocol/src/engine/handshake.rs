//! From the first byte to the frames of AMQP: protocol headers and SASL (CONN-3, SASL-1
//! to SASL-9).

use bytes::{Buf, Bytes, BytesMut};
use bytestring::ByteString;

use super::event::Credentials;
use super::fault::Fault;
use super::frames::FrameWriter;
use crate::Limits;
use crate::codec::{
    Error, Reader, SaslChallenge, SaslFrame, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse,
    Symbol, frame,
};
use crate::condition;

/// Where a connection that does not speak AMQP yet stands.
#[derive(Debug)]
pub(crate) enum Handshake {
    Server {
        stage: ServerStage,
        /// The client has shown a certificate that will do.
        is_certified: bool,
        /// As the client's login says it: which of the hosts that this one is called by it means.
        hostname: Option<ByteString>,
    },
    Client {
        stage: ClientStage,
        mechanism: Mechanism,
        hostname: Option<ByteString>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerStage {
    /// SASL's, or AMQP's own: of a client without a login, whose tokens follow (CONN-3).
    EitherHeader,
    Init,
    /// PLAIN without an initial response: it was asked for.
    Response,
    /// The owner decides on a login.
    Verdict,
    AmqpHeader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientStage {
    SaslHeader,
    Sasl,
    /// This side's header and open are written.
    AmqpHeader,
}

/// What one look at the input came to.
pub(crate) enum Progress {
    /// Something was taken; there may be more.
    Again,
    /// Bytes are missing.
    Wait,
    /// Somebody logs in: the owner decides.
    Login(Credentials),
    /// As client: it is time for this side's open.
    Open,
    /// Frames of AMQP follow.
    Done,
}

/// How a client logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Anonymous,
    Mssbcbs,
    Plain {
        user: ByteString,
        password: ByteString,
    },
    /// By the certificate that was shown on the connection; as nobody, where the server does not take it.
    External,
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
            Mechanism::External => EXTERNAL,
        }
    }

    fn initial_response(&self) -> Bytes {
        match self {
            Mechanism::Anonymous | Mechanism::Mssbcbs | Mechanism::External => Bytes::new(),
            Mechanism::Plain { user, password } => format!("\0{user}\0{password}").into(),
        }
    }
}

const ANONYMOUS: &str = "ANONYMOUS";
const MSSBCBS: &str = "MSSBCBS";
const PLAIN: &str = "PLAIN";
const EXTERNAL: &str = "EXTERNAL";
/// SASL-1.
const OFFERED: [&str; 3] = [MSSBCBS, PLAIN, ANONYMOUS];
/// SASL-9.
const OFFERED_TO_CERTIFIED: [&str; 4] = [EXTERNAL, MSSBCBS, PLAIN, ANONYMOUS];
/// A login of more bytes is none.
const SASL_FRAME_BYTES_MAX: u32 = 8192;
/// `sasl-outcome` codes (AMQP 1.0, part 5, 5.3.3.6).
const OK: u8 = 0;
const AUTH: u8 = 1;

impl Handshake {
    pub(crate) fn server(is_certified: bool) -> Handshake {
        Handshake::Server { stage: ServerStage::EitherHeader, is_certified, hostname: None }
    }

    /// The host that a client logs in to, where it says so.
    pub(crate) fn hostname(&self) -> Option<&ByteString> {
        match self {
            Handshake::Server { hostname, .. } | Handshake::Client { hostname, .. } => {
                hostname.as_ref()
            }
        }
    }

    pub(crate) fn client(mechanism: Mechanism, hostname: Option<ByteString>) -> Handshake {
        Handshake::Client { stage: ClientStage::SaslHeader, mechanism, hostname }
    }

    /// Whether the owner is to decide on a login.
    pub(crate) fn awaits_verdict(&self) -> bool {
        matches!(self, Handshake::Server { stage: ServerStage::Verdict, .. })
    }

    /// The login is taken: tells the client.
    pub(crate) fn admit(&mut self, frames: &mut FrameWriter) {
        write_outcome(OK, frames);
        if let Handshake::Server { stage, .. } = self {
            *stage = ServerStage::AmqpHeader;
        }
    }

    pub(crate) fn step(
        &mut self,
        input: &mut BytesMut,
        limits: &Limits,
        frames: &mut FrameWriter,
    ) -> Result<Progress, Fault> {
        match self {
            Handshake::Server {
                stage: ServerStage::EitherHeader | ServerStage::AmqpHeader,
                ..
            }
            | Handshake::Client {
                stage: ClientStage::SaslHeader | ClientStage::AmqpHeader, ..
            } => self.on_header(input, frames),
            Handshake::Server { stage: ServerStage::Init | ServerStage::Response, .. }
            | Handshake::Client { stage: ClientStage::Sasl, .. } => {
                self.on_sasl(input, limits, frames)
            }
            Handshake::Server { stage: ServerStage::Verdict, .. } => Ok(Progress::Wait),
        }
    }

    /// Eight bytes that say which protocol follows. One that is not spoken here is answered with the
    /// one that is, and that was all (CONN-3).
    fn on_header(
        &mut self,
        input: &mut BytesMut,
        frames: &mut FrameWriter,
    ) -> Result<Progress, Fault> {
        let Some(found) = input.first_chunk::<8>().copied() else { return Ok(Progress::Wait) };
        input.advance(found.len());
        let expected = match self {
            Handshake::Server { stage: ServerStage::EitherHeader, .. }
                if found == frame::AMQP_HEADER =>
            {
                found
            }
            Handshake::Server { stage: ServerStage::EitherHeader, .. }
            | Handshake::Client { stage: ClientStage::SaslHeader, .. } => frame::SASL_HEADER,
            _ => frame::AMQP_HEADER,
        };
        if let Handshake::Server { .. } = self {
            frames.write_header(expected);
        }
        if found != expected {
            return Err(Fault::framing("the protocol header is not the one expected here"));
        }
        match self {
            Handshake::Server {
                stage: stage @ ServerStage::EitherHeader, is_certified, ..
            } if found == frame::SASL_HEADER => {
                let offered = if *is_certified { &OFFERED_TO_CERTIFIED[..] } else { &OFFERED };
                let mechanisms = offered.iter().copied().map(Symbol::from_static).collect();
                frames.write_sasl(&SaslFrame::Mechanisms(SaslMechanisms { mechanisms }));
                *stage = ServerStage::Init;
                Ok(Progress::Again)
            }
            Handshake::Client { stage: stage @ ClientStage::SaslHeader, .. } => {
                *stage = ClientStage::Sasl;
                Ok(Progress::Again)
            }
            Handshake::Server { .. } | Handshake::Client { .. } => Ok(Progress::Done),
        }
    }

    fn on_sasl(
        &mut self,
        input: &mut BytesMut,
        limits: &Limits,
        frames: &mut FrameWriter,
    ) -> Result<Progress, Fault> {
        let kind = frame::FrameType::Sasl;
        let Some(head) = frame::FrameHead::parse(input, kind, SASL_FRAME_BYTES_MAX)? else {
            return Ok(Progress::Wait);
        };
        if input.len() < head.bytes {
            return Ok(Progress::Wait);
        }
        let mut body = input.split_to(head.bytes).freeze();
        body.advance(head.body_at);
        let sasl = SaslFrame::read(&mut Reader::new(&body, limits))?;
        match (self, sasl) {
            (
                Handshake::Server { stage: stage @ ServerStage::Init, hostname, .. },
                SaslFrame::Init(init),
            ) => {
                *hostname = init.hostname.clone();
                on_init(stage, init, frames)
            }
            (
                Handshake::Server { stage: stage @ ServerStage::Response, .. },
                SaslFrame::Response(response),
            ) => on_plain(stage, &response.response, frames),
            (Handshake::Client { mechanism, hostname, .. }, SaslFrame::Mechanisms(offered)) => {
                on_mechanisms(mechanism, hostname, &offered, frames)
            }
            (Handshake::Client { .. }, SaslFrame::Challenge(_)) => {
                let response = SaslResponse { response: Bytes::new() };
                frames.write_sasl(&SaslFrame::Response(response));
                Ok(Progress::Again)
            }
            (Handshake::Client { stage, .. }, SaslFrame::Outcome(outcome)) => {
                on_outcome(stage, &outcome, frames)
            }
            _ => Err(Fault::framing("this SASL frame is out of turn")),
        }
    }
}

fn on_init(
    stage: &mut ServerStage,
    init: SaslInit,
    frames: &mut FrameWriter,
) -> Result<Progress, Fault> {
    match (init.mechanism.as_str(), init.initial_response) {
        (ANONYMOUS | MSSBCBS, _) => {
            *stage = ServerStage::Verdict;
            Ok(Progress::Login(Credentials::Anonymous))
        }
        // Asked for where it is not offered, it is for the owner to say why not.
        (EXTERNAL, response) => match String::from_utf8(response.unwrap_or_default().into()) {
            Ok(identity) => {
                *stage = ServerStage::Verdict;
                Ok(Progress::Login(Credentials::External { identity: identity.into() }))
            }
            Err(_) => Err(Fault::Connection(refuse(frames))),
        },
        (PLAIN, Some(response)) if !response.is_empty() => on_plain(stage, &response, frames),
        (PLAIN, _) => {
            let challenge = SaslChallenge { challenge: Bytes::new() };
            frames.write_sasl(&SaslFrame::Challenge(challenge));
            *stage = ServerStage::Response;
            Ok(Progress::Again)
        }
        _ => Err(Fault::Connection(refuse(frames))),
    }
}

/// RFC 4616: whom to act as (ignored), user and password, each after a zero byte.
fn on_plain(
    stage: &mut ServerStage,
    response: &[u8],
    frames: &mut FrameWriter,
) -> Result<Progress, Fault> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(ByteString::from);
    let mut parts = response.splitn(3, |byte| *byte == 0);
    let _authzid = parts.next();
    let user = parts.next().and_then(text);
    let password = parts.next().and_then(text);
    match (user, password) {
        (Some(user), Some(password)) => {
            *stage = ServerStage::Verdict;
            Ok(Progress::Login(Credentials::Plain { user, password }))
        }
        _ => Err(Fault::Connection(refuse(frames))),
    }
}

/// Tells a client that it is not let in; why the connection is over.
pub(crate) fn refuse(frames: &mut FrameWriter) -> Error {
    write_outcome(AUTH, frames);
    Error::new(condition::UNAUTHORIZED_ACCESS, "the login was refused")
}

fn write_outcome(code: u8, frames: &mut FrameWriter) {
    frames.write_sasl(&SaslFrame::Outcome(SaslOutcome { code, additional_data: None }));
}

fn on_mechanisms(
    mechanism: &Mechanism,
    hostname: &Option<ByteString>,
    offered: &SaslMechanisms,
    frames: &mut FrameWriter,
) -> Result<Progress, Fault> {
    let mechanism = match mechanism {
        Mechanism::External if !offered.mechanisms.contains(EXTERNAL) => &Mechanism::Anonymous,
        mechanism => mechanism,
    };
    if !offered.mechanisms.contains(mechanism.name()) {
        return Err(Fault::framing("the server does not offer the mechanism"));
    }
    frames.write_sasl(&SaslFrame::Init(SaslInit {
        mechanism: Symbol::from_static(mechanism.name()),
        initial_response: Some(mechanism.initial_response()),
        hostname: hostname.clone(),
    }));
    Ok(Progress::Again)
}

fn on_outcome(
    stage: &mut ClientStage,
    outcome: &SaslOutcome,
    frames: &mut FrameWriter,
) -> Result<Progress, Fault> {
    if outcome.code != OK {
        let error = Error::new(condition::UNAUTHORIZED_ACCESS, "the login was refused");
        return Err(Fault::Connection(error));
    }
    frames.write_header(frame::AMQP_HEADER);
    *stage = ClientStage::AmqpHeader;
    Ok(Progress::Open)
}
