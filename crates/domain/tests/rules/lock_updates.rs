//! LOCK-23: an update of an entity ends no lock and strands no message: every property that can change,
//! by what lies there.

use domain::{
    AccessRights, AuthorizationRule, EntityKind, EntityProperty, EntityStatus, Mutability, Outcome,
    Properties, QueueProperties,
};

use crate::forwards::to;
use crate::support::World;
use crate::table::*;

type Change = fn(&mut QueueProperties);

/// Values to change a property to.
fn changes(name: &str) -> &'static [Change] {
    match name {
        "status" => &[
            |p| p.status = EntityStatus::Disabled,
            |p| p.status = EntityStatus::SendDisabled,
            |p| p.status = EntityStatus::ReceiveDisabled,
        ],
        "lock_duration" => {
            &[|p| p.lock_duration = ms(5 * SECOND), |p| p.lock_duration = ms(5 * MINUTE)]
        }
        "duplicate_detection_window" => &[|p| p.duplicate_detection_window = ms(MINUTE)],
        "default_ttl" => &[|p| p.default_ttl = ms(HOUR), |p| p.default_ttl = ms(DAY)],
        "dead_letter_on_expiration" => &[|p| p.dead_letter_on_expiration = true],
        "auto_delete_on_idle" => &[|p| p.auto_delete_on_idle = ms(5 * MINUTE)],
        "max_size_megabytes" => &[|p| p.max_size_megabytes = 5120],
        "max_message_size_kilobytes" => &[|p| p.max_message_size_kilobytes = 1024],
        "max_delivery_count" => &[|p| p.max_delivery_count = 2, |p| p.max_delivery_count = 100],
        "forward_to" => &[|p| p.forward_to = Some("elsewhere".into())],
        "forward_dead_letters_to" => &[|p| p.forward_dead_letters_to = Some("elsewhere".into())],
        "enable_batched_operations" => &[|p| p.enable_batched_operations = false],
        "user_metadata" => &[|p| p.user_metadata = "told".into()],
        "authorization_rules" => &[|p| {
            p.authorization_rules = vec![AuthorizationRule {
                name: "k".into(),
                rights: AccessRights { listen: true, send: false, manage: false },
                primary_key: "p".into(),
                secondary_key: "s".into(),
                created_at: at(0),
                modified_at: at(0),
            }]
        }],
        "enable_express" => &[|p| p.enable_express = true],
        "support_ordering" => &[|p| p.support_ordering = false],
        // Of topics and subscriptions only.
        "dead_letter_on_filter_errors" | "filter_before_publishing" => &[],
        other => panic!("what does a change of {other} do to locks? Add it here"),
    }
}

fn each(check: impl Fn(&str, Change)) {
    let all = EntityProperty::all_of(EntityKind::Queue);
    let changeable = all.filter(|property| matches!(property.mutability, Mutability::Always));
    let mut count = 0;
    for property in changeable {
        for change in changes(property.name) {
            count += 1;
            check(property.name, *change);
        }
    }
    assert!(count > 12, "{count}");
}

/// 1 held, 2 deferred, 3 deferred and held, 4 available, 5 scheduled; then the change.
fn changed(properties: QueueProperties, change: Change) -> Table {
    let mut play = check(
        properties,
        [
            (
                0,
                Send(vec![m(), m(), m(), m(), m().due(10 * SECOND)]),
                "sent 1 2 3 4 5",
                "1 2 3 4 5S",
            ),
            (0, Take(3), "got 1 2 3", "1L 2L 3L 4 5S"),
            (0, Defer(&[2, 3]), "settled", "1L 2D+1 3D+1 4 5S"),
            (0, Deferred(&[3]), "got 3", "1L 2D+1 3DL+1 4 5S"),
        ],
    );
    let locks = |play: &Table| [1, 3].map(|number| play.token(MAIN, number));
    let (before, mut after) = (locks(&play), play.info().properties);
    change(&mut after);
    play.check([(SECOND, Update(change), "done", "1L 2D+1 3DL+1 4 5S")]);
    assert_eq!((play.info().properties, locks(&play)), (after, before));
    play
}

