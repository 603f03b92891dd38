//! RULE: which messages of a topic a subscription gets, and as what.

use domain::{
    Conditions, EntityStatus, NewRule, Outcome, Properties, QueueId, RULE_NAME, RuleCounts,
    RuleFilter, SequenceNumber, Specifics, SubQueue, SystemProperty, TopicProperties, Value,
};

use crate::table::{m, ms, properties, text, words};
use crate::topic::*;

/// The user properties laid over the messages of a queue, by number.
fn overlays(play: &Topic, queue: QueueId) -> Vec<(u64, Properties)> {
    let overlay = |delivery: domain::Delivery| {
        (delivery.sequence.0, delivery.overlay.map(|overlay| overlay.set).unwrap_or_default())
    };
    play.peek(queue).into_iter().map(overlay).collect()
}

fn names(play: &Topic, subscription: &str) -> Vec<String> {
    let rules = domain::rules(&play.group.rows, play.id(subscription), 0, 99).expect("rules");
    rules.into_iter().map(|rule| rule.name).collect()
}

#[test]
fn rule_1_names_are_unique_in_a_subscription_whatever_their_case() {
    let mut play = Topic::with(["a", "b"]);
    assert_eq!(play.add("a", rule("Red", "colour = 'red'")), "done");
    assert_eq!(play.add("a", rule("RED", "")), "MessagingEntityAlreadyExists");
    assert_eq!(play.add("b", rule("red", "")), "done");
    assert_eq!(play.remove("a", "rED"), "done");
    assert_eq!(play.remove("a", "red"), "MessagingEntityNotFound");
    assert_eq!(play.put("a", rule("red", ""), true), "MessagingEntityNotFound");
    assert_eq!(play.put("b", rule("Red", "colour = 'red'"), true), "done");
    assert_eq!(names(&play, "b"), ["$Default", "Red"]);
}

#[test]
fn rule_2_a_subscription_begins_with_a_rule_that_takes_everything_or_the_one_given() {
    let mut play = Topic::with(["a"]);
    play.subscribe("b", subscription(), rule("mine", "colour = 'red'"));
    assert_eq!(
        (names(&play, "a"), names(&play, "b")),
        (vec!["$Default".into()], vec!["mine".into()])
    );
    play.send_all(vec![says("colour=red"), says("colour=blue")]);
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("1 2", "1"));
    assert_eq!(play.remove("a", "$default"), "done");
    play.send(m());
    assert_eq!(play.look("a"), "1 2");
}

#[test]
fn rule_3_without_a_rule_nothing_comes() {
    let mut play = Topic::with(["a"]);
    play.remove("a", "$Default");
    assert_eq!(play.send(m()), "sent 1");
    assert_eq!((play.look("a").as_str(), play.bodies()), ("", 0));
}

#[test]
fn rule_5_rules_without_action_make_one_copy_together() {
    let mut play = Topic::with(["a"]);
    play.add("a", rule("red", "colour = 'red'"));
    play.add("a", rule("blue", "colour = 'blue'"));
    play.send(says("colour=red"));
    assert_eq!(play.look("a"), "1");
    play.remove("a", "$Default");
    play.send_all(vec![says("colour=blue"), says("colour=green")]);
    assert_eq!(play.look("a"), "1 2");
}

#[test]
fn rule_6_rule_7_each_rule_with_an_action_makes_a_copy_of_its_own_in_order_of_creation() {
    let mut play = Topic::with(["a"]);
    play.add("a", acting("z", "n > 1", "SET n = n + 1"));
    play.add("a", rule("r", "n > 0"));
    play.add("a", acting("b", "", "SET colour = 'grey'; REMOVE n"));
    play.add("a", rule("s", "n > 0"));
    play.add("a", acting("no", "n > 9", "SET n = 0"));
    // Five match, two of them with actions: three copies.
    assert_eq!(play.send(says("n=5")), "sent 1");
    let by = |name: &str| (RULE_NAME, text(name));
    assert_eq!(
        overlays(&play, play.main("a")),
        [
            (1, Properties::new()),
            (2, properties([by("z"), ("n", Value::Long(6))])),
            (3, properties([by("b"), ("colour", text("grey"))])),
        ]
    );
    let removed = &play.peek(play.main("a"))[2].overlay;
    assert_eq!(removed.as_ref().expect("an overlay").removed, ["n"]);
    // All share one body.
    assert_eq!(play.bodies(), 1);
}

