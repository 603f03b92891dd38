//! Transactions: one to a stream, gone with it.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;
use wire::v1::{
    self, transact_request::Step, transact_response::Result as Answer,
    transaction_operation::Operation,
};

use super::harness::*;
use crate::api::transactions_client::TransactionsClient;

/// A stream, and its answers.
struct Open {
    requests: mpsc::Sender<v1::TransactRequest>,
    answers: Streaming<v1::TransactResponse>,
}

impl Open {
    async fn at(server: &Server) -> Open {
        let mut api: TransactionsClient<Channel> = TransactionsClient::new(server.channel.clone());
        let (requests, outgoing) = mpsc::channel(8);
        let answers = api.transact(ReceiverStream::new(outgoing)).await.expect("a stream");
        Open { requests, answers: answers.into_inner() }
    }

    async fn ask(&mut self, step: Option<Step>) -> Answer {
        self.requests.send(v1::TransactRequest { step }).await.expect("room");
        self.next().await.expect("an answer")
    }

    async fn next(&mut self) -> Option<Answer> {
        let next = timeout(Duration::from_secs(20), self.answers.message()).await;
        let answer = next.expect("an answer in time").expect("no error")?;
        Some(answer.result.expect("a result"))
    }

    async fn perform(&mut self, operation: v1::TransactionOperation) -> Answer {
        self.ask(Some(Step::Operation(operation))).await
    }
}

fn operation(operation: Operation) -> v1::TransactionOperation {
    let operation = Some(operation);
    v1::TransactionOperation { entity: "q".into(), sub_queue: 0, operation }
}

fn sending(bodies: &[&str]) -> v1::TransactionOperation {
    let messages = bodies.iter().map(|body| message(body)).collect();
    operation(Operation::Send(v1::SendMessages { messages, to: String::new() }))
}

fn completing(received: &v1::ReceivedMessage) -> v1::TransactionOperation {
    operation(Operation::Settle(v1::SettleMessages { settlements: vec![complete(received)] }))
}

fn commit(serial: u64, retry: bool, operations: Vec<v1::TransactionOperation>) -> Option<Step> {
    let origin = Some(v1::Origin { producer: 9, serial, ordered: false, retry });
    Some(Step::Commit(v1::CommitTransaction { origin, operations }))
}

fn accepted() -> Answer {
    Answer::Accepted(v1::OperationAccepted {})
}

