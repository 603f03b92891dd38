//! Every key of a row, in one place.
//!
//! | group u16 | table u8 | … |, big-endian: byte order is the order of [`Key`], and a group, a
//! table, an entity within a table or a queue is one range. Table numbers are never reused.
//!
//! | table | key after group and table |
//! |---|---|
//! | 0 Applied (the store's own) | – |
//! | 1 Meta | – |
//! | 2 Entity, 3 EntityState | entity u64 |
//! | 4 Body | entity u64, sequence u64 |
//! | 5 Message, 6 Returned, 7 Lock | entity u64, subqueue u8, sequence u64 |
//! | 8 Scheduled | entity u64, sequence u64 |
//! | 9 Deadline | entity u64, kind u8, due u64, sequence u64 |
//! | 10 DuplicateId | entity u64, id … |
//! | 11 DuplicateTime | entity u64, accepted u64, id … |
//! | 12 Sweep | entity u64 |
//! | 13 Producer | producer u64 |
//! | 14 ProducerSeen | seen u64, producer u64 |
//! | 15 Outcome | producer u64, serial u64 |
//! | 16 Cluster | – |
//! | 17 Directory | name … |
//! | 18 Node | node u64 |
//! | 19 Group | group u16 |
//! | 20 Session, 24 SessionLocked, 25 SessionState | entity u64, session … |
//! | 21 SessionMessage | entity u64, session …, list u8, sequence u64 |
//! | 22 SessionHeld | entity u64, session …, sequence u64 |
//! | 23 SessionFree | entity u64, claim u64, turn u64 |
//! | 30 Subscription | topic u64, subscription u64 |
//! | 31 Rule | subscription u64, name … |
//! | 32 BodyCopies | topic u64, sequence u64 |
//! | 40 Shipment | entity u64, subqueue u8, serial u64 |
//! | 41 Parked | entity u64, subqueue u8, stays u8, turn u64 |
//! | 42 Arrival | source u64, subqueue u8, destination u64 |
//! | 43 NodeState | node u64 |
//! | 44 Moves | group u16 |
//! | 45 JoinToken | id u64 |
//! | 46 Unmatched | topic u64, sequence u64 |
//! | 47 Founders | group u16 |
//! | 48 Restoring | – |
//! | 49 Relocation | entity u64 |
//! | 50 FaultRules | – |
//! | 51 EndedCreations | part u16 |
//! | 52 Namespace | name … |
//! | 54 NamespaceIdle | name … |
//! | 60 Document | name … |
//!
//! A session that something follows ends in two zero bytes; a zero byte of its own is followed by
//! 0xff, so that no session's keys lie among another's.

use domain::{
    Claim, DeadlineKind, EntityId, GroupId, Key, QueueId, SequenceNumber, SessionId, SessionList,
    SubQueue, Timestamp,
};

use crate::Error;

/// Where a group's applied mark stands: below every table.
pub fn applied_key(group: GroupId) -> [u8; 3] {
    let [high, low] = group.0.to_be_bytes();
    [high, low, 0]
}

/// The range of all of a group's keys, its applied mark included. Group numbers end below
/// `u16::MAX`.
pub fn group_range(group: GroupId) -> ([u8; 2], [u8; 2]) {
    (group.0.to_be_bytes(), group.0.saturating_add(1).to_be_bytes())
}

