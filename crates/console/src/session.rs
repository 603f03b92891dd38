//! Who looks at pages, from request to request: a cookie that any node takes. Its value is a shared access
//! signature made with the key that was typed in, which counts for some hours and no longer than the key
//! does; the key itself is kept nowhere.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};

const NAME: &str = "mayfly-console";
/// A working day.
const SIGNED_IN_S: u64 = 8 * 3600;
/// What signatures are for: all of a namespace, whatever it is called.
const RESOURCE: &str = "sb%3A%2F%2Fconsole";
/// Before what says who somebody is, and before what says nothing but that he is the same as before.
const PROVEN: &str = "k.";
const UNPROVEN: &str = "a.";
/// A signature has up to 8 KiB, and no browser keeps a longer cookie than 4.
const COOKIE_BYTES_MAX: usize = 4096;

/// What a browser has of us.
#[derive(Clone)]
pub(crate) struct Session {
    cookie: String,
    proof: Option<String>,
    /// Of a key that is an entity's own: nobody else knows it. Normalised; empty for a key of the cluster.
    entity: String,
    is_new: bool,
}

impl Session {
    /// The one that a request belongs to, or a new one of somebody who has proven nothing.
    pub fn of(headers: &HeaderMap) -> Session {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let given = pairs.find(|(name, value)| *name == NAME && value.len() <= COOKIE_BYTES_MAX);
        given.and_then(|(_, value)| Session::read(value)).unwrap_or_else(Session::unproven)
    }

    fn read(value: &str) -> Option<Session> {
        let text = |encoded: &str| String::from_utf8(BASE64.decode(encoded).ok()?).ok();
        let (proof, entity) = match value.strip_prefix(PROVEN) {
            Some(signed) => {
                let (proof, entity) = signed.split_once('.')?;
                (Some(text(proof)?), text(entity)?)
            }
            None => {
                value.strip_prefix(UNPROVEN)?;
                (None, String::new())
            }
        };
        Some(Session { cookie: value.to_owned(), proof, entity, is_new: false })
    }

    /// Of somebody who has proven nothing, and is known again when he sends a form.
    pub fn unproven() -> Session {
        let cookie = format!("{UNPROVEN}{}", BASE64.encode(service::draw_uuid()));
        Session { cookie, proof: None, entity: String::new(), is_new: true }
    }

    /// Of whoever knows this key; whether it is the right one is not looked at here. `entity`: the one whose
    /// own key it is, if it is one's.
    pub fn signed(key_name: &str, key: &str, entity: &str) -> Session {
        let proof = auth::sign(RESOURCE, key_name, key, now_s() + SIGNED_IN_S);
        let entity = auth::named_path(entity);
        let cookie = format!("{PROVEN}{}.{}", BASE64.encode(&proof), BASE64.encode(&entity));
        Session { cookie, proof: Some(proof), entity, is_new: true }
    }

    /// Whether its key can be known there; elsewhere it would look like a guess.
    pub fn is_of(&self, path: &str) -> bool {
        let below = auth::named_path(path);
        self.entity.is_empty()
            || below
                .strip_prefix(&self.entity)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// See the field.
    pub fn entity(&self) -> &str {
        &self.entity
    }

    /// As the `authorization` of a call.
    pub fn proof(&self) -> Option<&str> {
        self.proof.as_deref()
    }

    /// What every form that changes something holds: no page of another origin can know it (CSRF).
    pub fn form_token(&self) -> String {
        let digest = Sha256::digest(format!("form of {}", self.cookie));
        BASE64.encode(digest)
    }

    /// Whether a form holds it. What is compared are digests, so that how long it takes tells nothing.
    pub fn takes(&self, form_token: &str) -> bool {
        Sha256::digest(form_token) == Sha256::digest(self.form_token())
    }

    /// What the browser is to keep, if it does not have it.
    pub fn set_cookie(&self, is_tls: bool) -> Option<HeaderValue> {
        if !self.is_new {
            return None;
        }
        let secure = if is_tls { "; Secure" } else { "" };
        let cookie = &self.cookie;
        let text = format!(
            "{NAME}={cookie}; Path=/console; HttpOnly; SameSite=Strict; Max-Age={SIGNED_IN_S}{secure}"
        );
        HeaderValue::from_str(&text).ok()
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(session: &Session) -> HeaderMap {
        let set = session.set_cookie(false).expect("it is new");
        let pair = set.to_str().expect("text").split(';').next().expect("a pair").to_owned();
        let value = HeaderValue::from_str(&format!("other=1; {pair}")).expect("a value");
        [(COOKIE, value)].into_iter().collect()
    }

    #[test]
    fn a_session_comes_back_as_it_was_given_and_holds_no_key() {
        let session = Session::signed("a name", "the-key", "Orders");
        let back = Session::of(&sent(&session));
        assert_eq!(back.proof(), session.proof());
        assert!(back.is_of("orders") && back.is_of("ORDERS/subscriptions/s"));
        assert!(!back.is_of("") && !back.is_of("orders-2"));
        assert!(back.set_cookie(false).is_none(), "the browser has it");
        assert!(!back.proof().expect("signed").contains("the-key"));
        let set = session.set_cookie(true).expect("it is new");
        let set = set.to_str().expect("text");
        for part in ["Path=/console", "HttpOnly", "SameSite=Strict", "Secure"] {
            assert!(set.contains(part), "{set}");
        }
    }

    #[test]
    fn a_form_is_of_one_session() {
        let (one, other) = (Session::unproven(), Session::unproven());
        assert!(one.takes(&one.form_token()) && Session::of(&sent(&one)).takes(&one.form_token()));
        assert!(!other.takes(&one.form_token()) && !one.takes("") && !one.takes("x"));
    }

    #[test]
    fn a_cookie_that_cannot_be_read_is_nobodys() {
        for wrong in ["", "k.%%", "x.abc", "k./w", "k.YQ"] {
            let value = HeaderValue::from_str(&format!("{NAME}={wrong}")).expect("a value");
            let session = Session::of(&[(COOKIE, value)].into_iter().collect());
            assert!(session.is_new && session.proof().is_none(), "{wrong}");
        }
    }
}