#[test]
fn lock_23_what_is_held_is_renewed_and_settled_after_an_update() {
    each(|name, change| {
        for (ends, left) in [
            (Complete(&[1, 3]), "2D+1 4 5S | | completed 2"),
            (DeadLetter(&[1, 3]), "2D+1 4 5S | 1 3+1"),
        ] {
            let mut play = changed(queue(), change);
            if play.info().properties.status.refuses_receive() {
                // STATE-4: not now, and the lock goes on.
                assert_eq!(
                    play.play(2 * SECOND, Renew(&[1, 3])),
                    "MessagingEntityDisabled",
                    "{name}"
                );
                play.play(2 * SECOND, Status(EntityStatus::Active));
            }
            let renewed = play.play(3 * SECOND, Renew(&[1, 3]));
            assert!(renewed.starts_with("until"), "{name}: {renewed}");
            assert_eq!(play.play(4 * SECOND, ends), "settled", "{name}");
            assert_eq!(play.look(), left, "{name}");
        }
    });
}

#[test]
fn lock_23_what_is_deferred_or_scheduled_is_had_after_an_update() {
    each(|name, change| {
        let mut play = changed(queue(), change);
        if play.info().properties.status.refuses_receive() {
            play.play(2 * SECOND, Status(EntityStatus::Active));
        }
        assert_eq!(play.play(2 * SECOND, Deferred(&[2])), "got 2", "{name}");
        assert_eq!(play.play(3 * SECOND, Complete(&[2])), "settled", "{name}");
        assert_eq!(play.play(4 * SECOND, Release(&[1, 3])), "settled", "{name}");
        assert_eq!(play.look(), "1 3D+1 4 5S | | completed 1", "{name}");
        play.play(10 * SECOND, FireAll);
        assert_eq!(play.look(), "1 3D+1 4 6 | | completed 1", "{name}");
        let received = play.play(11 * SECOND, Take(9));
        match play.info().properties.forward_to.is_some() {
            true => assert_eq!(received, "InvalidOperationException", "FWD-3"),
            false => assert_eq!(received, "got 1 4 6", "{name}"),
        }
    });
}

#[test]
fn lock_23_a_session_is_held_after_an_update() {
    each(|name, change| {
        let mut play = check(
            sessions(),
            [
                (0, Send(vec![m().session("a"), m().session("a")]), "sent 1 2", "1 2"),
                (0, Accept("a"), "accepted a until 60000", "1 2"),
                (0, Within("a", InSession::Get(2)), "got 1 2", "1L 2L"),
                (0, Defer(&[2]), "settled", "1L 2D+1"),
            ],
        );
        let mut properties = play.info().properties;
        change(&mut properties);
        if domain::validate::queue_properties(&properties).is_err() {
            return; // FWD-1.
        }
        assert_eq!(play.play(SECOND, Update(change)), "done", "{name}");
        if play.info().properties.status.refuses_receive() {
            play.play(2 * SECOND, Status(EntityStatus::Active));
        }
        let renewed = play.play(3 * SECOND, Within("a", InSession::Renewed));
        assert!(renewed.starts_with("until"), "{name}: {renewed}");
        assert_eq!(
            play.play(3 * SECOND, Within("a", InSession::Deferral(&[2]))),
            "got 2",
            "{name}"
        );
        assert_eq!(play.play(3 * SECOND, Complete(&[1, 2])), "settled", "{name}");
    });
}

/// FWD-3, FWD-15: what is deferred is not forwarded, and can be had; in a transaction what is held can
/// be settled.
#[test]
fn lock_23_fwd_3_what_forwarding_does_not_move_is_not_stranded() {
    let mut world = World::new(2);
    world.queue("elsewhere", queue());
    world.queue("a", queue());
    world.send("a", vec![m(), m()]);
    let queue = world.main("a");
    let Outcome::Acquired { deliveries, .. } = world.take("a", domain::SubQueue::Main) else {
        panic!("nothing to take")
    };
    let settle = |token, disposition| domain::Settle {
        origin: None,
        queue,
        settlements: vec![domain::Settlement { token, disposition }],
        atomic: true,
    };
    let tokens: Vec<_> = deliveries.iter().map(|delivery| lock(delivery).token).collect();
    let deferring = settle(tokens[0], domain::Disposition::Defer { properties: Properties::new() });
    assert_eq!(words(&world.apply("a", domain::Command::Settle(deferring))), "settled");
    assert_eq!(world.update("a", |p| p.forward_to = to("elsewhere").forward_to), Outcome::Done);
    let (of, now) = (world.id("a"), at(0));
    let held = domain::check_held(&world.group(of).rows, queue, tokens[1], now);
    assert_eq!(held, Ok(()));
    let receive = domain::ReceiveDeferred {
        origin: None,
        queue,
        receiver: RECEIVER,
        numbers: vec![tokens[0].sequence],
    };
    let received = world.apply("a", domain::Command::ReceiveDeferred(receive));
    assert_eq!(words(&received), "got 1");
}