fn table(key: &Key) -> u8 {
    match key {
        Key::Meta => 1,
        Key::Entity(..) => 2,
        Key::EntityState(..) => 3,
        Key::Body(..) => 4,
        Key::Message(..) => 5,
        Key::Returned(..) => 6,
        Key::Lock(..) => 7,
        Key::Scheduled(..) => 8,
        Key::Deadline(..) => 9,
        Key::DuplicateId(..) => 10,
        Key::DuplicateTime(..) => 11,
        Key::Sweep(..) => 12,
        Key::Producer(..) => 13,
        Key::ProducerSeen(..) => 14,
        Key::Outcome(..) => 15,
        Key::Cluster => 16,
        Key::Directory(..) => 17,
        Key::Node(..) => 18,
        Key::Group(..) => 19,
        Key::Session(..) => 20,
        Key::SessionMessage(..) => 21,
        Key::SessionHeld(..) => 22,
        Key::SessionFree(..) => 23,
        Key::SessionLocked(..) => 24,
        Key::SessionState(..) => 25,
        Key::Subscription(..) => 30,
        Key::Rule(..) => 31,
        Key::BodyCopies(..) => 32,
        Key::Shipment(..) => 40,
        Key::Parked(..) => 41,
        Key::Arrival(..) => 42,
        Key::NodeState(..) => 43,
        Key::Moves(..) => 44,
        Key::JoinToken(..) => 45,
        Key::Unmatched(..) => 46,
        Key::Founders(..) => 47,
        Key::Restoring => 48,
        Key::Relocation(..) => 49,
        Key::FaultRules => 50,
        Key::EndedCreations(..) => 51,
        Key::Namespace(..) => 52,
        Key::NamespaceIdle(..) => 54,
        Key::Document(..) => 60,
    }
}

/// The bytes of a row's key.
pub fn encode_key(group: GroupId, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    put_key(group, key, &mut bytes);
    bytes
}

/// Replaces `out` by the bytes of a row's key.
pub fn put_key(group: GroupId, key: &Key, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&group.0.to_be_bytes());
    out.push(table(key));
    let mut number = |number: u64| out.extend_from_slice(&number.to_be_bytes());
    match key {
        Key::Meta | Key::Cluster | Key::Restoring | Key::FaultRules => {}
        Key::Entity(entity)
        | Key::EntityState(entity)
        | Key::Sweep(entity)
        | Key::Relocation(entity) => number(entity.0),
        Key::Subscription(topic, subscription) => {
            number(topic.0);
            number(subscription.0);
        }
        Key::Body(entity, sequence)
        | Key::Scheduled(entity, sequence)
        | Key::BodyCopies(entity, sequence)
        | Key::Unmatched(entity, sequence) => {
            number(entity.0);
            number(sequence.0);
        }
        Key::Message(queue, sequence)
        | Key::Returned(queue, sequence)
        | Key::Lock(queue, sequence) => {
            number(queue.entity.0);
            out.push(queue.sub as u8);
            out.extend_from_slice(&sequence.0.to_be_bytes());
        }
        Key::Shipment(queue, serial) => {
            number(queue.entity.0);
            out.push(queue.sub as u8);
            out.extend_from_slice(&serial.to_be_bytes());
        }
        Key::Parked(queue, stays, turn) => {
            number(queue.entity.0);
            out.extend_from_slice(&[queue.sub as u8, u8::from(*stays)]);
            out.extend_from_slice(&turn.to_be_bytes());
        }
        Key::Arrival(source, destination) => {
            number(source.entity.0);
            out.push(source.sub as u8);
            out.extend_from_slice(&destination.0.to_be_bytes());
        }
        Key::Deadline(entity, kind, due, sequence) => {
            number(entity.0);
            out.push(*kind as u8);
            out.extend_from_slice(&due.0.to_be_bytes());
            out.extend_from_slice(&sequence.0.to_be_bytes());
        }
        Key::DuplicateId(entity, id) | Key::Rule(entity, id) => {
            number(entity.0);
            out.extend_from_slice(id.as_bytes());
        }
        Key::DuplicateTime(entity, accepted_at, id) => {
            number(entity.0);
            number(accepted_at.0);
            out.extend_from_slice(id.as_bytes());
        }
        Key::Producer(producer) => number(*producer),
        Key::ProducerSeen(seen, producer) => {
            number(seen.0);
            number(*producer);
        }
        Key::Outcome(producer, serial) => {
            number(*producer);
            number(*serial);
        }
        Key::Directory(name)
        | Key::Namespace(name)
        | Key::NamespaceIdle(name)
        | Key::Document(name) => out.extend_from_slice(name.as_bytes()),
        Key::Node(number_of) | Key::NodeState(number_of) | Key::JoinToken(number_of) => {
            number(*number_of)
        }
        Key::Group(group) | Key::Moves(group) | Key::Founders(group) => {
            out.extend_from_slice(&group.0.to_be_bytes())
        }
        Key::EndedCreations(part) => out.extend_from_slice(&part.to_be_bytes()),
        Key::Session(entity, session)
        | Key::SessionLocked(entity, session)
        | Key::SessionState(entity, session) => {
            number(entity.0);
            out.extend_from_slice(session.as_str().as_bytes());
        }
        Key::SessionMessage(entity, session, list, sequence) => {
            number(entity.0);
            put_session(session, out);
            out.push(*list as u8);
            out.extend_from_slice(&sequence.0.to_be_bytes());
        }
        Key::SessionHeld(entity, session, sequence) => {
            number(entity.0);
            put_session(session, out);
            out.extend_from_slice(&sequence.0.to_be_bytes());
        }
        Key::SessionFree(entity, claim) => {
            number(entity.0);
            number(claim.at.0);
            number(claim.turn);
        }
    }
}

