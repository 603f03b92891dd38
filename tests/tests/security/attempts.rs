//! Every port, every proof, every attempt: who is let do what, and what all others are told (ERR-17).

use std::time::Duration;

use amqp_protocol::codec::{Attach, Outcome};
use amqp_protocol::codec::{DeliveryState, Error as AmqpError, Map, Value};
use amqp_protocol::engine::{LinkId, Mechanism};
use anyhow::{Context, bail, ensure};
use auth::sign;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use client::v1::{
    AccessRight, AuthorizationRule, AuthorizationRules, QueueProperties, ReceiveMode,
};
use client::{Client, ClientOptions, Error, Message, QueuePath};
use mayfly_tests::{AmqpClient, AmqpCoordinator, AmqpNode, Cluster, Settings, wire};

use super::{SECRET, ask_with, message, now_s};

/// Wrong keys are tried by the hundred here.
pub(super) const KEYS: &str = r#"
wrong_keys_per_minute = 0
[[security.key]]
name = "sender"
key = "the-senders-key-1"
secondary_key = "the-senders-key-2"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "the-listeners-key"
rights = ["listen"]
[[security.key]]
name = "dead"
key = "the-key-of-the-dead"
rights = ["listen"]
scope = "orders/$DeadLetterQueue"
[[security.key]]
name = "manager"
key = "the-managers-key"
rights = ["manage"]
[[security.key]]
name = "clerk"
key = "the-clerks-key"
rights = ["manage"]
scope = "orders"
[[security.key]]
name = "forwarder"
key = "the-forwarders-key"
rights = ["manage"]
scope = "forwarder"
[[security.key]]
name = "monitor"
key = "the-monitors-key"
rights = ["monitor"]
[[security.key]]
name = "operator"
key = "the-operators-key"
rights = ["operate"]
"#;

const ROOT: &str = "RootManageSharedAccessKey";
const UNAUTHORIZED: &str = "amqp:unauthorized-access";

/// An enum, and all there is of it in that order.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $all:ident: $($(#[$of:meta])* $variant:ident),* $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum $name {
            $($(#[$of])* $variant),*
        }

        use $name::*;

        const $all: &[$name] = &[$($variant),*];
    };
}

table! {
    /// What is tried with each proof.
    Try, ALL:
    Send,
    SendElsewhere,
    SendPrefix,
    SendBelow,
    SendInOtherCase,
    /// To `other` via `orders` (FWD-14).
    SendVia,
    Schedule,
    Receive,
    ReceiveDead,
    Peek,
    PeekDead,
    Transact,
    TransactElsewhere,
    Show,
    List,
    /// `forwarder` to `other` (FWD-2).
    ForwardTo,
    /// A subscription's, with the right of its receivers.
    Rules,
    /// The same as a document of the management API, with the right of its managers (HTTP-12).
    DescribeRules,
    Status,
    Clock,
    Transfer,
}

table! {
    /// How a proof is shown, and where.
    Port, PORTS:
    AmqpToken,
    AmqpLogin,
    /// AMQP through a WebSocket.
    WebSocketToken,
    HttpToken,
    HttpLogin,
    HttpKey,
    NativeToken,
    NativeLogin,
    NativeKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Nothing,
    /// A key and its name: as a token for what is tried, as a login, or the key alone.
    Key(&'static str, &'static str),
    /// A token of the key that ended a second ago.
    Expired(&'static str, &'static str),
    /// A token of the key with another end than was signed.
    Tampered(&'static str, &'static str),
    /// A token of the key for `other`.
    ForOther(&'static str, &'static str),
}

use Proof::*;

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Done,
    /// With the answer that the port has for it.
    Refused,
}

impl Port {
    fn is_amqp(self) -> bool {
        matches!(self, AmqpToken | AmqpLogin | WebSocketToken)
    }

    fn is_http(self) -> bool {
        matches!(self, HttpToken | HttpLogin | HttpKey)
    }

