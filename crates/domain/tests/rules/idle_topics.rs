//! IDLE of topics, subscriptions and sessions: which of them a use keeps. The clock runs under a
//! leader, as in `idle`.

use domain::{
    Command, Disposition, EntityId, EntityStatus, Idleness, Key, NewRule, Outcome, QueueProperties,
    Seal as SealCommand, SubscriptionProperties, TopicProperties,
};

use crate::idle::{WINDOW, check_led, ends_a_window_after, lead};
use crate::table::{
    Accept, AcceptNext, Action, DAY, HOUR, MINUTE, Sent, Within, at, m, ms, queue, words,
};
use crate::table_sessions::InSession;
use crate::topic::*;

fn temporary_topic() -> TopicProperties {
    TopicProperties { auto_delete_on_idle: ms(WINDOW), ..topic() }
}

fn temporary() -> SubscriptionProperties {
    SubscriptionProperties { auto_delete_on_idle: ms(WINDOW), ..subscription() }
}

/// A topic and its subscriptions "a" and "b", all created at 0.
fn play(of_topic: TopicProperties, of_subscriptions: &SubscriptionProperties) -> Topic {
    let mut play = Topic::new(of_topic);
    for name in ["a", "b"] {
        play.subscribe(name, of_subscriptions.clone(), NewRule::default());
    }
    play
}

fn beat(play: &mut Topic, until: u64) {
    while at(until).since(play.group.now) > ms(MINUTE) {
        play.group.now = play.group.now.plus(ms(MINUTE));
        assert_eq!(play.group.apply(Command::Beat), Outcome::Done);
    }
    play.at(until);
}

fn seal(play: &mut Topic, entity: EntityId, since: u64) -> String {
    let seal = SealCommand { entity, idle_since: at(since) };
    words(&play.group.apply(Command::Seal(seal)))
}

fn is_there(play: &Topic, entity: EntityId) -> bool {
    domain::entity_info(&play.group.rows, entity).is_some()
}

/// What was done at `used` keeps the entity to the millisecond, and then it goes.
fn goes_a_window_after(play: &mut Topic, entity: EntityId, used: u64) {
    let due = used + WINDOW;
    beat(play, due - 1);
    assert_eq!(seal(play, entity, due - 1), "InvalidOperationException", "a millisecond early");
    play.at(due);
    if used > 0 {
        assert_eq!(seal(play, entity, used - 1), "spared", "by one who does not know of the use");
    }
    assert_eq!(seal(play, entity, used), "done");
    assert!(!is_there(play, entity));
    assert_eq!(seal(play, entity, used), "done", "a repeat");
}

#[test]
fn idle_1_less_than_five_minutes_is_refused_to_topics_and_subscriptions() {
    let mut play = Topic::with(["a"]);
    let before = (play.info(TOPIC), play.info(play.id("a")));
    let refused = "ArgumentOutOfRangeException";
    assert_eq!(play.update(|topic| topic.auto_delete_on_idle = ms(WINDOW - 1)), refused);
    let short = |of: &mut SubscriptionProperties| of.auto_delete_on_idle = ms(WINDOW - 1);
    assert_eq!(play.update_subscription("a", short), refused);
    assert_eq!((play.info(TOPIC), play.info(play.id("a"))), before, "unchanged");
    assert_eq!(before.0.idleness, Idleness::Never);
    assert_eq!(play.update(|topic| topic.auto_delete_on_idle = ms(WINDOW)), "done");
}

