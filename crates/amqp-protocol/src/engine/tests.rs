//! Two engines talk to each other, and frames written by hand meet one.

mod exchange;
mod hostile;
mod links;
mod login;
mod settlement;
mod timing;

use bytes::{Buf, BytesMut};

use super::*;
use crate::Limits;
use crate::codec::{Attach, Composite, ReceiverSettleMode, Role, Symbols, frame};

/// One end of a connection, and what it told its owner.
struct Peer {
    connection: Connection,
    input: BytesMut,
    events: Vec<Event>,
}

/// Both ends, and the time.
struct Pair {
    client: Peer,
    server: Peer,
    now: Millis,
}

fn config(limits: Limits) -> Config {
    Config {
        container_id: "test".into(),
        hostname: None,
        offered_capabilities: Symbols::default(),
        properties: None,
        limits,
    }
}

impl Peer {
    fn server(limits: Limits) -> Peer {
        Peer::new(Connection::server(config(limits), Millis(0)))
    }

    fn new(connection: Connection) -> Peer {
        Peer { connection, input: BytesMut::new(), events: Vec::new() }
    }

    /// Everything that waits to be written.
    fn written(&mut self) -> Vec<u8> {
        self.connection.flush();
        let output = self.connection.output();
        let mut bytes = Vec::with_capacity(output.remaining());
        while output.has_remaining() {
            let chunk = output.chunk();
            bytes.extend_from_slice(chunk);
            let count = chunk.len();
            output.advance(count);
        }
        bytes
    }

    fn read(&mut self, bytes: &[u8], now: Millis) {
        self.input.extend_from_slice(bytes);
        while let Some(event) = self.connection.poll(&mut self.input, now) {
            if let Event::Login(_) = event {
                self.connection.login(true);
            }
            self.events.push(event);
        }
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

impl Pair {
    fn new(client: Limits, server: Limits) -> Pair {
        let now = Millis(0);
        let client = Connection::client(config(client), Mechanism::Anonymous, now);
        Pair { client: Peer::new(client), server: Peer::server(server), now }
    }

    /// Opened, and their first events forgotten.
    fn opened(client: Limits, server: Limits) -> Pair {
        let mut pair = Pair::new(client, server);
        pair.run();
        assert!(matches!(pair.client.take_events()[..], [Event::Opened(_)]));
        assert!(matches!(pair.server.take_events()[..], [Event::Login(_), Event::Opened(_)]));
        pair
    }

    /// Carries bytes to and fro until both are silent.
    fn run(&mut self) {
        loop {
            let from_client = self.client.written();
            self.server.read(&from_client, self.now);
            let from_server = self.server.written();
            self.client.read(&from_server, self.now);
            if from_client.is_empty() && from_server.is_empty() {
                return;
            }
        }
    }

    fn session(&mut self) -> SessionId {
        let session = self.client.connection.begin().expect("a channel");
        self.run();
        assert!(matches!(self.client.take_events()[..], [Event::Began(id)] if id == session));
        assert!(matches!(self.server.take_events()[..], [Event::Began(_)]));
        session
    }

    /// A link the client asked for and the server accepted: each one's id of it.
    fn link(&mut self, session: SessionId, attach: Attach) -> (LinkId, LinkId) {
        let ours = self.client.connection.attach(session, attach).unwrap();
        self.run();
        let (theirs, attach) = attach_request(&mut self.server);
        self.server.connection.accept(theirs, attach.reply(1 << 20)).unwrap();
        self.run();
        let accepted = self.client.take_events();
        let is_reply =
            |event: &Event| matches!(event, Event::Attached { link, .. } if *link == ours);
        assert!(accepted.iter().any(is_reply), "{accepted:?}");
        (ours, theirs)
    }
}

fn attach_request(peer: &mut Peer) -> (LinkId, Box<Attach>) {
    let request = peer.take_events().into_iter().find_map(|event| match event {
        Event::AttachRequested { link, attach, .. } => Some((link, attach)),
        _ => None,
    });
    request.expect("the peer asks for a link")
}

fn attach(name: &str, role: Role) -> Attach {
    match role {
        Role::Sender => Attach::sender(name, "q"),
        Role::Receiver => Attach::receiver(name, "q"),
    }
}

fn message(tag: u32, payload: impl Into<bytes::Bytes>) -> Outgoing {
    Outgoing {
        tag: crate::codec::Tag::new(&tag.to_be_bytes()).unwrap(),
        message_format: 0,
        settled: false,
        state: None,
        payload: Payload::from(payload.into()),
    }
}

/// One frame by hand.
fn frame_of(channel: u16, performative: &impl Composite, payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let start = frame::begin(&mut out, frame::FrameType::Amqp, channel);
    performative.write(&mut out);
    out.extend_from_slice(payload);
    frame::end(&mut out, start, 0);
    out.to_vec()
}
