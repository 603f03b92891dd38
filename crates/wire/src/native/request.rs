//! Parts of requests.

use domain::{
    Disposition, LockToken, Origin, Refusal, SessionId, SessionToken, Settlement, SubQueue,
};

use super::properties_from_v1;
use crate::v1;

pub fn sub_queue(value: i32) -> Result<SubQueue, Refusal> {
    match v1::SubQueue::try_from(value) {
        Ok(v1::SubQueue::Main) => Ok(SubQueue::Main),
        Ok(v1::SubQueue::DeadLetter) => Ok(SubQueue::DeadLetter),
        Ok(v1::SubQueue::TransferDeadLetter) => Ok(SubQueue::TransferDeadLetter),
        Err(_) => {
            let why = format!("{value} is no subqueue");
            Err(Refusal::Argument { what: "sub_queue", why })
        }
    }
}

pub fn lock_token(bytes: &[u8]) -> Result<LockToken, Refusal> {
    if bytes.is_empty() {
        let why = "this message holds no lock; receive it with peek-lock to settle or renew it";
        return Err(Refusal::InvalidOperation { why }); // LOCK-15.
    }
    bytes.try_into().map(LockToken::from_bytes).map_err(|_| {
        let why = format!("a lock token has 16 bytes, not {}", bytes.len());
        Refusal::Argument { what: "lock_token", why }
    })
}

pub fn session_token(token: Option<v1::SessionToken>) -> Result<SessionToken, Refusal> {
    let Some(v1::SessionToken { session_id, nonce }) = token else {
        let why = "it is missing; accept the session first".to_owned();
        return Err(Refusal::Argument { what: "token", why });
    };
    Ok(SessionToken { session: SessionId::from(session_id), nonce })
}

pub fn session_token_to_v1(token: &SessionToken) -> v1::SessionToken {
    v1::SessionToken { session_id: token.session.to_string(), nonce: token.nonce }
}

pub fn settlement(settlement: &v1::Settlement) -> Result<Settlement, Refusal> {
    use v1::settlement::Disposition as Asked;
    let disposition = match &settlement.disposition {
        None | Some(Asked::Complete(_)) => Disposition::Complete,
        Some(Asked::Abandon(abandon)) => {
            Disposition::Abandon { properties: properties_from_v1(&abandon.properties)? }
        }
        Some(Asked::Defer(defer)) => {
            Disposition::Defer { properties: properties_from_v1(&defer.properties)? }
        }
        Some(Asked::DeadLetter(dead_letter)) => Disposition::DeadLetter {
            reason: dead_letter.reason.clone(),
            description: dead_letter.description.clone(),
            properties: properties_from_v1(&dead_letter.properties)?,
        },
        Some(Asked::Release(_)) => Disposition::Release,
    };
    Ok(Settlement { token: lock_token(&settlement.lock_token)?, disposition })
}

pub fn origin(origin: &v1::Origin) -> Origin {
    let v1::Origin { producer, serial, ordered, retry } = *origin;
    Origin { producer, serial, ordered, retry }
}
