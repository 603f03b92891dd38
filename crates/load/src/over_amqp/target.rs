//! Where AMQP is spoken, and as whom.

use std::io::ErrorKind;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amqp_client::{Client, RequestLink};
use amqp_protocol::codec::{Map, Value};
use amqp_protocol::engine::Mechanism;
use client::{ClientOptions, Trust};
use workload::{Link, Lost, Way};

use crate::link::Broken;

use super::broken;

/// The management node that takes tokens.
const CBS: &str = "$cbs";
/// A token outlives any run.
const TOKEN_LASTS: Duration = Duration::from_secs(14 * 24 * 3600);
/// The rule whose key a cluster's secret is.
const ROOT: &str = "RootManageSharedAccessKey";

/// How to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sasl {
    Anonymous,
    /// The name of a key, or a user's, and the key.
    Plain,
    /// As nobody, and then a signed token for each entity, as Azure's SDKs do.
    Sas,
}

impl Sasl {
    pub const ALL: [Sasl; 3] = [Sasl::Anonymous, Sasl::Plain, Sasl::Sas];

    /// As commands have it.
    pub fn name(self) -> &'static str {
        match self {
            Sasl::Anonymous => "anonymous",
            Sasl::Plain => "plain",
            Sasl::Sas => "sas",
        }
    }
}

/// Nodes that speak AMQP.
#[derive(Clone)]
pub struct AmqpTarget {
    way: Way,
    addresses: Vec<String>,
    sasl: Sasl,
    key_name: String,
    key: String,
}

impl AmqpTarget {
    /// `addresses`: `host:port`, with `amqp://` or `amqps://` before it or without. `options`: the key, and whom to
    /// trust. Without `sasl` a key is shown as PLAIN has it, and nobody where there is none.
    ///
    /// # Errors
    /// One sentence.
    pub fn new(
        addresses: Vec<String>,
        options: &ClientOptions,
        sasl: Option<Sasl>,
    ) -> Result<AmqpTarget, String> {
        let mut options = options.clone();
        if options.tls.is_none() && addresses.iter().any(|of| of.starts_with("amqps://")) {
            options.tls = Some(Trust::System);
        }
        let way = Way::with(&options).map_err(|error| error.to_string())?;
        let key = options.secret.clone();
        let sasl = sasl.unwrap_or(if key.is_some() { Sasl::Plain } else { Sasl::Anonymous });
        if sasl != Sasl::Anonymous && key.is_none() {
            return Err("the key is missing; set MAYFLY_SECRET, or give --secret-file".to_owned());
        }
        let key_name = options.key_name.unwrap_or_else(|| ROOT.to_owned());
        Ok(AmqpTarget { way, addresses, sasl, key_name, key: key.unwrap_or_default() })
    }

    /// One of the nodes for a link of that number.
    pub fn address(&self, index: usize) -> &str {
        &self.addresses[index % self.addresses.len()]
    }

    /// A connection on which links to `entity` may be attached.
    pub(super) async fn connect(&self, index: usize, entity: &str) -> Result<Client, Broken> {
        let mut client = self.connect_unnamed(index).await?;
        if self.sasl == Sasl::Sas {
            self.put_token(&mut client, entity).await?;
        }
        Ok(client)
    }

    /// A connection on which nothing may be attached yet where tokens say what may.
    pub(super) async fn connect_unnamed(&self, index: usize) -> Result<Client, Broken> {
        let address = self.address(index);
        let login = match self.sasl {
            Sasl::Plain => Mechanism::plain(&self.key_name, &self.key),
            Sasl::Anonymous | Sasl::Sas => self.way.login(None),
        };
        Link::connect(&self.way, address, login).await.map_err(|lost| match lost {
            Lost::Io(error) if error.kind() == ErrorKind::InvalidData => Broken(format!(
                "TLS fails: {error}; is it spoken there, with a certificate that is trusted (--tls-ca)?"
            )),
            lost => broken(lost),
        })
    }

    /// Shows a token for an entity on `$cbs`.
    async fn put_token(&self, client: &mut Client, entity: &str) -> Result<(), Broken> {
        let lost = |error: amqp_client::Error| Broken(error.to_string());
        let refused = |told: String| Broken(format!("the token was not taken: {told}"));
        let host = self.way.host(self.address(0));
        let audience = format!("amqp://{host}/{entity}");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let expires_at_s = (now + TOKEN_LASTS).as_secs();
        let resource = encoded(&audience);
        let token = auth::sign(&resource, &encoded(&self.key_name), &self.key, expires_at_s);
        let opened = RequestLink::open(client, CBS).await.map_err(lost)?;
        let mut tokens = opened.map_err(|error| refused(error.condition.to_string()))?;
        let properties = Map::default()
            .string("operation", "put-token".into())
            .string("type", "servicebus.windows.net:sastoken".into())
            .string("name", audience.as_str().into());
        let answer = tokens.ask(client, &properties, &token.as_str().into()).await.map_err(lost)?;
        tokens.close(client).await.map_err(lost)?;
        match answer.properties.get("status-code").and_then(Value::as_i64) {
            Some(200..=299) => Ok(()),
            _ => {
                let told = answer.properties.get("status-description").and_then(Value::as_str);
                Err(refused(told.unwrap_or("no reason is given").to_owned()))
            }
        }
    }
}

/// As in a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            other => encoded += &format!("%{other:02x}"),
        }
    }
    encoded
}
