//! QUOTA: limits of a queue.

use domain::{
    AccessRights, AuthorizationRule, BATCH_DELETE_MAX, Command, CreateQueue, Disposition,
    ID_CHARS_MAX, NewMessage, Outcome, PATH_CHARS_MAX, PEEK_MESSAGES_MAX, QueueProperties, Refusal,
    Span, TOKENS_MAX, TopicProperties, TopicSpecifics, validate,
};

use crate::support::{Group, QUEUE};
use crate::table::*;

const KILOBYTE: u32 = 1024;

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Refused(refusal) => refusal.name(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn quota_0_the_default_profile_has_256_kb_messages_and_up_to_1_mb_for_a_queue() {
    assert_eq!(queue().max_message_size_kilobytes, 256);
    for (kilobytes, size, allowed) in
        [(256, 1024, true), (1024, 81920, true), (1025, 1024, false), (256, 81921, false)]
    {
        let properties = QueueProperties {
            max_message_size_kilobytes: kilobytes,
            max_size_megabytes: size,
            ..queue()
        };
        assert_eq!(validate::queue_properties(&properties).is_ok(), allowed, "{kilobytes} {size}");
    }
}

/// Sends messages of a megabyte until a queue of `megabytes` refuses.
#[test]
fn quota_1_a_full_queue_refuses_and_says_how_full_it_is() {
    let large = QueueProperties { max_message_size_kilobytes: 1024, ..queue() };
    for megabytes in [1024, 2048] {
        let mut play =
            Table::new(QueueProperties { max_size_megabytes: megabytes, ..large.clone() });
        let one = |_| {
            let messages = vec![m().size(1024 * KILOBYTE)];
            Command::Send(domain::Send { origin: None, entity: QUEUE, messages })
        };
        let entry = play.group.entry((0..megabytes + 1).map(one).collect());
        let outcomes = play.group.step(vec![entry]).remove(0);
        let sent = outcomes.iter().filter(|o| matches!(o, Outcome::Sent { .. })).count();
        assert_eq!(sent as u32, megabytes);
        let limit = u64::from(megabytes) << 20;
        match outcomes.last() {
            Some(Outcome::Refused(Refusal::QuotaExceeded { used, max, .. })) => {
                assert_eq!((*used, *max), (limit, limit));
            }
            other => panic!("not refused: {other:?}"),
        }
    }
}

#[test]
fn quota_5_a_message_is_bounded_by_its_queue() {
    check(
        queue(),
        [
            (0, send(m().size(256 * KILOBYTE + 1)), "MessageSizeExceeded", ""),
            (0, send(m().size(256 * KILOBYTE)), "sent 1", "1"),
            (0, Update(|p| p.max_message_size_kilobytes = 1), "done", "1"),
            (0, send(m().size(KILOBYTE + 1)), "MessageSizeExceeded", "1"),
            (0, send(m().size(KILOBYTE)), "sent 2", "1 2"),
            (0, Update(|p| p.max_message_size_kilobytes = 1024), "done", "1 2"),
            (0, send(m().size(1024 * KILOBYTE)), "sent 3", "1 2 3"),
        ],
    );
}

#[test]
fn quota_6_a_batch_is_bounded_to_1_mb() {
    let parts = |last| {
        let part = || m().size(256 * KILOBYTE);
        Send(vec![part(), part(), part(), m().size(last)])
    };
    check(
        queue(),
        [
            (0, parts(256 * KILOBYTE), "sent 1 2 3 4", "1 2 3 4"),
            (0, Send(vec![m().size(256 * KILOBYTE); 5]), "MessageSizeExceeded", "1 2 3 4"),
            (0, Send(Vec::new()), "ArgumentOutOfRangeException", "1 2 3 4"),
        ],
    );
}

#[test]
fn quota_9_a_default_time_to_live_has_no_upper_bound() {
    for ttl in [Span::MAX, ms(14 * DAY + 1), ms(1000 * 365 * DAY)] {
        let properties = QueueProperties { default_ttl: ttl, ..queue() };
        assert_eq!(validate::queue_properties(&properties), Ok(()));
    }
    assert_eq!(queue().default_ttl, Span::MAX);
}

#[test]
fn quota_10_at_most_4_000_deletions_for_each_call() {
    assert_eq!(BATCH_DELETE_MAX, 4000);
    check(
        queue(),
        [
            (0, send(m()), "sent 1", "1"),
            (1, Delete(4001), "ArgumentOutOfRangeException", "1"),
            (1, dead(Delete(4001)), "ArgumentOutOfRangeException", "1"),
            (1, Delete(4000), "deleted 1", "|| deleted 1"),
        ],
    );
}

#[test]
fn quota_15_a_path_has_at_most_260_characters() {
    assert_eq!(PATH_CHARS_MAX, 260);
    assert_eq!(validate::queue_name(&"q".repeat(260)), Ok(()));
    let refusal = validate::queue_name(&"q".repeat(261)).expect_err("too long");
    assert_eq!(refusal.name(), "ArgumentException");
    // The machine refuses it as well.
    let mut group = Group::empty();
    let create =
        CreateQueue { entity: QUEUE, name: "q".repeat(261), properties: Box::new(queue()) };
    assert_eq!(name_of(&group.apply(Command::CreateQueue(create))), "ArgumentException");
}

#[test]
fn quota_17_ids_have_at_most_128_characters() {
    assert_eq!(ID_CHARS_MAX, 128);
    let with = |text: String| {
        [
            NewMessage { message_id: Some(text.clone()), ..m() },
            NewMessage { session_id: Some(text.clone()), ..m() },
            NewMessage { partition_key: Some(text), ..m() },
        ]
    };
    // Characters, not bytes.
    for message in with("ü".repeat(128)) {
        let mut play = Table::new(queue());
        assert_eq!(words(&play.send(vec![message])), "sent 1");
    }
    for message in with("u".repeat(129)) {
        let mut play = Table::new(queue());
        assert_eq!(words(&play.send(vec![m(), message])), "ArgumentException");
        assert_eq!(play.look(), "");
    }
    let empty = NewMessage { message_id: Some(String::new()), ..m() };
    let mut play = Table::new(queue());
    assert_eq!(words(&play.send(vec![empty])), "ArgumentException");
}

#[test]
fn quota_19_all_properties_together_have_at_most_64_kb() {
    check(
        queue(),
        [
            (0, send(m().header(64 * KILOBYTE)), "sent 1", "1"),
            (0, send(m().header(64 * KILOBYTE + 1)), "SerializationException", "1"),
        ],
    );
    // Those laid over a stored message count as well.
    let mut play = Table::new(queue());
    play.play(0, send(m().header(64 * KILOBYTE - 10)));
    play.play(0, Take(1));
    let abandon = |length: usize| Disposition::Abandon {
        properties: properties([("name", text(&"v".repeat(length)))]),
    };
    let outcome = play.dispose(MAIN, vec![(1, abandon(7))], false);
    assert_eq!(words(&outcome), "settled not 0 SerializationException");
    assert_eq!(play.look(), "1L");
    let outcome = play.dispose(MAIN, vec![(1, abandon(6))], false);
    assert_eq!(words(&outcome), "settled");
}

#[test]
fn quota_25_at_most_250_messages_for_each_peek() {
    assert_eq!(PEEK_MESSAGES_MAX, 250);
    let mut play = Table::new(queue());
    play.send(vec![m(); 251]);
    assert_eq!(play.peek(MAIN, 0, u32::MAX).len(), 250);
    assert_eq!(play.peek(MAIN, 251, u32::MAX).len(), 1);
}

fn authorization_rule(name: &str) -> AuthorizationRule {
    AuthorizationRule {
        name: name.to_owned(),
        rights: AccessRights { send: true, ..AccessRights::default() },
        primary_key: "p".to_owned(),
        secondary_key: "s".to_owned(),
        ..AuthorizationRule::default()
    }
}

#[test]
fn quota_23_a_queue_or_topic_has_at_most_12_authorization_rules() {
    let rules = |count: usize| (0..count).map(|n| authorization_rule(&format!("r{n}"))).collect();
    for (count, refused) in [(0, None), (12, None), (13, Some("QuotaExceeded"))] {
        let queue = QueueProperties { authorization_rules: rules(count), ..queue() };
        let refusal = validate::queue_properties(&queue).err();
        assert_eq!(refusal.map(|refusal| refusal.name()), refused, "{count}");
        let topic =
            TopicProperties { authorization_rules: rules(count), ..TopicProperties::default() };
        let refusal = validate::topic_properties(&topic).err();
        assert_eq!(refusal.map(|refusal| refusal.name()), refused, "{count}");
        let mut specifics = TopicSpecifics::default();
        specifics.tell(&topic);
        assert_eq!(TopicProperties::of(&topic.common(), &specifics), topic);
    }
}

/// Each row a change to one of two good rules, and what is told.
#[test]
fn ent_11_an_authorization_rule_is_refused_for_what_is_wrong_with_it() {
    type Change = fn(&mut AuthorizationRule);
    for (change, told) in [
        ((|_| ()) as Change, None),
        (|rule| rule.name = "n".repeat(256), None),
        (|rule| rule.name = "Az09-_.!*()".to_owned(), None),
        (|rule| rule.name = "FIRST".to_owned(), None),
        (|rule| rule.name = "n".repeat(257), Some("less than 1 or more than 256 characters")),
        (|rule| rule.name = String::new(), Some("rule '' (number 2) has a name of less than 1")),
        (|rule| rule.name = "a b".to_owned(), Some("rule 'a b' (number 2) has a name with char")),
        (|rule| rule.name = "a\nb".to_owned(), Some("rule 'a\\nb' (number 2) has a name with")),
        (|rule| rule.name = "é".to_owned(), Some("other than letters, digits and -_.!*()")),
        (|rule| rule.name = "first".to_owned(), Some("rule 'first' (number 2) is there twice")),
        (|rule| rule.rights = AccessRights::default(), Some("has no rights; name some of")),
        (|rule| rule.rights = AccessRights::ALL, None),
        (|rule| rule.rights.listen = true, None),
        (|rule| rule.rights.manage = true, Some("has Manage alone; name Listen and Send too")),
        (|rule| rule.primary_key = "k".repeat(256), None),
        (|rule| rule.primary_key = "k".repeat(257), Some("has a primary key that is not 1 to 256")),
        (|rule| rule.secondary_key = String::new(), Some("has a secondary key that is not 1 to")),
        (|rule| rule.secondary_key = "a b".to_owned(), Some("visible ASCII characters")),
    ] {
        let mut rule = authorization_rule("second");
        change(&mut rule);
        let authorization_rules = vec![authorization_rule("first"), rule];
        let properties = QueueProperties { authorization_rules, ..queue() };
        let refusal = validate::queue_properties(&properties).err();
        assert_eq!(refusal.is_some(), told.is_some(), "{refusal:?} {told:?}");
        let Some((refusal, told)) = refusal.zip(told) else { continue };
        let text = refusal.to_string();
        assert_eq!(refusal.name(), "ArgumentException", "{text}");
        assert!(text.contains(told) && text.lines().count() == 1, "{text}");
        assert!(!text.contains("kkk"), "a key is told: {text}");
    }
}

#[test]
fn quota_28_user_metadata_has_at_most_1_024_characters() {
    let with = |text: String| QueueProperties { user_metadata: text, ..queue() };
    assert_eq!(validate::queue_properties(&with("ü".repeat(1024))), Ok(()));
    let refusal = validate::queue_properties(&with("u".repeat(1025))).expect_err("too long");
    assert_eq!(refusal.name(), "ArgumentOutOfRangeException");
}

#[test]
fn quota_29_reason_and_description_have_at_most_4_096_characters() {
    for (reason, description) in [(4097, 1), (1, 4097)] {
        let mut play = Table::new(queue());
        play.play(0, send(m()));
        play.play(0, Take(1));
        let (reason, description) = ("r".repeat(reason), "d".repeat(description));
        let how = dead_letter_for(Some(&reason), Some(&description));
        let outcome = play.dispose(MAIN, vec![(1, how)], true);
        assert_eq!(name_of(&outcome), "ArgumentOutOfRangeException");
        assert_eq!(play.look(), "1L");
        let (reason, description) = ("r".repeat(4096), "d".repeat(4096));
        let how = dead_letter_for(Some(&reason), Some(&description));
        assert_eq!(words(&play.dispose(MAIN, vec![(1, how)], true)), "settled");
    }
}

#[test]
fn quota_32_size_is_of_all_that_is_stored() {
    let mut play = Table::new(queue());
    let size = |play: &Table| play.info().size_bytes;
    play.play(0, Send(vec![m().size(100), m().size(20).due(50), m().size(3), m().size(4000)]));
    assert_eq!(size(&play), 4123);
    play.play(0, Take(3));
    play.play(0, Defer(&[1]));
    play.dispose(MAIN, vec![(3, dead_letter_for(Some("because"), None))], false);
    // The reason is stored too: its name and its text.
    assert_eq!(size(&play), 4123 + 16 + 7);
    play.play(1, Cancel(&[2]));
    assert_eq!(size(&play), 4103 + 23);
    play.play(1, Complete(&[4]));
    assert_eq!(size(&play), 103 + 23);
    play.play(1, dead(Delete(9)));
    assert_eq!(size(&play), 100);
    play.play(1, Deferred(&[1]));
    play.play(1, Complete(&[1]));
    assert_eq!(size(&play), 0);
}

#[test]
fn quota_33_only_sends_meet_the_size_check() {
    let mut play = Table::new(QueueProperties {
        max_message_size_kilobytes: 1024,
        max_delivery_count: 1,
        ..queue()
    });
    let megabyte = |index: u32| {
        let message = m().size(1024 * KILOBYTE);
        let message = if index == 0 { message.due(50) } else { message };
        let messages = vec![message];
        Command::Send(domain::Send { origin: None, entity: QUEUE, messages })
    };
    let entry = play.group.entry((0..1024).map(megabyte).collect());
    play.group.step(vec![entry]);
    assert_eq!(play.play(1, send(m())), "QuotaExceeded");
    assert_eq!(play.play(1, Take(3)), "got 2 3 4");
    assert_eq!(play.play(1, Abandon(&[2])), "settled");
    assert_eq!(play.play(1, DeadLetter(&[3])), "settled");
    assert_eq!(play.play(1, Defer(&[4])), "settled");
    assert_eq!(play.play(50, FireAll), "fired activated 1");
    assert_eq!(play.counts().dead_lettered, 3);
}

#[test]
fn a_request_names_a_bounded_number_of_messages() {
    let mut play = Table::new(queue());
    let pairs = |count| vec![(1, Disposition::Complete); count];
    let outcome = play.dispose(MAIN, pairs(TOKENS_MAX + 1), false);
    assert_eq!(name_of(&outcome), "ArgumentOutOfRangeException");
    let outcome = play.dispose(MAIN, pairs(TOKENS_MAX), false);
    assert!(matches!(outcome, Outcome::Settled { refused } if refused.len() == TOKENS_MAX));
    let numbers = vec![1; TOKENS_MAX + 1];
    let outcome = play.receive_deferred(MAIN, &numbers);
    assert_eq!(name_of(&outcome), "ArgumentOutOfRangeException");
}
