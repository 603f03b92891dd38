//! What comes of commands.

use super::*;

pub fn performed() -> impl Strategy<Value = Performed> {
    prop_oneof![
        Just(Performed::Done),
        vec(number(), 0..4).prop_map(|sequences| Performed::Sent { sequences }),
        vec(at(), 0..3).prop_map(|until| Performed::Renewed { until }),
    ]
}

pub fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        9 => plain_refusal(),
        1 => (any::<u32>(), plain_refusal()).prop_map(|(operation, cause)| {
            Refusal::TransactionRolledBack { operation, cause: cause.into() }
        }),
    ]
}

/// Of anything but a transaction that was rolled back.
pub fn plain_refusal() -> impl Strategy<Value = Refusal> {
    let others = prop_oneof![
        Just(Refusal::TransactionUnknown),
        Just(Refusal::TransactionTimedOut),
        (words(), any::<(u64, u64)>()).prop_map(|(what, (held, max))| {
            Refusal::TransactionSizeExceeded { what, held, max }
        }),
    ];
    prop_oneof![
        others,
        text().prop_map(|name| Refusal::EntityNotFound { name }),
        entity().prop_map(|entity| Refusal::StaleRoute { entity }),
        text().prop_map(|name| Refusal::EntityAlreadyExists { name }),
        words().prop_map(|status| Refusal::EntityDisabled { status }),
        token().prop_map(|token| Refusal::MessageLockLost { token }),
        (number(), words())
            .prop_map(|(sequence, needs)| Refusal::MessageNotFound { sequence, needs }),
        (words(), any::<(u64, u64)>())
            .prop_map(|(what, (bytes, max))| Refusal::MessageSizeExceeded { what, bytes, max }),
        (words(), any::<(u64, u64)>()).prop_map(|(what, (used, max))| Refusal::QuotaExceeded {
            what,
            used,
            max
        }),
        (words(), text()).prop_map(|(what, why)| Refusal::Argument { what, why }),
        (words(), text()).prop_map(|(what, why)| Refusal::Undecodable { what, why }),
        (words(), text(), words()).prop_map(|(what, value, allowed)| {
            Refusal::ArgumentOutOfRange { what, value, allowed }
        }),
        (text(), any::<(u64, u64)>()).prop_map(|(what, (bytes, max))| Refusal::Serialization {
            what,
            bytes,
            max
        }),
        words().prop_map(|why| Refusal::InvalidOperation { why }),
        words().prop_map(|what| Refusal::NotSupported { what }),
        any::<u64>().prop_map(|expected| Refusal::SerialGap { expected }),
        any::<u64>().prop_map(|cut| Refusal::OtherCut { cut }),
        (entity(), of(any::<u16>()))
            .prop_map(|(entity, to)| Refusal::Relocated { entity, to: to.map(GroupId) }),
        Just(Refusal::PerhapsDone),
        vec(any::<u64>(), 0..4).prop_map(|on| Refusal::StorageFull { on }),
        of(session()).prop_map(|session| Refusal::SessionLockLost { session }),
        session().prop_map(|session| Refusal::SessionCannotBeLocked { session }),
        Just(Refusal::NoSession),
        text().prop_map(|topic| Refusal::NoMatchingSubscription { topic }),
        (text(), any::<u64>()).prop_map(|(topic, waiting)| Refusal::TopicBusy { topic, waiting }),
        (words(), text()).prop_map(|(exception, why)| Refusal::InvalidRule { exception, why }),
    ]
}

pub fn delivery() -> impl Strategy<Value = Delivery> {
    let state = prop::sample::select(vec![
        MessageState::Active,
        MessageState::Deferred,
        MessageState::Scheduled,
    ]);
    let lock = of((token(), at()).prop_map(|(token, until)| HeldLock { token, until }));
    let numbers = (number(), number(), number(), of(entity()), of(text()));
    let times = (at(), of(at()), of(span()), of(at()));
    (numbers, any::<(u32, u32)>(), state, times, lock, overlay()).prop_map(
        |(numbers, counts, state, times, lock, overlay)| Delivery {
            sequence: numbers.0,
            body: numbers.1,
            topic: numbers.3,
            size_bytes: counts.0,
            state,
            delivery_count: counts.1,
            enqueued_at: times.0,
            enqueued_sequence: numbers.2,
            dead_letter_source: numbers.4,
            scheduled_at: times.1,
            ttl: times.2,
            expires_at: times.3,
            lock,
            overlay,
        },
    )
}

pub fn outcome() -> impl Strategy<Value = Outcome> {
    let fired =
        (any::<[u32; 4]>(), any::<[u64; 2]>(), any::<bool>()).prop_map(|(counts, late, more)| {
            Fired {
                activated: counts[0],
                dropped: counts[1],
                dead_lettered: counts[2],
                released: counts[3],
                late_ms_max: late[0],
                late_ms_sum: late[1],
                more,
            }
        });
    prop_oneof![
        Just(Outcome::Done),
        Just(Outcome::Spared),
        refusal().prop_map(Outcome::Refused),
        vec(number(), 0..4).prop_map(|sequences| Outcome::Sent { sequences }),
        (vec(delivery(), 0..3), any::<bool>())
            .prop_map(|(deliveries, more)| Outcome::Acquired { deliveries, more }),
        vec((any::<u32>(), refusal()), 0..3).prop_map(|refused| Outcome::Settled { refused }),
        vec(at(), 0..3).prop_map(|until| Outcome::Renewed { until }),
        any::<(u32, bool)>().prop_map(|(count, more)| Outcome::Deleted { count, more }),
        fired.prop_map(Outcome::Fired),
        vec(performed(), 0..4).prop_map(|performed| Outcome::Committed { performed }),
        (session_token(), at()).prop_map(|(token, until)| Outcome::Accepted { token, until }),
        (any::<u32>(), refused()).prop_map(|(done, refused)| Outcome::Arrived { done, refused }),
        (directory_row(), any::<bool>())
            .prop_map(|(row, fresh)| Outcome::Catalog(CatalogOutcome::Entry { row, fresh })),
        at().prop_map(|expires_at| {
            Outcome::Catalog(CatalogOutcome::JoinTokenCreated { expires_at })
        }),
        any::<u64>().prop_map(|node| Outcome::Catalog(CatalogOutcome::Joined { node })),
        at().prop_map(|at| Outcome::Catalog(CatalogOutcome::FaultRulesChanged { at })),
        namespace_row().prop_map(|row| Outcome::Catalog(CatalogOutcome::Namespace(row))),
        document_row().prop_map(|row| Outcome::Catalog(CatalogOutcome::Document(row))),
        join_fault().prop_map(|fault| Outcome::Catalog(CatalogOutcome::NotJoined(fault))),
    ]
}

fn join_fault() -> impl Strategy<Value = JoinFault> {
    prop_oneof![
        Just(JoinFault::Unknown),
        any::<u64>().prop_map(|node| JoinFault::Used { node }),
        any::<u64>().prop_map(|ms| JoinFault::Expired { ago: Span(ms) }),
        any::<(u64, u64)>().prop_map(|(of, asked)| JoinFault::OtherNode { of, asked }),
    ]
}
