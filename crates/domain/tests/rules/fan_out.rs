//! What the other groups say of topics and subscriptions: numbers, lifetimes, schedules, sizes,
//! counters, deletion.

use domain::{
    Command, Counts, DeadlineKind, Disposition, EntityId, EntityStatus, Key, MessageState,
    NewMessage, NewRule, Outcome, QueueId, Row, SequenceNumber, Span, SubscriptionProperties,
    TopicProperties,
};

use crate::ent::rows_of;
use crate::table::{DAY, MINUTE, RECEIVER, SECOND, Sent, abandon, at, m, ms, words};
use crate::topic::*;

fn derived(own: u64) -> SubscriptionProperties {
    SubscriptionProperties { default_ttl: Span(own), ..subscription() }
}

#[test]
fn seq_9_each_subscription_counts_for_itself_and_remembers_the_topics_number() {
    let mut play = Topic::with(["a"]);
    play.send(m());
    play.subscribe("b", subscription(), NewRule::default());
    play.send(m());
    let numbers = |play: &Topic, name: &str| -> Vec<(u64, u64)> {
        let seen = play.peek(play.main(name));
        seen.iter().map(|d| (d.sequence.0, d.enqueued_sequence.0)).collect()
    };
    assert_eq!(numbers(&play, "a"), [(1, 1), (2, 2)]);
    assert_eq!(numbers(&play, "b"), [(1, 2)]);
    let taken = play.take(play.main("b"), 1);
    assert_eq!((taken[0].enqueued_sequence.0, taken[0].topic), (2, Some(TOPIC)));
}

#[test]
fn seq_10_a_copy_takes_the_instant_its_topic_accepted_it() {
    let mut play = Topic::with(["a"]);
    play.at(7).send(m());
    play.send(m().due(20));
    play.at(25).fire_all();
    let times: Vec<_> = play.peek(play.main("a")).iter().map(|d| d.enqueued_at).collect();
    assert_eq!(times, [at(7), at(25)]);
}

#[test]
fn sess_3_a_copy_without_a_session_is_a_dead_letter_where_one_is_required() {
    let mut play = Topic::with(["plain"]);
    let ordered = SubscriptionProperties { requires_session: true, ..subscription() };
    play.subscribe("ordered", ordered, NewRule::default());
    play.send(m());
    play.send(NewMessage { session_id: Some("s".to_owned()), ..m() });
    assert_eq!((play.look("plain"), play.look("ordered")), ("1 2".to_owned(), "2 | 1".to_owned()));
    let dead = play.peek(play.dead("ordered")).remove(0);
    let overlay = dead.overlay.expect("a reason");
    let text = |name| match overlay.set.get(name) {
        Some(domain::Value::String(text)) => text.as_str(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(domain::DEAD_LETTER_REASON), "Session ID is null.");
    assert_eq!(
        text(domain::DEAD_LETTER_ERROR_DESCRIPTION),
        "Session enabled entity doesn't allow a message whose session identifier is null."
    );
}

#[test]
fn ttl_7_a_copy_lives_as_long_as_message_topic_and_subscription_let_it() {
    for (message, topic_ttl, own, expected) in [
        (Some(30), 20, 10, Some(10)),
        (Some(30), 10, 20, Some(10)),
        (Some(10), 20, 30, Some(10)),
        (None, 20, 10, Some(10)),
        (None, 10, 20, Some(10)),
        (None, u64::MAX, 10, Some(10)),
        (None, u64::MAX, u64::MAX, None),
    ] {
        let seconds = |n: u64| Span(n.saturating_mul(SECOND));
        let mut play = Topic::new(TopicProperties { default_ttl: seconds(topic_ttl), ..topic() });
        play.subscribe("a", derived(own.saturating_mul(SECOND)), NewRule::default());
        play.send(NewMessage { ttl: message.map(seconds), ..m() });
        let taken = play.take(play.main("a"), 1).remove(0);
        assert_eq!(taken.ttl, expected.map(seconds), "{message:?} {topic_ttl} {own}");
        play.settle(play.main("a"), 1, Disposition::Release);
        if let Some(expected) = expected {
            play.at(expected * SECOND - 1).fire_all();
            assert_eq!(play.look("a"), "1");
            play.at(expected * SECOND).fire_all();
            assert_eq!(play.look("a"), "");
        }
    }
}

/// TTL-24: a changed default of the topic re-times the copies that have no time of their own.
#[test]
fn ttl_24_copies_follow_a_changed_default_of_the_topic() {
    let mut play = Topic::new(topic());
    play.subscribe("a", derived(60 * SECOND), NewRule::default());
    play.subscribe("b", subscription(), NewRule::default());
    play.send_all(vec![m(), m().ttl(DAY)]);
    assert_eq!(play.update(|topic| topic.default_ttl = ms(20 * SECOND)), "done");
    play.at(20 * SECOND).fire_all();
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("2", "2"));
    // TTL-26: raised again, the next ones live longer.
    play.send(m());
    play.update(|topic| topic.default_ttl = Span::MAX);
    play.at(79 * SECOND).fire_all();
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("3", "2 3"));
    play.at(80 * SECOND).fire_all();
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("", "2 3"));
    // And what the subscription is told stays what it was told.
    assert_eq!(subscription_properties(&play.info(play.id("a"))).default_ttl, ms(60 * SECOND));
    assert_eq!(subscription_properties(&play.info(play.id("b"))).default_ttl, Span::MAX);
}

