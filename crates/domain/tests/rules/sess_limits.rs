//! SESS: state, lists, browsing, batch delete, and that what is asked stays bounded.

use domain::{
    APPLY_ROWS_MAX, Command, Key, Outcome, QueueProperties, Refusal, Row, SESSION_STATES_MAX,
    SessionCommand, SetSessionState,
};

use crate::ent::rows_of;
use crate::support::QUEUE;
use crate::table::InSession::*;
use crate::table::*;

#[test]
fn sess_15_state_is_the_holders_and_outlives_every_message() {
    let mut play = check(
        sessions(),
        [
            (0, Accept("a"), "accepted a until 60000", ""),
            (0, Within("a", State), "no state", ""),
            (1, Within("a", SetState(Some("x"))), "done", ""),
            (1, Within("a", State), "state x", ""),
            (2, Within("a", SetState(Some("longer"))), "done", ""),
            (3, Within("a", Close), "done", ""),
            (3, Within("a", State), "SessionLockLost", ""),
            (3, AcceptNext, "ServiceTimeout", ""),
            (4, Accept("a"), "accepted a until 60004", ""),
            (4, Within("a", State), "state longer", ""),
        ],
    );
    assert_eq!(play.info().size_bytes, 6);
    play.check([
        (5, Within("a", SetState(Some(""))), "done", ""),
        (5, Within("a", State), "state ", ""),
        (6, Within("a", SetState(None)), "done", ""),
        (6, Within("a", State), "no state", ""),
        (6, Within("a", SetState(None)), "done", ""),
    ]);
    assert_eq!((play.info().size_bytes, play.state().sessions.states), (0, 0));
}

fn set_state(play: &mut Table, bytes: usize) -> Outcome {
    let (entity, token) = (QUEUE, play.hold("a"));
    let state = Some(vec![7; bytes].into());
    play.session(SessionCommand::SetState(SetSessionState { origin: None, entity, token, state }))
}

