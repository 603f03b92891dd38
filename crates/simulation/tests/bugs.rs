//! Every invariant that rests on the model around the core can fail: bugs planted there are found.

use std::collections::BTreeSet;

use simulation::{Bug, Options, run};

/// Lives until a bug must have shown.
const SEEDS_MAX: u64 = 300;

fn is_found(bug: Bug, by: &[&str]) {
    is_found_in(Options::storm(), bug, by);
}

/// The invariants that a planted bug breaks, until one of `by` is among them.
fn is_found_in(life: Options, bug: Bug, by: &[&str]) {
    let options = Options { bug: Some(bug), ..life };
    let mut broken = BTreeSet::new();
    for seed in 0..SEEDS_MAX {
        if let Err(violation) = run(seed, &options) {
            broken.insert(violation.broken.invariant);
            if by.contains(&violation.broken.invariant) {
                println!("{bug:?}: seed {seed}");
                return;
            }
        }
    }
    panic!("{bug:?} broke {broken:?} in {SEEDS_MAX} seeds, and none of {by:?}");
}

#[test]
fn an_entry_acknowledged_before_it_is_synced_is_missed() {
    is_found(Bug::AcknowledgesBeforeSync, &["committed"]);
}

#[test]
fn a_vote_given_before_it_is_synced_is_given_twice() {
    is_found(Bug::VotesBeforeSync, &["votes"]);
}

#[test]
fn a_wiped_node_that_votes_under_its_old_id_is_noticed() {
    is_found(Bug::VotesUnderOldId, &["votes", "committed", "recovered"]);
}

#[test]
fn an_answer_for_a_former_life_is_noticed() {
    is_found(Bug::AnswersForOldLife, &["votes", "committed", "recovered"]);
}

#[test]
fn a_replica_that_returns_as_a_voter_at_once_is_noticed() {
    is_found(Bug::ReturnsAsVoter, &["votes", "committed", "recovered"]);
}

#[test]
fn a_log_shorter_than_its_mark_is_missed() {
    is_found(Bug::IgnoresMark, &["votes", "committed"]);
}

/// TIME-2.
#[test]
fn time_2_a_stamp_that_no_majority_agrees_with_is_noticed() {
    is_found(Bug::StampsWithoutAgreement, &["stamps"]);
}

/// SEND-8.
#[test]
fn send_8_a_repeat_that_is_not_known_for_one_is_noticed() {
    is_found(Bug::ForgetsOrigins, &["once"]);
}

/// TX-2.
#[test]
fn tx_2_a_transaction_committed_in_part_is_noticed() {
    is_found(Bug::CommitsInPart, &["atomic"]);
}

/// TX-9: in usual lives, where more is settled than in storms.
#[test]
fn tx_9_a_settlement_that_waits_elsewhere_and_is_done_is_noticed() {
    is_found_in(Options::default(), Bug::SettlesWithheld, &["one_lock"]);
}

/// MSG-10.
#[test]
fn msg_10_a_stream_out_of_order_is_noticed() {
    is_found(Bug::ReordersStreams, &["once"]);
}

/// TIME-8.
#[test]
fn time_8_deadlines_that_nobody_fires_are_noticed() {
    is_found(Bug::FiresNothing, &["lateness", "settled"]);
}

#[test]
fn a_replica_that_nobody_admits_is_noticed() {
    is_found(Bug::AdmitsNobody, &["recovered"]);
}

/// RULE-14.
#[test]
fn rule_14_a_copy_that_is_not_made_is_noticed() {
    is_found_in(Options::topics(), Bug::LosesCopy, &["copies"]);
}

/// RULE-5.
#[test]
fn rule_5_a_copy_too_many_is_noticed() {
    is_found_in(Options::topics(), Bug::DoublesCopy, &["copies"]);
}

/// RULE-41.
#[test]
fn rule_41_matching_that_begins_again_is_noticed() {
    is_found_in(Options::topics(), Bug::ForgetsProgress, &["copies", "one_place"]);
}

/// SESS-9.
#[test]
fn sess_9_a_session_granted_to_two_is_noticed() {
    is_found_in(Options::topics(), Bug::GrantsSessionTwice, &["one_holder"]);
}

/// FWD-4: every way that a message comes twice or never.
#[test]
fn fwd_4_a_repeat_of_a_forwarder_that_is_done_twice_is_noticed() {
    is_found(Bug::ForgetsArrivals, &["forwarding"]);
}

#[test]
fn fwd_4_a_shipment_that_is_lost_is_noticed() {
    is_found(Bug::LosesShipment, &["forwarding"]);
}

#[test]
fn fwd_4_a_cut_that_nobody_heeds_is_noticed() {
    is_found_in(Options::default(), Bug::HeedsNoCut, &["cuts"]);
}

/// FWD-8, FWD-14.
#[test]
fn fwd_8_fwd_14_a_refusal_that_is_forgotten_is_noticed() {
    is_found(Bug::ForgetsRefusals, &["forwarding"]);
}
