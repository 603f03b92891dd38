//! What an entry may match, and what goes on in the next ones (RULE-41, RULE-42).

use std::collections::BTreeMap;

use domain::{
    Command, CreateSubscription, DeadlineKind, Disposition, EntityId, EntityStatus, Key,
    MatchProgress, MessageRow, NewMessage, Operation, PutRule, QueueId, Row, SequenceNumber, Span,
    SubscriptionProperties, TopicCommand, TopicProperties, UNMATCHED_AGE_MAX, UNMATCHED_COUNT_MAX,
    subscription_path,
};

use crate::table::{SECOND, Sent, at, ms, words};
use crate::topic::*;

/// All messages of subscriptions.
fn copies(play: &Topic) -> BTreeMap<(QueueId, SequenceNumber), MessageRow> {
    let rows = play.group.rows.0.iter();
    let messages = rows.filter_map(|(key, row)| match (key, row) {
        (Key::Message(queue, number), Row::Message(row)) => Some(((*queue, *number), row.clone())),
        _ => None,
    });
    messages.collect()
}

/// How many messages wait.
fn waiting(play: &Topic) -> usize {
    play.count(|key| matches!(key, Key::Unmatched(..)))
}

fn progress(play: &Topic) -> MatchProgress {
    let mut rows = play.group.rows.0.iter();
    let first = rows.find_map(|(key, row)| match (key, row) {
        (Key::Unmatched(..), Row::Unmatched(row)) => Some(row.progress.clone()),
        _ => None,
    });
    first.expect("a message that waits")
}

/// A topic whose subscriptions a, b and c take what `n` is, by a filter that looks.
fn three() -> Topic {
    let mut play = Topic::new(topic());
    for name in ["a", "b", "c"] {
        play.subscribe(name, subscription(), rule("r", "n > 0"));
    }
    play
}

/// A row: filters of as many subscriptions, an action of all rules, a message, and how many copies it makes.
#[test]
fn rule_41_what_is_too_much_for_an_entry_goes_on_rule_by_rule() {
    let many: String = (0..150).map(|n| format!("'v{n}',")).collect();
    let long = format!("t IN ({many}'x')");
    let nested = format!("{}n{} = 5", "(".repeat(20), " + 0)".repeat(20));
    let text: &'static str = Box::leak(format!("n=5;t={}ab", "x".repeat(3000)).into_boxed_str());
    for (filters, action, content, expected) in [
        (vec!["t LIKE '%_z_b%'", "t LIKE '%ab'", "t LIKE 'a_%_b%'"], None, text, 1),
        (vec!["t LIKE '%a_'", "t LIKE '%ab'", "t LIKE '%_b'"], None, text, 3),
        (vec![&nested, &nested, "n = 4"], None, text, 2),
        (vec![&long, &long, "n = 5"], None, "n=5;t=v149", 3),
        (vec!["n = 5", "n > 1", "n < 9"], Some("SET x = t + t; SET y = 1; REMOVE t"), text, 3),
        (vec!["n / 0 = 1", "n = 5", "x / 0 = 1"], Some("SET y = n / 0"), text, 2),
        (vec!["", "", "n = 5"], Some("SET y = n + 1"), text, 3),
    ] {
        let rule_of = |filter: &str| match action {
            Some(action) => acting("r", filter, action),
            None => rule("r", filter),
        };
        let set_up = || {
            let mut play = Topic::new(topic());
            for (name, filter) in ["a", "b", "c"].into_iter().zip(&filters) {
                play.subscribe(name, subscription(), rule_of(filter));
            }
            play
        };
        let (mut plain, mut paced) = (set_up(), set_up());
        plain.send(says(content));
        assert_eq!(copies(&plain).len(), expected, "{filters:?}");
        // At least one rule or action to an entry, and here no more.
        assert_eq!(paced.send_within(1, vec![says(content)]), "sent 1");
        let mut entries = 1;
        while waiting(&paced) > 0 {
            assert_eq!(paced.match_on(1), waiting(&paced) > 0, "{filters:?}");
            entries += 1;
        }
        let actions = if action.is_some() { expected } else { 0 };
        assert!((3..=3 + actions + 1).contains(&entries), "{filters:?}: {entries} entries");
        assert_eq!(copies(&paced), copies(&plain), "{filters:?}");
        assert_eq!(paced.bodies(), plain.bodies());
        assert_eq!(paced.info(TOPIC).counts, plain.info(TOPIC).counts);
        // What fits is done at once.
        let mut at_once = set_up();
        at_once.send_within(1_000_000, vec![says(content)]);
        assert_eq!((copies(&at_once), waiting(&at_once)), (copies(&plain), 0), "{filters:?}");
    }
}

