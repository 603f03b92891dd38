//! Verdicts and their answers (SETTLE-1 to SETTLE-11).

use bytes::Bytes;

use super::links::deliveries;
use super::*;
use crate::codec::{DeliveryState, Disposition, Error, Modified, Outcome, Transfer};

struct Receiving {
    pair: Pair,
    ours: LinkId,
    theirs: LinkId,
}

/// A client that was sent `count` messages.
fn receiving(count: u32) -> Receiving {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    pair.client.connection.grant(ours, 100).unwrap();
    pair.run();
    pair.server.take_events();
    for tag in 0..count {
        pair.server.connection.send(theirs, &message(tag, "m")).unwrap();
    }
    pair.run();
    Receiving { pair, ours, theirs }
}

/// SETTLE-1: one more per delivery. SETTLE-4: the client asks, the broker answers, and only then is it
/// settled; SETTLE-5: with an outcome of the same kind.
#[test]
fn settle_1_settle_4_settle_5_a_settlement_is_settled_by_its_answer() {
    let Receiving { mut pair, ours, theirs } = receiving(3);
    let ids: Vec<DeliveryId> = deliveries(&pair.client.take_events()).map(|d| d.id).collect();
    assert_eq!(ids.iter().map(|id| id.id).collect::<Vec<_>>(), [0, 1, 2]);
    let abandoned = Modified { delivery_failed: Some(true), ..Modified::default() };
    let states = [
        DeliveryState::ACCEPTED,
        DeliveryState::Outcome(Outcome::Modified(abandoned)),
        DeliveryState::Outcome(Outcome::Rejected(None)),
    ];
    for (id, state) in ids.iter().zip(&states) {
        pair.client.connection.propose(*id, state.clone()).unwrap();
    }
    pair.run();
    assert!(pair.client.take_events().is_empty(), "nothing is echoed early");
    for (event, state) in pair.server.take_events().into_iter().zip(&states) {
        let Event::Disposed { id, link, tag, state: found, settled } = event else {
            panic!("a verdict, not {event:?}")
        };
        assert_eq!((link, found.as_ref(), settled), (theirs, Some(state), false));
        assert_eq!(tag.as_bytes(), id.id.to_be_bytes());
        pair.server.connection.answer(id, state.clone()).unwrap();
        assert_eq!(pair.server.connection.answer(id, state.clone()), Err(Gone));
    }
    pair.run();
    let settled: Vec<_> = pair.client.take_events();
    let expected: Vec<_> = ids
        .iter()
        .zip(&states)
        .map(|(id, state)| Event::Settled { id: *id, state: Some(state.clone()) })
        .collect();
    assert_eq!(settled, expected);
    assert_eq!(pair.client.connection.registry.incoming.unsettled, 0);
    assert_eq!(pair.client.connection.credit(ours), 97, "an eighth of the window is not free yet");
}

/// SETTLE-11: a range over all ids there are is a range over what is outstanding.
#[test]
fn settle_11_a_range_of_four_billion_costs_what_is_there() {
    let Receiving { mut pair, .. } = receiving(2);
    let range = Disposition {
        role: Role::Receiver,
        first: 5,
        last: Some(4),
        settled: true,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    pair.server.read(&frame_of(0, &range, &[]), Millis(0));
    let settled = |event: &Event| matches!(event, Event::Disposed { settled: true, .. });
    assert_eq!(pair.server.events.len(), 2);
    assert!(pair.server.events.iter().all(settled));
    pair.server.take_events();
    pair.server.read(&frame_of(0, &range, &[]), Millis(0));
    assert!(pair.server.events.is_empty(), "unknown ids are ignored");
}

/// XFER-1: verdicts of consecutive deliveries with the same state are one disposition.
#[test]
fn xfer_1_verdicts_are_gathered_into_ranges() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    pair.link(session, attach("x", Role::Sender));
    for id in 0..6 {
        let transfer = Transfer { delivery_id: Some(id), ..Transfer::default() };
        pair.server.read(&frame_of(0, &transfer, b"m"), Millis(0));
    }
    pair.server.written();
    let ids: Vec<DeliveryId> = deliveries(&pair.server.take_events()).map(|d| d.id).collect();
    let refused = DeliveryState::rejected(Error::new("amqp:not-allowed", "no"));
    for id in &ids[..3] {
        pair.server.connection.settle(*id, DeliveryState::ACCEPTED).unwrap();
    }
    pair.server.connection.settle(ids[3], refused.clone()).unwrap();
    for id in &ids[4..] {
        pair.server.connection.settle(*id, DeliveryState::ACCEPTED).unwrap();
    }
    let disposition = |first, last, state: &DeliveryState| {
        let state = Some(state.clone());
        let disposition = Disposition {
            role: Role::Receiver,
            first,
            last: Some(last),
            settled: true,
            state,
            batchable: false,
        };
        frame_of(0, &disposition, &[])
    };
    let expected = [
        disposition(0, 2, &DeliveryState::ACCEPTED),
        disposition(3, 3, &refused),
        disposition(4, 5, &DeliveryState::ACCEPTED),
    ];
    assert_eq!(pair.server.written(), expected.concat());
}