    fn takes_tokens(self) -> bool {
        matches!(self, AmqpToken | WebSocketToken | HttpToken | NativeToken)
    }

    fn shows(self, proof: Proof) -> bool {
        match proof {
            Nothing => self != AmqpLogin,
            // The key alone has no name by which an entity's rules are found, but what it is used on.
            Key(..) => true,
            Expired(..) | Tampered(..) | ForOther(..) => self.takes_tokens(),
        }
    }

    fn has(self, tried: Try) -> bool {
        match tried {
            Send | SendElsewhere | SendPrefix | SendBelow | SendInOtherCase | Receive
            | ReceiveDead => true,
            SendVia | Schedule => self.is_amqp(),
            Peek | PeekDead | Transact | TransactElsewhere | Rules => !self.is_http(),
            Show | List | ForwardTo | Status => !self.is_amqp(),
            DescribeRules => self.is_http(),
            Clock | Transfer => !self.is_http() && !self.is_amqp(),
        }
    }
}

impl Proof {
    /// The token, for a resource that is written as it is signed.
    fn token(self, resource: &str) -> Option<String> {
        let resource = match self {
            ForOther(..) => "https%3A%2F%2Flocalhost%2Fother",
            _ => resource,
        };
        match self {
            Nothing => None,
            Key(name, key) | ForOther(name, key) => Some(sign(resource, name, key, now_s() + 600)),
            Expired(name, key) => Some(sign(resource, name, key, now_s() - 1)),
            Tampered(name, key) => {
                let ends = now_s() + 600;
                let token = sign(resource, name, key, ends);
                Some(token.replace(&format!("se={ends}"), &format!("se={}", ends + 1)))
            }
        }
    }

    fn key(self) -> (&'static str, &'static str) {
        match self {
            Nothing => ("", ""),
            Key(name, key) | Expired(name, key) | Tampered(name, key) | ForOther(name, key) => {
                (name, key)
            }
        }
    }
}

/// One proof at one port of a node.
struct Visitor<'a> {
    cluster: &'a Cluster,
    port: Port,
    proof: Proof,
}

