//! Any request that has no route of its own: its path names an entity, or messages of one.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::Excerpt;
use limits::Party;
use service::{Actor, Broker};

use crate::caller::InNamespace;
use crate::failure::Failure;
use crate::messages::WaitEnd;
use crate::path::{self, Target, Unclear};
use crate::probe::{Probe, probe};
use crate::server::App;
use crate::whole_body::{self, BodyKind};
use crate::{CLIENT_REQUEST_ID, atom, fault_rules, health, history, messages, metrics};

pub(crate) async fn answer(State(app): State<App>, request: Request) -> Response {
    let (Parts { method, uri, headers, mut extensions, .. }, body) = request.into_parts();
    if let Some(probe) = probe(&method, &uri) {
        return answer_probe(probe, app).await;
    }
    // Whoever lets requests in says where they are let in to.
    let Some(InNamespace(namespace)) = extensions.remove() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let end = extensions.remove::<WaitEnd>();
    let party = extensions.remove::<Option<Party>>().flatten();
    let client = Client { end, party };
    // Nothing below here knows of another.
    let app = App { broker: app.broker.within(namespace), ..app };
    let answer = answered(&app, client, &method, &uri, &headers, body).await;
    let mut response = answer.unwrap_or_else(Failure::into_response);
    if let Some(id) = headers.get(CLIENT_REQUEST_ID) {
        response.headers_mut().insert(CLIENT_REQUEST_ID, id.clone());
    }
    response
}

async fn answer_probe(probe: Probe, app: App) -> Response {
    let app = State(app);
    match probe {
        Probe::Health => health::health(app).await.into_response(),
        Probe::Live => health::live().await.into_response(),
        Probe::Ready => health::ready(app).await.into_response(),
        Probe::Details => health::details(app).await.into_response(),
        Probe::Metrics => metrics::metrics(app).await.into_response(),
    }
}

/// Whose request it is.
struct Client {
    end: Option<WaitEnd>,
    /// By whom what is sent is counted.
    party: Option<Party>,
}

impl Client {
    /// For what it asks of messages.
    fn broker(&self, app: &App) -> Broker {
        let Some(slot) = self.party.as_ref().map(Party::slot) else { return app.broker.clone() };
        app.broker.acting_for(|| Actor {
            connection: slot.id().to_string(),
            key_name: slot.key_name().unwrap_or_default().to_owned(),
        })
    }
}

async fn answered(
    app: &App,
    client: Client,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let target =
        path::target(method, uri.path(), uri.query()).map_err(|unclear| match unclear {
            Unclear::Nothing => Failure::not_found(format!(
                "there is no {}; entities have their names for paths, /$Resources/queues and \
             /$Resources/topics list them, and /health, /health/live, /health/ready and /metrics \
             are other ways in",
                Excerpt(uri.path())
            )),
            Unclear::Query(why) => Failure::bad(why),
        })?;
    // As the client reached us: links must lead back here.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = host.or(uri.host()).unwrap_or("localhost");
    let scheme = uri.scheme_str().unwrap_or("http");
    let fault = fault_rules::meet(&app.broker, method, &target, headers).await?;
    let answer = match target {
        Target::Faults { name } => {
            let body = whole_body::read(body, BodyKind::Description).await?;
            fault_rules::answer(&app.broker, method, name, body).await
        }
        Target::History { entity, follow } => {
            history::answer(&app.broker, method, entity, follow, uri.query()).await
        }
        Target::Messages { entity } => {
            let body = whole_body::read(body, BodyKind::Messages).await?;
            messages::send(&client.broker(app), &entity, headers, body, client.party.as_ref()).await
        }
        Target::Head { queue, sub } => {
            let broker = &client.broker(app);
            let queue = messages::Queue { broker, name: &queue, sub, scheme, authority };
            queue.receive(method, uri.query(), client.end).await
        }
        Target::Lock { queue, sub, token } => {
            let broker = &client.broker(app);
            let queue = messages::Queue { broker, name: &queue, sub, scheme, authority };
            queue.settle(method, token).await
        }
        target => {
            let (path, query) = (uri.path(), uri.query());
            let asked = atom::Asked { scheme, authority, path, query };
            let (broker, cursors) = (&app.broker, &*app.cursors);
            let request = atom::Request { broker, cursors, asked, headers };
            let body = match *method {
                Method::PUT => whole_body::read(body, BodyKind::Description).await?,
                _ => Bytes::new(),
            };
            request.answer(method, target, &body).await
        }
    };
    fault.hold_up().await;
    answer
}