#[test]
fn rule_8_copies_are_independent() {
    let mut play = Topic::with(["a", "b"]);
    play.add("a", acting("x", "", "SET n = 1"));
    play.send(says("n=5"));
    let (a, b) = (play.main("a"), play.main("b"));
    play.take(a, 2);
    play.take(b, 1);
    play.complete(a, 1);
    assert_eq!((play.look("a"), play.look("b"), play.bodies()), ("2L".into(), "1L".into(), 1));
    play.settle(a, 2, crate::table::dead_letter());
    play.settle(b, 1, crate::table::abandon());
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("| 2", "1+1"));
    play.take(b, 1);
    play.complete(b, 1);
    assert_eq!(play.bodies(), 1);
    let dead = play.dead("a");
    play.take(dead, 1);
    play.complete(dead, 2);
    assert_eq!(play.bodies(), 0, "the last copy takes the body along");
}

#[test]
fn rule_9_err_18_what_nobody_takes_vanishes_or_is_refused() {
    let mut play = Topic::new(topic());
    play.subscribe("a", subscription(), rule("red", "colour = 'red'"));
    assert_eq!(play.send(says("colour=blue")), "sent 1");
    assert_eq!((play.look("a").as_str(), play.bodies()), ("", 0));
    assert_eq!(play.update(|topic| topic.filter_before_publishing = true), "done");
    assert_eq!(play.send(says("colour=blue")), "NoMatchingSubscriptionException");
    // One of a batch refuses them all (SEND-3).
    let both = vec![says("colour=red"), says("colour=blue")];
    assert_eq!(play.send_all(both), "NoMatchingSubscriptionException");
    assert_eq!(play.look("a"), "");
    assert_eq!(play.send(says("colour=red")), "sent 2");
    assert_eq!(play.look("a"), "1");
    // Nobody is asked yet about what is scheduled (SCHED-9).
    let later = domain::NewMessage { scheduled_at: Some(crate::table::at(9)), ..m() };
    assert_eq!(play.send(later), "sent 3");
    play.at(9).fire_all();
    assert_eq!(play.look("a"), "1");
}

#[test]
fn rule_10_filters_are_counted_over_the_topic() {
    let mut play = Topic::with(["a", "b"]);
    play.add("a", rule("s", "n = 1"));
    play.add("b", acting("s", "n = 1", "SET n = 2"));
    let conditions =
        Conditions { properties: properties([("n", text("x"))]), ..Default::default() };
    let filter = RuleFilter::Correlation(conditions);
    play.add("b", NewRule { name: "c".into(), filter, action: None });
    let counts = |play: &Topic| match play.info(TOPIC).specifics {
        Specifics::Topic(specifics) => (specifics.subscriptions, specifics.rules),
        other => panic!("{other:?}"),
    };
    let rules = RuleCounts { sql: 2, correlation: 1, constant: 2, with_action: 1 };
    assert_eq!(counts(&play), (2, rules));
    play.delete(play.id("b"));
    assert_eq!(counts(&play), (1, RuleCounts { sql: 1, constant: 1, ..RuleCounts::default() }));
}

/// A subscription's first rule counts like any other, in the one entry that makes both.
#[test]
fn rule_10_quota_20_a_subscription_whose_filter_does_not_fit_is_not_made() {
    let mut play = Topic::with(["a"]);
    for n in 0..domain::SQL_FILTERS_MAX {
        assert_eq!(play.add("a", rule(&format!("r{n}"), "n = 1")), "done");
    }
    assert_eq!(play.add("a", rule("s", "n = 1")), "QuotaExceeded");
    let before = play.info(TOPIC);
    let entity = domain::EntityId(TOPIC.0 + 9);
    let refused = play.at(5).create(entity, "b", subscription(), rule("s", "n = 1"));
    assert_eq!(words(&refused), "QuotaExceeded");
    assert_eq!(play.info(TOPIC), before);
    assert_eq!(play.create(entity, "b", subscription(), NewRule::default()), Outcome::Done);
    play.remove("a", "r7");
    play.subscribe("c", subscription(), rule("s", "n = 1"));
}

