//! A collector, as it is spoken to: OTLP over HTTP, in protobuf.

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};

use crate::attribute::text;
use crate::settings::Settings;

/// The standard's default for one request.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// Of an answer more is not read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
const SCOPE: &str = "mayfly";

pub struct Collector {
    client: Client,
    settings: Settings,
}

/// Why a collector did not take a request, in words.
#[derive(Debug)]
pub enum NotTaken {
    /// It may take it later.
    Now(String),
    /// It will not.
    Ever(String),
}

impl Collector {
    /// The error is one line.
    pub fn new(settings: Settings) -> Result<Collector, String> {
        // There may be one already, and then it is the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().timeout(REQUEST_WITHIN).build();
        let client = client.map_err(|error| {
            let section = settings.signal.section();
            format!("{section}.otlp_endpoint: no client for '{}': {error}", settings.endpoint)
        })?;
        Ok(Collector { client, settings })
    }

    /// Sends a request of the signal that it is for. An answer that says nothing is the empty one.
    pub async fn send<Answer: Message + Default>(
        &self,
        request: &impl Message,
    ) -> Result<Answer, NotTaken> {
        let mut request = self
            .client
            .post(self.settings.endpoint.of(self.settings.signal))
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(request.encode_to_vec());
        for (name, value) in self.settings.headers.iter() {
            request = request.header(name, value);
        }
        let unreached = |error: reqwest::Error| NotTaken::Now(cause(&error));
        let mut answer = request.send().await.map_err(unreached)?;
        let status = answer.status();
        if !status.is_success() {
            let told = format!("it answers {status}");
            return Err(match may_pass(status) {
                true => NotTaken::Now(told),
                false => NotTaken::Ever(told),
            });
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unreached)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Ok(Answer::default());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Answer::decode(&*body).unwrap_or_default())
    }

    /// Whom everything is told of: this node.
    pub fn resource(&self) -> Resource {
        let Settings { service, node, version, .. } = &self.settings;
        let attributes = vec![
            text("service.name", service),
            text("service.instance.id", &node.to_string()),
            text("service.version", version),
        ];
        Resource { attributes, ..Resource::default() }
    }

    /// By whom it is told.
    pub fn scope(&self) -> InstrumentationScope {
        InstrumentationScope {
            name: SCOPE.to_owned(),
            version: self.settings.version.to_owned(),
            ..InstrumentationScope::default()
        }
    }
}

/// The answers after which the standard has a client come again (OTLP, "Retryable Response Codes"), and what a
/// collector that is being started answers for what is in front of it.
fn may_pass(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// The innermost reason: what wraps it says only that a request failed, and of which address.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
