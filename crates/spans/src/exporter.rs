//! The task that brings spans to the collector, batch by batch, and says once when that is away.

use std::pin::pin;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use otlp::{Collector, NotTaken, Reach, Settings};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::account;
use crate::metric::{self, Dropped};
use crate::queue::{AppliedStep, SpanQueue};

/// Steps of one request: with some spans each, and half a kilobyte a span, a megabyte at most.
const BATCH_STEPS_MAX: usize = 512;
/// How long a batch that is not full waits for more.
const BATCH_WITHIN: Duration = Duration::from_secs(1);
/// How long it is waited after a request that failed: first, and at most.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(10);

/// An exporter at work.
pub struct Exporter {
    task: JoinHandle<()>,
    queue: SpanQueue,
    ending: oneshot::Sender<()>,
}

impl Exporter {
    /// Starts one. The error is one line.
    pub fn start(settings: Settings) -> Result<Exporter, String> {
        let reach = Reach::of(&settings);
        let collector = Collector::new(settings)?;
        let (queue, waiting) = SpanQueue::new();
        let (ending, ended) = oneshot::channel();
        let export = Export { collector, reach };
        Ok(Exporter { task: tokio::spawn(export.run(waiting, ended)), queue, ending })
    }

    pub fn queue(&self) -> SpanQueue {
        self.queue.clone()
    }

    /// Brings what waits to the collector and ends; in that time, or without it.
    pub async fn end(self, within: Duration) {
        let Exporter { mut task, ending, .. } = self;
        let _ = ending.send(());
        if timeout(within, &mut task).await.is_err() {
            task.abort();
        }
    }
}

struct Export {
    collector: Collector,
    reach: Reach,
}

impl Export {
    async fn run(mut self, mut waiting: Receiver<AppliedStep>, ended: oneshot::Receiver<()>) {
        let mut steps = Vec::with_capacity(BATCH_STEPS_MAX);
        let mut ended = pin!(async move { drop(ended.await) });
        let mut is_ending = false;
        loop {
            tokio::select! {
                count = waiting.recv_many(&mut steps, BATCH_STEPS_MAX) => if count == 0 { return },
                // What waits is taken still.
                () = &mut ended, if !is_ending => {
                    is_ending = true;
                    waiting.close();
                    continue;
                }
            }
            let until = Instant::now() + BATCH_WITHIN;
            while steps.len() < BATCH_STEPS_MAX && !is_ending {
                let room = BATCH_STEPS_MAX - steps.len();
                tokio::select! {
                    count = waiting.recv_many(&mut steps, room) => if count == 0 { break },
                    () = sleep_until(until) => break,
                    () = &mut ended => {
                        is_ending = true;
                        waiting.close();
                    }
                }
            }
            let spans = steps.drain(..).flat_map(|step| account::spans(&step)).collect();
            self.deliver(spans).await;
        }
    }

    /// As often as it takes: meanwhile the queue fills, and what finds no place in it is dropped.
    async fn deliver(&mut self, spans: Vec<Span>) {
        let count = spans.len();
        let request = self.request(spans);
        let mut pause = AGAIN_AFTER;
        loop {
            match self.collector.send::<ExportTraceServiceResponse>(&request).await {
                Ok(answer) => {
                    let refused =
                        answer.partial_success.map_or(0, |partial| partial.rejected_spans);
                    let refused = usize::try_from(refused).unwrap_or(0).min(count);
                    metric::sent(count - refused);
                    metric::dropped(Dropped::Refused, refused);
                    return self.reach.is_back();
                }
                Err(NotTaken::Ever(why)) => {
                    metric::dropped(Dropped::Refused, count);
                    let then = "they are dropped; look at tracing.otlp_endpoint and otlp_headers";
                    return self.reach.is_gone(&why, then);
                }
                Err(NotTaken::Now(why)) => {
                    let then = "they wait for it, and are dropped when too many do";
                    self.reach.is_gone(&why, then);
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(AGAIN_AFTER_MAX);
        }
    }

    fn request(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope = Some(self.collector.scope());
        let scope_spans = vec![ScopeSpans { scope, spans, ..ScopeSpans::default() }];
        let resource = Some(self.collector.resource());
        let of_node = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![of_node] }
    }
}