impl Visitor<'_> {
    async fn tries(&self, tried: Try) -> anyhow::Result<Came> {
        match self.port {
            AmqpToken | AmqpLogin | WebSocketToken => self.over_amqp(tried).await,
            HttpToken | HttpLogin | HttpKey => self.over_http(tried),
            NativeToken | NativeLogin | NativeKey => {
                match native(tried, &self.native_client()?).await {
                    Ok(()) => Ok(Came::Done),
                    Err(error) => {
                        let detail = error.detail();
                        ensure!(matches!(error, Error::Refused(_)), "{error:?}");
                        ensure!(detail.rule == "ERR-17", "{error}");
                        ensure!(!detail.message.contains("the-"), "{error}");
                        Ok(Came::Refused)
                    }
                }
            }
        }
    }

    fn native_client(&self) -> anyhow::Result<Client> {
        let (name, key) = self.proof.key();
        let (key_name, secret) = match (self.port, self.proof) {
            (_, Nothing) => (None, None),
            (NativeToken, _) => (None, self.proof.token("https%3A%2F%2Flocalhost")),
            (NativeLogin, _) => (Some(name.to_owned()), Some(key.to_owned())),
            _ => (None, Some(key.to_owned())),
        };
        let options = ClientOptions {
            secret,
            key_name,
            give_up_after: Duration::from_secs(20),
            ..ClientOptions::default()
        };
        Ok(Client::with_options([self.cluster.addresses(1)[0]], options)?)
    }

    fn over_http(&self, tried: Try) -> anyhow::Result<Came> {
        let (name, key) = self.proof.key();
        let proof = match (self.port, self.proof) {
            (_, Nothing) => None,
            (HttpToken, _) => self.proof.token("https%3A%2F%2Flocalhost"),
            (HttpLogin, _) => Some(format!("Basic {}", BASE64.encode(format!("{name}:{key}")))),
            _ => Some(format!("Bearer {key}")),
        };
        let (request, body) = match tried {
            Send => ("POST /orders/messages", ""),
            SendElsewhere => ("POST /other/messages", ""),
            SendPrefix => ("POST /orders2/messages", ""),
            SendBelow => ("POST /orders/below/messages", ""),
            SendInOtherCase => ("POST /ORDERS/messages", ""),
            Receive => ("DELETE /orders/messages/head?timeout=0", ""),
            ReceiveDead => ("DELETE /orders/$DeadLetterQueue/messages/head?timeout=0", ""),
            Show => ("GET /orders", ""),
            List => ("GET /$Resources/queues", ""),
            ForwardTo => ("PUT /forwarder", FORWARDING),
            DescribeRules => ("GET /news/subscriptions/all/rules", ""),
            Status => ("GET /health/details", ""),
            _ => bail!("not over HTTP"),
        };
        let proof = proof.map(|proof| format!("Authorization: {proof}\r\n")).unwrap_or_default();
        let update = if request.starts_with("PUT") { "If-Match: *\r\n" } else { "" };
        let stream = wire::tcp(self.cluster.addresses(1)[1])?;
        let (status, answer) = ask_with(stream, request, &format!("{proof}{update}"), body)?;
        match status {
            200 | 201 | 204 => Ok(Came::Done),
            // HTTP-15.
            401 => {
                ensure!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
                ensure!(!answer.contains("the-"), "{answer}");
                Ok(Came::Refused)
            }
            _ => bail!("{request}: {answer}"),
        }
    }

    async fn over_amqp(&self, tried: Try) -> anyhow::Result<Came> {
        let address = self.cluster.amqp_address(1);
        let (name, key) = self.proof.key();
        let connected = match self.port {
            AmqpLogin => AmqpClient::over(wire::tcp(address)?, Mechanism::plain(name, key)).await,
            WebSocketToken => {
                let (http, path) = (self.cluster.addresses(1)[1], "/$servicebus/websocket");
                let stream = wire::plain_websocket(http, path, Some("AMQPWSB10"))?;
                AmqpClient::over(stream, Mechanism::Anonymous).await
            }
            _ => AmqpClient::connect(address).await,
        };
        let mut client = match connected {
            Ok(client) => client,
            Err(error) if self.port == AmqpLogin => {
                ensure!(error.to_string().contains("auth"), "{error:#}");
                return Ok(Came::Refused);
            }
            Err(error) => return Err(error),
        };
        self.links(&mut client, tried).await
    }

    /// Puts a token for an entity, as SDKs do before each link.
    async fn prove(&self, client: &mut AmqpClient, entity: &str) -> anyhow::Result<()> {
        let audience = format!("sb://localhost/{entity}");
        let resource = audience.replace(':', "%3A").replace('/', "%2F").replace('$', "%24");
        let token = self.port.takes_tokens().then(|| self.proof.token(&resource)).flatten();
        let Some(token) = token else { return Ok(()) };
        let status = client.put_token(&token, &audience).await?;
        ensure!(matches!(status, 202 | 401), "{audience}: {status}");
        Ok(())
    }

    async fn links(&self, client: &mut AmqpClient, tried: Try) -> anyhow::Result<Came> {
        let sends_to = match tried {
            Send | SendVia | Transact | TransactElsewhere => Some("orders"),
            SendElsewhere => Some("other"),
            SendPrefix => Some("orders2"),
            SendBelow => Some("orders/below"),
            SendInOtherCase => Some("ORDERS"),
            _ => None,
        };
        let second = matches!(tried, SendVia | TransactElsewhere).then_some("other");
        for entity in sends_to.into_iter().chain(second) {
            self.prove(client, entity).await?;
        }
        match (tried, sends_to) {
            (SendVia, Some(via)) => {
                let mut attach = Attach::sender(&client.link_name(), via);
                let to = Map::default()
                    .symbol("com.microsoft:transfer-destination-address", "other".into());
                attach.properties = Some(to);
                let Some((link, _)) = opened(client.attach(attach).await?)? else {
                    return Ok(Came::Refused);
                };
                accepted(client, link).await
            }
            (Transact | TransactElsewhere, Some(first)) => {
                let control = AmqpCoordinator::attach(client).await?;
                let transaction = control.declare(client).await?;
                for entity in [Some(first), second].into_iter().flatten() {
                    let Some(link) = opened(client.sender(entity).await?)? else {
                        return Ok(Came::Refused);
                    };
                    let refused = client.send_within(link, message(), &transaction).await?;
                    ensure!(refused.is_none(), "{refused:?}");
                }
                let ended = control.discharge(client, &transaction, false).await?;
                ensure!(ended == DeliveryState::ACCEPTED, "{ended:?}");
                Ok(Came::Done)
            }
            (_, Some(entity)) => match opened(client.sender(entity).await?)? {
                Some(link) => accepted(client, link).await,
                None => Ok(Came::Refused),
            },
            (Receive | ReceiveDead, None) => {
                let dead = if tried == ReceiveDead { "/$DeadLetterQueue" } else { "" };
                let entity = format!("orders{dead}");
                self.prove(client, &entity).await?;
                let link = opened(client.settled_receiver(&entity).await?)?;
                Ok(link.map_or(Came::Refused, |_| Came::Done))
            }
            (_, None) => self.asks(client, tried).await,
        }
    }

    /// A request at an entity's management node (REQ-25).
    async fn asks(&self, client: &mut AmqpClient, tried: Try) -> anyhow::Result<Came> {
        let peek = || {
            Map::default()
                .string("from-sequence-number", Value::Long(1))
                .string("message-count", Value::Int(1))
        };
        let (entity, operation, body) = match tried {
            Schedule => {
                let at = Value::Timestamp((now_s() as i64 + 3_600) * 1_000);
                let message = message_at(at);
                ("orders", "schedule-message", Map::default().string("messages", message))
            }
            Peek => ("orders", "peek-message", peek()),
            PeekDead => ("orders/$DeadLetterQueue", "peek-message", peek()),
            Rules => {
                let page =
                    Map::default().string("top", Value::Int(10)).string("skip", Value::Int(0));
                ("news/Subscriptions/all", "enumerate-rules", page)
            }
            _ => bail!("not over AMQP"),
        };
        self.prove(client, entity).await?;
        let mut node = match AmqpNode::open(client, entity).await {
            Ok(node) => node,
            Err(error) => {
                ensure!(error.to_string().contains("unauthorized-access"), "{error:#}");
                return Ok(Came::Refused);
            }
        };
        let reply = node.ask(client, operation, body).await?;
        match reply.status {
            200 | 204 => Ok(Came::Done),
            401 => {
                let condition = reply.condition.unwrap_or_default();
                let known = [UNAUTHORIZED, "com.microsoft:auth-failed"];
                ensure!(known.contains(&condition.as_str()), "{condition}");
                Ok(Came::Refused)
            }
            _ => bail!("{reply:?}"),
        }
    }
}