#[test]
fn sched_9_a_scheduled_message_waits_at_the_topic_for_the_rules_of_its_time() {
    let mut play = Topic::with(["a"]);
    assert_eq!(play.send_all(vec![m().due(50), m(), m().due(40)]), "sent 1 2 3");
    assert_eq!((play.look("a").as_str(), play.bodies()), ("1", 3));
    play.subscribe("b", subscription(), NewRule::default());
    assert_eq!(play.at(50).fire(TOPIC, DeadlineKind::Scheduled).activated, 2);
    // SCHED-7: in order of (due, number); SEQ-6: under new numbers of the topic.
    let of = |play: &Topic, name: &str| -> Vec<_> {
        let seen = play.peek(play.main(name));
        seen.iter().map(|d| (d.sequence.0, d.enqueued_sequence.0, d.body.0)).collect()
    };
    assert_eq!(of(&play, "a"), [(1, 2, 2), (2, 4, 4), (3, 5, 5)]);
    assert_eq!(of(&play, "b"), [(1, 4, 4), (2, 5, 5)]);
    let counts = play.info(TOPIC).counts;
    assert_eq!(counts, Counts { accepted: 3, published: 3, ..Counts::default() });
}

#[test]
fn sched_3_what_waits_at_a_topic_can_be_cancelled_there() {
    let mut play = Topic::with(["a"]);
    play.send(m().due(50));
    let cancel = |entity, number| {
        let numbers = vec![SequenceNumber(number)];
        Command::CancelScheduled(domain::CancelScheduled { origin: None, entity, numbers })
    };
    let a = play.id("a");
    let refused = play.group.apply(cancel(a, 1));
    assert_eq!(words(&refused), "InvalidOperationException");
    assert_eq!(play.group.apply(cancel(TOPIC, 1)), Outcome::Done);
    let info = play.info(TOPIC);
    assert_eq!(info.counts, Counts { accepted: 1, cancelled: 1, ..Counts::default() });
    assert_eq!((info.size_bytes, play.bodies()), (0, 0));
    play.at(50).fire_all();
    assert_eq!(play.look("a"), "");
}

/// Activations of one entry are bounded by the copies they make.
#[test]
fn sched_5_activations_at_a_topic_are_bounded_by_their_copies() {
    let mut play = Topic::with(["a", "b", "c"]);
    play.send_all((0..4).map(|_| m().due(50)).collect());
    let fire = domain::Fire { entity: TOPIC, kind: DeadlineKind::Scheduled, count_max: 4 };
    let fired = play.at(50).fired(Command::Fire(fire));
    assert_eq!((fired.activated, fired.more), (2, true));
    play.fire_all();
    assert_eq!(play.look("c"), "1 2 3 4");
}

