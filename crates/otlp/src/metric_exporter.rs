//! The task that pushes a page of metrics to a collector, time after time. One that is not taken is not kept: counters
//! go on counting, so the next says what it said.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::metrics::v1::{Metric, ResourceMetrics, ScopeMetrics};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::collector::{Collector, NotTaken};
use crate::exposition::{self, Family};
use crate::metric::{self, Outcome};
use crate::reach::Reach;
use crate::settings::Settings;
use crate::starts::Starts;
use crate::translation;

/// Points of one request, of 150 bytes or so each: collectors take some megabytes, and a page of a thousand entities has
/// forty thousand.
const POINTS_MAX: usize = 8 * 1024;
/// The figure by which a page says since when its process counts: seconds since the Unix epoch.
const PROCESS_STARTED: &str = "process_start_time_seconds";

/// An exporter at work, until it is dropped or told to end.
pub struct MetricExporter {
    task: JoinHandle<()>,
    ending: Option<oneshot::Sender<()>>,
}

impl MetricExporter {
    /// Starts one that asks for the page every so often. The error is one line.
    pub fn start<Page>(
        settings: Settings,
        every: Duration,
        page: impl Fn() -> Page + Send + Sync + 'static,
    ) -> Result<MetricExporter, String>
    where
        Page: Future<Output = String> + Send + 'static,
    {
        let reach = Reach::of(&settings);
        let export = Export { collector: Collector::new(settings)?, reach, starts: None };
        let (ending, ended) = oneshot::channel();
        let task = tokio::spawn(export.run(every, page, ended));
        Ok(MetricExporter { task, ending: Some(ending) })
    }

    /// Pushes the last figures and ends; in that time, or without it.
    pub async fn end(mut self, within: Duration) {
        drop(self.ending.take());
        let _ = timeout(within, &mut self.task).await;
    }
}

impl Drop for MetricExporter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Export {
    collector: Collector,
    reach: Reach,
    /// From the first page on.
    starts: Option<Starts>,
}

impl Export {
    async fn run<Page>(
        mut self,
        every: Duration,
        page: impl Fn() -> Page,
        ended: oneshot::Receiver<()>,
    ) where
        Page: Future<Output = String>,
    {
        let mut ended = pin!(ended);
        let mut ticks = interval_at(Instant::now() + every, every);
        // Where a page takes longer than that, the next is not hurried.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_ending = tokio::select! {
                _ = ticks.tick() => false,
                _ = &mut ended => true,
            };
            self.push(&page().await).await;
            if is_ending {
                return;
            }
        }
    }

    async fn push(&mut self, page: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = nanoseconds(now.as_secs_f64());
        let families = exposition::families(page);
        let starts =
            self.starts.get_or_insert_with(|| Starts::new(process_started(&families, now)));
        let metrics = translation::metrics(&families, starts, now);
        let outcome = match self.deliver(metrics).await {
            Ok(()) => {
                self.reach.is_back();
                Outcome::Taken
            }
            Err(NotTaken::Now(why)) => {
                self.reach.is_gone(&why, "it is tried again each metrics.otlp_interval");
                Outcome::Away
            }
            Err(NotTaken::Ever(why)) => {
                self.reach.is_gone(&why, "look at metrics.otlp_endpoint and otlp_headers");
                Outcome::Refused
            }
        };
        metric::exported(outcome);
    }

    /// Up to the first request that is not taken.
    async fn deliver(&self, metrics: Vec<Metric>) -> Result<(), NotTaken> {
        for metrics in translation::batches(metrics, POINTS_MAX) {
            let answer: ExportMetricsServiceResponse =
                self.collector.send(&self.request(metrics)).await?;
            let partial = answer.partial_success.unwrap_or_default();
            if partial.rejected_data_points > 0 {
                let (refused, why) = (partial.rejected_data_points, partial.error_message);
                return Err(NotTaken::Ever(format!("it refuses {refused} figures: {why}")));
            }
        }
        Ok(())
    }

    fn request(&self, metrics: Vec<Metric>) -> ExportMetricsServiceRequest {
        let scope = Some(self.collector.scope());
        let scope_metrics = vec![ScopeMetrics { scope, metrics, ..ScopeMetrics::default() }];
        let resource = Some(self.collector.resource());
        let of_node = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![of_node] }
    }
}

/// As the page says it; where there is no procfs that could have told it, from now on.
fn process_started(families: &[Family<'_>], now: u64) -> u64 {
    let told = families.iter().find(|family| family.name == PROCESS_STARTED);
    let seconds = told.and_then(|family| family.samples.first()).map(|sample| sample.value);
    seconds.map_or(now, nanoseconds)
}

/// What does not fit is the nearest that does.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