/// All filters of one subscription, which has its copies once they all were looked at (RULE-7).
#[test]
fn rule_41_a_subscription_gets_its_copies_in_order_and_once() {
    let mut play = Topic::new(topic());
    play.subscribe("a", subscription(), acting("one", "n = 5", "SET x = 1"));
    play.add("a", acting("two", "n > 1", "SET x = 2"));
    play.add("a", rule("plain", "n < 9"));
    play.add("a", rule("fails", "n / 0 = 1"));
    play.add("a", rule("fails too", "n / 0 = 2"));
    play.send_within(1, vec![says("n=5")]);
    let mut seen = vec![play.look("a")];
    while play.match_on(1) {
        seen.push(play.look("a"));
    }
    seen.push(play.look("a"));
    // Five filters, then an action each; the first of them is made with what needs none.
    assert_eq!(seen, ["", "", "", "", "1 | 2", "1 3 | 2", "1 3 4 | 2"]);
    let marks =
        play.peek(play.main("a")).into_iter().map(|d| d.overlay.map(|o| o.set["x"].clone()));
    let long = |n| Some(domain::Value::Long(n));
    assert_eq!(marks.collect::<Vec<_>>(), [None, long(1), long(2)]);
}

/// RULE-15: what is published later comes later, everywhere; a topic whose rules look at nothing has nobody wait.
#[test]
fn rule_41_publishes_stay_in_their_order() {
    let mut play = three();
    play.send(says("n=9").due(50));
    for n in ["n=1", "n=2", "n=3"] {
        play.at(7).send_within(1, vec![says(n), says("n=0")]);
    }
    // Without a limit as well.
    play.at(8).send(says("n=4"));
    assert_eq!(waiting(&play), 7);
    play.at(60).fire(TOPIC, DeadlineKind::Scheduled);
    assert_eq!(waiting(&play), 8, "what becomes due waits behind");
    let mut rounds = 0;
    while play.match_on(100) {
        rounds += 1;
        for name in ["b", "c"] {
            let (first, later) = (play.peek(play.main("a")), play.peek(play.main(name)));
            assert!(first.len() >= later.len() && first.len() <= later.len() + 1, "{name}");
        }
    }
    assert!(rounds > 8, "{rounds}");
    for name in ["a", "b", "c"] {
        let seen = play.peek(play.main(name));
        let bodies: Vec<u64> = seen.iter().map(|copy| copy.enqueued_sequence.0).collect();
        assert_eq!(bodies, [2, 4, 6, 8, 9], "{name}");
        // SEQ-10: the instant its topic accepted it, or activated it.
        let times: Vec<_> = seen.iter().map(|copy| copy.enqueued_at).collect();
        assert_eq!(times, [at(7), at(7), at(7), at(8), at(60)], "{name}");
    }
    let mut blind = Topic::with(["a", "b"]);
    assert_eq!(blind.send_within(1, vec![says("n=1"), says("n=2")]), "sent 1 2");
    assert_eq!((blind.look("a").as_str(), blind.look("b").as_str()), ("1 2", "1 2"));
}

