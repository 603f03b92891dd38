//! What all pages have: a head, a way around, and the headers that keep a browser from running anything but
//! our script.

use auth::Rights;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};

use crate::failure::Failure;
use crate::form::Fields;
use crate::session::Session;
use crate::visit::{FORM_TOKEN, Visit};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page as its author has it.
pub(crate) struct Page {
    pub title: String,
    pub body: Markup,
    pub status: StatusCode,
}

/// What a request comes to.
pub(crate) enum Answer {
    Page(Page),
    /// See there: it was done.
    Elsewhere {
        address: String,
        session: Option<Session>,
    },
}

pub(crate) type Answered = Result<Answer, Failure>;

impl Page {
    pub fn new(title: impl Into<String>, body: Markup) -> Page {
        Page { title: title.into(), body, status: StatusCode::OK }
    }

    pub fn answer(self) -> Answered {
        Ok(Answer::Page(self))
    }
}

/// Back to a page, which says what was done.
pub(crate) fn done(address: String, what: &str) -> Answered {
    let mark = if address.contains('?') { '&' } else { '?' };
    let what: String = form_urlencoded::byte_serialize(what.as_bytes()).collect();
    Ok(Answer::Elsewhere { address: format!("{address}{mark}done={what}"), session: None })
}

/// What addresses may say was done, and how that is put; so no address says anything else.
const DONE: [(&str, &str); 12] = [
    ("created", "Created."),
    ("changed", "Changed."),
    ("deleted", "Deleted."),
    ("sent", "Sent."),
    ("rule-put", "The rule is in force."),
    ("rule-removed", "The rule is removed."),
    ("fault-put", "The fault is in force."),
    ("faults-removed", "Faults are met no more."),
    ("connection-closed", "The connection is told to end."),
    ("clock", "The cluster's time was moved."),
    ("signed-in", "You are signed in."),
    ("signed-out", "You are signed out."),
];

/// Of what was done before, where an address says so.
fn notice(fields: &Fields) -> Option<&'static str> {
    let (_, text) = DONE.into_iter().find(|(name, _)| *name == fields.text("done"))?;
    Some(text)
}

/// A form that changes something.
pub(crate) fn form(visit: &Visit, action: &str, body: Markup) -> Markup {
    html! {
        form method="post" action=(action) {
            input type="hidden" name=(FORM_TOKEN) value=(visit.session.form_token());
            (body)
        }
    }
}

/// The fields that a form carries along.
pub(crate) fn hidden(fields: &[(&str, &str)]) -> Markup {
    html! { @for (name, value) in fields { input type="hidden" name=(name) value=(value); } }
}

/// What is not known, and why.
pub(crate) fn unknown(error: &dyn std::fmt::Display) -> Markup {
    html! { p.unknown { strong { "Unknown: " } (error) } }
}

/// `what`, or why it is not known.
pub(crate) fn known<T, E: std::fmt::Display>(
    found: &Result<T, E>,
    show: impl FnOnce(&T) -> Markup,
) -> Markup {
    match found {
        Ok(found) => show(found),
        Err(error) => unknown(error),
    }
}

/// The answer with all that pages have around it.
pub(crate) fn respond(visit: &Visit, of_cluster: Rights, answered: Answered) -> Response {
    let is_tls = visit.connection.is_tls;
    let page = match answered {
        Ok(Answer::Page(page)) => page,
        Ok(Answer::Elsewhere { address, session }) => {
            let mut response = StatusCode::SEE_OTHER.into_response();
            let headers = response.headers_mut();
            if let Ok(address) = HeaderValue::from_str(&address) {
                headers.insert(LOCATION, address);
            }
            if let Some(set) = session.and_then(|session| session.set_cookie(is_tls)) {
                headers.insert(SET_COOKIE, set);
            }
            guard(&mut response);
            return response;
        }
        Err(failure) => failed(&failure),
    };
    let document = document(visit, of_cluster, &page).into_string();
    let mut response =
        (page.status, [(CONTENT_TYPE, "text/html; charset=utf-8")], document).into_response();
    if let Some(set) = visit.session.set_cookie(is_tls) {
        response.headers_mut().insert(SET_COOKIE, set);
    }
    guard(&mut response);
    response
}

fn failed(failure: &Failure) -> Page {
    let title = failure.status.canonical_reason().unwrap_or("Failed");
    let body = html! {
        h1 { (title) }
        p.wrong role="alert" { (failure.text) }
        p {
            a href="/console" { "To the overview" }
            @if failure.is_unproven { " or " a href="/console/sign-in" { "sign in" } }
        }
    };
    Page { status: failure.status, ..Page::new(title, body) }
}

/// Headers of everything that the console answers.
pub(crate) fn guard(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A form's own origin is sent with it, and no address to any other.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

fn document(visit: &Visit, of_cluster: Rights, page: &Page) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (page.title) " – Mayfly" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/console/style.css";
                script src="/console/script.js" {}
            }
            body {
                a.skip href="#main" { "To the content" }
                header { (navigation(visit, of_cluster)) }
                main #main tabindex="-1" {
                    @if let Some(notice) = notice(&visit.fields) { p.done role="status" { (notice) } }
                    (page.body)
                }
            }
        }
    }
}

fn navigation(visit: &Visit, of_cluster: Rights) -> Markup {
    let path = visit.address.split('?').next().unwrap_or_default();
    let item = |address: &str, name: &str| {
        html! {
            li { a href=(address) aria-current=[(path == address).then_some("page")] { (name) } }
        }
    };
    html! {
        a.brand href="/console" { "Mayfly" }
        @if visit.is_in() {
            nav aria-label="Main" {
                ul {
                    (item("/console", "Overview"))
                    @if of_cluster.manage {
                        (item("/console/queues", "Queues"))
                        (item("/console/topics", "Topics"))
                    }
                    @if of_cluster.operate { (item("/console/connections", "Connections")) }
                    (item("/console/filter-tester", "Filter tester"))
                    @if of_cluster.inject_faults || of_cluster.operate {
                        (item("/console/development", "Development"))
                    }
                }
            }
        }
        div.tools {
            button #theme type="button" hidden { "Dark" }
            @if !visit.api.is_open() && visit.session.proof().is_some() {
                (form(visit, "/console/sign-out", html! { button type="submit" { "Sign out" } }))
            }
        }
    }
}
