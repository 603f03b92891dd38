//! The server and its routes.

use std::sync::Arc;
use std::time::Duration;

use audit::Trail;
use auth::Access;
use axum::extract::Request;
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use limits::{FrontEnd, Ledger};
use service::{Broker, KeyWatch};
use tokio::sync::mpsc;
use tokio::time::timeout;
use transport::{Arrival, Arrivals};

use crate::atom::Cursors;
use crate::failure::refuse;
use crate::metrics::MetricsPage;
use crate::origins::{self, Origins};
use crate::{access, azure_door, connection, console_door, dispatch, options, process, tunnel};

/// Request and answer together. Every operation has an answer long before.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// How HTTP is served.
#[derive(Clone)]
pub struct Config {
    /// Asked for by everything but the probes and the WebSocket. Probes stay free: they tell a stranger
    /// no more than an open port does.
    pub access: Access,
    /// What changes entities is told to it, and whose proofs are refused.
    pub trail: Trail,
    /// Where byte streams through WebSockets go. Absent: there is nobody to speak AMQP with.
    pub tunnels: Option<mpsc::Sender<Arrival>>,
    /// Where it is counted what clients take of the node.
    pub ledger: Ledger,
    /// Most connections at a time; over more, nothing but probes and metrics is answered.
    pub connections_max: usize,
    /// Origins whose pages browsers let send requests (HTTP-20); `*`: all, empty: none.
    pub cors_origins: Vec<String>,
    /// Pages at `/console`. Absent: there are none, and what is asked there is about an entity.
    pub console: Option<console::Console>,
    /// What answers Azure's tools. Absent: nobody does, and what they ask is about an entity.
    pub azure: Option<azure::Azure>,
}

impl Config {
    /// Default of [`Config::connections_max`].
    pub const CONNECTIONS_MAX: usize = 5_000;
}

#[derive(Clone)]
pub(crate) struct App {
    pub broker: Broker,
    pub metrics: MetricsPage,
    /// Where pages of lists ended.
    pub cursors: Arc<Cursors>,
}

/// Serves until `stop` resolves, and then until open requests are answered.
pub async fn serve(
    arrivals: Arrivals,
    config: Config,
    broker: Broker,
    metrics: MetricsPage,
    keys: KeyWatch,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    process::describe();
    let ledger = config.ledger.clone();
    ledger.limit_connections(FrontEnd::Http, config.connections_max);
    let app = App { broker, metrics, cursors: Arc::default() };
    connection::serve(arrivals, routes(config, app, keys), ledger, stop).await;
}

fn routes(config: Config, app: App, keys: KeyWatch) -> Router {
    let is_key_asked_for = !config.access.is_anyone();
    let pages = Arc::new(Origins::new(is_key_asked_for, config.cors_origins.clone()));
    let broker = app.broker.clone();
    let access = access::Gate::new(config.access, config.trail, broker, keys);
    let guarded = Router::new()
        .fallback(dispatch::answer)
        .layer(middleware::from_fn_with_state(access, access::check));
    // What comes through them proves who it is in AMQP.
    let tunnels = Router::new()
        .route(tunnel::PATH, get(tunnel::open))
        .route(tunnel::PATH_WITH_SLASH, get(tunnel::open))
        .layer(Extension(config.tunnels));
    let cors = options::cors(&config.cors_origins);
    let console = config.console.map(console::Console::router);
    let azure = config.azure.map(azure::Azure::router);
    let router: Router = Router::new()
        .merge(tunnels)
        .merge(guarded)
        .layer(middleware::from_fn_with_state(console, console_door::divert))
        .layer(middleware::from_fn_with_state(azure, azure_door::divert))
        .layer(middleware::from_fn_with_state(pages, origins::check))
        .method_not_allowed_fallback(wrong_method)
        .with_state(app);
    let has_cors = cors.is_some();
    let router = match cors {
        None => router,
        Some(cors) => router.layer(cors),
    };
    router
        .layer(middleware::from_fn_with_state(has_cors, options::answer))
        .layer(middleware::from_fn(in_time))
}

/// A body that trickles in for ever is none.
async fn in_time(request: Request, next: Next) -> Response {
    match timeout(ANSWER_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            refuse(StatusCode::REQUEST_TIMEOUT, "the request took too long; send it again".into())
        }
    }
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let path = uri.path();
    refuse(StatusCode::METHOD_NOT_ALLOWED, format!("{path} takes GET, not {method}"))
}