/// A session's id in front of something else.
fn put_session(session: &SessionId, out: &mut Vec<u8>) {
    for byte in session.as_str().bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED_ZERO);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

/// Follows a zero byte that is part of an id.
const ESCAPED_ZERO: u8 = 0xff;

/// Bytes that a key begins with, for its group.
pub const GROUP_BYTES: usize = 2;

/// The key of a row, from its bytes without those of a group.
pub fn take_key(bytes: &[u8]) -> Result<Key, Error> {
    key_in(Rest(bytes)).ok_or(Error::Corrupt { what: "no key of a row" })
}

/// A key read back; `None` for bytes that are no key of a row.
pub fn decode_key(bytes: &[u8]) -> Option<(GroupId, Key)> {
    let mut rest = Rest(bytes);
    let group = GroupId(rest.short()?);
    Some((group, key_in(rest)?))
}

fn key_in(mut rest: Rest<'_>) -> Option<Key> {
    let key = match rest.byte()? {
        1 => Key::Meta,
        2 => Key::Entity(rest.entity()?),
        3 => Key::EntityState(rest.entity()?),
        4 => Key::Body(rest.entity()?, rest.sequence()?),
        5 => Key::Message(rest.queue()?, rest.sequence()?),
        6 => Key::Returned(rest.queue()?, rest.sequence()?),
        7 => Key::Lock(rest.queue()?, rest.sequence()?),
        8 => Key::Scheduled(rest.entity()?, rest.sequence()?),
        9 => Key::Deadline(rest.entity()?, rest.kind()?, rest.instant()?, rest.sequence()?),
        10 => Key::DuplicateId(rest.entity()?, rest.text()?),
        11 => Key::DuplicateTime(rest.entity()?, rest.instant()?, rest.text()?),
        12 => Key::Sweep(rest.entity()?),
        13 => Key::Producer(rest.number()?),
        14 => Key::ProducerSeen(rest.instant()?, rest.number()?),
        15 => Key::Outcome(rest.number()?, rest.number()?),
        16 => Key::Cluster,
        17 => Key::Directory(rest.text()?),
        18 => Key::Node(rest.number()?),
        19 => Key::Group(GroupId(rest.short()?)),
        20 => Key::Session(rest.entity()?, rest.last_session()?),
        21 => Key::SessionMessage(rest.entity()?, rest.session()?, rest.list()?, rest.sequence()?),
        22 => Key::SessionHeld(rest.entity()?, rest.session()?, rest.sequence()?),
        23 => Key::SessionFree(rest.entity()?, Claim { at: rest.instant()?, turn: rest.number()? }),
        24 => Key::SessionLocked(rest.entity()?, rest.last_session()?),
        25 => Key::SessionState(rest.entity()?, rest.last_session()?),
        30 => Key::Subscription(rest.entity()?, rest.entity()?),
        31 => Key::Rule(rest.entity()?, rest.text()?),
        32 => Key::BodyCopies(rest.entity()?, rest.sequence()?),
        40 => Key::Shipment(rest.queue()?, rest.number()?),
        41 => Key::Parked(rest.queue()?, rest.flag()?, rest.number()?),
        42 => Key::Arrival(rest.queue()?, rest.entity()?),
        43 => Key::NodeState(rest.number()?),
        44 => Key::Moves(GroupId(rest.short()?)),
        45 => Key::JoinToken(rest.number()?),
        46 => Key::Unmatched(rest.entity()?, rest.sequence()?),
        47 => Key::Founders(GroupId(rest.short()?)),
        48 => Key::Restoring,
        49 => Key::Relocation(rest.entity()?),
        50 => Key::FaultRules,
        51 => Key::EndedCreations(rest.short()?),
        52 => Key::Namespace(rest.text()?),
        54 => Key::NamespaceIdle(rest.text()?),
        60 => Key::Document(rest.text()?),
        _ => return None,
    };
    rest.0.is_empty().then_some(key)
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn short(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn entity(&mut self) -> Option<EntityId> {
        self.number().map(EntityId)
    }

    fn sequence(&mut self) -> Option<SequenceNumber> {
        self.number().map(SequenceNumber)
    }

    fn instant(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp)
    }

    fn queue(&mut self) -> Option<QueueId> {
        Some(QueueId { entity: self.entity()?, sub: SubQueue::from_u8(self.byte()?)? })
    }

    fn kind(&mut self) -> Option<DeadlineKind> {
        let kind = self.byte()?;
        DeadlineKind::ALL.into_iter().find(|known| *known as u8 == kind)
    }

    fn list(&mut self) -> Option<SessionList> {
        let list = self.byte()?;
        SessionList::ALL.into_iter().find(|known| *known as u8 == list)
    }

    /// A session's id in front of something else.
    fn session(&mut self) -> Option<SessionId> {
        let mut id = Vec::new();
        loop {
            match (self.byte()?, self.0.first()?) {
                (0, 0) => {
                    self.byte()?;
                    return Some(SessionId::from(std::str::from_utf8(&id).ok()?));
                }
                (0, &ESCAPED_ZERO) => {
                    self.byte()?;
                    id.push(0);
                }
                (0, _) => return None,
                (byte, _) => id.push(byte),
            }
        }
    }

    /// A session's id that nothing follows.
    fn last_session(&mut self) -> Option<SessionId> {
        self.text().map(SessionId::from)
    }

    /// All that is left.
    fn text(&mut self) -> Option<String> {
        let text = std::str::from_utf8(self.0).ok()?.to_owned();
        self.0 = &[];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![0..4u64, any::<u64>(), Just(u64::MAX)]
    }

    fn queue() -> impl Strategy<Value = QueueId> {
        (number(), any::<bool>()).prop_map(|(entity, dead)| match dead {
            true => QueueId::dead_letter(EntityId(entity)),
            false => QueueId::main(EntityId(entity)),
        })
    }

    fn key() -> impl Strategy<Value = Key> {
        let entity = || number().prop_map(EntityId);
        let sequence = || number().prop_map(SequenceNumber);
        let instant = || number().prop_map(Timestamp);
        let kind = prop::sample::select(DeadlineKind::ALL.to_vec());
        let text = || "[a-c\u{0}\u{7f}é]{0,3}";
        let session = || text().prop_map(SessionId::from);
        let list = prop::sample::select(SessionList::ALL.to_vec());
        prop_oneof![
            Just(Key::Meta),
            Just(Key::Cluster),
            Just(Key::Restoring),
            Just(Key::FaultRules),
            any::<u16>().prop_map(Key::EndedCreations),
            text().prop_map(Key::Namespace),
            text().prop_map(Key::NamespaceIdle),
            text().prop_map(Key::Document),
            entity().prop_map(Key::Entity),
            entity().prop_map(Key::EntityState),
            entity().prop_map(Key::Sweep),
            entity().prop_map(Key::Relocation),
            (entity(), sequence()).prop_map(|(e, s)| Key::Body(e, s)),
            (entity(), sequence()).prop_map(|(e, s)| Key::Scheduled(e, s)),
            (queue(), sequence()).prop_map(|(q, s)| Key::Message(q, s)),
            (queue(), sequence()).prop_map(|(q, s)| Key::Returned(q, s)),
            (queue(), sequence()).prop_map(|(q, s)| Key::Lock(q, s)),
            (entity(), kind, instant(), sequence())
                .prop_map(|(e, k, t, s)| Key::Deadline(e, k, t, s)),
            (entity(), text()).prop_map(|(e, id)| Key::DuplicateId(e, id)),
            (entity(), instant(), text()).prop_map(|(e, t, id)| Key::DuplicateTime(e, t, id)),
            number().prop_map(Key::Producer),
            (instant(), number()).prop_map(|(t, p)| Key::ProducerSeen(t, p)),
            (number(), number()).prop_map(|(p, s)| Key::Outcome(p, s)),
            text().prop_map(Key::Directory),
            number().prop_map(Key::Node),
            any::<u16>().prop_map(|group| Key::Group(GroupId(group))),
            (entity(), session()).prop_map(|(e, id)| Key::Session(e, id)),
            (entity(), session()).prop_map(|(e, id)| Key::SessionLocked(e, id)),
            (entity(), session()).prop_map(|(e, id)| Key::SessionState(e, id)),
            (entity(), session(), list, sequence())
                .prop_map(|(e, id, list, s)| Key::SessionMessage(e, id, list, s)),
            (entity(), session(), sequence()).prop_map(|(e, id, s)| Key::SessionHeld(e, id, s)),
            (entity(), instant(), number())
                .prop_map(|(e, at, turn)| Key::SessionFree(e, Claim { at, turn })),
            (entity(), entity()).prop_map(|(t, s)| Key::Subscription(t, s)),
            (entity(), text()).prop_map(|(e, name)| Key::Rule(e, name)),
            (entity(), sequence()).prop_map(|(e, s)| Key::BodyCopies(e, s)),
            (entity(), sequence()).prop_map(|(e, s)| Key::Unmatched(e, s)),
            (queue(), number()).prop_map(|(q, serial)| Key::Shipment(q, serial)),
            (queue(), any::<bool>(), number()).prop_map(|(q, stays, n)| Key::Parked(q, stays, n)),
            (queue(), entity()).prop_map(|(q, e)| Key::Arrival(q, e)),
            number().prop_map(Key::NodeState),
            any::<u16>().prop_map(|group| Key::Moves(GroupId(group))),
            number().prop_map(Key::JoinToken),
            any::<u16>().prop_map(|group| Key::Founders(GroupId(group))),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn order_of_bytes_is_order_of_keys(a in key(), b in key(), s in 0..3u16, t in 0..3u16) {
            let bytes = (encode_key(GroupId(s), &a), encode_key(GroupId(t), &b));
            prop_assert_eq!((s, &a).cmp(&(t, &b)), bytes.0.cmp(&bytes.1));
            prop_assert_eq!(decode_key(&bytes.0), Some((GroupId(s), a)));
            let (from, to) = group_range(GroupId(s));
            prop_assert!(bytes.0.as_slice() >= &from[..] && bytes.0.as_slice() < &to[..]);
            prop_assert!(bytes.0.as_slice() > &applied_key(GroupId(s))[..]);
        }

        #[test]
        fn bytes_that_are_no_key_are_told(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some((group, key)) = decode_key(&bytes) {
                prop_assert_eq!(encode_key(group, &key), bytes);
            }
        }
    }
}
