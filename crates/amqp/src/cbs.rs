//! `$cbs`: tokens put by clients (CBS-1 to CBS-5).

use amqp_protocol::Limits;
use amqp_protocol::codec::{DecodeError, Error, Map, Symbol, Value};
use amqp_protocol::request::Envelope;
use auth::{TokenError, WebTokenFault};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;

use crate::condition;

/// The node's address.
pub const ADDRESS: &str = "$cbs";

/// A request of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    PutToken {
        /// What kind it is, its text says (CBS-3).
        token: ByteString,
        /// The resource it is put for, as written; see [`auth::resource_path`].
        audience: ByteString,
    },
    /// Not understood; the answer to it.
    Bad(Status),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: i32,
    pub description: ByteString,
    pub condition: Option<Symbol>,
}

impl Status {
    pub fn accepted() -> Status {
        let description = ByteString::from_static("Accepted");
        Status { code: 202, description, condition: None }
    }

    pub fn is_accepted(&self) -> bool {
        self.code == 202
    }

    /// CBS-15: there is nothing at the audience. `address`: with its host, as clients look for it.
    pub fn missing(address: &str) -> Status {
        Status {
            code: condition::status(condition::NOT_FOUND),
            description: condition::entity_not_found(address).into(),
            condition: Some(Symbol::from_static(condition::NOT_FOUND)),
        }
    }

    /// The token was not good: the SDKs report it as a lack of authorisation.
    pub fn refused(error: TokenError) -> Status {
        let code = match error {
            TokenError::NotSas
            | TokenError::Malformed { .. }
            | TokenError::Web(WebTokenFault::Malformed) => 400,
            TokenError::Expired
            | TokenError::UnknownKey
            | TokenError::Signature { .. }
            | TokenError::Resource { .. }
            | TokenError::Login { .. }
            | TokenError::Bearer
            | TokenError::Web(_) => 401,
        };
        let condition = match code {
            400 => condition::ARGUMENT_ERROR,
            _ => condition::UNAUTHORIZED_ACCESS,
        };
        Status {
            code,
            description: error.to_string().into(),
            condition: Some(Symbol::from_static(condition)),
        }
    }

    /// A request that cannot be taken (REQ-9).
    pub fn of(error: Error) -> Status {
        let code = condition::status(&error.condition);
        let description = error.description.unwrap_or_default();
        Status { code, description, condition: Some(error.condition) }
    }

    /// Whether it is good is not known at present.
    pub fn later(why: &str) -> Status {
        Status {
            code: 503,
            description: why.into(),
            condition: Some(Symbol::from_static(condition::UNAVAILABLE)),
        }
    }

    /// Encodes the reply.
    pub fn reply(&self, envelope: &Envelope, out: &mut BytesMut) -> Bytes {
        let mut properties = Map::default()
            .string("status-code", Value::Int(self.code))
            .string("status-description", Value::String(self.description.clone()));
        if let Some(condition) = &self.condition {
            let symbol = Value::Symbol(condition.clone());
            properties = properties.string("error-condition", symbol);
        }
        envelope.reply(&properties, &Value::Null, out)
    }
}

/// Decodes a request. What is wrong with one is part of the result, since it is owed a reply like any
/// other.
///
/// # Errors
/// [`DecodeError`] if it is no message at all: then nobody knows what to reply to.
pub fn decode(payload: &Bytes, limits: &Limits) -> Result<(Envelope, Request), DecodeError> {
    let envelope = Envelope::decode(payload, limits)?;
    let request = match (envelope.text("operation"), envelope.text("name"), &envelope.body) {
        (Some("put-token"), Some(audience), Value::String(token)) => {
            Request::PutToken { token: token.clone(), audience: audience.into() }
        }
        (Some("put-token"), None, _) => bad("a token is put for an audience, as property 'name'"),
        (Some("put-token"), Some(_), _) => bad("a token is put as a body of type string"),
        _ => Request::Bad(Status {
            code: 501,
            description: ByteString::from_static("the only operation is put-token"),
            condition: Some(Symbol::from_static(condition::NOT_IMPLEMENTED)),
        }),
    };
    Ok((envelope, request))
}

fn bad(why: &'static str) -> Request {
    Request::Bad(Status {
        code: 400,
        description: ByteString::from_static(why),
        condition: Some(Symbol::from_static(condition::ARGUMENT_ERROR)),
    })
}

#[cfg(test)]
mod tests {
    use amqp_protocol::message::Message;
    use amqp_protocol::request::request;

    use super::*;

    const ID: Value = Value::Uuid([7; 16]);

    fn put(properties: &Map, body: &Value) -> (Envelope, Request) {
        let payload = request(ID, None, properties, body);
        decode(&payload, &Limits::default()).unwrap()
    }

    /// CBS-3: Python calls a signature a JWT.
    #[test]
    fn cbs_2_cbs_3_a_token_is_taken_whatever_it_is_called() {
        let properties = Map::default()
            .string("operation", "put-token".into())
            .string("type", "jwt".into())
            .string("name", "sb://localhost/q".into());
        let (_, request) = put(&properties, &"SharedAccessSignature sr=x".into());
        let expected = Request::PutToken {
            token: "SharedAccessSignature sr=x".into(),
            audience: "sb://localhost/q".into(),
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn cbs_2_cbs_5_what_is_no_put_token_is_answered() {
        let operation = |name: &str| Map::default().string("operation", name.into());
        let code = |properties: &Map, body: Value| match put(properties, &body).1 {
            Request::Bad(status) => status.code,
            Request::PutToken { .. } => 0,
        };
        assert_eq!(code(&operation("put-token"), "t".into()), 400);
        let named = operation("put-token").string("name", "x".into());
        assert_eq!(code(&named, Value::Null), 400);
        assert_eq!(code(&operation("delete-token"), Value::Null), 501);
    }

    /// CBS-4: names with hyphens, an int, a symbol; and the request's id comes back as it was.
    #[test]
    fn cbs_4_a_reply_has_the_types_clients_read() {
        let (envelope, _) = put(&Map::default(), &Value::Null);
        let status = Status::refused(TokenError::Expired);
        let reply = status.reply(&envelope, &mut BytesMut::new());
        let limits = Limits::default();
        let message = Message::parse(reply, &limits).unwrap();
        assert_eq!(message.properties(&limits).unwrap().correlation_id, Some(ID));
        let properties = message.application_properties(&limits).unwrap();
        assert_eq!(properties.get("status-code"), Some(&Value::Int(401)));
        let condition = Value::Symbol("amqp:unauthorized-access".into());
        assert_eq!(properties.get("error-condition"), Some(&condition));
    }
}
