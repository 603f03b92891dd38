//! `/metrics` in Prometheus' text format. What is costly to know is sampled when it is asked for.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::server::App;
use crate::{entity_metrics, process};

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let (depths, entities) = app.broker.cluster().depths().await;
    let readiness = app.broker.cluster().readiness();
    service::metric::sampled(&readiness.groups, &readiness.peers, &depths);
    app.ledger.sample();
    process::sample(app.broker.cluster().version());
    app.metrics.run_upkeep();
    let mut text = app.metrics.render();
    // Without them the node is ending.
    if let Some(entities) = entities {
        entity_metrics::append(&mut text, &entities);
    }
    process::append(&mut text);
    ([(CONTENT_TYPE, TEXT)], text)
}