/// The same for what a receiver asks to be confirmed; its window has room again at once.
#[test]
fn proposals_are_gathered_into_ranges() {
    let Receiving { mut pair, ours, .. } = receiving(60);
    let ids: Vec<DeliveryId> = deliveries(&pair.client.take_events()).map(|d| d.id).collect();
    for id in &ids {
        pair.client.connection.propose(*id, DeliveryState::ACCEPTED).unwrap();
    }
    let range = Disposition {
        role: Role::Receiver,
        first: 0,
        last: Some(59),
        settled: false,
        state: Some(DeliveryState::ACCEPTED),
        batchable: false,
    };
    let written = pair.client.written();
    let expected = frame_of(0, &range, &[]);
    assert!(written.starts_with(&expected), "{written:02x?}");
    assert_eq!(pair.client.connection.credit(ours), 100);
}

/// MSG-9, XFER-2: what is sent settled is owed nothing.
#[test]
fn msg_9_xfer_2_a_settled_delivery_has_no_verdict() {
    let Receiving { mut pair, theirs, .. } = receiving(0);
    let settled = Outgoing { settled: true, ..message(0, "m") };
    let id = pair.server.connection.send(theirs, &settled).unwrap();
    pair.run();
    let [Event::Delivery(delivery)] = &pair.client.events[..] else { panic!("a delivery") };
    assert!(delivery.settled);
    let accepted = || DeliveryState::ACCEPTED;
    assert_eq!(pair.client.connection.settle(delivery.id, accepted()), Err(Gone));
    assert_eq!(pair.server.connection.answer(id, accepted()), Err(Gone));
}

/// ERR-9, XFER-5: too large is dropped while it arrives, and still owed an outcome.
#[test]
fn err_9_xfer_5_a_message_too_large_is_counted_and_not_kept() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Sender));
    pair.server.connection.grant(theirs, 10).unwrap();
    pair.run();
    let size = (1 << 20) + 1;
    pair.client.connection.send(ours, &message(0, vec![7; size])).unwrap();
    pair.run();
    pair.client.connection.send(ours, &message(1, "small")).unwrap();
    pair.run();
    let arrived: Vec<_> = deliveries(&pair.server.take_events()).cloned().collect();
    let head = Bytes::from(vec![7; TooLarge::HEAD_BYTES_MAX]);
    assert_eq!(arrived[0].payload, Err(TooLarge { bytes: size as u64, max: 1 << 20, head }));
    assert_eq!(arrived[1].payload.as_deref(), Ok(&b"small"[..]));
    assert_eq!(pair.server.connection.registry.incoming.partial_bytes, 0);
    let error = Error::new("amqp:link:message-size-exceeded", "too large");
    let state = DeliveryState::rejected(error);
    pair.server.connection.settle(arrived[0].id, state.clone()).unwrap();
    pair.run();
    let found = pair.client.events.iter().find_map(|event| match event {
        Event::Disposed { state, settled: true, .. } => state.clone(),
        _ => None,
    });
    assert_eq!(found, Some(state));
}

/// COORD-5, COORD-6: a transaction's id travels with transfers and verdicts, both ways.
#[test]
fn coord_5_coord_6_transactional_states_are_carried() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Sender));
    pair.server.connection.grant(theirs, 10).unwrap();
    pair.run();
    let state = |outcome| DeliveryState::Transactional {
        txn_id: bytes::Bytes::from_static(b"txn"),
        outcome,
    };
    let outgoing = Outgoing { state: Some(state(None)), ..message(0, vec![1; 300_000]) };
    pair.client.connection.send(ours, &outgoing).unwrap();
    pair.run();
    let [Event::Delivery(delivery)] = &pair.server.events[..] else { panic!("a delivery") };
    assert_eq!(delivery.state, Some(state(None)));
    let accepted = state(Some(Outcome::Accepted));
    pair.server.connection.settle(delivery.id, accepted.clone()).unwrap();
    pair.client.take_events();
    pair.run();
    assert!(matches!(
        &pair.client.events[..],
        [Event::Disposed { state: Some(found), settled: true, .. }, ..] if *found == accepted
    ));
}

