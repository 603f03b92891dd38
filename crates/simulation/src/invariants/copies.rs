//! Every accepted publish has exactly the copies its topic's rules demand: in each subscription one
//! for all rules without an action that take it, and one more for each with an action.

use domain::{EntityId, Key, MemoryRows, QueueId, Row, SequenceNumber, SubQueue};

use crate::report::{Broken, Holds};

pub fn broken(what: String) -> Broken {
    Broken { invariant: "copies", source: "RULE-5, RULE-6, RULE-9, RULE-14, RULE-41, SEQ-9", what }
}

/// A subscription's share of a publish.
#[derive(Clone, Debug)]
pub struct Share {
    pub subscription: EntityId,
    /// The number the topic gave the message.
    pub published: SequenceNumber,
    /// What the subscription's next copy is called: it may have had others of the publish before.
    pub from: SequenceNumber,
    /// Those the subscription gave its copies, and where these came.
    pub copies: Vec<(SequenceNumber, SubQueue)>,
    /// Those whose time was over before they came (RULE-41): the same entry may have taken them on.
    pub expired: Vec<SequenceNumber>,
}

/// At the end of the entry that made them. In it, only a batch delete can have taken any away.
pub fn check(share: &Share, deletes: bool, rows: &MemoryRows) -> Holds {
    let Share { subscription, published, from, copies, expired } = share;
    for sub in SubQueue::ALL {
        let queue = QueueId { entity: *subscription, sub };
        let from = Key::Message(queue, *from);
        let to = Key::Message(queue, SequenceNumber::MAX);
        let found = rows.0.range(from..=to).filter_map(|(key, row)| match (key, row) {
            (Key::Message(_, number), Row::Message(row)) if row.body == *published => Some(*number),
            _ => None,
        });
        let found: Vec<SequenceNumber> = found.collect();
        let expected = copies.iter().filter(|(_, of)| *of == sub).map(|(number, _)| *number);
        let expected: Vec<SequenceNumber> = expected.collect();
        let lacks = |number: &SequenceNumber| !found.contains(number) && !expired.contains(number);
        let is_due =
            |number: &SequenceNumber| expected.contains(number) || expired.contains(number);
        if (expected.iter().any(lacks) && !deletes) || !found.iter().all(is_due) {
            return Err(broken(format!(
                "of {published} {queue:?} has {found:?}, its rules demand {expected:?}"
            )));
        }
    }
    Ok(())
}
