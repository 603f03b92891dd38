//! No acknowledged message is lost: each is there, or ended for a reason that a rule names.

use domain::Timestamp;

use crate::oracle::{Deletion, Entity, Message, MessageId, Oracle};
use crate::report::{Broken, Holds};

fn broken(what: String) -> Broken {
    Broken { invariant: "lost", source: "architecture 7, DLQ-14, BATCH-3", what }
}

/// A producer was told this number: it must have been accepted by the log. That it is still there,
/// or ended, follows: the oracle accounts for every message that leaves rows.
pub fn acknowledged(oracle: &Oracle, id: MessageId) -> Holds {
    match oracle.messages.contains_key(&id) || oracle.ended.contains(&id) {
        true => Ok(()),
        false => Err(broken(format!("{id:?} was acknowledged, but the log never accepted it"))),
    }
}

/// A message left rows and nothing explains it.
pub fn gone(message: &Message, id: MessageId, entity: &Entity, at: Timestamp) -> Holds {
    let expires = message.deadline(&entity.properties);
    if expires < Timestamp::NEVER && expires > at {
        let what = format!("{id:?} is gone at {at:?}, it expires at {expires:?}: {message:?}");
        return Err(super::early_expiry::broken(what));
    }
    Err(broken(format!("{id:?} is gone at {at:?} without a reason: {message:?}")))
}

/// BATCH-3: a batch delete reported so many, and so many were seen to go. Where messages that had
/// expired were among them they count as expired here, so fewer may be seen.
pub fn all_deleted_found<'a>(mut deletions: impl Iterator<Item = &'a Deletion>) -> Holds {
    match deletions.find(|deletion| deletion.exceeds()) {
        Some(deletion) => Err(broken(format!("a batch delete reported too many: {deletion:?}"))),
        None => Ok(()),
    }
}
