//! The streams against a broker of forty plain lines whose connections break on request: nothing is
//! sent twice or lost, order is kept, and every settlement ends in one answer.

mod broker;

use std::time::Duration;

use broker::{Broker, Fault};

use crate::{
    Client, ClientOptions, Delivery, Disposition, Error, Message, ReceiverOptions, SenderOptions,
};

const QUEUE: &str = "q";

fn client(broker: &Broker) -> Client {
    let options = ClientOptions {
        give_up_after: Duration::from_secs(20),
        attempt_timeout: Duration::from_secs(2),
        ..ClientOptions::default()
    };
    Client::with_options(&broker.addresses, options).expect("the addresses are right")
}

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("m{number}")).collect()
}

/// Sends them one by one, pipelined; how each went.
async fn send_all(broker: &Broker, bodies: &[String]) -> Vec<Result<Vec<u64>, Error>> {
    let options = SenderOptions { batch_messages_max: 7, requests_max: 4, ..Default::default() };
    let sender = client(broker).sender(QUEUE, options);
    let mut sendings = Vec::new();
    for body in bodies {
        let message = Message::new(body.clone().into_bytes());
        sendings.push(sender.submit(vec![message]).await.expect("the sender is open"));
    }
    let mut results = Vec::new();
    for sending in sendings {
        results.push(sending.await);
    }
    sender.close().await;
    results
}

/// What was submitted while nobody answered is given up on together, not one after the other.
#[tokio::test(flavor = "multi_thread")]
async fn giving_up_is_for_all_that_was_submitted() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("bound").to_string();
    drop(nobody);
    let patience = Duration::from_millis(300);
    let options = ClientOptions {
        give_up_after: patience,
        attempt_timeout: patience,
        ..ClientOptions::default()
    };
    let client = Client::with_options([address], options).expect("the address is right");
    let sender = client.sender(QUEUE, SenderOptions::default());
    let mut sendings = Vec::new();
    for body in bodies(50) {
        let message = Message::new(body.into_bytes());
        sendings.push(sender.submit(vec![message]).await.expect("the sender is open"));
    }
    let begun = std::time::Instant::now();
    for sending in sendings {
        assert!(matches!(sending.await, Err(Error::NotDone(_))));
    }
    // One after the other they would take 15 s.
    assert!(begun.elapsed() < patience * 20, "{:?}", begun.elapsed());
    sender.close().await;
}

/// SEND-8, MSG-10: whatever breaks and whenever, each message is stored once, in order.
#[tokio::test(flavor = "multi_thread")]
async fn send_8_a_broken_stream_neither_loses_nor_repeats() {
    let bodies = bodies(400);
    for faults in [
        vec![],
        vec![(1, Fault::BeforeApplying)],
        vec![(1, Fault::AfterApplying)],
        vec![(2, Fault::BeforeApplying), (3, Fault::AfterApplying), (5, Fault::NotDone)],
        (1..40).step_by(3).map(|at| (at, Fault::AfterApplying)).collect(),
        (1..40).step_by(4).map(|at| (at, Fault::BeforeApplying)).collect(),
        vec![(4, Fault::Unknown), (9, Fault::NotDone), (10, Fault::NotDone), (11, Fault::Unknown)],
        vec![(8, Fault::Forgets)],
        vec![(5, Fault::Silence), (9, Fault::AfterApplying)],
    ] {
        let broker = Broker::start(3, &faults).await;
        for (number, result) in send_all(&broker, &bodies).await.into_iter().enumerate() {
            let numbers = result.unwrap_or_else(|error| panic!("{faults:?}: {number}: {error}"));
            assert_eq!(numbers, [number as u64 + 1], "{faults:?}");
        }
        assert_eq!(broker.stored(), bodies, "{faults:?}");
    }
}

