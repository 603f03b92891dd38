//! A collector of OpenTelemetry, as far as tests need one: OTLP over HTTP, decoded by the protocol's own messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Until spans that are told are here: they go in batches, by the second, on a busy machine.
const SPANS_WITHIN: Duration = Duration::from_secs(60);
const TRACES: &str = "POST /v1/traces ";
const METRICS: &str = "POST /v1/metrics ";

/// A span as it came, and from whom.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    /// `service.instance.id`.
    pub instance: String,
    pub span: Span,
}

/// Listens until it is dropped.
pub struct Collector {
    pub address: String,
    spans: watch::Receiver<Vec<CollectedSpan>>,
    metrics: watch::Receiver<Vec<ResourceMetrics>>,
    _serving: JoinSet<()>,
}

impl Collector {
    pub async fn start(port: u16) -> anyhow::Result<Collector> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?.to_string();
        let (to_spans, spans) = watch::channel(Vec::new());
        let (to_metrics, metrics) = watch::channel(Vec::new());
        let collected = Arc::new(Collected { spans: to_spans, metrics: to_metrics });
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let collected = collected.clone();
                connections.spawn(async move {
                    // Whatever goes wrong, the spans are missed by the test.
                    let _ = serve(stream, &collected).await;
                });
            }
        });
        Ok(Collector { address, spans, metrics, _serving: serving })
    }

    /// All of a trace, once there are so many; what came if they do not come.
    pub async fn of_trace(&self, trace: &str, count: usize) -> Vec<CollectedSpan> {
        let of_trace = |spans: &Vec<CollectedSpan>| -> Vec<CollectedSpan> {
            let is_of = |collected: &&CollectedSpan| hex(&collected.span.trace_id) == trace;
            spans.iter().filter(is_of).cloned().collect()
        };
        let mut spans = self.spans.clone();
        let all = spans.wait_for(|spans| of_trace(spans).len() >= count);
        drop(timeout(SPANS_WITHIN, all).await);
        of_trace(&self.spans.borrow())
    }

    /// What was pushed after the first so many requests, once there is any, and how many there are then.
    pub async fn metrics_after(
        &self,
        count: usize,
    ) -> anyhow::Result<(Vec<ResourceMetrics>, usize)> {
        let mut metrics = self.metrics.clone();
        let more = metrics.wait_for(|metrics| metrics.len() > count);
        let all = timeout(SPANS_WITHIN, more).await.context("no metrics are pushed")??;
        Ok((all[count..].to_vec(), all.len()))
    }

    /// So many requests with metrics have come.
    pub fn metrics_count(&self) -> usize {
        self.metrics.borrow().len()
    }
}

/// Where what comes is put.
struct Collected {
    spans: watch::Sender<Vec<CollectedSpan>>,
    metrics: watch::Sender<Vec<ResourceMetrics>>,
}

impl CollectedSpan {
    pub fn attribute(&self, key: &str) -> Option<String> {
        value(&self.span.attributes, key)
    }

    pub fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// What it is called in a tree: its name, and how it ended.
    fn told(&self) -> String {
        let told = ["mayfly.outcome", "azure.servicebus.disposition_status", "mayfly.copies"];
        let told: Vec<String> = told.iter().filter_map(|key| self.attribute(key)).collect();
        match told.is_empty() {
            true => self.span.name.clone(),
            false => format!("{} ({})", self.span.name, told.join(", ")),
        }
    }
}

/// What is under a span, line by line, in the order in which it began, and of the same instant in which it is told.
pub fn tree(spans: &[CollectedSpan], parent: &str) -> String {
    let mut under: BTreeMap<String, Vec<(usize, &CollectedSpan)>> = BTreeMap::new();
    for (order, span) in spans.iter().enumerate() {
        under.entry(hex(&span.span.parent_span_id)).or_default().push((order, span));
    }
    let mut text = String::new();
    write_under(&under, parent, 0, &mut text);
    text
}

fn write_under(
    under: &BTreeMap<String, Vec<(usize, &CollectedSpan)>>,
    parent: &str,
    depth: usize,
    text: &mut String,
) {
    let mut spans = under.get(parent).cloned().unwrap_or_default();
    spans.sort_by_key(|(order, span)| (span.span.start_time_unix_nano, *order));
    for (_, span) in spans {
        let _ = writeln!(text, "{}{}", "  ".repeat(depth), span.told());
        write_under(under, &span.id(), depth + 1, text);
    }
}

/// Request by request.
async fn serve(stream: TcpStream, to: &Collected) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if stream.read_line(&mut request).await? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if request.starts_with(METRICS) {
            let request =
                ExportMetricsServiceRequest::decode(&*body).context("it is no request")?;
            to.metrics.send_modify(|metrics| metrics.extend(request.resource_metrics));
        } else {
            ensure!(request.starts_with(TRACES), "{request}");
            let request = ExportTraceServiceRequest::decode(&*body).context("it is no request")?;
            to.spans.send_modify(|spans| spans.extend(collected(request)));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await?;
    }
}

fn collected(request: ExportTraceServiceRequest) -> impl Iterator<Item = CollectedSpan> {
    request.resource_spans.into_iter().flat_map(|of_resource| {
        let resource = of_resource.resource.unwrap_or_default();
        let instance = value(&resource.attributes, "service.instance.id").unwrap_or_default();
        let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        spans.map(move |span| CollectedSpan { instance: instance.clone(), span })
    })
}

/// An attribute, as text.
pub fn value(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        any_value::Value::BoolValue(is) => Some(is.to_string()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
