//! `/metrics` in Prometheus' text format. What is costly to know is sampled when it is asked for.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use limits::Ledger;
use metrics_exporter_prometheus::PrometheusHandle;
use service::Broker;

use crate::server::App;
use crate::{entity_metrics, process};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Everything that a node tells of itself in figures, whoever asks.
#[derive(Clone)]
pub struct MetricsPage {
    broker: Broker,
    ledger: Ledger,
    recorder: PrometheusHandle,
}

impl MetricsPage {
    pub fn new(broker: Broker, ledger: Ledger, recorder: PrometheusHandle) -> MetricsPage {
        MetricsPage { broker, ledger, recorder }
    }

    /// The page as of now.
    pub async fn text(&self) -> String {
        let cluster = || self.broker.cluster();
        let (depths, entities) = cluster().depths().await;
        let readiness = cluster().readiness();
        service::metric::sampled(&readiness.groups, &readiness.peers, &depths);
        self.ledger.sample();
        process::sample(cluster().version());
        self.recorder.run_upkeep();
        let mut text = self.recorder.render();
        // Without them the node is ending.
        if let Some(entities) = entities {
            entity_metrics::append(&mut text, &entities);
        }
        process::append(&mut text);
        text
    }
}

pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], app.metrics.text().await)
}
