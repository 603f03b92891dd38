//! What a request offers as its proof, over HTTP and gRPC alike: the value of `Authorization`, or what was
//! shown on its connection.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::certified::Certified;
use crate::token::{Token, TokenError};

/// Before a key or a JSON web token (RFC 6750, section 2.1).
pub(crate) const BEARER: &str = "Bearer ";

/// A proof as it came.
pub enum Offer<'a> {
    /// `Bearer KEY`: a key itself, whatever it is called; or a JSON web token.
    Bearer(&'a str),
    /// `Basic …`: a key with its name (RFC 7617).
    Login { name: String, key: String },
    /// Anything else: a shared access signature, or nothing that is understood.
    Token(&'a str),
    /// Without `Authorization`: a certificate.
    Certificate(&'a Certified),
}

impl<'a> Offer<'a> {
    /// # Errors
    /// [`TokenError::Malformed`] for a login that cannot be read.
    pub fn parse(given: &'a str) -> Result<Offer<'a>, TokenError> {
        if let Some(key) = given.strip_prefix(BEARER) {
            return Ok(Offer::Bearer(key));
        }
        let Some(login) = given.strip_prefix("Basic ") else { return Ok(Offer::Token(given)) };
        let wrong = TokenError::Malformed { part: "Basic" };
        let login = BASE64.decode(login.trim()).map_err(|_| wrong.clone())?;
        let login = String::from_utf8(login).map_err(|_| wrong.clone())?;
        let (name, key) = login.split_once(':').ok_or(wrong)?;
        Ok(Offer::Login { name: name.to_owned(), key: key.to_owned() })
    }
}

/// The name of the key that a proof says it was made with, whether there is such a key or not.
pub fn claimed_name(given: &str) -> Option<String> {
    match Offer::parse(given).ok()? {
        Offer::Bearer(_) | Offer::Certificate(_) => None,
        Offer::Login { name, .. } => Some(name),
        Offer::Token(token) => Some(Token::parse(token).ok()?.key_name().to_owned()),
    }
}

/// What a client that has a key sends as `Authorization`; without a name, the key is a bearer token.
pub fn authorization(name: Option<&str>, key: &str) -> Cow<'static, str> {
    match name {
        None => format!("{BEARER}{key}").into(),
        Some(name) => format!("Basic {}", BASE64.encode(format!("{name}:{key}"))).into(),
    }
}