/// Neighbours in a request do not suffer for one message that is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_refuses_no_other() {
    let bodies: Vec<String> =
        (0..40).map(|n| if n % 9 == 4 { format!("bad{n}") } else { format!("m{n}") }).collect();
    let broker = Broker::start(1, &[]).await;
    for (body, result) in bodies.iter().zip(send_all(&broker, &bodies).await) {
        match result {
            Ok(_) => assert!(!body.starts_with("bad"), "{body}"),
            Err(error) => {
                assert!(body.starts_with("bad"), "{body}: {error}");
                assert_eq!(error.detail().rule, "ERR-9");
            }
        }
    }
    let mut stored = broker.stored();
    stored.sort();
    let mut good: Vec<String> =
        bodies.into_iter().filter(|body| !body.starts_with("bad")).collect();
    good.sort();
    assert_eq!(stored, good);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_queue_is_refused_at_once() {
    let broker = Broker::start(1, &[]).await;
    let sender = client(&broker).sender("nowhere", SenderOptions::default());
    let error = sender.send(Message::new("x")).await.expect_err("there is none");
    assert!(matches!(&error, Error::Refused(detail) if detail.rule == "ERR-1"), "{error:?}");
    let mut receiver = client(&broker).receiver("nowhere", ReceiverOptions::default());
    let error = receiver.recv().await.expect_err("there is none");
    assert!(matches!(&error, Error::Refused(detail) if detail.rule == "ERR-1"), "{error:?}");
}

/// Every message is completed once, though streams break with settlements under way; no more than
/// the prefetch is ever granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_stream_settles_everything_once() {
    for faults in [
        vec![],
        vec![(3, Fault::BeforeApplying)],
        vec![(3, Fault::AfterApplying), (6, Fault::AfterApplying), (9, Fault::BeforeApplying)],
        vec![(4, Fault::Silence)],
    ] {
        let broker = Broker::start(2, &faults).await;
        broker.fill(&bodies(200));
        let options = ReceiverOptions { prefetch: 16, ..ReceiverOptions::default() };
        let mut receiver = client(&broker).receiver(QUEUE, options);
        let mut settling = Vec::new();
        for _ in 0..200 {
            let delivery = receiver.recv().await.expect("all are delivered");
            settling.push(receiver.complete(&delivery));
        }
        let mut perhaps = 0;
        for settling in settling {
            match settling.await {
                Ok(()) => (),
                // It was done, and only its answer was lost: nobody can tell from here.
                Err(Error::PerhapsDone(_)) => perhaps += 1,
                Err(error) => panic!("{faults:?}: {error}"),
            }
        }
        receiver.close().await;
        assert_eq!(broker.completed(), 200, "{faults:?}");
        let lost_answers = faults.iter().any(|(_, fault)| *fault == Fault::AfterApplying);
        assert!(perhaps == 0 || lost_answers, "{faults:?}: {perhaps}");
        assert!(broker.credit_max() <= 16, "{faults:?}: {}", broker.credit_max());
    }
}

/// What was fetched and not taken goes back without a failed delivery.
#[tokio::test(flavor = "multi_thread")]
async fn closing_releases_what_nobody_took() {
    let broker = Broker::start(1, &[]).await;
    broker.fill(&bodies(10));
    let options = ReceiverOptions { prefetch: 8, ..ReceiverOptions::default() };
    let mut receiver = client(&broker).receiver(QUEUE, options);
    let first: Delivery = receiver.recv().await.expect("there is one");
    receiver.complete(&first).await.expect("its lock is held");
    receiver.close().await;
    assert_eq!((broker.completed(), broker.locked(), broker.ready()), (1, 0, 9));
}

/// The broker need not be asked, and nothing may wait for its answer.
#[tokio::test(flavor = "multi_thread")]
async fn settling_nothing_is_done_at_once() {
    let broker = Broker::start(1, &[(1, Fault::Silence)]).await;
    let receiver = client(&broker).receiver(QUEUE, ReceiverOptions::default());
    receiver.settle_all(&[], Disposition::Abandon).await.expect("there is nothing to refuse");
    receiver.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_held_is_refused() {
    let broker = Broker::start(1, &[]).await;
    broker.fill(&bodies(1));
    let mut receiver = client(&broker).receiver(QUEUE, ReceiverOptions::default());
    let delivery = receiver.recv().await.expect("there is one");
    receiver.complete(&delivery).await.expect("its lock is held");
    let error = receiver.settle(&delivery, Disposition::Abandon).await.expect_err("it is settled");
    assert!(matches!(&error, Error::Refused(detail) if detail.name == "MessageLockLost"));
}
