//! Streams: pipelined sends, receives by credit, settlements on the stream.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use wire::v1::{self, send_stream_response::Result as Answer};

use super::harness::*;

async fn next<T>(stream: &mut Streaming<T>) -> Option<T> {
    let next = timeout(Duration::from_secs(20), stream.message()).await;
    next.expect("an answer in time").expect("no error")
}

fn batch(serial: u64, bodies: &[&str]) -> v1::SendStreamRequest {
    let messages = bodies.iter().map(|body| message(body)).collect();
    v1::SendStreamRequest { serial, messages, ..Default::default() }
}

fn sent(answer: v1::SendStreamResponse) -> (u64, Vec<u64>) {
    match answer.result {
        Some(Answer::Sent(sent)) => (answer.serial, sent.sequence_numbers),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn msg_10_batches_are_answered_in_order_and_repeats_recognised() {
    let mut server = Server::with_queue(Default::default()).await;
    let mut requests = vec![batch(1, &["a"]), batch(2, &["b", "c"]), batch(3, &["d"])];
    requests[0].queue = "q".into();
    requests[0].producer = 42;
    let stream = server.messaging.send_stream(tokio_stream::iter(requests.clone())).await;
    let mut answers = stream.expect("a stream").into_inner();
    for expected in [(1, vec![1]), (2, vec![2, 3]), (3, vec![4])] {
        assert_eq!(next(&mut answers).await.map(sent), Some(expected));
    }
    assert_eq!(next(&mut answers).await, None);
    // SEND-8: after a lost connection, the same again and one more.
    let mut again = vec![requests[2].clone(), batch(4, &["e"])];
    again[0].queue = "q".into();
    again[0].producer = 42;
    again[0].retry = true;
    let stream = server.messaging.send_stream(tokio_stream::iter(again)).await;
    let mut answers = stream.expect("a stream").into_inner();
    assert_eq!(next(&mut answers).await.map(sent), Some((3, vec![4])));
    assert_eq!(next(&mut answers).await.map(sent), Some((4, vec![5])));
    assert_eq!(server.counters().await.accepted, 5);
}

#[tokio::test]
async fn send_8_a_gap_and_a_refusal_are_answered_in_their_turn() {
    let mut server = Server::with_queue(Default::default()).await;
    let mut requests = vec![batch(1, &["a"]), batch(2, &["b"]), batch(4, &["c"])];
    requests[0].queue = "q".into();
    requests[0].producer = 42;
    requests[1].messages[0].message_id = Some("x".repeat(129));
    let stream = server.messaging.send_stream(tokio_stream::iter(requests)).await;
    let mut answers = stream.expect("a stream").into_inner();
    assert_eq!(next(&mut answers).await.map(sent), Some((1, vec![1])));
    for (serial, name, retry) in
        [(2, "ArgumentException", v1::Retry::No), (4, "SerialGap", v1::Retry::Yes)]
    {
        let answer = next(&mut answers).await.expect("an answer");
        let Some(Answer::Failure(failure)) = answer.result else { panic!("{answer:?}") };
        assert_eq!((answer.serial, failure.name.as_str(), failure.retry()), (serial, name, retry));
        assert!(!failure.tracking_id.is_empty() && failure.entity == "q", "ERR-27");
    }
}

#[tokio::test]
async fn lock_7_deliveries_come_by_credit_and_are_settled_on_the_stream() {
    let mut server = Server::with_queue(Default::default()).await;
    let (requests, outgoing) = mpsc::channel(8);
    let open = v1::ReceiveOpen { queue: "q".into(), ..Default::default() };
    let first = v1::ReceiveStreamRequest { open: Some(open), credit: 2, ..Default::default() };
    requests.send(first).await.expect("room");
    let stream = server.messaging.receive_stream(ReceiverStream::new(outgoing)).await;
    let mut answers = stream.expect("a stream").into_inner();
    server.send(vec![message("a"), message("b"), message("c")]).await.expect("sent");
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(next(&mut answers).await.expect("messages").messages);
    }
    assert_eq!(bodies(&got), ["a", "b"]);
    let mut settlements: Vec<_> = got.iter().map(complete).collect();
    settlements.push(complete(&got[0]));
    let settle =
        v1::ReceiveStreamRequest { settlements, settle_id: 9, credit: 1, ..Default::default() };
    requests.send(settle).await.expect("room");
    let (mut settled, mut more) = (Vec::new(), Vec::new());
    while settled.is_empty() || more.is_empty() {
        let answer = next(&mut answers).await.expect("an answer");
        settled.extend(answer.settled);
        more.extend(answer.messages);
    }
    assert_eq!(bodies(&more), ["c"]);
    assert_eq!((settled.len(), settled[0].settle_id, settled[0].failures.len()), (1, 9, 1));
    let failure = settled[0].failures[0].failure.as_ref().expect("a failure");
    assert_eq!(failure.name, "MessageLockLost", "LOCK-8: the second settlement");
    let nothing = v1::ReceiveStreamRequest { settle_id: 10, ..Default::default() };
    requests.send(nothing).await.expect("room");
    let answer = next(&mut answers).await.expect("an answer, also of no settlement");
    assert_eq!(answer.settled, [v1::Settled { settle_id: 10, failures: Vec::new() }]);
    drop(requests);
    assert_eq!(next(&mut answers).await, None, "the end of one side ends the other");
    let counters = server.counters().await;
    assert_eq!((counters.completed, counters.active), (2, 1));
}

/// LOCK-2, ERR-30.
#[tokio::test]
async fn err_30_what_is_received_and_deleted_cannot_be_settled() {
    let mut server = Server::with_queue(Default::default()).await;
    server.send(vec![message("a")]).await.expect("sent");
    let (requests, outgoing) = mpsc::channel(8);
    let mode = v1::ReceiveMode::ReceiveAndDelete.into();
    let open = v1::ReceiveOpen { queue: "q".into(), mode, ..Default::default() };
    let first = v1::ReceiveStreamRequest { open: Some(open), credit: 5, ..Default::default() };
    requests.send(first).await.expect("room");
    let stream = server.messaging.receive_stream(ReceiverStream::new(outgoing)).await;
    let mut answers = stream.expect("a stream").into_inner();
    let got = next(&mut answers).await.expect("messages").messages;
    assert_eq!((bodies(&got), &got[0].lock_token), (vec!["a"], &None));
    let settlement = v1::Settlement { lock_token: vec![1; 16].into(), disposition: None };
    let settle = v1::ReceiveStreamRequest {
        settlements: vec![settlement],
        settle_id: 1,
        ..Default::default()
    };
    requests.send(settle).await.expect("room");
    let settled = next(&mut answers).await.expect("an answer").settled;
    let failure = settled[0].failures[0].failure.as_ref().expect("a failure");
    assert_eq!(
        (failure.name.as_str(), failure.rule.as_str()),
        ("InvalidOperationException", "ERR-15")
    );
    assert_eq!(server.counters().await.completed, 1);
}

#[tokio::test]
async fn a_stream_to_nowhere_is_refused_at_once() {
    let mut server = Server::with_queue(Default::default()).await;
    let mut request = batch(1, &["a"]);
    request.queue = "absent".into();
    let refused = server.messaging.send_stream(tokio_stream::iter([request])).await;
    assert_eq!(info(&refused.expect_err("no such queue")).reason, "MessagingEntityNotFound");
    let nameless = server.messaging.send_stream(tokio_stream::iter([batch(1, &["a"])])).await;
    assert_eq!(info(&nameless.expect_err("no name")).reason, "ArgumentException");
    let closed = v1::ReceiveStreamRequest { credit: 1, ..Default::default() };
    let closed = server.messaging.receive_stream(tokio_stream::iter([closed])).await;
    assert_eq!(info(&closed.expect_err("not opened")).reason, "ArgumentException");
}

#[tokio::test]
async fn a_stopping_server_ends_its_streams() {
    let mut server = Server::with_queue(Default::default()).await;
    let (requests, outgoing) = mpsc::channel(8);
    let open = v1::ReceiveOpen { queue: "q".into(), ..Default::default() };
    let first = v1::ReceiveStreamRequest { open: Some(open), credit: 2, ..Default::default() };
    requests.send(first).await.expect("room");
    let stream = server.messaging.receive_stream(ReceiverStream::new(outgoing)).await;
    let mut answers = stream.expect("a stream").into_inner();
    server.stop().await;
    let end = timeout(Duration::from_secs(10), answers.message()).await.expect("an end");
    assert!(matches!(end, Ok(None) | Err(_)), "{end:?}");
}
