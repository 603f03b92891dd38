//! Who is let in, over what, and what becomes of those who are not: real nodes, real sockets.

mod attempts;
mod audit_trail;
mod azure;
mod certificates;
mod client_certificates;
mod connection_limits;
mod entity_rules;
mod guesses;
mod issuers;
mod key_changes;
mod native;
mod tls;
mod tokens;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use amqp_protocol::codec::Error;
use anyhow::{Context, ensure};
use auth::sign;
use bytes::{Bytes, BytesMut};
use mayfly_tests::Settings;
use mayfly_tests::wire::Wire;
use message_content::{Body, Neutral};

const SECRET: &str = "the-cluster-secret";

const KEYS: &str = r#"
[[security.key]]
name = "sender"
key = "sender-key"
secondary_key = "sender-spare"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "listener-key"
rights = ["listen"]
"#;

fn guarded() -> Settings {
    let secret = Some(SECRET);
    Settings { nodes: 1, data_groups: 1, secret, config: KEYS, ..Settings::default() }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(b"hello"));
    Neutral { body, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

/// A token as Python makes it.
fn token(entity: &str, name: &str, key: &str, seconds: u64) -> (String, String) {
    let audience = format!("sb://localhost:5672/{entity}");
    let resource = audience.replace(':', "%3A").replace('/', "%2F");
    (sign(&resource, name, key, now_s() + seconds), audience)
}

fn condition(refused: Result<amqp_protocol::engine::LinkId, Error>) -> anyhow::Result<String> {
    Ok(refused.err().context("it was let in")?.condition.to_string())
}

/// One request on a connection of its own: status and body.
fn ask(stream: impl Wire, request: &str, headers: &str) -> anyhow::Result<(u16, String)> {
    ask_with(stream, request, headers, if request.starts_with("PUT") { QUEUE } else { "" })
}

fn ask_with(
    mut stream: impl Wire,
    request: &str,
    headers: &str,
    body: &str,
) -> anyhow::Result<(u16, String)> {
    let head = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        ensure!(Instant::now() < until, "no answer to {request}");
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // A server that is done may leave without a word of TLS.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
    }
    let text = String::from_utf8(text)?;
    let status = text.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, text))
}

const QUEUE: &str = r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><ForwardTo>sb://localhost/target</ForwardTo></QueueDescription></content></entry>"#;
