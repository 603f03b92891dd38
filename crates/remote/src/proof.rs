//! How a coordinator shows that it knows a process's secret: signed, so that the secret itself is never on its way.

use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Key, Token, TokenError, sign};
use tonic::Status;
use tonic::metadata::MetadataMap;

/// The header that the proof is in.
pub(crate) const HEADER: &str = "authorization";
/// A proof is good for so long: clocks of machines may differ, and a proof that was overheard is of no use for long.
const LASTS_S: u64 = 300;

/// The kind of process that a proof is for: for no other it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audience(pub &'static str);

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a coordinator shows.
pub(crate) fn proof(audience: Audience, secret: &str) -> String {
    sign(audience.0, Key::ROOT, secret, now_s() + LASTS_S)
}

/// Looks whether a call shows a proof of the secret.
///
/// # Errors
/// UNAUTHENTICATED, in one sentence.
pub fn verify(audience: Audience, secret: &str, metadata: &MetadataMap) -> Result<(), Status> {
    let shown = metadata.get(HEADER).and_then(|shown| shown.to_str().ok());
    verify_shown(audience, secret, shown)
}

fn verify_shown(audience: Audience, secret: &str, shown: Option<&str>) -> Result<(), Status> {
    let refused = |told: &str| Status::unauthenticated(told.to_owned());
    let shown = shown.ok_or_else(|| refused("it wants the secret it was started with"))?;
    let verified = Token::parse(shown)
        .and_then(|token| token.verify([&Key::root(secret)], audience.0, now_s()));
    match verified {
        Ok(_) => Ok(()),
        Err(TokenError::Expired) => Err(refused(
            "the proof is too old for it; are the machines' clocks more than five minutes apart?",
        )),
        Err(_) => Err(refused("it was started with another secret")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKER: Audience = Audience("a-worker");

    #[test]
    fn the_secret_is_proven_and_not_shown() {
        let shown = proof(WORKER, "the secret");
        assert!(!shown.contains("the secret"));
        assert!(verify_shown(WORKER, "the secret", Some(&shown)).is_ok());
        let old = sign(WORKER.0, Key::ROOT, "the secret", now_s());
        let elsewhere = sign("another", Key::ROOT, "the secret", now_s() + 60);
        for (secret, shown, told) in [
            ("another", Some(shown.as_str()), "another secret"),
            ("the secret", None, "wants the secret"),
            ("the secret", Some("Bearer the secret"), "another secret"),
            ("the secret", Some(old.as_str()), "too old"),
            ("the secret", Some(elsewhere.as_str()), "another secret"),
        ] {
            let refused = verify_shown(WORKER, secret, shown).expect_err("no proof");
            assert!(refused.message().contains(told), "{refused}");
        }
    }
}