type Use = (&'static str, fn(&mut Topic));

/// Each is done at four minutes; before, "a" has 1 to 3 locked.
const USES_OF_A_SUBSCRIPTION: [Use; 7] = [
    ("a receive", |play| drop(play.take(play.main("a"), 1))),
    ("a receive that finds nothing, of dead letters", |play| drop(play.take(play.dead("a"), 1))),
    ("a completion", |play| play.complete(play.main("a"), 2)),
    ("an update", |play| {
        let update = play.update_subscription("a", |of| of.user_metadata = "u".to_owned());
        assert_eq!(update, "done");
    }),
    ("a rule added", |play| assert_eq!(play.add("a", rule("r", "n = 1")), "done")),
    ("a rule changed", |play| {
        assert_eq!(play.put("a", rule(domain::DEFAULT_RULE, "n = 1"), true), "done");
    }),
    ("a rule removed", |play| assert_eq!(play.remove("a", domain::DEFAULT_RULE), "done")),
];

fn used_at_four_minutes(of_topic: TopicProperties, used: fn(&mut Topic)) -> Topic {
    let of = SubscriptionProperties { lock_duration: ms(WINDOW), ..temporary() };
    let mut play = play(of_topic, &of);
    play.send_all(vec![m(), m(), m(), m()]);
    play.take(play.main("a"), 3);
    beat(&mut play, 4 * MINUTE);
    used(&mut play);
    play
}

#[test]
fn idle_2_idle_7_what_keeps_a_subscription_keeps_its_topic_and_no_other_subscription() {
    for (what, used) in USES_OF_A_SUBSCRIPTION {
        println!("{what}");
        let mut play = used_at_four_minutes(topic(), used);
        let (a, b) = (play.id("a"), play.id("b"));
        goes_a_window_after(&mut play, a, 4 * MINUTE);
        assert_eq!(seal(&mut play, b, 0), "done", "it was due long before");

        let mut play = used_at_four_minutes(temporary_topic(), used);
        goes_a_window_after(&mut play, TOPIC, 4 * MINUTE);
    }
}

#[test]
fn idle_2_what_else_keeps_a_topic() {
    let uses: [Use; 5] = [
        ("a send", |play| assert_eq!(play.send(m()), "sent 5")),
        ("an update", |play| {
            assert_eq!(play.update(|topic| topic.user_metadata = "u".to_owned()), "done");
        }),
        ("a new subscription", |play| {
            play.subscribe("c", subscription(), NewRule::default());
        }),
        ("a subscription deleted", |play| play.delete(play.id("b"))),
        ("a subscription deleted as idle", |play| {
            let b = play.id("b");
            beat(play, 4 * MINUTE);
            assert_eq!(seal(play, b, 0), "InvalidOperationException", "refused, it is no use");
            play.delete(b);
        }),
    ];
    for (what, used) in uses {
        println!("{what}");
        let mut play = used_at_four_minutes(temporary_topic(), used);
        goes_a_window_after(&mut play, TOPIC, 4 * MINUTE);
    }
}

/// A browse, or somebody who waits: of a subscription, and of its topic with it.
#[test]
fn idle_2_idle_14_a_touch_of_a_subscription_counts_for_its_topic() {
    for kept in [subscription(), temporary()] {
        let mut play = play(temporary_topic(), &kept);
        beat(&mut play, 4 * MINUTE);
        let touch = Command::Touch { entity: play.id("a") };
        assert_eq!(play.group.apply(touch), Outcome::Done);
        goes_a_window_after(&mut play, TOPIC, 5 * MINUTE);
    }
}

#[test]
fn idle_6_what_is_published_keeps_the_topic_and_none_of_its_subscriptions() {
    let mut play = play(temporary_topic(), &temporary());
    let a = play.id("a");
    for minute in 1..=5 {
        play.at(minute * MINUTE);
        assert_eq!(play.send(m()), format!("sent {minute}"));
    }
    assert_eq!(seal(&mut play, a, 0), "done");
    assert!(!is_there(&play, a) && is_there(&play, TOPIC));
    goes_a_window_after(&mut play, TOPIC, 5 * MINUTE);
}

/// What the broker does by itself with copies.
#[test]
fn idle_12_expiry_is_no_use_of_a_subscription_or_its_topic() {
    let of = SubscriptionProperties { dead_letter_on_expiration: true, ..temporary() };
    let mut play = play(temporary_topic(), &of);
    play.send(m().ttl(MINUTE));
    play.at(MINUTE).fire_all();
    assert_eq!(play.look("a"), " | 1".trim_start());
    let a = play.id("a");
    goes_a_window_after(&mut play, a, 0);
}

#[test]
fn idle_8_a_scheduled_message_keeps_its_topic_until_it_is_published() {
    let mut play = play(temporary_topic(), &temporary());
    play.send(m().due(20 * MINUTE));
    beat(&mut play, 10 * MINUTE);
    assert_eq!(seal(&mut play, TOPIC, 10 * MINUTE), "spared");
    assert_eq!(play.info(TOPIC).idleness, Idleness::Scheduled);
    beat(&mut play, 20 * MINUTE);
    play.fire_all();
    goes_a_window_after(&mut play, TOPIC, 20 * MINUTE);
}

#[test]
fn idle_9_idle_10_an_idle_topic_takes_all_its_subscriptions_and_messages_with_it() {
    let mut play = play(temporary_topic(), &subscription());
    play.send_all(vec![m(), m(), m()]);
    let a = play.main("a");
    play.take(a, 2);
    assert_eq!(play.settle(a, 1, Disposition::Defer { properties: Default::default() }), "settled");
    goes_a_window_after(&mut play, TOPIC, 0);
    assert!(!is_there(&play, play.id("a")) && !is_there(&play, play.id("b")));
    play.sweep();
    assert_eq!(play.count(|key| *key != Key::Meta), 0, "rows left");
}

/// IDLE-10: the deletion of a subscription is an operation on the topic's subscriptions.
#[test]
fn idle_10_a_subscription_that_goes_grants_its_topic_another_window() {
    let mut play = play(temporary_topic(), &temporary());
    let a = play.id("a");
    goes_a_window_after(&mut play, a, 0);
    assert_eq!(seal(&mut play, TOPIC, 0), "spared");
    goes_a_window_after(&mut play, TOPIC, WINDOW);
}

#[test]
fn idle_13_a_shorter_window_is_granted_in_full() {
    let long = TopicProperties { auto_delete_on_idle: ms(DAY), ..topic() };
    let mut play =
        play(long, &SubscriptionProperties { auto_delete_on_idle: ms(DAY), ..subscription() });
    beat(&mut play, HOUR);
    let shorter = |of: &mut SubscriptionProperties| of.auto_delete_on_idle = ms(WINDOW);
    assert_eq!(play.update_subscription("a", shorter), "done");
    let a = play.id("a");
    goes_a_window_after(&mut play, a, HOUR);
    let now = HOUR + WINDOW;
    assert_eq!(play.update(|topic| topic.auto_delete_on_idle = ms(WINDOW)), "done");
    goes_a_window_after(&mut play, TOPIC, now);
}

/// One entry, one order, also between a topic and its subscriptions.
#[test]
fn idle_15_a_use_of_a_subscription_before_the_seal_spares_its_topic() {
    let outcomes = |commands: &dyn Fn(&Topic) -> Vec<Command>| {
        let mut play = play(temporary_topic(), &subscription());
        beat(&mut play, WINDOW);
        let entry = play.group.entry(commands(&play));
        let outcomes = play.group.step(vec![entry]).remove(0);
        outcomes.iter().map(words).collect::<Vec<_>>()
    };
    let seal = || Command::Seal(SealCommand { entity: TOPIC, idle_since: at(0) });
    let touch = |play: &Topic| Command::Touch { entity: play.id("a") };
    let gone = "MessagingEntityNotFound";
    assert_eq!(outcomes(&|play| vec![touch(play), seal()]), ["done", "spared"]);
    assert_eq!(outcomes(&|play| vec![seal(), touch(play)]), ["done", gone]);
}

#[test]
fn idle_16_disabled_topics_and_subscriptions_age_as_well() {
    let mut play = play(temporary_topic(), &temporary());
    play.at(MINUTE).update(|topic| topic.status = EntityStatus::Disabled);
    play.update_subscription("a", |of| of.status = EntityStatus::Disabled);
    play.at(2 * MINUTE);
    assert_eq!(play.send(m()), "MessagingEntityDisabled");
    let a = play.id("a");
    goes_a_window_after(&mut play, a, MINUTE);
    goes_a_window_after(&mut play, TOPIC, MINUTE + WINDOW);
}

fn with_sessions() -> QueueProperties {
    let (auto_delete_on_idle, lock_duration) = (ms(WINDOW), ms(WINDOW));
    QueueProperties { auto_delete_on_idle, lock_duration, requires_session: true, ..queue() }
}

/// Whatever a session's holder asks is a receive.
#[test]
fn idle_5_every_operation_on_a_session_starts_the_window_again() {
    type Asked = (&'static str, fn() -> Action);
    let uses: [Asked; 8] = [
        ("an acceptance", || Accept("t")),
        ("an acceptance of the next", || AcceptNext),
        ("a receive", || Within("s", InSession::Get(1))),
        ("a receive by number", || Within("s", InSession::Deferral(&[2]))),
        ("a renewal", || Within("s", InSession::Renewed)),
        ("a state", || Within("s", InSession::SetState(Some("x")))),
        ("a batch delete", || Within("s", InSession::Purge(1))),
        ("a release", || Within("s", InSession::Close)),
    ];
    for (what, used) in uses {
        println!("{what}");
        let mut play = check_led(with_sessions(), []);
        let of = |session: &str| domain::NewMessage { session_id: Some(session.to_owned()), ..m() };
        play.play(0, Action::Send(vec![of("s"), of("s"), of("s"), of("u")]));
        play.play(0, Accept("s"));
        play.play(0, Within("s", InSession::Get(2)));
        play.play(0, Action::Defer(&[2]));
        lead(&mut play, 4 * MINUTE);
        let told = play.play(4 * MINUTE, used());
        assert!(!told.contains("Exception") && !told.contains("Lost"), "{what}: {told}");
        ends_a_window_after(&mut play, 4 * MINUTE);
    }
}