#[test]
fn dup_7_a_topic_drops_duplicates_before_any_copy() {
    let mut play = Topic::new(TopicProperties { requires_duplicate_detection: true, ..topic() });
    play.subscribe("a", subscription(), NewRule::default());
    assert_eq!(play.send_all(vec![m().id("x"), m().id("x"), m().id("y").due(50)]), "sent 1 1 2");
    assert_eq!(play.send(m().id("y")), "sent 2");
    assert_eq!(play.look("a"), "1");
    play.at(50).fire_all();
    assert_eq!(play.look("a"), "1 2");
    play.update(|topic| topic.filter_before_publishing = true);
    play.remove("a", "$Default");
    assert_eq!(play.send(m().id("x")), "sent 1", "a duplicate is no message to match");
}

#[test]
fn count_3_quota_32_the_topic_is_charged_for_every_copy() {
    let mut play = Topic::with(["a", "b"]);
    play.send_all(vec![m(), m().due(50)]);
    assert_eq!(play.info(TOPIC).size_bytes, 30);
    assert_eq!(play.info(play.id("a")).size_bytes, 10);
    let a = play.main("a");
    play.take(a, 1);
    play.complete(a, 1);
    assert_eq!(play.info(TOPIC).size_bytes, 20);
    play.delete(play.id("b"));
    assert_eq!(play.info(TOPIC).size_bytes, 10);
    play.at(50).fire_all();
    assert_eq!(play.info(TOPIC).size_bytes, 10);
}

#[test]
fn send_2_a_full_topic_refuses_within_one_entry_too() {
    let mut play = Topic::new(TopicProperties { max_message_size_kilobytes: 1024, ..topic() });
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        play.subscribe(name, subscription(), NewRule::default());
    }
    // A GiB holds 128 of them eight times.
    let send = || {
        let messages = vec![m().size(1024 * 1024)];
        Command::Send(domain::Send { origin: None, entity: TOPIC, messages })
    };
    let entry = play.group.entry((0..130).map(|_| send()).collect());
    let outcomes = play.group.step(vec![entry]).remove(0);
    let sent = outcomes.iter().filter(|o| matches!(o, Outcome::Sent { .. })).count();
    assert_eq!(sent, 128);
    assert_eq!(words(&outcomes[129]), "QuotaExceeded");
}

#[test]
fn count_4_count_5_a_topic_accounts_for_what_it_accepted() {
    let mut play = Topic::with(["a"]);
    play.send_all(vec![m(), m().due(50), m()]);
    let counts = play.info(TOPIC).counts;
    let expected = Counts { accepted: 3, scheduled: 1, published: 2, ..Counts::default() };
    assert_eq!(counts, expected);
    assert!(counts.balanced());
    let counts = play.info(play.id("a")).counts;
    assert_eq!(counts, Counts { accepted: 2, active: 2, ..Counts::default() });
}

#[test]
fn count_7_dead_letters_are_counted_at_the_subscription_only() {
    let mut play = Topic::new(topic());
    play.subscribe("a", subscription(), rule("fails", "n / 0 = 1"));
    play.send(says("n=1"));
    assert_eq!(play.info(play.id("a")).counts.dead_lettered, 1);
    let counts = play.info(TOPIC).counts;
    assert_eq!(counts, Counts { accepted: 1, published: 1, ..Counts::default() });
}

#[test]
fn ent_7_a_topic_takes_its_subscriptions_along() {
    let mut play = Topic::with(["a", "b"]);
    play.add("a", acting("x", "", "SET n = 1"));
    play.send_all(vec![m(), m().due(50), m().ttl(DAY)]);
    let (a, b) = (play.id("a"), play.id("b"));
    play.take(play.main("a"), 1);
    play.delete(TOPIC);
    for entity in [TOPIC, a, b] {
        assert_eq!(domain::entity_info(&play.group.rows, entity), None);
    }
    let take = |entity| {
        let queue = QueueId::main(entity);
        let (count_max, bytes_max) = (1, u32::MAX);
        Command::Acquire(domain::Acquire { queue, receiver: RECEIVER, count_max, bytes_max })
    };
    assert_eq!(words(&play.group.apply(take(a))), "MessagingEntityNotFound");
    // Not created again by a command that comes late.
    let late = play.create(EntityId(99), "late", subscription(), NewRule::default());
    assert_eq!(words(&late), "MessagingEntityNotFound");
    play.sweep();
    for entity in [TOPIC, a, b] {
        assert_eq!(rows_of(&play.group.rows, entity), 0, "{entity:?}");
    }
}

