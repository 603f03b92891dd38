//! `/metrics` in Prometheus' text format. What is costly to know is sampled when it is asked for.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::process;
use crate::server::App;

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let depths = app.broker.cluster().depths().await;
    let readiness = app.broker.cluster().readiness();
    service::metric::sampled(&readiness.groups, &readiness.peers, &depths);
    app.ledger.sample();
    process::sample(app.broker.cluster().version());
    app.metrics.run_upkeep();
    ([(CONTENT_TYPE, TEXT)], app.metrics.render())
}
