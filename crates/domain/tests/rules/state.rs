//! STATE: status.

use domain::{Effect, EntityStatus, Outcome, QueueProperties, Refusal};

use crate::table::*;

/// Something of every kind to ask for: 1 and 2 locked, 3 deferred, 4 scheduled, 5 fresh, 6 dead and
/// 7 dead under a lock.
fn with_everything() -> Table {
    check(
        queue(),
        [
            (
                0,
                Send(vec![m(), m(), m(), m().due(DAY), m(), m(), m()]),
                "sent 1 2 3 4 5 6 7",
                "1 2 3 4S 5 6 7",
            ),
            (0, Take(9), "got 1 2 3 5 6 7", "1L 2L 3L 4S 5L 6L 7L"),
            (0, Defer(&[3]), "settled", "1L 2L 3D+1 4S 5L 6L 7L"),
            (0, DeadLetter(&[6, 7]), "settled", "1L 2L 3D+1 4S 5L | 6 7"),
            (0, Release(&[5]), "settled", "1L 2L 3D+1 4S 5 | 6 7"),
            (0, dead(Take(1)), "got 6", "1L 2L 3D+1 4S 5 | 6L 7"),
        ],
    )
}

const STORED: &str = "1L 2L 3D+1 4S 5 | 6L 7";
const OFF: &str = "MessagingEntityDisabled";

fn refuses_sends(play: &mut Table) {
    play.check([(1, send(m()), OFF, STORED), (1, send(m().due(50)), OFF, STORED)]);
}

fn refuses_receives(play: &mut Table) {
    play.check([
        (1, Take(1), OFF, STORED),
        (1, Complete(&[1]), OFF, STORED),
        (1, Abandon(&[1]), OFF, STORED),
        (1, Defer(&[1]), OFF, STORED),
        (1, DeadLetter(&[1]), OFF, STORED),
        (1, Renew(&[1]), OFF, STORED),
        (1, Peek(0, 1), OFF, STORED),
        (1, Deferred(&[3]), OFF, STORED),
        (1, Delete(1), OFF, STORED),
        // STATE-7.
        (1, dead(Take(1)), OFF, STORED),
        (1, dead(Complete(&[6])), OFF, STORED),
        (1, dead(Peek(0, 1)), OFF, STORED),
    ]);
}

#[test]
fn state_1_each_status_can_be_set_and_lifted() {
    let all = [
        EntityStatus::Disabled,
        EntityStatus::SendDisabled,
        EntityStatus::ReceiveDisabled,
        EntityStatus::Active,
    ];
    let mut play = Table::new(queue());
    for from in all {
        for to in all {
            assert_eq!(play.play(0, Status(from)), "done");
            assert_eq!(play.play(0, Status(to)), "done");
            assert_eq!(play.info().properties.status, to);
        }
    }
    // A queue may be created so, too.
    let play = Table::new(QueueProperties { status: EntityStatus::SendDisabled, ..queue() });
    assert_eq!(play.info().properties.status, EntityStatus::SendDisabled);
}

#[test]
fn state_2_the_refusal_names_the_status() {
    for (status, name) in
        [(EntityStatus::Disabled, "Disabled"), (EntityStatus::SendDisabled, "SendDisabled")]
    {
        let mut play = Table::new(QueueProperties { status, ..queue() });
        let refused = Outcome::Refused(Refusal::EntityDisabled { status: name });
        assert_eq!(play.send(vec![m()]), refused);
    }
    let status = EntityStatus::ReceiveDisabled;
    let mut play = Table::new(QueueProperties { status, ..queue() });
    let refused = Outcome::Refused(Refusal::EntityDisabled { status: "ReceiveDisabled" });
    assert_eq!(play.take(MAIN, 1), refused);
}

#[test]
fn state_3_a_disabled_queue_neither_gains_nor_loses_messages() {
    let mut play = with_everything();
    play.play(1, Status(EntityStatus::Disabled));
    refuses_sends(&mut play);
    refuses_receives(&mut play);
    play.check([
        (1, Cancel(&[4]), OFF, STORED),
        // Locks run out; nothing expires or activates.
        (2 * DAY, FireAll, "fired released 3", "1 2 3D+1 4S 5 | 6 7"),
        (2 * DAY, FireAll, "fired", "1 2 3D+1 4S 5 | 6 7"),
        (3 * DAY, Status(EntityStatus::Active), "done", "1 2 3D+1 4S 5 | 6 7"),
        (3 * DAY, FireAll, "fired activated 1", "1 2 3D+1 5 8 | 6 7"),
    ]);
}

