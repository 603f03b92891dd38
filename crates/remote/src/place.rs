//! Where processes are, and how a coordinator reaches one.

use std::time::Duration;

use client::Trust;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};

use crate::proof::{Audience, HEADER, proof};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A process that hangs is noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(2);

/// Where processes of one kind are, and what proves to them that this is their coordinator.
#[derive(Clone, Debug)]
pub struct Places {
    /// `host:port`, with `http://` or `https://` before it or without.
    pub addresses: Vec<String>,
    /// None: they ask for none.
    pub secret: Option<String>,
    /// Who vouches for the certificates of those that are reached over TLS.
    pub trust: Trust,
}

impl Places {
    /// Connects to one of them.
    ///
    /// # Errors
    /// Nobody answers there, or not as told: in one sentence.
    pub async fn connect(&self, address: &str) -> Result<Channel, String> {
        let url = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let endpoint = Endpoint::from_shared(url).map_err(|_| "it is no HOST:PORT".to_owned())?;
        let mut endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true);
        if endpoint.uri().scheme_str() == Some("https") {
            let host = endpoint.uri().host().unwrap_or_default();
            let tls = ClientTlsConfig::new().domain_name(host.trim_matches(['[', ']']));
            let tls = match &self.trust {
                Trust::System => tls.with_native_roots(),
                Trust::Authorities(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            };
            endpoint = endpoint.tls_config(tls).map_err(|error| deepest(&error))?;
        }
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("it does not answer: {}", deepest(&error)))
    }

    /// A call that shows the proof.
    pub fn proven<T>(&self, audience: Audience, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(secret) = &self.secret
            && let Ok(proof) = proof(audience, secret).parse()
        {
            request.metadata_mut().insert(HEADER, proof);
        }
        request
    }
}

/// What lies at the bottom of an error.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest.to_string()
}

/// Why a process takes no call. `what`: what is looked for there, as in "no worker of mayfly load".
pub fn refusal(address: &str, status: &Status, what: &str) -> String {
    let is_plain = !address.starts_with("https://");
    match std::error::Error::source(status) {
        Some(cause) if is_plain => format!(
            "it does not answer: {}; where it was started with --tls-cert, write https:// before it",
            deepest(cause)
        ),
        _ => gone(status, what),
    }
}

/// What a process said that ends a call; where it is gone, that it is. `what`: as of [`refusal`].
pub fn gone(status: &Status, what: &str) -> String {
    // What was made up here for a connection that broke has a cause.
    match std::error::Error::source(status) {
        Some(cause) => format!("it is gone: {}", deepest(cause)),
        None if status.code() == Code::Unimplemented => format!("it is {what}"),
        None => status.message().to_owned(),
    }
}