#[test]
fn ent_7_a_subscription_gives_its_bodies_back_when_it_is_deleted() {
    let mut play = Topic::with(["a", "b"]);
    play.remove("b", "$Default");
    play.add("b", rule("even", "n = 2"));
    for content in ["n=1", "n=2", "n=3"] {
        play.send(says(content));
    }
    let a = play.id("a");
    play.delete(a);
    play.sweep();
    assert_eq!((rows_of(&play.group.rows, a), play.bodies()), (0, 1));
    assert_eq!(play.look("b"), "1");
    // What is published next comes to those that are left.
    play.send(says("n=2"));
    assert_eq!((play.look("b").as_str(), play.bodies()), ("1 2", 2));
    play.take(play.main("b"), 2);
    play.complete(play.main("b"), 1);
    assert_eq!(play.bodies(), 1);
}

/// Sweeping is bounded, also of what shares bodies, and a topic that goes meanwhile is no trouble.
#[test]
fn ent_7_a_large_subscription_is_swept_in_steps() {
    for topic_too in [false, true] {
        let mut play = Topic::with(["a", "b"]);
        for _ in 0..3 {
            play.send_all((0..1000).map(|_| m()).collect());
        }
        play.delete(play.id("a"));
        assert!(play.fired(Command::Sweep).more);
        if topic_too {
            play.delete(TOPIC);
        }
        play.sweep();
        let left = play.count(|key| matches!(key, Key::Body(..)));
        assert_eq!(left, if topic_too { 0 } else { 3000 });
        assert_eq!(play.count(|key| matches!(key, Key::BodyCopies(..) | Key::Sweep(_))), 0);
    }
}

#[test]
fn ent_9_a_topic_has_nothing_to_receive() {
    let mut play = Topic::with(["a"]);
    play.send(m());
    for (queue, refusal) in [
        (QueueId::main(TOPIC), "InvalidOperationException"),
        (QueueId::dead_letter(TOPIC), "MessagingEntityNotFound"),
    ] {
        let (count_max, bytes_max, receiver) = (1, u32::MAX, RECEIVER);
        let (origin, settlements, tokens, numbers) = (None, vec![], vec![], vec![]);
        let (before, atomic) = (None, false);
        for command in [
            Command::Acquire(domain::Acquire { queue, receiver, count_max, bytes_max }),
            Command::Settle(domain::Settle { origin, queue, settlements, atomic }),
            Command::Renew(domain::Renew { origin, queue, tokens }),
            Command::ReceiveDeferred(domain::ReceiveDeferred { origin, queue, receiver, numbers }),
            Command::DeleteBatch(domain::DeleteBatch { origin, queue, count_max, before }),
        ] {
            assert_eq!(words(&play.group.apply(command)), refusal);
        }
    }
    assert_eq!(
        domain::peek(&play.group.rows, QueueId::dead_letter(TOPIC), SequenceNumber(0), 1)
            .expect_err("refused")
            .name(),
        "MessagingEntityNotFound"
    );
}

#[test]
fn peek_5_a_topic_shows_what_is_scheduled_and_a_subscription_does_not() {
    let mut play = Topic::with(["a"]);
    play.send_all(vec![m(), m().due(50)]);
    let states =
        |queue| -> Vec<_> { play.peek(queue).iter().map(|d| (d.sequence.0, d.state)).collect() };
    assert_eq!(states(QueueId::main(TOPIC)), [(2, MessageState::Scheduled)]);
    assert_eq!(states(play.main("a")), [(1, MessageState::Active)]);
}

#[test]
fn send_7_nothing_is_sent_to_a_subscription() {
    let mut play = Topic::with(["a"]);
    let entity = play.id("a");
    let send = domain::Send { origin: None, entity, messages: vec![m()] };
    assert_eq!(words(&play.group.apply(Command::Send(send))), "InvalidOperationException");
}