#[test]
fn quota_11_a_state_is_no_larger_than_a_message() {
    let mut play = Table::new(sessions());
    play.accept(MAIN, Some("a"));
    assert_eq!(words(&set_state(&mut play, 256 * 1024)), "done");
    match set_state(&mut play, 256 * 1024 + 1) {
        Outcome::Refused(Refusal::MessageSizeExceeded { bytes, max, .. }) => {
            assert_eq!((bytes, max), (256 * 1024 + 1, 256 * 1024));
        }
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(play.info().size_bytes, 256 * 1024);
}

/// A group that begins with as many states as are allowed: only their count is looked at.
#[test]
fn quota_18_a_million_states_are_the_most() {
    let mut play = Table::new(sessions());
    play.accept(MAIN, Some("a"));
    let mut rows = play.group.rows.clone();
    let key = Key::EntityState(QUEUE);
    let Some(Row::EntityState(state)) = rows.0.get_mut(&key) else { panic!("no state") };
    state.sessions.states = SESSION_STATES_MAX;
    let mut machine = domain::Machine::new();
    let mut step = machine.step(&rows);
    let (entity, token) = (QUEUE, play.hold("a"));
    let state = Some("x".into());
    let set = SetSessionState { origin: None, entity, token, state };
    let entry = play.group.entry(vec![Command::Session(SessionCommand::SetState(set))]);
    let outcome = step.apply(entry).remove(0);
    let Outcome::Refused(Refusal::QuotaExceeded { used, max, .. }) = outcome else {
        panic!("not refused: {outcome:?}");
    };
    assert_eq!((used, max), (SESSION_STATES_MAX, SESSION_STATES_MAX));
}

/// Their size is the entity's.
#[test]
fn quota_32_states_count_for_the_size_of_the_entity() {
    let mut play = Table::new(sessions());
    play.accept(MAIN, Some("a"));
    set_state(&mut play, 1000);
    play.check([(1, send(m().session("a")), "sent 1", "1")]);
    assert_eq!(play.info().size_bytes, 1010);
}

#[test]
fn sess_17_a_list_names_sessions_with_messages_or_state_or_those_with_newer_state() {
    let mut play = check(
        sessions(),
        [
            (0, Send(vec![m().session("b"), m().session("d")]), "sent 1 2", "1 2"),
            (1, Accept("c"), "accepted c until 60001", "1 2"),
            (2, Within("c", SetState(Some("x"))), "done", "1 2"),
            (3, Accept("a"), "accepted a until 60003", "1 2"),
            (4, Within("a", SetState(Some("x"))), "done", "1 2"),
            (5, Accept("e"), "accepted e until 60005", "1 2"),
            (5, Accept("d"), "accepted d until 60005", "1 2"),
            (5, Within("d", Get(1)), "got 2", "1 2L"),
            (6, send(m().session("f").due(DAY)), "sent 3", "1 2L 3S"),
        ],
    );
    // Delivered ones are active; e has neither message nor state, f is yet to come.
    assert_eq!(play.listed(None), "a b c d");
    assert_eq!(play.listed(Some(0)), "a c");
    assert_eq!(play.listed(Some(2)), "a");
    assert_eq!(play.listed(Some(4)), "");
    play.check([
        (7, Within("c", SetState(Some("y"))), "done", "1 2L 3S"),
        (8, Within("a", SetState(None)), "done", "1 2L 3S"),
        (9, Defer(&[2]), "settled", "1 2D+1 3S"),
    ]);
    // Sending alone is no change of state, and what is deferred is not active.
    assert_eq!(play.listed(Some(4)), "c");
    assert_eq!(play.listed(None), "b c");

    let page = |from: Option<&str>| {
        let from = from.map(Into::into);
        domain::sessions(&play.group.rows, QUEUE, from, None, 1).expect("a page")
    };
    let first = page(None);
    assert_eq!(first.sessions[0].session.as_str(), "b");
    let next = first.next.expect("there is more");
    assert_eq!(page(Some(next.as_str())).sessions[0].session.as_str(), "c");
}

#[test]
fn peek_9_the_holder_sees_its_session_and_others_see_all() {
    check(
        sessions(),
        [
            (
                0,
                Send(vec![
                    m().session("a"),
                    m().session("b"),
                    m().session("a"),
                    m().session("a"),
                    m().session("a").due(DAY),
                    m().session("b").due(DAY),
                ]),
                "sent 1 2 3 4 5 6",
                "1 2 3 4 5S 6S",
            ),
            (0, Accept("a"), "accepted a until 60000", "1 2 3 4 5S 6S"),
            (0, Within("a", Get(2)), "got 1 3", "1L 2 3L 4 5S 6S"),
            (0, Defer(&[3]), "settled", "1L 2 3D+1 4 5S 6S"),
            (1, Within("a", Browse(0, 9)), "saw 1 3D 4 5S", "1L 2 3D+1 4 5S 6S"),
            (1, Within("a", Browse(2, 2)), "saw 3D 4", "1L 2 3D+1 4 5S 6S"),
            (1, Within("b", Browse(0, 9)), "SessionLockLost", "1L 2 3D+1 4 5S 6S"),
            (1, Peek(0, 9), "saw 1 2 3D 4 5S 6S", "1L 2 3D+1 4 5S 6S"),
        ],
    );
}

#[test]
fn batch_7_messages_of_a_session_are_deleted_by_its_holder() {
    check(
        sessions(),
        [
            (
                0,
                Send(vec![m().session("a"), m().session("b"), m().session("a"), m().session("a")]),
                "sent 1 2 3 4",
                "1 2 3 4",
            ),
            (1, Delete(9), "InvalidOperationException", "1 2 3 4"),
            (1, Accept("a"), "accepted a until 60001", "1 2 3 4"),
            (1, Within("a", Get(1)), "got 1", "1L 2 3 4"),
            (1, Within("a", Purge(0)), "ArgumentOutOfRangeException", "1L 2 3 4"),
            (1, Within("a", Purge(1)), "deleted 1", "1L 2 4 || deleted 1"),
            (1, Within("a", Purge(9)), "deleted 1", "1L 2 || deleted 2"),
            (1, Within("b", Purge(9)), "SessionLockLost", "1L 2 || deleted 2"),
        ],
    );
}

#[test]
fn ent_7_a_deleted_queue_takes_its_sessions_along() {
    let refused = "MessagingEntityNotFound";
    let mut play = check(
        sessions(),
        [
            (
                0,
                Send(vec![m().session("a"), m().session("b"), m().session("a")]),
                "sent 1 2 3",
                "1 2 3",
            ),
            (0, send(m().session("c").due(DAY)), "sent 4", "1 2 3 4S"),
            (0, Accept("a"), "accepted a until 60000", "1 2 3 4S"),
            (0, Within("a", Get(1)), "got 1", "1L 2 3 4S"),
            (0, Within("a", SetState(Some("x"))), "done", "1L 2 3 4S"),
            (1, DeleteQueue, "done", "no queue"),
            (1, Within("a", Get(1)), refused, "no queue"),
            (1, AcceptNext, refused, "no queue"),
            (60_000, FireSessions, "fired", "no queue"),
        ],
    );
    while play.play(60_001, Sweep).ends_with("more") {}
    assert_eq!(rows_of(&play.group.rows, QUEUE), 0);
}

/// A hold with thousands of messages in flight ends in steps, and is no hold from the first on.
#[test]
fn the_end_of_a_large_hold_is_done_in_bounded_steps() {
    for close in [true, false] {
        let mut play = Table::new(sessions());
        (0..3).for_each(|_| drop(play.send(vec![m().session("a"); 1000])));
        play.accept(MAIN, Some("a"));
        let mut held = 0;
        while held < 3000 {
            let outcome = play.within("a", Get(u32::MAX));
            held += outcome.split(' ').filter(|word| word.parse::<u64>().is_ok()).count();
            assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
        }
        let (mut steps, mut released) = (0, 0);
        match close {
            true => assert_eq!(play.play(1, Within("a", Close)), "done"),
            false => play.group.now = at(60_000),
        }
        assert_eq!(play.within("a", Get(1)), "SessionLockLost");
        loop {
            let fired = play.fire_sessions();
            assert!(play.group.written <= APPLY_ROWS_MAX as usize, "{} rows", play.group.written);
            (steps, released) = (steps + 1, released + fired.released);
            if !fired.more {
                break;
            }
            assert_eq!(words(&play.accept(MAIN, None)), "ServiceTimeout");
        }
        assert!(steps > 2, "{steps} steps");
        let count = play.message(MAIN, 3000).delivery_count;
        assert_eq!(count, u32::from(!close), "an end by its holder is not counted");
        assert!(released <= 3000);
        assert_eq!(words(&play.accept(MAIN, None)).split(' ').next(), Some("accepted"));
    }
}

/// Accepting the next looks at a few rows, however many sessions wait.
#[test]
fn accepting_the_next_of_many_sessions_scans_none_of_them() {
    let mut play = Table::new(QueueProperties { max_size_megabytes: 1024, ..sessions() });
    let mut messages = Vec::new();
    for id in 0..2000 {
        messages.push(m().session(&format!("s{id}")));
    }
    for chunk in messages.chunks(1000) {
        play.send(chunk.to_vec());
    }
    for id in 0..20 {
        assert_eq!(words(&play.accept(MAIN, None)), format!("accepted s{id} until 60000"));
        assert!(play.group.written < 10, "{} rows", play.group.written);
    }
}