/// SCHED-9, QUOTA-32: what waits is no scheduled message, cannot be cancelled, and is charged to the topic.
#[test]
fn rule_41_what_waits_is_published() {
    let properties = TopicProperties { requires_duplicate_detection: true, ..topic() };
    let mut play = Topic::new(properties);
    play.subscribe("a", subscription(), rule("r", "n > 0"));
    play.subscribe("b", subscription(), rule("r", "n > 0"));
    assert_eq!(play.send_within(1, vec![says("n=1").id("x"), says("n=2").id("y")]), "sent 1 2");
    let info = play.info(TOPIC);
    assert_eq!((info.counts.scheduled, info.counts.published, info.size_bytes), (0, 2, 30));
    assert_eq!(play.peek(QueueId::main(TOPIC)).len(), 0);
    let (origin, numbers) = (None, vec![SequenceNumber(2)]);
    let cancel = domain::CancelScheduled { origin, entity: TOPIC, numbers };
    assert_eq!(words(&play.group.apply(Command::CancelScheduled(cancel))), "MessageNotFound");
    // DUP-2.
    assert_eq!(play.send_within(1, vec![says("n=1").id("x"), says("n=3").id("y")]), "sent 1 2");
    while play.match_on(1) {}
    assert_eq!((play.look("a").as_str(), play.look("b").as_str()), ("1 2", "1 2"));
    assert_eq!(play.info(TOPIC).size_bytes, 40);
}

/// STATE-3.
#[test]
fn rule_41_a_disabled_topic_matches_nothing() {
    let mut play = three();
    play.send_within(1, vec![says("n=1")]);
    let before = copies(&play);
    play.update(|topic| topic.status = EntityStatus::Disabled);
    assert!(!play.match_on(1_000));
    assert_eq!((copies(&play), waiting(&play)), (before, 1));
    play.update(|topic| topic.status = EntityStatus::Active);
    while play.match_on(1_000) {}
    assert_eq!((copies(&play).len(), waiting(&play)), (3, 0));
}

/// Whatever is deleted under way, the others get theirs, and nothing is left behind.
#[test]
fn rule_41_deletion_under_way_leaves_nothing() {
    for gone in ["a", "b", "c"] {
        let mut play = three();
        play.send_within(1, vec![says("n=1"), says("n=2")]);
        assert_eq!(progress(&play).subscription, play.id("b"));
        play.delete(play.id(gone));
        while play.match_on(1) {}
        let left = if gone == "a" { 4 + 1 } else { 4 };
        assert_eq!(copies(&play).len(), left, "{gone}: with what is to be swept");
        play.sweep();
        assert_eq!((copies(&play).len(), play.bodies()), (4, 2), "{gone}");
    }
    let mut play = three();
    play.send_within(1, vec![says("n=1"), says("n=2")]);
    play.delete(TOPIC);
    play.sweep();
    let left = play.count(|key| *key != Key::Meta);
    assert_eq!(left, 0, "rows of a topic that is gone");
    // RULE-8: copies may go before the last is made.
    let mut play = three();
    play.send_within(1, vec![says("n=1")]);
    play.match_on(1);
    let a = play.main("a");
    assert_eq!(play.take(a, 1).len(), 1);
    play.complete(a, 1);
    assert_eq!(play.bodies(), 1);
    while play.match_on(1) {}
    for name in ["b", "c"] {
        let queue = play.main(name);
        assert_eq!(play.take(queue, 1).len(), 1);
        play.complete(queue, 1);
    }
    assert_eq!(play.bodies(), 0);
}