/// A message that shall be there later, as `schedule-message` takes it.
fn message_at(at: Value) -> Value {
    use amqp_protocol::message::MessageBuilder;
    let annotations = Map::default().symbol("x-opt-scheduled-enqueue-time", at);
    let encoded = MessageBuilder::default()
        .section(amqp_protocol::codec::descriptor::MESSAGE_ANNOTATIONS, &annotations)
        .build();
    let one =
        Map::default().string("message-id", "m".into()).string("message", Value::Binary(encoded));
    Value::List(vec![Value::Map(one)])
}

/// The link; nothing if it was refused for want of a right.
fn opened<T>(answer: Result<T, AmqpError>) -> anyhow::Result<Option<T>> {
    match answer {
        Ok(link) => Ok(Some(link)),
        Err(error) => {
            ensure!(error.condition.as_str() == UNAUTHORIZED, "{error:?}");
            let told = error.description.as_deref().unwrap_or_default();
            ensure!(!told.contains("the-"), "{told}");
            Ok(None)
        }
    }
}

async fn accepted(client: &mut AmqpClient, link: LinkId) -> anyhow::Result<Came> {
    let state = client.send(link, 0, message()).await?;
    ensure!(state == DeliveryState::Outcome(Outcome::Accepted), "{state:?}");
    Ok(Came::Done)
}

