//! Against a server made of the same engine, over a stream in memory.

use amqp_protocol::Limits;
use amqp_protocol::codec::{self, DeliveryState, Map, Role, Value};
use amqp_protocol::engine::{
    Config, Connection, Delivery, DeliveryId, Event, LinkId, Millis, Outgoing, Payload,
};
use amqp_protocol::request::Envelope;
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

/// Serves a queue that has one message, and a node that replies to requests with what they say.
struct Server {
    engine: Connection,
    queue: Option<Bytes>,
    /// Links to clients, by the address they are from.
    outgoing: Vec<(LinkId, String)>,
}

impl Server {
    async fn run(mut stream: DuplexStream) {
        let config = Config {
            container_id: "server".into(),
            hostname: None,
            offered_capabilities: Default::default(),
            properties: None,
            limits: Limits::default(),
        };
        let mut server = Server {
            engine: Connection::server(config, Millis(0)),
            queue: Some(Bytes::from_static(b"\0Su\xa0\x05there")),
            outgoing: Vec::new(),
        };
        let mut input = BytesMut::new();
        while stream.read_buf(&mut input).await.is_ok_and(|count| count > 0) {
            while let Some(event) = server.engine.poll(&mut input, Millis(0)) {
                server.on_event(event);
            }
            server.engine.flush();
            let output = server.engine.output();
            let bytes = output.copy_to_bytes(output.remaining());
            stream.write_all(&bytes).await.expect("the client reads");
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Login(_) => self.engine.login(true),
            Event::AttachRequested { session, link, attach } => {
                let source = attach.source.as_ref().and_then(|source| source.address.clone());
                if source.as_deref() == Some("unheard-of") {
                    let error = codec::Error::new("amqp:not-implemented", "not here");
                    return self.engine.end(session, Some(error)).expect("it has begun");
                }
                let reply = attach.reply(1 << 20);
                if source.as_deref() == Some("nothing") {
                    let error = codec::Error::new("amqp:not-found", "there is nothing");
                    return self.engine.refuse(link, reply, error).expect("it was asked for");
                }
                self.engine.accept(link, reply).expect("it was asked for");
                match attach.role {
                    Role::Sender => self.engine.grant(link, 10).expect("it is attached"),
                    Role::Receiver => {
                        self.outgoing.push((link, source.unwrap_or_default().to_string()));
                    }
                }
            }
            Event::Credit { link, .. } if self.address(link) == "queue" => {
                if let Some(payload) = self.queue.take() {
                    self.send(link, payload, false);
                }
            }
            Event::Delivery(Delivery { id, payload, .. }) => self.on_delivery(id, payload),
            Event::Disposed { id, settled: false, .. } => {
                self.engine.answer(id, DeliveryState::ACCEPTED).expect("it was sent");
            }
            _ => {}
        }
    }

    fn on_delivery(
        &mut self,
        id: DeliveryId,
        payload: Result<Bytes, amqp_protocol::engine::TooLarge>,
    ) {
        self.engine.settle(id, DeliveryState::ACCEPTED).expect("it has come");
        let payload = payload.expect("a small one");
        let Ok(request) = Envelope::decode(&payload, &Limits::default()) else { return };
        let link = self.outgoing.iter().find(|(_, address)| address == "node");
        if let Some(&(link, _)) = link {
            let reply = request.reply(&request.properties, &request.body, &mut BytesMut::new());
            self.send(link, reply, true);
        }
    }

    fn send(&mut self, link: LinkId, payload: Bytes, settled: bool) {
        let tag = codec::Tag::new(b"1").expect("a short one");
        let payload = Payload::from(payload);
        let outgoing = Outgoing { tag, message_format: 0, settled, state: None, payload };
        self.engine.send(link, &outgoing).expect("there is credit");
    }

    fn address(&self, link: LinkId) -> &str {
        let found = self.outgoing.iter().find(|(of, _)| *of == link);
        found.map_or("", |(_, address)| address)
    }
}

async fn connected() -> Client {
    // Small, so that writes get stuck.
    let (ours, theirs) = tokio::io::duplex(64);
    tokio::spawn(Server::run(theirs));
    Client::over(ours, Options::default()).await.expect("a connection")
}

#[tokio::test]
async fn messages_go_out_and_come_in() {
    let mut client = connected().await;
    assert_eq!(&*client.server().container_id, "server");
    let sender = client.sender("queue").await.unwrap().unwrap();
    let message = Bytes::from_static(b"\0Su\xa0\x02hi");
    assert_eq!(client.send(sender, 0, message).await.unwrap(), DeliveryState::ACCEPTED);
    let receiver = client.receiver("queue").await.unwrap().unwrap();
    client.grant(receiver, 5).await.unwrap();
    let delivery = client.receive(receiver).await.unwrap();
    assert_eq!(delivery.payload.as_deref(), Ok(&b"\0Su\xa0\x05there"[..]));
    let answer = client.settle(&delivery, DeliveryState::ACCEPTED).await.unwrap();
    assert_eq!(answer, DeliveryState::ACCEPTED);
    client.close().await;
}

#[tokio::test]
async fn a_refused_link_is_an_answer() {
    let mut client = connected().await;
    let refused = client.receiver("nothing").await.unwrap().unwrap_err();
    assert_eq!(&*refused.condition, "amqp:not-found");
    assert!(client.receiver("queue").await.unwrap().is_ok(), "the connection goes on");
}

/// As RabbitMQ answers settle modes that it does not have.
#[tokio::test]
async fn a_session_that_ends_over_a_link_is_no_wait() {
    let mut client = connected().await;
    let ended = client.receiver("unheard-of").await.map(drop);
    let Err(Error::Ended(Some(error))) = &ended else { panic!("{ended:?}") };
    assert_eq!(&*error.condition, "amqp:not-implemented");
}

#[tokio::test]
async fn a_request_has_its_reply() {
    let mut client = connected().await;
    let mut node = RequestLink::open(&mut client, "node").await.unwrap().unwrap();
    for number in 0..3 {
        let properties = Map::default().string("operation", "repeat".into());
        let reply = node.ask(&mut client, &properties, &Value::Int(number)).await.unwrap();
        assert_eq!((reply.properties, reply.body), (properties, Value::Int(number)));
    }
    node.close(&mut client).await.unwrap();
}

#[tokio::test]
async fn a_server_that_says_nothing_is_late() {
    let (ours, _theirs) = tokio::io::duplex(64);
    let options =
        Options { answer_within: std::time::Duration::from_millis(50), ..Options::default() };
    let refused = Client::over(ours, options).await.map(drop);
    assert!(matches!(refused, Err(Error::Late("to open"))), "{refused:?}");
}
