//! Which page answers which address.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use grpc::LocalApi;

use crate::address::link;
use crate::failure::Failure;
use crate::layout::{Answer, Answered, guard, respond};
use crate::visit::Visit;
use crate::{
    browse, confirmation, connections, dead_letters, development, entity, entity_form, entity_list,
    filter_tester, history, message_page, overview, rules, send, session_list, sign_in,
};

/// Of a form. A body that is sent has a mebibyte at most, and more when it is encoded.
const FORM_BYTES_MAX: usize = 4 * 1024 * 1024;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The console of a node. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    api: LocalApi,
}

impl Console {
    pub fn new(api: LocalApi) -> Console {
        Console { api }
    }

    /// Everything at `/console` and below. Each request is to have a [`Connection`](crate::Connection)
    /// among its extensions.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(self)
    }
}

async fn answer(State(console): State<Console>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    match parts.uri.path() {
        "/console/style.css" => return file("text/css; charset=utf-8", STYLE),
        "/console/script.js" => return file("text/javascript; charset=utf-8", SCRIPT),
        _ => {}
    }
    let (mut failure, mut read) = (None, bytes::Bytes::new());
    if parts.method == Method::POST {
        match to_bytes(body, FORM_BYTES_MAX).await {
            Ok(bytes) => read = bytes,
            Err(_) => {
                let text = "The form is larger than 4 MiB, or broke off; nothing was done.";
                failure = Some(Failure::new(StatusCode::PAYLOAD_TOO_LARGE, text));
            }
        }
    } else {
        drop::<Body>(body);
    }
    let visit = match Visit::new(console.api.clone(), &parts, &read) {
        Ok(visit) => visit,
        Err(refused) => {
            failure = failure.or(Some(refused));
            // The page that says so is one of nobody's forms.
            let mut parts = parts.clone();
            parts.method = Method::GET;
            match Visit::new(console.api, &parts, &[]) {
                Ok(visit) => visit,
                Err(_) => return StatusCode::FORBIDDEN.into_response(),
            }
        }
    };
    let answered = match failure {
        Some(failure) => Err(failure),
        None => page(&visit, &parts.method, parts.uri.path()).await,
    };
    let of_cluster = if visit.is_in() { visit.rights("").await } else { Default::default() };
    match answered {
        // Whoever has to say who he is is asked at once.
        Err(failure) if failure.is_unproven => {
            let page = sign_in::page(&visit, Some(&failure));
            respond(&visit, of_cluster, Ok(Answer::Page(page)))
        }
        answered => respond(&visit, of_cluster, answered),
    }
}

fn file(content_type: &'static str, text: &'static str) -> Response {
    let mut response = ([(CONTENT_TYPE, content_type)], text).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    guard(&mut response);
    response
}

async fn page(visit: &Visit, method: &Method, path: &str) -> Answered {
    let path = path.strip_prefix("/console").unwrap_or_default().trim_matches('/');
    let is_form = *method == Method::POST;
    match (is_form, path) {
        (false, "sign-in") => return sign_in::show(visit).await,
        (true, "sign-in") => return sign_in::sign_in(visit).await,
        (true, "sign-out") => return sign_in::sign_out(visit).await,
        _ if !visit.is_in() => {
            let next = if is_form { "/console" } else { &visit.address };
            let address = link("sign-in", [("next", next)]);
            return Ok(Answer::Elsewhere { address, session: None });
        }
        _ => {}
    }
    match (is_form, path) {
        (false, "") => overview::show(visit).await,
        (false, "queues") => entity_list::queues(visit).await,
        (false, "topics") => entity_list::topics(visit).await,
        (false, "entity") => entity::show(visit).await,
        (false, "new") => entity_form::ask_new(visit).await,
        (true, "new") => entity_form::create(visit).await,
        (false, "change") => entity_form::ask_change(visit).await,
        (true, "change") => entity_form::change(visit).await,
        (false, "delete") => confirmation::ask_delete(visit).await,
        (true, "delete") => confirmation::delete(visit).await,
        (false, "purge") => confirmation::ask_purge(visit).await,
        (true, "purge") => confirmation::purge(visit).await,
        (false, "messages") => browse::show(visit).await,
        (false, "message") => message_page::show(visit).await,
        (true, "chosen") => dead_letters::ask(visit).await,
        (true, "chosen/do") => dead_letters::act(visit).await,
        (false, "send") => send::ask(visit).await,
        (true, "send") => send::send(visit).await,
        (false, "edit") => send::ask_edit(visit).await,
        (true, "edit") => send::edit(visit).await,
        (false, "sessions") => session_list::show(visit).await,
        (false, "rules") => rules::show(visit).await,
        (true, "rules") => rules::put(visit).await,
        (true, "rules/remove") => rules::remove(visit).await,
        (false, "history") => history::show(visit).await,
        (false, "filter-tester") => filter_tester::show(visit).await,
        (false, "connections") => connections::show(visit).await,
        (false, "connections/close") => connections::ask_close(visit).await,
        (true, "connections/close") => connections::close(visit).await,
        (false, "development") => development::show(visit).await,
        (true, "clock") => development::advance(visit).await,
        (true, "faults") => development::put_fault(visit).await,
        (true, "faults/remove") => development::remove_fault(visit).await,
        _ => Err(Failure::not_found("There is no such page of the console.")),
    }
}