async fn native(tried: Try, client: &Client) -> Result<(), Error> {
    let send = async |queue: &str| client.send(queue, vec![Message::new("x")]).await.map(drop);
    let receive = async |path: &QueuePath| {
        let mode = ReceiveMode::ReceiveAndDelete;
        client.receive(path, mode, 1, Duration::ZERO).await.map(drop)
    };
    match tried {
        Send => send("orders").await,
        SendElsewhere => send("other").await,
        SendPrefix => send("orders2").await,
        SendBelow => send("orders/below").await,
        SendInOtherCase => send("ORDERS").await,
        Receive => receive(&QueuePath::main("orders")).await,
        ReceiveDead => receive(&QueuePath::dead_letter("orders")).await,
        Peek => client.peek(&QueuePath::main("orders"), 1, 1).await.map(drop),
        PeekDead => client.peek(&QueuePath::dead_letter("orders"), 1, 1).await.map(drop),
        Transact | TransactElsewhere => {
            let mut transaction = client.transaction("orders");
            match tried {
                Transact => transaction.send(vec![Message::new("x")]).await?,
                _ => transaction.send_to("other", vec![Message::new("x")]).await?,
            }
            transaction.commit().await.map(drop)
        }
        Show => client.get_queue("orders").await.map(drop),
        List => client.list_queues("").await.map(drop),
        ForwardTo => {
            let forward_to = Some("other".to_owned());
            let given = QueueProperties { forward_to, ..Default::default() };
            client.update_queue("forwarder", given).await.map(drop)
        }
        Rules => client.list_rules("news", "all").await.map(drop),
        Status => client.status(true).await.map(drop),
        Clock => client.advance_clock(Duration::ZERO).await.map(drop),
        Transfer => client.transfer_leader(0, 1).await,
        SendVia | Schedule | DescribeRules => unreachable!("Port::has"),
    }
}

const FORWARDING: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ForwardTo>sb://localhost/other</ForwardTo></QueueDescription></content></entry>"#;

/// A node with keys of every kind; the rule `gone` of `orders` was removed again.
pub(super) async fn start() -> anyhow::Result<Cluster> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        secret: Some(SECRET),
        config: KEYS,
        development: true,
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let rule = |name: &str, right: AccessRight| AuthorizationRule {
        name: name.to_owned(),
        rights: vec![right.into()],
        primary_key: format!("the-key-of-the-{name}"),
        secondary_key: format!("the-spare-of-the-{name}"),
        ..Default::default()
    };
    let mut rules = vec![rule("shop", AccessRight::Send), rule("worker", AccessRight::Listen)];
    let with = |rules: &[AuthorizationRule]| QueueProperties {
        authorization_rules: Some(AuthorizationRules { rules: rules.to_vec() }),
        ..Default::default()
    };
    rules.push(rule("gone", AccessRight::Send));
    client.create_queue("orders", with(&rules)).await?;
    rules.pop();
    client.update_queue("orders", with(&rules)).await?;
    for queue in ["other", "orders2", "orders/below", "forwarder"] {
        client.create_queue(queue, Default::default()).await?;
    }
    client.create_topic("news", Default::default()).await?;
    client.create_subscription("news", "all", Default::default(), None).await?;
    Ok(cluster)
}

