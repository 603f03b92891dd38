//! What proves to nodes who a client is: one for all of them, and it can be exchanged under way.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tonic::metadata::{Ascii, MetadataValue};

use crate::Error;

/// Clones are one: what is exchanged in one counts in all.
#[derive(Clone)]
pub(crate) struct Proof {
    key_name: Option<String>,
    shown: Arc<RwLock<Shown>>,
}

struct Shown {
    key: Option<String>,
    header: Option<MetadataValue<Ascii>>,
    /// How often it was exchanged.
    turn: u64,
}

impl Proof {
    pub fn new(key: Option<&str>, key_name: Option<&str>) -> Result<Proof, Error> {
        let header = header(key, key_name)?;
        let shown = Shown { key: key.map(str::to_owned), header, turn: 0 };
        Ok(Proof { key_name: key_name.map(str::to_owned), shown: Arc::new(RwLock::new(shown)) })
    }

    pub fn key(&self) -> Option<String> {
        self.read(|shown| shown.key.clone())
    }

    pub fn header(&self) -> Option<MetadataValue<Ascii>> {
        self.read(|shown| shown.header.clone())
    }

    pub fn turn(&self) -> u64 {
        self.read(|shown| shown.turn)
    }

    /// Another key of the same name from now on.
    pub fn replace(&self, key: String) -> Result<(), Error> {
        let header = header(Some(&key), self.key_name.as_deref())?;
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        *shown = Shown { key: Some(key), header, turn: shown.turn + 1 };
        Ok(())
    }

    /// What an answer to a request of that turn says by now: that a key is nobody's says nothing of
    /// another.
    pub fn judged(&self, error: Error, turn: u64) -> Error {
        match error {
            Error::Refused(detail) if detail.rule == RIGHTS && self.turn() != turn => {
                Error::NotDone(detail)
            }
            error => error,
        }
    }

    fn read<T>(&self, of: impl FnOnce(&Shown) -> T) -> T {
        of(&self.shown.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The rule of a proof or a right that is missing.
const RIGHTS: &str = "ERR-17";

/// How a shared access signature begins (CBS-6).
const SIGNATURE: &str = "SharedAccessSignature ";

fn header(
    key: Option<&str>,
    key_name: Option<&str>,
) -> Result<Option<MetadataValue<Ascii>>, Error> {
    let text = match (key, key_name) {
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(Error::argument("a key has a name and no value; give both")),
        // A signature is a proof by itself.
        (Some(token), None) if token.starts_with(SIGNATURE) => token.to_owned(),
        (Some(key), None) => format!("Bearer {key}"),
        (Some(key), Some(name)) => format!("Basic {}", BASE64.encode(format!("{name}:{key}"))),
    };
    let value = text.parse::<MetadataValue<Ascii>>();
    let wrong = |_| Error::argument("the secret has characters that no header can carry");
    let mut value = value.map_err(wrong)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_exchanged_is_refused_for_its_own_requests_alone() {
        let proof = Proof::new(Some("first"), Some("worker")).expect("a header");
        let refused = |rule: &str| {
            let Error::Refused(mut detail) = Error::argument("no") else { unreachable!() };
            detail.rule = rule.to_owned();
            Error::Refused(detail)
        };
        let (clone, turn) = (proof.clone(), proof.turn());
        let before = proof.header();
        assert!(matches!(proof.judged(refused("ERR-17"), turn), Error::Refused(_)));
        clone.replace("second".to_owned()).expect("a header");
        assert_eq!(proof.key().as_deref(), Some("second"));
        assert_ne!(proof.header(), before);
        for (rule, turn, is_refused) in
            [("ERR-17", turn, false), ("ERR-17", turn + 1, true), ("ERR-1", turn, true)]
        {
            let error = proof.judged(refused(rule), turn);
            assert_eq!(matches!(error, Error::Refused(_)), is_refused, "{rule} {turn}");
        }
        assert!(clone.replace("line\nend".to_owned()).is_ok(), "it is written as base64");
        let bearer = Proof::new(Some("first"), None).expect("a header");
        assert!(bearer.replace("line\nend".to_owned()).is_err());
        assert_eq!(bearer.key().as_deref(), Some("first"), "what is refused changes nothing");
    }
}
