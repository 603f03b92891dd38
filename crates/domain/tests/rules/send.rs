//! SEND: acceptance checks.

use domain::{
    BATCH_BYTES_MAX, Command, EntityStatus, HEADER_BYTES_MAX, MESSAGE_BYTES_MIN, NewMessage,
    Outcome, QueueProperties, Refusal,
};

use crate::support::{Group, QUEUE};
use crate::table::*;

const LARGEST: u32 = 256 * 1024;

fn in_session(session: &str, key: &str) -> NewMessage {
    NewMessage { session_id: Some(session.to_owned()), partition_key: Some(key.to_owned()), ..m() }
}

/// One of these fills a megabyte, 1,024 of them a queue.
fn megabyte() -> NewMessage {
    m().size(1024 * 1024)
}

fn large() -> QueueProperties {
    QueueProperties {
        requires_duplicate_detection: true,
        max_message_size_kilobytes: 1024,
        ..queue()
    }
}

/// Sends so many messages of a megabyte, in one entry.
fn fill(play: &mut Table, count: usize) {
    let send = |_| {
        let messages = vec![megabyte()];
        Command::Send(domain::Send { origin: None, entity: QUEUE, messages })
    };
    let entry = play.group.entry((0..count).map(send).collect());
    let outcomes = play.group.step(vec![entry]).remove(0);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Sent { .. })));
}

#[test]
fn send_1_checks_come_in_one_order() {
    // Each message breaks a rule and all later ones as well; mending one at a time shows the next.
    let oversized = NewMessage {
        size_bytes: 1024 * 1024 + 1,
        header_bytes: HEADER_BYTES_MAX as u32 + 1,
        ..in_session("a", "b").id("first")
    };
    let mut group = Group::empty();
    let messages = vec![oversized.clone()];
    let command = domain::Send { origin: None, entity: QUEUE, messages };
    assert_eq!(words(&group.apply(Command::Send(command))), "MessagingEntityNotFound");

    let mut play = Table::new(large());
    play.play(0, send(m().id("first").size(0)));
    fill(&mut play, 1024);
    play.play(0, Status(EntityStatus::SendDisabled));
    assert_eq!(words(&play.send(vec![oversized.clone()])), "MessagingEntityDisabled");
    play.play(0, Status(EntityStatus::Active));
    assert_eq!(words(&play.send(vec![oversized.clone()])), "MessageSizeExceeded");
    let headed = NewMessage { size_bytes: LARGEST, ..oversized };
    assert_eq!(words(&play.send(vec![headed.clone()])), "SerializationException");
    let torn = NewMessage { header_bytes: 4, ..headed };
    assert_eq!(words(&play.send(vec![torn.clone()])), "InvalidOperationException");
    let whole = NewMessage { partition_key: None, ..torn };
    assert_eq!(words(&play.send(vec![whole.clone()])), "QuotaExceeded");
    assert_eq!(play.play(1, Delete(4000)), "deleted 1025");
    // Last comes the duplicate, which is accepted and dropped.
    assert_eq!(words(&play.send(vec![whole])), "sent 1");
    assert_eq!(play.look(), "| | deleted 1025");
}

#[test]
fn send_2_a_full_queue_refuses_plain_and_scheduled_sends() {
    let mut play = Table::new(large());
    fill(&mut play, 1023);
    play.play(0, send(m().size(1024 * 1024 - 1)));
    assert_eq!(play.info().size_bytes, (1 << 30) - 1);
    // The size before the send decides: one byte of room takes a whole message.
    assert_eq!(play.play(1, send(megabyte())), "sent 1025");
    assert_eq!(play.play(1, send(m().size(0))), "QuotaExceeded");
    assert_eq!(play.play(1, send(m().size(0).due(50))), "QuotaExceeded");
    // Room is made by completing, not by taking.
    assert_eq!(play.play(1, Take(1)), "got 1");
    assert_eq!(play.play(1, send(m().due(50))), "QuotaExceeded");
    assert_eq!(play.play(1, Complete(&[1])), "settled");
    assert_eq!(play.play(1, send(m().due(50))), "sent 1026");
    assert_eq!(play.play(1, send(m())), "QuotaExceeded");
}

#[test]
fn send_3_a_batch_is_accepted_or_refused_as_a_whole() {
    check(
        queue(),
        [
            (0, Send(vec![m(), m().size(LARGEST + 1), m()]), "MessageSizeExceeded", ""),
            (0, Send(vec![m(), in_session("a", "b")]), "InvalidOperationException", ""),
            (0, Send(vec![m(), in_session("a", "a"), m().due(9)]), "sent 1 2 3", "1 2 3S"),
        ],
    );
    // The batch limit counts bytes of all.
    let quarter = BATCH_BYTES_MAX as u32 / 4;
    let four = || vec![m().size(quarter), m().size(quarter), m().size(quarter), m().size(quarter)];
    let mut over = four();
    over.push(m().size(1));
    check(
        queue(),
        [(0, Send(over), "MessageSizeExceeded", ""), (0, Send(four()), "sent 1 2 3 4", "1 2 3 4")],
    );
}

/// However small they are, their number is bounded by bytes.
#[test]
fn quota_6_a_send_has_a_limit_in_bytes_and_not_in_messages() {
    const MOST: usize = BATCH_BYTES_MAX / MESSAGE_BYTES_MIN as usize;
    let mut play = Table::new(queue());
    let many = |count| vec![m().size(1); count];
    let Outcome::Refused(refusal) = play.send(many(MOST + 1)) else { panic!("it is accepted") };
    assert_eq!(refusal.name(), "MessageSizeExceeded");
    assert!(matches!(play.send(many(MOST)), Outcome::Sent { .. }));
    assert_eq!(play.counts().accepted, MOST as u64);
    assert!(matches!(play.send(Vec::new()), Outcome::Refused(Refusal::ArgumentOutOfRange { .. })));
}

#[test]
fn send_5_session_and_partition_key_must_agree() {
    let alone = NewMessage { session_id: Some("a".to_owned()), ..m() };
    let key = NewMessage { partition_key: Some("b".to_owned()), ..m() };
    check(
        queue(),
        [
            (0, send(in_session("a", "A")), "InvalidOperationException", ""),
            (0, send(in_session("a", "a")), "sent 1", "1"),
            (0, send(alone), "sent 2", "1 2"),
            (0, send(key), "sent 3", "1 2 3"),
        ],
    );
}

#[test]
fn send_3_a_batch_to_a_partitioned_entity_has_one_key() {
    let refused = "InvalidOperationException";
    for (batch, expected) in [
        (vec![m(), m()], "sent 1 2"),
        (vec![m().key("a"), m().key("a")], "sent 1 2"),
        (vec![m().session("a"), m().key("a")], "sent 1 2"),
        (vec![m().key("a"), m()], refused),
        (vec![m(), m().key("a")], refused),
        (vec![m().key("a"), m().key("b")], refused),
        (vec![m().session("a"), m().session("b")], refused),
        // A message id alone is none.
        (vec![m().id("a"), m().id("b")], "sent 1 2"),
    ] {
        for enable_partitioning in [true, false] {
            let mut play = Table::new(QueueProperties { enable_partitioning, ..queue() });
            let expected = if enable_partitioning { expected } else { "sent 1 2" };
            assert_eq!(play.play(0, Send(batch.clone())), expected, "{batch:?}");
        }
    }
}
