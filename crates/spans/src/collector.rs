//! A collector, as it is spoken to: OTLP over HTTP, in protobuf.

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, StatusCode};

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

/// Why a collector did not take spans, in words.
#[derive(Debug)]
pub enum NotTaken {
    /// It may take them later.
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
            format!("tracing.otlp_endpoint: no client for '{}': {error}", settings.endpoint)
        })?;
        Ok(Collector { client, settings })
    }

    /// Sends spans; how many of them it refused.
    pub async fn send(&self, spans: Vec<Span>) -> Result<usize, NotTaken> {
        let mut request = self
            .client
            .post(self.settings.endpoint.traces())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(self.request(spans).encode_to_vec());
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
                return Ok(0);
            }
            body.extend_from_slice(&chunk);
        }
        let answer = ExportTraceServiceResponse::decode(&*body).unwrap_or_default();
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(usize::try_from(rejected).unwrap_or(0))
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let Settings { service, node, version, .. } = &self.settings;
        let attributes = vec![
            text("service.name", service),
            text("service.instance.id", &node.to_string()),
            text("service.version", version),
        ];
        let scope = InstrumentationScope {
            name: SCOPE.to_owned(),
            version: (*version).to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_spans = ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() };
        let resource_spans = ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![scope_spans],
            ..ResourceSpans::default()
        };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
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

pub fn text(key: &'static str, value: &str) -> KeyValue {
    attribute(key, any_value::Value::StringValue(value.to_owned()))
}

pub fn attribute(key: &'static str, value: any_value::Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}