/// RULE-13: each subscription's rules are those that it has when its turn comes.
#[test]
fn rule_13_rules_changed_under_way_count_for_what_they_are_not_past() {
    let mut play = three();
    play.send_within(1, vec![says("n=1")]);
    assert_eq!(progress(&play).subscription, play.id("b"));
    assert_eq!(play.put("a", rule("r", "n > 7"), true), "done");
    assert_eq!(play.put("b", rule("r", "n > 7"), true), "done");
    assert_eq!(play.put("c", rule("r", "n > 7"), true), "done");
    assert_eq!(play.add("c", acting("s", "n > 0", "SET x = 1")), "done");
    play.subscribe("d", subscription(), rule("r", "n = 1"));
    while play.match_on(1) {}
    assert_eq!(["a", "b", "c", "d"].map(|name| play.look(name)), ["1", "", "1", "1"]);
    // An action that is removed before its copy is made makes none.
    let mut play = Topic::new(topic());
    play.subscribe("a", subscription(), acting("one", "n > 0", "SET x = 1"));
    play.add("a", acting("two", "n > 0", "SET x = 2"));
    play.send_within(1, vec![says("n=1")]);
    while progress(&play).order.is_some() {
        play.match_on(1);
    }
    assert_eq!(play.remove("a", "two"), "done");
    while play.match_on(1) {}
    assert_eq!(play.look("a"), "1");
}

/// TTL-7, TTL-19: a message's time runs from its acceptance, not from the last of its copies.
#[test]
fn rule_41_a_lifetime_begins_with_acceptance() {
    for (ttl, default) in [(Some(ms(10)), Span::MAX), (None, ms(10 * SECOND))] {
        let lives = ttl.unwrap_or(default).0;
        let mut play = Topic::new(topic());
        let properties = SubscriptionProperties { default_ttl: default, ..subscription() };
        play.subscribe("a", properties.clone(), rule("r", "n > 0"));
        play.subscribe("b", properties.clone(), rule("r", "n > 0"));
        play.subscribe("c", properties, rule("r", "n > 0"));
        play.at(0).send_within(1, vec![NewMessage { ttl, ..says("n=1") }]);
        play.at(lives - 1);
        play.match_on(1);
        let first = play.main("a");
        assert_eq!(play.take(first, 1)[0].expires_at, Some(at(lives)));
        play.settle(first, 1, Disposition::Release);
        // Over before it came.
        play.at(lives + 5);
        while play.match_on(1) {}
        let queue = play.main("c");
        assert_eq!(play.take(queue, 1).len(), 0, "nobody receives what has expired");
        play.fire_all();
        assert_eq!((copies(&play).len(), play.bodies()), (0, 0));
    }
}

/// RULE-9: what is too much for the entry is accepted, and vanishes if nobody takes it.
#[test]
fn rule_9_a_topic_that_looks_first_accepts_what_it_cannot_look_through() {
    let properties = TopicProperties { filter_before_publishing: true, ..topic() };
    let set_up = || {
        let mut play = Topic::new(properties.clone());
        for name in ["a", "b", "c"] {
            play.subscribe(name, subscription(), rule("r", "n > 5"));
        }
        play
    };
    for (units, content, expected, left) in [
        (100_000, "n=1", "NoMatchingSubscriptionException", 0),
        (100_000, "n=6", "sent 1", 0),
        (1, "n=1", "sent 1", 1),
        (1, "n=6", "sent 1", 1),
    ] {
        let mut play = set_up();
        assert_eq!(play.send_within(units, vec![says(content)]), expected, "{units} {content}");
        assert_eq!(waiting(&play), left);
        while play.match_on(1) {}
        let made = if content == "n=6" { 3 } else { 0 };
        assert_eq!((copies(&play).len(), play.bodies()), (made, made.min(1)), "{units} {content}");
    }
}

/// A transaction that is taken back leaves nothing to go on with; one that is kept does.
#[test]
fn rule_41_a_transaction_is_matched_later_as_well() {
    for is_spoiled in [false, true] {
        let mut play = three();
        let send = domain::Send { origin: None, entity: TOPIC, messages: vec![says("n=1")] };
        let mut operations = vec![Operation::Send(send)];
        if is_spoiled {
            let (origin, numbers) = (None, vec![SequenceNumber(99)]);
            operations.push(Operation::CancelScheduled(domain::CancelScheduled {
                origin,
                entity: TOPIC,
                numbers,
            }));
        }
        let commit = domain::Commit { origin: None, entity: TOPIC, operations };
        play.within(1, Command::Commit(commit));
        assert_eq!(waiting(&play), usize::from(!is_spoiled));
        while play.match_on(1) {}
        assert_eq!(copies(&play).len(), if is_spoiled { 0 } else { 3 });
    }
}