fn refused(answer: Answer) -> String {
    match answer {
        Answer::Failure(failure) => {
            assert_eq!(failure.retry(), v1::Retry::No, "{failure:?}");
            failure.name
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn tx_2_a_stream_gathers_and_commits() {
    let mut server = Server::with_queue(Default::default()).await;
    server.send(vec![message("a")]).await.expect("sent");
    let got = server.receive(1).await;
    let mut open = Open::at(&server).await;
    assert_eq!(open.perform(completing(&got[0])).await, accepted());
    assert_eq!(open.perform(sending(&["b", "c"])).await, accepted());
    assert_eq!(refused(open.perform(completing(&got[0])).await), "MessageLockLost");
    let token = got[0].lock_token.clone().expect("a lock");
    let renew = operation(Operation::Renew(v1::RenewLocks { lock_tokens: vec![token] }));
    assert_eq!(refused(open.perform(renew).await), "MessageLockLost");
    assert_eq!(server.counters().await.accepted, 1);
    let expected = vec![
        v1::OperationResult::default(),
        v1::OperationResult { sequence_numbers: vec![2, 3], ..Default::default() },
    ];
    let committed = Answer::Committed(v1::TransactionCommitted { results: expected });
    assert_eq!(open.ask(commit(1, false, Vec::new())).await, committed);
    assert_eq!(open.next().await, None);
    let counters = server.counters().await;
    assert_eq!((counters.active, counters.completed), (2, 1));
    // TX-14: the answer was lost; another stream says all of it again.
    let mut again = Open::at(&server).await;
    let operations = vec![completing(&got[0]), sending(&["b", "c"])];
    assert_eq!(again.ask(commit(1, true, operations)).await, committed);
    assert_eq!(server.counters().await.accepted, 3);
}

#[tokio::test]
async fn tx_7_the_end_of_a_stream_rolls_back() {
    let mut server = Server::with_queue(Default::default()).await;
    server.send(vec![message("a")]).await.expect("sent");
    let got = server.receive(1).await;
    let settle = async |server: &mut Server| {
        let settlements = vec![complete(&got[0])];
        let request = v1::SettleRequest { queue: "q".into(), settlements, ..Default::default() };
        let answer = server.messaging.settle(request).await.expect("an answer");
        answer.into_inner().failures.len()
    };
    let mut asked = Open::at(&server).await;
    assert_eq!(asked.perform(completing(&got[0])).await, accepted());
    let rollback = Some(Step::Rollback(v1::RollbackTransaction {}));
    assert_eq!(asked.ask(rollback).await, Answer::RolledBack(v1::TransactionRolledBack {}));
    assert_eq!(asked.next().await, None);
    // TX-8, TX-9: the lock may wait in another, and is free once that is dropped.
    let mut dropped = Open::at(&server).await;
    assert_eq!(dropped.perform(completing(&got[0])).await, accepted());
    assert_eq!(dropped.perform(sending(&["b"])).await, accepted());
    assert_eq!(settle(&mut server).await, 1);
    drop(dropped);
    let freed = async {
        while settle(&mut server).await > 0 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), freed).await.expect("the lock is free");
    let counters = server.counters().await;
    assert_eq!((counters.accepted, counters.completed), (1, 1));
}

/// What is no request is told so, and the transaction goes on.
#[tokio::test]
async fn err_12_what_a_stream_is_asked_in_error() {
    let server = Server::with_queue(Default::default()).await;
    let mut open = Open::at(&server).await;
    assert_eq!(refused(open.ask(None).await), "ArgumentException");
    let nothing = v1::TransactionOperation { entity: "q".into(), ..Default::default() };
    assert_eq!(refused(open.perform(nothing).await), "ArgumentException");
    let tokens = vec![bytes::Bytes::from_static(b"short")];
    let renew = operation(Operation::Renew(v1::RenewLocks { lock_tokens: tokens }));
    assert_eq!(refused(open.perform(renew).await), "ArgumentException");
    let state = operation(Operation::SetSessionState(v1::SetState::default()));
    assert_eq!(refused(open.perform(state).await), "ArgumentException");
    let odd = v1::TransactionOperation { sub_queue: 7, ..sending(&["a"]) };
    assert_eq!(refused(open.perform(odd).await), "ArgumentException");
    assert_eq!(refused(open.perform(sending(&[])).await), "ArgumentOutOfRangeException");
    let elsewhere = v1::TransactionOperation { entity: "none".into(), ..sending(&["a"]) };
    assert_eq!(refused(open.perform(elsewhere).await), "MessagingEntityNotFound");
    let many = sending(&["m"; 101]);
    assert_eq!(refused(open.perform(many).await), "TransactionSizeExceededException");
    assert_eq!(open.perform(sending(&["a"])).await, accepted());
    let origin = Some(v1::Origin { producer: 0, serial: 1, ordered: false, retry: false });
    let nobody = v1::CommitTransaction { origin, operations: Vec::new() };
    assert_eq!(refused(open.ask(Some(Step::Commit(nobody))).await), "ArgumentException");
    assert_eq!(open.next().await, None);
    let mut server = server;
    assert_eq!(server.counters().await.accepted, 0);
}

/// The server ends although transactions are open.
#[tokio::test]
async fn tx_7_a_server_that_stops_rolls_back() {
    let mut server = Server::with_queue(Default::default()).await;
    let mut open = Open::at(&server).await;
    assert_eq!(open.perform(sending(&["a"])).await, accepted());
    server.stop().await;
}

/// FWD-14: the messages of an operation may be for another entity.
#[tokio::test]
async fn fwd_14_an_operation_sends_via_its_entity() {
    let mut server = Server::with_queue(Default::default()).await;
    let request = v1::CreateQueueRequest { name: "d".into(), ..Default::default() };
    server.entities.create_queue(request).await.expect("created");
    let mut open = Open::at(&server).await;
    let messages = vec![message("a")];
    let send = v1::SendMessages { messages, to: "d".into() };
    assert_eq!(open.perform(operation(Operation::Send(send.clone()))).await, accepted());
    let nowhere = v1::SendMessages { to: "none".into(), ..send };
    let refusal = refused(open.perform(operation(Operation::Send(nowhere))).await);
    assert_eq!(refusal, "MessagingEntityNotFound");
    assert!(matches!(open.ask(commit(1, false, Vec::new())).await, Answer::Committed(_)));
    let moved = async {
        while server.counters().await.forwarded < 1 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), moved).await.expect("it arrives");
    let request = v1::GetQueueRequest { name: "d".into() };
    let there = server.entities.get_queue(request).await.expect("the queue").into_inner();
    assert_eq!(there.counters.expect("counters").active, 1);
}
