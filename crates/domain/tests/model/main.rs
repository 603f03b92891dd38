//! The machine against a model too plain to be wrong: a `Vec` of messages and linear scans. Random
//! requests, at random times, gathered into entries and steps at random; after each step every
//! outcome, row and counter must be what the model says, and the harness's invariants hold.

#[path = "../support/mod.rs"]
mod support;

mod act;
mod due;
mod forwarding;
mod message;
mod plain;
mod play;
mod producers;
mod sessions;
mod settlement;
mod topics;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::act::{Move, large_send, moves};
use crate::play::Kind;

/// `PROPTEST_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        // A found case is kept as a row of a table, not as a seed.
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_group_agrees_with_the_model(
        duplicates in any::<bool>(),
        sessions in any::<bool>(),
        moves in vec(moves(), 1..100),
    ) {
        play::play(Kind { duplicates, sessions }, &moves);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases() / 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// With more messages than the machine looks up at a time, and fewer than one command may touch.
    #[test]
    fn a_large_group_agrees_with_the_model(
        duplicates in any::<bool>(),
        first in large_send(),
        moves in vec(moves(), 1..40),
    ) {
        let mut all = vec![first];
        all.extend(moves);
        // A large session ends in steps, of which the model knows nothing.
        play::play(Kind { duplicates, sessions: false }, &all);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases() / 5,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Every accepted publish has exactly the copies its rules demand, and they live as queues' do.
    #[test]
    fn a_topic_agrees_with_the_model(acts in topics::acts()) {
        topics::play(&acts);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases() / 50,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A forwarded message is in one place, whatever step is lost, repeated, late or out of turn.
    #[test]
    fn forwarding_agrees_with_the_model(acts in forwarding::acts()) {
        forwarding::play(&acts);
    }
}

/// The actions reach what the model is there for: not one kind of end is left out.
#[test]
fn the_moves_reach_every_end() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut sum, mut committed) = (domain::Counts::default(), 0);
    let mut deleted = 0;
    let mut refused = std::collections::BTreeMap::<&'static str, u32>::new();
    for game in 0..600 {
        let kind = Kind { duplicates: true, sessions: game % 2 == 0 };
        let tree = vec(moves(), 1..100).new_tree(&mut runner).expect("moves");
        let moves: Vec<Move> = tree.current();
        let seen = play::play(kind, &moves);
        sum.completed += seen.counts.completed;
        sum.cancelled += seen.counts.cancelled;
        sum.expired += seen.counts.expired;
        sum.deleted += seen.counts.deleted;
        sum.dead_lettered += seen.counts.dead_lettered;
        sum.deferred += seen.counts.deferred;
        committed += seen.committed;
        deleted += u32::from(seen.deleted);
        for name in seen.refused {
            *refused.entry(name).or_default() += 1;
        }
    }
    println!("{sum:?}\n{refused:?}");
    assert!(committed > 100, "only {committed} transactions were committed");
    for (what, count) in [
        ("completed", sum.completed),
        ("cancelled", sum.cancelled),
        ("expired", sum.expired),
        ("deleted", sum.deleted),
        ("dead-lettered", sum.dead_lettered),
        ("deferred", sum.deferred),
    ] {
        assert!(count > 50, "only {count} messages were {what}");
    }
    assert!(deleted > 5, "only {deleted} queues were deleted as idle");
    for name in [
        "MessagingEntityDisabled",
        "MessageLockLost",
        "SessionLockLost",
        "SessionCannotBeLocked",
        "NotSupportedException",
        "MessageNotFound",
        "InvalidOperationException",
        "ArgumentOutOfRangeException",
        "SerialGap",
        "ServiceTimeout",
        "TransactionException",
    ] {
        assert!(refused.get(name).is_some_and(|count| *count > 10), "{name} was hardly met");
    }
}