/// SETTLE-14: what is not accepted waits for its time, in order and with what else is due then; nothing
/// that is accepted does, and nothing outlives its link, session or connection.
#[test]
fn settle_14_an_outcome_that_is_not_accepted_is_not_written_at_once() {
    let delayed = Limits { outcome_delay_ms: 1, ..Limits::default() };
    let refused = DeliveryState::rejected(Error::new("amqp:not-allowed", "no"));
    let disposition = |first, last, state: &DeliveryState| {
        let (role, last, state) = (Role::Receiver, Some(last), Some(state.clone()));
        frame_of(0, &Disposition { role, first, last, settled: true, state, batchable: false }, &[])
    };
    type End = fn(&mut Connection, LinkId);
    let ends: [(&str, End); 4] = [
        ("time", |connection, _| connection.tick(Millis(12))),
        ("link", |connection, link| connection.detach(link, None).unwrap()),
        ("session", |connection, link| {
            let session = connection.registry.link(link).unwrap().session;
            connection.end(session, None).unwrap();
        }),
        ("connection", |connection, _| connection.close(None)),
    ];
    for (what, end) in ends {
        let mut pair = Pair::opened(Limits::default(), delayed.clone());
        let session = pair.session();
        let (_, link) = pair.link(session, attach("x", Role::Sender));
        for (id, at) in [(0, 9), (1, 10), (2, 10), (3, 10), (4, 10)] {
            let transfer = Transfer { delivery_id: Some(id), ..Transfer::default() };
            pair.server.read(&frame_of(0, &transfer, b"m"), Millis(at));
        }
        pair.server.written();
        let ids: Vec<DeliveryId> = deliveries(&pair.server.take_events()).map(|d| d.id).collect();
        let connection = &mut pair.server.connection;
        connection.settle(ids[1], refused.clone()).unwrap();
        connection.settle(ids[2], refused.clone()).unwrap();
        connection.settle(ids[3], DeliveryState::ACCEPTED).unwrap();
        assert_eq!(pair.server.written(), disposition(3, 3, &DeliveryState::ACCEPTED), "{what}");
        let connection = &mut pair.server.connection;
        assert_eq!(connection.deadline(), Some(Millis(12)), "{what}");
        connection.tick(Millis(11));
        // The first one came a millisecond before, so its time has come.
        connection.settle(ids[0], refused.clone()).unwrap();
        assert_eq!(pair.server.written(), disposition(0, 0, &refused), "{what}");
        end(&mut pair.server.connection, link);
        let written = pair.server.written();
        assert!(written.starts_with(&disposition(1, 2, &refused)), "{what}: {written:02x?}");
        if what == "time" {
            let connection = &mut pair.server.connection;
            connection.settle(ids[4], refused.clone()).unwrap();
            assert_eq!(pair.server.written(), disposition(4, 4, &refused), "it took its time");
            let deadline = pair.server.connection.deadline();
            assert!(deadline.is_some_and(|at| at > Millis(1000)), "nothing is held: {deadline:?}");
        }
    }
}

/// COORD-6, COORD-12: a provisional answer settles nothing, so another verdict may follow; SETTLE-14: it
/// waits for its time as any outcome does.
#[test]
fn coord_6_a_provisional_answer_leaves_the_delivery_to_its_receiver() {
    let Receiving { mut pair, theirs, .. } = receiving(1);
    let id = deliveries(&pair.client.take_events()).next().expect("a delivery").id;
    let within =
        |outcome| DeliveryState::Transactional { txn_id: "t".into(), outcome: Some(outcome) };
    for outcome in [Outcome::Released, Outcome::Accepted] {
        pair.client.connection.propose(id, within(outcome.clone())).unwrap();
        pair.run();
        let events = pair.server.take_events();
        let [Event::Disposed { id: theirs_id, link, settled: false, .. }] = events[..] else {
            panic!("a verdict, not {events:?}")
        };
        assert_eq!(link, theirs);
        pair.server.connection.answer_provisionally(theirs_id, within(outcome.clone())).unwrap();
        pair.run();
        let expected = Event::Answered { id, state: Some(within(outcome.clone())) };
        assert_eq!(pair.client.take_events(), [expected]);
        if outcome == Outcome::Accepted {
            pair.server.connection.answer(theirs_id, within(outcome.clone())).unwrap();
            let again =
                pair.server.connection.answer_provisionally(theirs_id, within(outcome.clone()));
            assert_eq!(again, Err(Gone));
            pair.run();
            let expected = Event::Settled { id, state: Some(within(outcome)) };
            assert_eq!(pair.client.take_events(), [expected]);
        }
    }
}