#[test]
fn rule_42_a_topic_that_does_not_keep_up_is_busy() {
    let mut play = three();
    play.send_within(1, vec![says("n=1")]);
    play.at(UNMATCHED_AGE_MAX.0 - 1);
    assert_eq!(play.send(says("n=1")), "sent 2");
    play.at(UNMATCHED_AGE_MAX.0);
    assert_eq!(play.send(says("n=1")), "ServiceBusy");
    // The first is done; the next came later.
    while waiting(&play) > 1 {
        play.match_on(1);
    }
    assert_eq!(play.send(says("n=1")), "sent 3");
    while play.match_on(1_000_000) {}
    let batch = vec![says("n=1"); UNMATCHED_COUNT_MAX as usize / 4];
    for round in 0..4 {
        let told = play.send_within(1, batch.clone());
        assert!(told.starts_with("sent"), "{round}: {told}");
    }
    // One of them has left the line already, or is at its head.
    let told = play.send_within(1, vec![says("n=1"); 2]);
    assert!(told == "ServiceBusy", "{told}");
}

/// The table of what takes long: 2,000 filters on 30 kB. No entry takes more than its budget and one rule.
#[test]
fn rule_41_two_thousand_filters_on_thirty_kilobytes_are_spread_evenly() {
    const SUBSCRIPTIONS: u64 = 20;
    const EACH: u64 = 100;
    const BUDGET: u64 = domain::MATCH_UNITS_MAX;
    for pattern in ["%zz1%", "%_z1_b%"] {
        let mut play = Topic::new(topic());
        let mut entries = Vec::new();
        for n in 0..SUBSCRIPTIONS {
            let (entity, like) = (EntityId(1000 + n), format!("t LIKE '{pattern}'"));
            let first = if n == 0 { "n = 5" } else { &like };
            let create = CreateSubscription {
                entity,
                topic: TOPIC,
                name: subscription_path("Orders", &format!("s{n}")),
                properties: Box::new(subscription()),
                rule: Box::new(rule("r", first)),
            };
            entries.push(Command::Topic(TopicCommand::CreateSubscription(create)));
            for n in 1..EACH {
                let (origin, replace) = (None, false);
                let rule = Box::new(rule(&format!("r{n}"), &like));
                let put = PutRule { origin, entity, rule, replace };
                entries.push(Command::Topic(TopicCommand::PutRule(put)));
            }
        }
        let entry = play.group.entry(entries);
        play.group.step(vec![entry]);
        let text = format!("n=5;t={}", "az1ab".repeat(6 * 1024).replace("z1a", "z2a"));
        let content: &'static str = Box::leak(text.into_boxed_str());
        assert_eq!(play.send_within(BUDGET, vec![says(content)]), "sent 1");
        let (mut entries, mut came_to) = (1u64, Vec::new());
        while waiting(&play) > 0 {
            let MatchProgress { subscription, order, .. } = progress(&play);
            came_to.push((subscription.0 - 1000) * EACH + u64::from(order.unwrap_or(EACH as u32)));
            play.match_on(BUDGET);
            entries += 1;
        }
        assert_eq!(copies(&play).len(), 1);
        // 30 kB by 2,000 are 60 million: each entry has as many rules as the others.
        assert!((28..=34).contains(&entries), "{pattern}: {entries} entries");
        let rules: Vec<u64> = [0].into_iter().chain(came_to.iter().copied()).collect();
        let each = rules.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            each.clone().all(|rules| (50..=85).contains(&rules)),
            "{:?}",
            each.collect::<Vec<_>>()
        );
    }
}
