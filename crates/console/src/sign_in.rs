//! Signing in with a key, and out.

use axum::http::StatusCode;
use maud::{Markup, html};

use crate::failure::Failure;
use crate::form::Fields;
use crate::layout::{Answer, Answered, Page, form};
use crate::session::Session;
use crate::visit::Visit;

/// A key typed in.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    name: String,
    key: String,
    /// Of a key that is an entity's own.
    entity: String,
}

impl Typed {
    /// A connection string in place of a key says all three.
    fn of(fields: &Fields) -> Typed {
        let text = |name: &str| fields.text(name).trim().to_owned();
        let (given, mut typed) =
            (text("key"), Typed { name: text("name"), key: String::new(), entity: text("entity") });
        if !given.contains("SharedAccessKey=") {
            return Typed { key: given, ..typed };
        }
        for (name, value) in given.split(';').filter_map(|part| part.split_once('=')) {
            match name.trim().to_ascii_lowercase().as_str() {
                "sharedaccesskeyname" => typed.name = value.to_owned(),
                "sharedaccesskey" => typed.key = value.to_owned(),
                "entitypath" => typed.entity = value.to_owned(),
                _ => {}
            }
        }
        typed
    }
}

pub(crate) async fn show(visit: &Visit) -> Answered {
    page(visit, None).answer()
}

/// What is shown to whoever has not said who he is.
pub(crate) fn page(visit: &Visit, failure: Option<&Failure>) -> Page {
    let next = next(visit.fields.text("next"));
    let shown = html! {
        h1 { "Sign in" }
        @if let Some(failure) = failure { p.wrong role="alert" { (failure.text) } }
        (form(visit, "/console/sign-in", fields(visit, &next)))
        p.hint {
            "You may do here what the key may. The key is not kept: the browser gets a signature that \
             counts for 8 hours on every node, or until the key is exchanged."
        }
    };
    let status = failure.map_or(StatusCode::OK, |failure| failure.status);
    Page { status, ..Page::new("Sign in", shown) }
}

fn fields(visit: &Visit, next: &str) -> Markup {
    let given = |name| visit.fields.text(name);
    html! {
        input type="hidden" name="next" value=(next);
        p { label for="name" { "Name of the key" }
            input #name name="name" value=(given("name")) autocomplete="username"
                placeholder="RootManageSharedAccessKey"; }
        p { label for="key" { "Key, or a connection string" }
            input #key name="key" type="password" required autocomplete="current-password"; }
        p { label for="entity" { "Entity, if the key is one of its own" }
            input #entity name="entity" value=(given("entity")) autocomplete="off"; }
        p { button.primary type="submit" { "Sign in" } }
    }
}

pub(crate) async fn sign_in(visit: &Visit) -> Answered {
    let mut typed = Typed::of(&visit.fields);
    if typed.name.is_empty() {
        typed.name = "RootManageSharedAccessKey".to_owned();
    }
    let session = Session::signed(&typed.name, &typed.key, &typed.entity);
    match visit.identify(&session, &typed.entity).await {
        Ok(_) => {
            let address = next(visit.fields.text("next"));
            // Of the cluster such a key is told nothing.
            let address = match session.entity() {
                "" => address,
                entity => crate::address::link("messages", [("queue", entity)]),
            };
            Ok(Answer::Elsewhere { address, session: Some(session) })
        }
        Err(error) => Page::answer(page(visit, Some(&error.into()))),
    }
}

pub(crate) async fn sign_out(_: &Visit) -> Answered {
    let session = Some(Session::unproven());
    Ok(Answer::Elsewhere { address: "/console/sign-in?done=signed-out".to_owned(), session })
}

/// Where to go then: to a page of the console, whatever an address says.
fn next(asked: &str) -> String {
    let is_ours = asked == "/console"
        || ["/console/", "/console?"].iter().any(|ours| asked.starts_with(ours));
    let is_plain = asked.bytes().all(|byte| byte.is_ascii_graphic());
    if is_ours && is_plain && !asked.starts_with("/console/sign-") { asked } else { "/console" }
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_says_name_key_and_entity() {
        let string = "Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=a+b==;EntityPath=q";
        let typed = Typed::of(&Fields::of(&[("name", "other"), ("key", string)]));
        assert_eq!(typed, Typed { name: "n".into(), key: "a+b==".into(), entity: "q".into() });
        let typed = Typed::of(&Fields::of(&[("name", " n "), ("key", "k")]));
        assert_eq!(typed, Typed { name: "n".into(), key: "k".into(), entity: String::new() });
    }

    #[test]
    fn nobody_is_sent_elsewhere_after_signing_in() {
        for (asked, to) in [
            ("/console/queues?after=a", "/console/queues?after=a"),
            ("/consolation", "/console"),
            ("//evil.example", "/console"),
            ("https://evil.example/console/", "/console"),
            ("/console/\r\nSet-Cookie: a=b", "/console"),
            ("/console/sign-out", "/console"),
        ] {
            assert_eq!(next(asked), to);
        }
    }
}
