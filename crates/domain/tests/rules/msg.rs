//! MSG: what a message is, and what the broker writes on it.

use domain::{
    Disposition, HEADER_BYTES_MAX, Key, Lifetime, MessageState, Origin, PROPERTY_BYTES_MAX,
    Properties, Row, SequenceNumber, Value,
};

use crate::support::QUEUE;
use crate::table::*;

fn body(play: &Table, number: u64) -> Option<Row> {
    play.group.rows.0.get(&Key::Body(QUEUE, SequenceNumber(number))).cloned()
}

#[test]
fn msg_1_the_content_is_stored_as_it_came() {
    let mut play = check(
        queue(),
        [
            (0, Send(vec![m().content("\0\u{1}any bytes"), m().content("")]), "sent 1 2", "1 2"),
            (0, Take(2), "got 1 2", "1L 2L"),
            (1, DeadLetter(&[1]), "settled", "2L | 1"),
        ],
    );
    assert_eq!(body(&play, 1), Some(Row::Body("\0\u{1}any bytes".into())));
    assert_eq!(body(&play, 2), Some(Row::Body("".into())));
    play.check([(2, Complete(&[2]), "settled", "| 1 | completed 1")]);
    assert_eq!(body(&play, 2), None);
}

#[test]
fn msg_3_the_broker_sets_number_times_lock_and_count() {
    let mut play = Table::new(queue());
    play.play(5, send(m().ttl(100)));
    let delivery = play.taken(MAIN, 1).remove(0);
    let held = lock(&delivery);
    assert_eq!(held.token.sequence, SequenceNumber(1));
    assert_eq!(held.until, at(5 + MINUTE));
    assert_eq!(
        delivery,
        domain::Delivery {
            sequence: SequenceNumber(1),
            body: SequenceNumber(1),
            topic: None,
            size_bytes: 10,
            state: MessageState::Active,
            delivery_count: 0,
            enqueued_at: at(5),
            enqueued_sequence: SequenceNumber(1),
            dead_letter_source: None,
            scheduled_at: None,
            ttl: Some(ms(100)),
            expires_at: Some(at(105)),
            lock: Some(held),
            overlay: None,
        }
    );
}

/// Bytes of which no two are alike.
const BYTES: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// Every type of MSG-4, and what it counts for. Numbers are such as no narrower type holds.
fn every_type() -> Vec<(Value, usize)> {
    vec![
        (Value::Byte(255), 1),
        (Value::SByte(-128), 1),
        (Value::Char('ß'), 4),
        (Value::Short(i16::MIN), 2),
        (Value::UShort(u16::MAX), 2),
        (Value::Int(i32::MIN), 4),
        (Value::UInt(u32::MAX), 4),
        (Value::Long(i64::MIN + 1), 8),
        (Value::ULong(u64::MAX), 8),
        (Value::Float(0.1), 4),
        (Value::Double(-0.1), 8),
        (Value::Decimal(BYTES), 16),
        (Value::Bool(true), 1),
        (Value::Uuid(BYTES), 16),
        (Value::String("text".to_owned()), 4),
        (Value::Uri("amqp://a".to_owned()), 8),
        (Value::DateTime(-1), 8),
        (Value::DateTimeOffset(1), 8),
        (Value::TimeSpan(-10), 8),
        (Value::Bytes(vec![1, 2, 3]), 3),
        (Value::Null, 1),
    ]
}

#[test]
fn msg_4_properties_of_every_type_are_kept() {
    let mut play = Table::new(queue());
    play.play(0, send(m()));
    play.play(0, Take(1));
    let mut properties = Properties::new();
    for (index, (value, bytes)) in every_type().into_iter().enumerate() {
        assert_eq!(value.size_bytes(), bytes, "{value:?}");
        properties.insert(format!("p{index:02}"), value);
    }
    let given = properties.clone();
    play.dispose(MAIN, vec![(1, Disposition::Abandon { properties })], false);
    let overlay = play.message(MAIN, 1).overlay.expect("an overlay");
    assert_eq!(overlay.set, given);
    assert!(overlay.removed.is_empty());
}