#[test]
fn rule_11_true_and_false_take_all_and_none() {
    let mut play = Topic::with(["a"]);
    let filter = RuleFilter::False;
    play.subscribe("b", subscription(), NewRule { name: "none".into(), filter, action: None });
    play.send(m());
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("1", ""));
}

#[test]
fn rule_12_a_correlation_filter_takes_what_equals_all_its_conditions() {
    let mut play = Topic::new(topic());
    let conditions = Conditions {
        system: [(SystemProperty::Subject, "hi".to_owned())].into(),
        properties: properties([("n", Value::Int(5))]),
        ..Conditions::default()
    };
    let filter = RuleFilter::Correlation(conditions);
    play.subscribe("a", subscription(), NewRule { name: "c".into(), filter, action: None });
    for content in ["n=5;$Subject=hi", "n=5;$Subject=Hi", "n=6;$Subject=hi", "n=5", "x=1"] {
        play.send(says(content));
    }
    let seen: Vec<u64> = play.peek(play.main("a")).iter().map(|d| d.body.0).collect();
    assert_eq!(seen, [1]);
}

#[test]
fn rule_13_a_rule_holds_for_what_is_accepted_after_it() {
    let mut play = Topic::with(["a"]);
    play.send(says("n=1"));
    play.remove("a", "$Default");
    play.send(says("n=2"));
    play.add("a", rule("two", "n = 2"));
    play.send(says("n=2"));
    play.put("a", rule("two", "n = 3"), true);
    play.send_all(vec![says("n=2"), says("n=3")]);
    let seen: Vec<u64> = play.peek(play.main("a")).iter().map(|d| d.body.0).collect();
    assert_eq!(seen, [1, 3, 5]);
}

#[test]
fn rule_14_a_publish_and_all_its_copies_are_one_step() {
    let mut play = Topic::with(["a", "b", "c"]);
    let written = {
        play.send(m());
        play.group.written
    };
    // A message row and a state per subscription; the topic's state, body and count; the time.
    assert_eq!(written, 3 * 2 + 3);
    for name in ["a", "b", "c"] {
        assert_eq!(play.look(name), "1");
    }
}

#[test]
fn rule_15_copies_are_in_order_of_publishing() {
    let mut play = Topic::with(["a"]);
    play.send_all(vec![m(), m()]);
    play.send(m());
    let seen: Vec<_> = play.peek(play.main("a")).iter().map(|d| (d.sequence.0, d.body.0)).collect();
    assert_eq!(seen, [(1, 1), (2, 2), (3, 3)]);
}

#[test]
fn rule_16_a_disabled_subscription_still_gets_copies() {
    let mut play = Topic::with(["a"]);
    for status in [EntityStatus::Disabled, EntityStatus::ReceiveDisabled] {
        assert_eq!(play.update_subscription("a", |a| a.status = status), "done");
        play.send(m());
    }
    assert_eq!(play.look("a"), "1 2");
}

#[test]
fn rule_17_an_action_changes_its_copy_only() {
    let mut play = Topic::with(["a"]);
    let all = "SET sys.Subject = 'new'; SET sys.TimeToLive = @ttl";
    let mut changing = acting("x", "", all);
    let action = changing.action.as_mut().expect("an action");
    action.parameters = properties([("ttl", Value::TimeSpan(5_000 * 10_000))]);
    assert_eq!(play.add("a", changing), "done");
    play.send(says("$Subject=old"));
    let seen = play.peek(play.main("a"));
    assert_eq!((&seen[0].overlay, seen[0].ttl), (&None, None));
    let overlay = seen[1].overlay.as_ref().expect("an overlay");
    assert_eq!(overlay.texts, [(SystemProperty::Subject, Some("new".to_owned()))].into());
    assert_eq!(seen[1].ttl, Some(ms(5_000)));
    play.at(5_000).fire_all();
    assert_eq!(play.look("a"), "1");
}

