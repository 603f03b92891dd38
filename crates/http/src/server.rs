//! The server and its routes.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use service::Broker;
use tokio::net::TcpListener;

use crate::atom::Cursors;
use crate::{dispatch, health, metrics, process};

/// How HTTP is served.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Asked for as `authorization: Bearer <secret>` by everything but the probes when set. Those
    /// stay free: they tell a stranger no more than an open port does.
    pub secret: Option<String>,
}

#[derive(Clone)]
pub(crate) struct App {
    pub broker: Broker,
    pub metrics: PrometheusHandle,
    /// Where pages of lists ended.
    pub cursors: Arc<Cursors>,
}

/// Serves until `stop` resolves, and then until open requests are answered.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    broker: Broker,
    metrics: PrometheusHandle,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    process::describe();
    let app = routes(config, App { broker, metrics, cursors: Arc::default() });
    axum::serve(listener, app).with_graceful_shutdown(stop).await
}

fn routes(config: Config, app: App) -> Router {
    let expected = config.secret.map(|secret| format!("Bearer {secret}"));
    let guarded = Router::new()
        .route("/health/details", get(health::details))
        .route("/metrics", get(metrics::metrics))
        .fallback(dispatch::answer)
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            let allowed = allowed(expected.as_deref(), &request);
            async move {
                match allowed {
                    true => next.run(request).await,
                    false => refuse(
                        StatusCode::UNAUTHORIZED,
                        "send the secret as 'Authorization: Bearer …'".to_owned(),
                    ),
                }
            }
        }));
    Router::new()
        .route("/health", get(health::health))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .merge(guarded)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
}

fn allowed(expected: Option<&str>, request: &Request) -> bool {
    let Some(expected) = expected.map(str::as_bytes) else { return true };
    let given = request.headers().get(header::AUTHORIZATION).map(|value| value.as_bytes());
    given.is_some_and(|given| {
        // In a time that depends on the lengths only.
        let differ = given.iter().zip(expected).fold(0, |differ, (a, b)| differ | (a ^ b));
        given.len() == expected.len() && differ == 0
    })
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    refuse(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes GET, not {method}"))
}

/// One line of JSON that says what to do instead.
fn refuse(code: StatusCode, error: String) -> Response {
    (code, Json(serde_json::json!({ "error": error }))).into_response()
}
