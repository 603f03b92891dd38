//! How a coordinator shows that it knows the workers' secret: signed, so that the secret itself is never on its way.

use std::time::{SystemTime, UNIX_EPOCH};

use auth::{Key, Token, TokenError, sign};
use tonic::Status;

/// What is signed for.
const AUDIENCE: &str = "mayfly-load-worker";
/// A proof is good for so long: clocks of machines may differ, and a proof that was overheard is of no use for long.
const LASTS_S: u64 = 300;

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What a coordinator shows.
pub(super) fn proof(secret: &str) -> String {
    sign(AUDIENCE, Key::ROOT, secret, now_s() + LASTS_S)
}

/// # Errors
/// UNAUTHENTICATED, in one sentence.
pub(super) fn verify(secret: &str, shown: Option<&str>) -> Result<(), Status> {
    let refused = |told: &str| Status::unauthenticated(told.to_owned());
    let shown = shown.ok_or_else(|| refused("it wants the secret it was started with"))?;
    let verified =
        Token::parse(shown).and_then(|token| token.verify([&Key::root(secret)], AUDIENCE, now_s()));
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

    #[test]
    fn the_secret_is_proven_and_not_shown() {
        let shown = proof("the secret");
        assert!(!shown.contains("the secret"));
        assert!(verify("the secret", Some(&shown)).is_ok());
        let old = sign(AUDIENCE, Key::ROOT, "the secret", now_s());
        let elsewhere = sign("another", Key::ROOT, "the secret", now_s() + 60);
        for (secret, shown, told) in [
            ("another", Some(shown.as_str()), "another secret"),
            ("the secret", None, "wants the secret"),
            ("the secret", Some("Bearer the secret"), "another secret"),
            ("the secret", Some(old.as_str()), "too old"),
            ("the secret", Some(elsewhere.as_str()), "another secret"),
        ] {
            let refused = verify(secret, shown).expect_err("no proof");
            assert!(refused.message().contains(told), "{refused}");
        }
    }
}