#[test]
fn rule_18_sched_14_what_is_evaluated_on_entry_has_no_effect_when_an_action_sets_it() {
    let properties = TopicProperties { requires_duplicate_detection: true, ..topic() };
    let mut play = Topic::new(properties);
    let all = "SET sys.MessageId = 'same'; SET sys.ScheduledEnqueueTimeUtc = @at";
    let mut changing = acting("x", "", all);
    let action = changing.action.as_mut().expect("an action");
    action.parameters = crate::table::properties([("at", Value::DateTime(i64::MAX))]);
    play.subscribe("a", subscription(), changing);
    assert_eq!(play.send_all(vec![m(), m()]), "sent 1 2");
    assert_eq!(play.look("a"), "1 2");
}

#[test]
fn rule_20_what_a_filter_or_action_fails_on_is_dead_lettered_once_or_not_matched() {
    let mut play = Topic::with(["b"]);
    play.subscribe("a", subscription(), rule("f", "n / 0 = 1"));
    play.add("a", rule("g", "n / 0 = 2"));
    play.add("a", acting("h", "n = 1", "SET n = n / 0"));
    play.send(says("n=1"));
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("| 1 2", "1"));
    let reasons: Vec<_> = overlays(&play, play.dead("a"))
        .into_iter()
        .map(|(_, set)| {
            (set["DeadLetterReason"].clone(), set.contains_key("DeadLetterErrorDescription"))
        })
        .collect();
    assert_eq!(reasons, [(text("FilterException"), true), (text("RuleActionException"), true)]);
    let counts = play.info(play.id("a")).counts;
    assert_eq!((counts.accepted, counts.dead_lettered), (2, 2));
    // It is received from there like any other, and gives its body back.
    let dead = play.dead("a");
    assert_eq!(play.take(dead, 9).len(), 2);
    play.complete(dead, 1);
    play.complete(dead, 2);
    assert_eq!(play.bodies(), 1);
    play.update_subscription("a", |a| a.dead_letter_on_filter_errors = false);
    play.send(says("n=1"));
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("", "1 2"));
}

#[test]
fn rule_21_err_19_what_cannot_be_read_is_refused_when_the_rule_is_created() {
    let mut play = Topic::with(["a"]);
    assert_eq!(play.add("a", rule("x", "colour = ")), "FilterException");
    assert_eq!(play.add("a", acting("x", "", "SET sys.Nothing = 1")), "RuleActionException");
    assert_eq!(play.add("a", rule("x/y", "")), "ArgumentException");
    let entity = domain::EntityId(99);
    let refused = play.create(entity, "b", subscription(), rule("x", "("));
    assert_eq!(words(&refused), "FilterException");
    assert_eq!(names(&play, "a"), ["$Default"]);
}

#[test]
fn rule_38_rules_are_listed_by_skip_and_top() {
    let mut play = Topic::with(["a"]);
    for name in ["c", "B", "a"] {
        play.add("a", rule(name, ""));
    }
    let page = |skip, top| -> Vec<String> {
        let rules = domain::rules(&play.group.rows, play.id("a"), skip, top).expect("rules");
        rules.into_iter().map(|rule| rule.name).collect()
    };
    assert_eq!(page(0, 99), ["$Default", "a", "B", "c"]);
    assert_eq!(page(1, 2), ["a", "B"]);
    assert_eq!(page(4, 2), [""; 0]);
    assert_eq!(domain::rule(&play.group.rows, play.id("a"), "b").expect("b").name, "B");
    assert_eq!(domain::rules(&play.group.rows, domain::EntityId(99), 0, 9), None);
}

/// DLQ-7: what an action makes too large is dead-lettered as it was.
#[test]
fn dlq_7_properties_that_a_rule_makes_too_large_are_left_out() {
    let mut play = Topic::new(topic());
    let long = format!("SET a = '{}'", "x".repeat(900));
    play.subscribe("a", subscription(), acting("x", "", &long));
    let header_bytes = domain::HEADER_BYTES_MAX as u32 - 500;
    let size_bytes = header_bytes;
    play.send(domain::NewMessage { header_bytes, size_bytes, ..m() });
    assert_eq!(play.look("a"), "| 1");
    let overlay = overlays(&play, QueueId { entity: play.id("a"), sub: SubQueue::DeadLetter });
    assert_eq!(overlay[0].1["DeadLetterReason"], text("HeaderSizeExceeded"));
    assert!(!overlay[0].1.contains_key("a"));
    assert_eq!(play.peek(play.dead("a"))[0].sequence, SequenceNumber(1));
}