#[test]
fn state_3_a_lock_that_ends_meanwhile_leaves_its_message_to_expire_later() {
    // Expired under a lock, and the deadline was passed because of it.
    check(
        QueueProperties { default_ttl: ms(SECOND), ..queue() },
        [
            (0, Send(vec![m().ttl(10), m(), m()]), "sent 1 2 3", "1 2 3"),
            (0, Take(2), "got 1 2", "1L 2L 3"),
            (2000, FireAll, "fired dropped 1", "1L 2L || expired 1"),
            (2000, Status(EntityStatus::Disabled), "done", "1L 2L || expired 1"),
            (MINUTE, FireAll, "fired released 2", "1 2 || expired 1"),
            (2 * MINUTE, Status(EntityStatus::Active), "done", "1 2 || expired 1"),
            (2 * MINUTE, FireAll, "fired dropped 2", "|| expired 3"),
        ],
    );
}

#[test]
fn state_3_activation_arms_the_timers_again() {
    let mut play = check(
        QueueProperties { default_ttl: ms(SECOND), ..queue() },
        [(0, Send(vec![m(), m().ttl(10), m().due(DAY)]), "sent 1 2 3", "1 2 3S")],
    );
    // `Timers` of the harness compares what is armed with the rows after every step.
    play.play(1, Status(EntityStatus::Disabled));
    play.play(2, Status(EntityStatus::Active));
    let due = |effect: &Effect| match effect {
        Effect::Next { due, .. } => Some(due.since(at(0)).0),
        _ => None,
    };
    let mut armed: Vec<_> = play.group.effects.iter().filter_map(due).collect();
    armed.sort_unstable();
    assert_eq!(armed, [10, SECOND, DAY]);
}

#[test]
fn state_4_send_disabled_refuses_sends_only() {
    let mut play = with_everything();
    play.play(1, Status(EntityStatus::SendDisabled));
    refuses_sends(&mut play);
    play.check([
        (1, Peek(5, 1), "saw 5", STORED),
        (1, Renew(&[1]), "until 60001", STORED),
        (1, Take(9), "got 5", "1L 2L 3D+1 4S 5L | 6L 7"),
        (1, Complete(&[5]), "settled", "1L 2L 3D+1 4S | 6L 7 | completed 1"),
        (1, Deferred(&[3]), "got 3", "1L 2L 3DL+1 4S | 6L 7 | completed 1"),
        (1, dead(Delete(9)), "deleted 1", "1L 2L 3DL+1 4S | 6L | completed 1 deleted 1"),
        (MINUTE, FireLocks, "fired released 2", "1L 2+1 3DL+1 4S | 6 | completed 1 deleted 1"),
    ]);
}

#[test]
fn state_4_receive_disabled_refuses_receives_and_locks_run_out_uncounted() {
    let mut play = with_everything();
    play.play(1, Status(EntityStatus::ReceiveDisabled));
    refuses_receives(&mut play);
    play.check([
        (2, send(m()), "sent 8", "1L 2L 3D+1 4S 5 8 | 6L 7"),
        (MINUTE, FireLocks, "fired released 3", "1 2 3D+1 4S 5 8 | 6 7"),
        (DAY, FireAll, "fired activated 1", "1 2 3D+1 5 8 9 | 6 7"),
        (DAY, Status(EntityStatus::Active), "done", "1 2 3D+1 5 8 9 | 6 7"),
        (DAY, Take(1), "got 1", "1L 2 3D+1 5 8 9 | 6 7"),
    ]);
}

#[test]
fn state_7_the_dead_letter_queue_follows_its_parents_permission_to_receive() {
    for (status, answer) in [
        (EntityStatus::Active, "got 7"),
        (EntityStatus::SendDisabled, "got 7"),
        (EntityStatus::ReceiveDisabled, OFF),
        (EntityStatus::Disabled, OFF),
    ] {
        let mut play = with_everything();
        play.play(1, Status(status));
        assert_eq!(play.play(1, dead(Take(1))), answer, "{status:?}");
    }
}
