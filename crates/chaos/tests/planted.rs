//! The checker, checked: histories of a broker too plain to be wrong pass, and each of the bugs that can
//! be planted in that broker is caught, under the promise that it breaks.

mod model;

use chaos::{Promise, check};
use model::{Bug, Model};
use proptest::prelude::*;

/// Seeds within which each bug must show: it needs its occasion.
const SEEDS: u64 = 12;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_a_right_broker_does_breaks_no_promise(seed in any::<u64>()) {
        let run = Model::new(seed, None).run();
        prop_assert!(run.history.deliveries.len() > 100, "too little happened to prove anything");
        let broken = check(&run);
        prop_assert!(broken.is_empty(), "{:#?}", broken);
    }
}

#[test]
fn each_planted_bug_is_caught_under_the_promise_it_breaks() {
    let mut missed = Vec::new();
    for (bug, promise) in BUGS {
        let caught = (0..SEEDS).any(|seed| {
            let broken = check(&Model::new(seed, Some(*bug)).run());
            broken.iter().any(|violation| violation.promise == *promise)
        });
        if !caught {
            missed.push((bug, promise));
        }
    }
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

/// What would be wrong at any other time is right when the node ends that a holder is connected to.
#[test]
fn lock_28_what_a_nodes_end_gives_back_breaks_no_promise() {
    let has_two_holders = |run: &chaos::Run| {
        check(run).iter().any(|violation| violation.promise == Promise::OneHolder)
    };
    let run = (0..SEEDS).map(|seed| Model::new(seed, Some(Bug::FreesUnheard)).run());
    let mut run = run.into_iter().find(&has_two_holders).expect("it is caught");
    run.node_ends_ms = vec![(0, u64::MAX)];
    assert!(has_two_holders(&run), "its sessions hang on nothing");
    run.entities.0.values_mut().for_each(|entity| entity.hangs_on_connections = true);
    assert!(!has_two_holders(&run));
}

/// What a backup promises is kept by one that is made when it says so, and broken by one that is older.
#[test]
fn a_restored_cluster_has_what_was_acknowledged_before_its_backup() {
    let mut caught = 0;
    for seed in 0..SEEDS {
        let run = Model::new(seed, None).run_and_restore(false);
        let broken = check(&run);
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        let late = run.restored.expect("it was");
        let since = |at_ms: u64| at_ms > late.restored_ms;
        let again = run.history.deliveries.iter().filter(|it| since(it.at_ms)).count();
        assert!(again > 10, "seed {seed}: {again} deliveries prove nothing");
        let broken = check(&Model::new(seed, None).run_and_restore(true));
        let promises = [Promise::NothingLost, Promise::SettledOnce, Promise::CountersRight];
        caught += u64::from(promises.iter().all(|it| broken.iter().any(|of| of.promise == *it)));
    }
    assert_eq!(caught, SEEDS, "an old backup is as good as one of its time");
}

const BUGS: &[(Bug, Promise)] = &[
    (Bug::LosesMessage, Promise::NothingLost),
    (Bug::DropsInsteadOfDeadLettering, Promise::NothingLost),
    (Bug::SkipsCopy, Promise::NothingLost),
    (Bug::StoresRefused, Promise::NothingPhantom),
    (Bug::CopiesToAll, Promise::NothingPhantom),
    (Bug::StoresTwice, Promise::StoredOnce),
    (Bug::ForwardsTwice, Promise::StoredOnce),
    (Bug::ForgetsDuplicates, Promise::StoredOnce),
    (Bug::ForgetsCompletion, Promise::SettledOnce),
    (Bug::DeliversExpired, Promise::NotDeliveredAfterExpiry),
    (Bug::ExpiresEarly, Promise::NotExpiredEarly),
    (Bug::NeverSweeps, Promise::ExpiredInTheEnd),
    (Bug::StampsWrong, Promise::RightInstants),
    (Bug::WrongReason, Promise::DeadLetteredRight),
    (Bug::LocksTwice, Promise::OneLock),
    (Bug::AcceptsStaleToken, Promise::StaleTokenRefused),
    (Bug::ForgetsCount, Promise::RightCount),
    (Bug::DeliversTooOften, Promise::RightCount),
    (Bug::NumbersBackwards, Promise::NumbersInOrder),
    (Bug::MixesSession, Promise::SessionInOrder),
    (Bug::GrantsSessionTwice, Promise::OneHolder),
    (Bug::ActivatesEarly, Promise::ScheduledRight),
    (Bug::IgnoresCancel, Promise::ScheduledRight),
    (Bug::CommitsInPart, Promise::AllOrNothing),
    (Bug::CountsWrong, Promise::CountersRight),
    (Bug::ReplicaDiffers, Promise::ReplicasEqual),
    (Bug::DeletesUsed, Promise::TemporaryRight),
    (Bug::KeepsIdle, Promise::TemporaryRight),
    (Bug::DefersUncounted, Promise::RightCount),
    (Bug::HandsOutDeferred, Promise::DeferredRight),
    (Bug::ForgetsDeferred, Promise::DeferredRight),
    (Bug::CountsDead, Promise::RightCount),
    (Bug::CountsDeadLettering, Promise::RightCount),
    (Bug::CountsReleased, Promise::RightCount),
    (Bug::SettlesUncommitted, Promise::NothingLost),
    (Bug::KeepsRolledBack, Promise::LiveTokenGood),
    (Bug::SettlesAtOnce, Promise::SettledByCommit),
    (Bug::KeepsGivenBack, Promise::SessionReleased),
    (Bug::CountsGivenBack, Promise::RightCount),
    (Bug::ForgetsLapse, Promise::RightCount),
    (Bug::FreesUnheard, Promise::OneHolder),
];