#[test]
fn state_5_topic_and_subscription_are_disabled_each_for_itself() {
    let mut play = Topic::with(["a"]);
    play.send_all(vec![m(), m().due(50)]);
    play.update(|topic| topic.status = EntityStatus::SendDisabled);
    assert_eq!(play.send(m()), "MessagingEntityDisabled");
    // SendDisabled is Disabled (STATE-1): nothing activates (SCHED-16).
    play.at(50).fire_all();
    assert_eq!(play.look("a"), "1");
    assert_eq!(play.take(play.main("a"), 1).len(), 1);
    play.update(|topic| topic.status = EntityStatus::Active);
    play.fire_all();
    assert_eq!(play.look("a"), "1L 2");
    play.update_subscription("a", |a| a.status = EntityStatus::Disabled);
    assert_eq!(play.send(m()), "sent 4");
    assert_eq!(play.look("a"), "1L 2 3");
}

#[test]
fn state_1_a_topic_is_not_receive_disabled_nor_a_subscription_send_disabled() {
    let mut play = Topic::with(["a"]);
    let refused = "ArgumentOutOfRangeException";
    assert_eq!(play.update(|topic| topic.status = EntityStatus::ReceiveDisabled), refused);
    let send_disabled = |a: &mut SubscriptionProperties| a.status = EntityStatus::SendDisabled;
    assert_eq!(play.update_subscription("a", send_disabled), refused);
}

#[test]
fn ent_5_what_is_fixed_stays() {
    let mut play = Topic::with(["a"]);
    let refused = "InvalidOperationException";
    assert_eq!(play.update(|topic| topic.requires_duplicate_detection = true), refused);
    assert_eq!(play.update_subscription("a", |a| a.requires_session = true), refused);
}

/// A subscription has all a queue has: locks, delivery counts, a dead-letter queue, expiry into it.
#[test]
fn dlq_1_every_subscription_has_a_dead_letter_queue() {
    let mut play = Topic::with(["b"]);
    let properties = SubscriptionProperties {
        max_delivery_count: 1,
        dead_letter_on_expiration: true,
        ..subscription()
    };
    play.subscribe("a", properties, NewRule::default());
    play.send_all(vec![m(), m().ttl(MINUTE)]);
    play.take(play.main("a"), 1);
    play.settle(play.main("a"), 1, abandon());
    play.at(MINUTE).fire_all();
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("| 1+1 2", "1"));
}

#[test]
fn quota_22_rule_texts_are_bounded() {
    let mut play = Topic::with(["a"]);
    let long = format!("n = '{}'", "x".repeat(1024));
    assert_eq!(play.add("a", rule("long", &long)), "FilterException");
    assert_eq!(play.add("a", acting("long", "", &format!("SET {long}"))), "RuleActionException");
}

/// RULE-10 and the bound of one entry: a batch whose copies would be too many is refused.
#[test]
fn quota_7_two_thousand_subscriptions_share_one_body() {
    let mut play = Topic::new(topic());
    let mut entries = Vec::new();
    for n in 0..domain::SUBSCRIPTIONS_MAX {
        let create = domain::CreateSubscription {
            entity: EntityId(1000 + u64::from(n)),
            topic: TOPIC,
            name: domain::subscription_path("Orders", &format!("s{n}")),
            properties: Box::new(subscription()),
            rule: Box::new(NewRule::default()),
        };
        let create = domain::TopicCommand::CreateSubscription(create);
        entries.push(Command::Topic(create));
    }
    let entry = play.group.entry(entries);
    play.group.step(vec![entry]);
    assert_eq!(play.send(m()), "sent 1");
    assert_eq!(play.bodies(), 1);
    assert_eq!(play.count(|key| matches!(key, Key::Message(..))), 2000);
    let copies = play.group.rows.0.get(&Key::BodyCopies(TOPIC, SequenceNumber(1)));
    assert_eq!(copies, Some(&Row::BodyCopies(2000)));
    assert_eq!(play.info(TOPIC).size_bytes, 20_000);
    assert_eq!(play.send_all(vec![m(); 51]), "ArgumentOutOfRangeException");
    assert_eq!(play.send_all(vec![m(); 2]), "sent 2 3");
}