/// Each row: a proof, and what is done with it at every port that has it. All else is refused, with the
/// answer that the port has for that.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_ent_12_cbs_9_http_15_each_attempt_takes_its_right() -> anyhow::Result<()> {
    let cluster = start().await?;
    let own = [Send, SendInOtherCase, Schedule, Transact];
    let below = [Send, SendBelow, SendInOtherCase, Schedule, Transact];
    let listener = [Receive, ReceiveDead, Peek, PeekDead, Rules];
    let worker = [Receive, ReceiveDead, Peek, PeekDead];
    let manager: Vec<Try> =
        ALL.iter().copied().filter(|tried| !matches!(tried, Clock | Transfer)).collect();
    let clerk: Vec<Try> = below.into_iter().chain(worker).chain([Show]).collect();
    let (guess, nothing) = ("a-guess-of-a-key", &[][..]);
    for (proof, allowed) in [
        (Nothing, nothing),
        (Key("sender", guess), nothing),
        (Key("nobody", guess), nothing),
        (Key("Sender", guess), nothing),
        (Key(ROOT, guess), nothing),
        (Key("sender", "the-senders-key-1"), &below),
        (Key("sender", "the-senders-key-2"), &below),
        (Expired("sender", "the-senders-key-1"), nothing),
        (Tampered("sender", "the-senders-key-1"), nothing),
        (ForOther("sender", "the-senders-key-1"), nothing),
        (Key("listener", "the-listeners-key"), &listener),
        (Expired("listener", "the-listeners-key"), nothing),
        (Key("dead", "the-key-of-the-dead"), &[ReceiveDead, PeekDead]),
        (Key("manager", "the-managers-key"), &manager),
        (ForOther("manager", "the-managers-key"), &[SendElsewhere]),
        (Key("clerk", "the-clerks-key"), &clerk),
        (Key("forwarder", "the-forwarders-key"), nothing),
        (Key("monitor", "the-monitors-key"), &[Status]),
        (Key("operator", "the-operators-key"), &[Status, Clock, Transfer]),
        (Key(ROOT, SECRET), ALL),
        (Expired(ROOT, SECRET), nothing),
        (Tampered(ROOT, SECRET), nothing),
        // An entity's own reach it alone, and none that is named below it.
        (Key("shop", "the-key-of-the-shop"), &own),
        (Key("shop", "the-spare-of-the-shop"), &own),
        (Expired("shop", "the-key-of-the-shop"), nothing),
        (Tampered("shop", "the-key-of-the-shop"), nothing),
        (Key("worker", "the-key-of-the-worker"), &worker),
        (Key("gone", "the-key-of-the-gone"), nothing),
    ] {
        for port in PORTS.iter().copied().filter(|port| port.shows(proof)) {
            let visitor = Visitor { cluster: &cluster, port, proof };
            for tried in ALL.iter().copied().filter(|tried| port.has(*tried)) {
                let what = || format!("{port:?} {proof:?} {tried:?}");
                let came = visitor.tries(tried).await.with_context(what)?;
                let expected = if allowed.contains(&tried) { Came::Done } else { Came::Refused };
                ensure!(came == expected, "{}: {came:?}", what());
            }
        }
    }
    let log = cluster.node_log(1);
    for hidden in ["the-", guess, SECRET] {
        ensure!(!log.contains(hidden), "{hidden} is in {log}");
    }
    Ok(())
}

/// Who is refused is told what is missing.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_a_refusal_names_key_right_and_entity() -> anyhow::Result<()> {
    let cluster = start().await?;
    for (port, name, key, told) in [
        (
            NativeLogin,
            "sender",
            "the-senders-key-1",
            "key 'sender' has no right 'Listen' on 'orders'",
        ),
        (
            NativeLogin,
            "shop",
            "the-key-of-the-shop",
            "key 'shop' of 'orders' has no right 'Listen'",
        ),
        (NativeLogin, "sender", "guess", "the login's key is not that of key 'sender'"),
        (NativeLogin, "nobody", "guess", "no key has the name"),
        (NativeKey, "", "guess", "the bearer token is no key of this cluster"),
    ] {
        let visitor = Visitor { cluster: &cluster, port, proof: Key(name, key) };
        let refused = native(Receive, &visitor.native_client()?).await;
        let refused = refused.err().context("it was let in")?.to_string();
        ensure!(refused.contains(told), "{refused}");
    }
    Ok(())
}