#[test]
fn msg_5_the_broker_overwrites_its_own_names() {
    let mut play = Table::new(dead_lettering());
    play.play(0, send(m().ttl(10)));
    play.play(0, Take(1));
    let properties = properties([
        ("DeadLetterReason", text("mine")),
        ("DeadLetterErrorDescription", Value::Int(3)),
        ("other", text("kept")),
    ]);
    play.dispose(MAIN, vec![(1, Disposition::Abandon { properties })], false);
    // Until the broker has an event of its own, the application's values stand.
    let set = play.message(MAIN, 1).overlay.expect("an overlay").set;
    assert_eq!(set.get("DeadLetterReason"), Some(&text("mine")));
    play.check([(10, FireAll, "fired dead-lettered 1", "| 1+1")]);
    let set = play.message(DEAD, 1).overlay.expect("an overlay").set;
    assert_eq!(set.get("DeadLetterReason"), Some(&text("TTLExpiredException")));
    let description = text("The message expired and was dead lettered.");
    assert_eq!(set.get("DeadLetterErrorDescription"), Some(&description));
    assert_eq!(set.get("other"), Some(&text("kept")));
}

#[test]
fn msg_6_a_copy_sent_again_has_nothing_of_the_first() {
    let mut play = Table::new(queue());
    play.check([
        (0, send(m()), "sent 1", "1"),
        (0, Take(1), "got 1", "1L"),
        (5, Abandon(&[1]), "settled", "1+1"),
        (6, Take(1), "got 1", "1L+1"),
        (7, send(m()), "sent 2", "1L+1 2"),
    ]);
    let row = play.message(MAIN, 2);
    assert_eq!((row.delivery_count, row.enqueued_at, row.overlay), (0, at(7), None));
    assert_eq!(row.lifetime, Lifetime::Derived);
}

#[test]
fn msg_7_properties_are_bounded_one_by_one_and_together() {
    let header = HEADER_BYTES_MAX as u32;
    check(
        queue(),
        [
            (0, send(m().header(header)), "sent 1", "1"),
            (0, send(m().header(header + 1)), "SerializationException", "1"),
        ],
    );
    // One property, where the machine meets it: laid over a stored message.
    let mut play = Table::new(queue());
    play.play(0, send(m()));
    play.play(0, Take(1));
    let mut with = |bytes: usize| {
        let properties = properties([("p", Value::Bytes(vec![0; bytes - 1]))]);
        let pairs = vec![(1, Disposition::Abandon { properties })];
        words(&play.dispose(MAIN, pairs, false))
    };
    assert_eq!(with(PROPERTY_BYTES_MAX + 1), "settled not 0 SerializationException");
    assert_eq!(with(PROPERTY_BYTES_MAX), "settled");
}

#[test]
fn msg_8_an_accepted_message_is_stored_and_numbered() {
    let mut play = Table::new(queue());
    let both = vec![m().content("now"), m().due(9).content("later")];
    play.check([(3, Send(both), "sent 1 2", "1 2S")]);
    assert_eq!(body(&play, 1), Some(Row::Body("now".into())));
    assert_eq!(body(&play, 2), Some(Row::Body("later".into())));
    // And a refused one is not.
    play.check([(4, send(m().size(256 * 1024 + 1)), "MessageSizeExceeded", "1 2S")]);
    assert_eq!(body(&play, 3), None);
    assert_eq!(play.state().next_sequence, SequenceNumber(3));
}

#[test]
fn msg_10_storage_order_is_the_order_of_an_ordered_producers_sends() {
    let mut play = Table::new(queue());
    let mut send = |serial, content: &'static str| {
        let origin = Origin { producer: 1, serial, ordered: true, retry: false };
        let send = domain::Send {
            origin: Some(origin),
            entity: QUEUE,
            messages: vec![m().content(content)],
        };
        words(&play.group.apply(domain::Command::Send(send)))
    };
    assert_eq!(send(1, "a"), "sent 1");
    // The second was lost on its way; the third must not pass it.
    assert_eq!(send(3, "c"), "SerialGap");
    assert_eq!(send(2, "b"), "sent 2");
    assert_eq!(send(3, "c"), "sent 3");
    for (number, content) in [(1, "a"), (2, "b"), (3, "c")] {
        assert_eq!(body(&play, number), Some(Row::Body(content.into())));
    }
}
