//! Attaching, refusing, detaching, credit, drain (LINK-3 to LINK-14, FLOW-1 to FLOW-10).

use super::*;
use crate::codec::{Error, Flow, Transfer};

fn error(condition: &'static str) -> Error {
    Error::new(condition, "why")
}

/// LINK-3, LINK-4: what the client wrote comes back, nothing that should not be null is.
#[test]
fn link_3_link_4_an_accepted_attach_mirrors_the_request() {
    let bare = Attach { source: None, target: None, ..attach("x", Role::Receiver) };
    let reply = bare.reply(1024);
    assert_eq!((reply.role, reply.max_message_size), (Role::Sender, Some(1024)));
    assert_eq!(reply.initial_delivery_count, Some(0));
    assert!(reply.source.is_some() && reply.target.is_some() && reply.properties.is_some());
    let reply = attach("x", Role::Sender).reply(1024);
    assert_eq!(reply.source.unwrap().address.as_deref(), Some("q"));
    assert_eq!(reply.rcv_settle_mode, ReceiverSettleMode::Second);
}

/// LINK-6: a refused attach shows a null terminus, then the reason; both sides forget the link.
#[test]
fn link_6_a_refused_link_is_never_seen_open() {
    for role in [Role::Sender, Role::Receiver] {
        let mut pair = Pair::opened(Limits::default(), Limits::default());
        let session = pair.session();
        let ours = pair.client.connection.attach(session, attach("x", role)).unwrap();
        pair.run();
        let (theirs, request) = attach_request(&mut pair.server);
        let reason = error("amqp:not-found");
        pair.server.connection.refuse(theirs, request.reply(1), reason.clone()).unwrap();
        pair.run();
        let [Event::Attached { attach, .. }, Event::Detached { link, closed: true, error, by }] =
            &pair.client.events[..]
        else {
            panic!("{:?}", pair.client.events)
        };
        let controlled = match role {
            Role::Sender => attach.target.is_none(),
            Role::Receiver => attach.source.is_none(),
        };
        assert!(controlled, "{attach:?}");
        assert_eq!((*link, error.as_ref(), *by), (ours, Some(&reason), Side::Peer));
        assert_eq!(pair.server.connection.detach(theirs, None), Err(Gone));
        assert_eq!(
            pair.server.connection.registry.links.len()
                + pair.client.connection.registry.links.len(),
            0
        );
    }
}

/// LINK-14: a client that gives up while its attach is held open.
#[test]
fn link_14_a_pending_attach_can_be_withdrawn() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let ours = pair.client.connection.attach(session, attach("x", Role::Receiver)).unwrap();
    pair.run();
    let (theirs, request) = attach_request(&mut pair.server);
    pair.client.connection.detach(ours, None).unwrap();
    pair.run();
    assert!(matches!(pair.server.events[..], [Event::Detached { link, .. }] if link == theirs));
    assert_eq!(pair.server.connection.accept(theirs, request.reply(1)), Err(Gone));
    assert_eq!(pair.client.connection.registry.links.len(), 0);
}

#[test]
fn a_detach_with_an_error_reaches_the_client() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    let reason = error("com.microsoft:session-lock-lost");
    pair.server.connection.detach(theirs, Some(reason.clone())).unwrap();
    pair.run();
    let expected =
        Event::Detached { link: ours, closed: true, error: Some(reason), by: Side::Peer };
    assert_eq!(pair.client.events, [expected]);
    assert_eq!(pair.server.connection.registry.links.len(), 0);
    assert_eq!(pair.server.connection.send(theirs, &message(0, "m")), Err(Gone.into()));
}

/// FLOW-8: what is there is sent, the rest of the credit goes back.
#[test]
fn flow_8_a_drain_is_answered_after_what_is_there() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    pair.client.connection.grant(ours, 10).unwrap();
    pair.run();
    pair.client.connection.drain(ours).unwrap();
    pair.run();
    let credit = |drain| Event::Credit { link: theirs, credit: 10, drain };
    assert_eq!(pair.server.take_events(), [credit(false), credit(true)]);
    pair.server.connection.send(theirs, &message(0, "m")).unwrap();
    pair.server.connection.drained(theirs).unwrap();
    pair.run();
    assert!(matches!(pair.client.events[..], [Event::Delivery(_), Event::Drained(_)]));
    assert_eq!(pair.server.connection.credit(theirs), 0);
    // New credit counts from where both now are.
    pair.client.connection.grant(ours, 3).unwrap();
    pair.run();
    assert_eq!(pair.server.connection.credit(theirs), 2, "one is unsettled");
}

/// FLOW-9: what waits for the client's window is there as well, so it comes before the answer.
#[test]
fn flow_9_a_drain_waits_for_the_window() {
    let narrow = Limits { incoming_window: 1, ..Limits::default() };
    let mut pair = Pair::opened(narrow, Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    pair.client.connection.grant(ours, 10).unwrap();
    pair.run();
    pair.client.connection.drain(ours).unwrap();
    pair.run();
    // Several frames, of which the window lets one through.
    pair.server.connection.send(theirs, &message(0, vec![1; 600_000])).unwrap();
    pair.server.connection.drained(theirs).unwrap();
    assert_eq!(pair.server.connection.credit(theirs), 9, "not yet");
    pair.run();
    let events = pair.client.take_events();
    assert!(matches!(events[..], [Event::Delivery(_), Event::Drained(_)]), "{events:?}");
    assert_eq!(pair.server.connection.credit(theirs), 0);
}

/// FLOW-7: credit is what the last flow says, less what is under way.
#[test]
fn flow_7_nothing_is_sent_beyond_the_credit() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    assert_eq!(pair.server.connection.send(theirs, &message(0, "m")), Err(SendError::NoCredit));
    pair.client.connection.grant(ours, 2).unwrap();
    pair.run();
    for tag in 0..2 {
        pair.server.connection.send(theirs, &message(tag, "m")).unwrap();
    }
    assert_eq!(pair.server.connection.send(theirs, &message(2, "m")), Err(SendError::NoCredit));
}

/// FLOW-1, FLOW-10: every flow says all four numbers.
#[test]
fn flow_1_flow_10_an_echo_is_answered_in_full() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    let (ours, _) = pair.link(session, attach("x", Role::Sender));
    let flow = Flow { incoming_window: 7, echo: true, ..Flow::default() };
    pair.client.written();
    pair.server.read(&frame_of(0, &flow, &[]), Millis(0));
    let written = pair.server.written();
    let mut expected = Flow {
        next_incoming_id: Some(0),
        incoming_window: 5_000,
        outgoing_window: i32::MAX as u32,
        ..Flow::default()
    };
    assert_eq!(written, frame_of(0, &expected, &[]));
    let flow = Flow { handle: Some(0), echo: true, ..Flow::default() };
    pair.server.read(&frame_of(0, &flow, &[]), Millis(0));
    expected.handle = Some(0);
    expected.delivery_count = Some(0);
    expected.link_credit = Some(0);
    assert_eq!(pair.server.written(), frame_of(0, &expected, &[]));
    assert_eq!(pair.client.connection.credit(ours), 0);
}

/// FLOW-5: deliveries beyond the credit, numbered at will, are deliveries.
#[test]
fn flow_5_a_sender_that_ignores_credit_is_served() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    pair.link(session, attach("x", Role::Sender));
    for id in [9, 3, 4] {
        let transfer = Transfer { delivery_id: Some(id), ..Transfer::default() };
        pair.server.read(&frame_of(0, &transfer, b"m"), Millis(0));
    }
    let ids: Vec<_> = deliveries(&pair.server.events).map(|delivery| delivery.id).collect();
    assert_eq!(ids.iter().map(|id| id.id).collect::<Vec<_>>(), [9, 3, 4]);
    for id in ids {
        pair.server.connection.settle(id, crate::codec::DeliveryState::ACCEPTED).unwrap();
    }
}

pub(super) fn deliveries(events: &[Event]) -> impl Iterator<Item = &Delivery> {
    events.iter().filter_map(|event| match event {
        Event::Delivery(delivery) => Some(delivery),
        _ => None,
    })
}

const OTHER_FORMAT: u32 = 0x8001_3700;

/// XFER-4: an aborted delivery never was; later frames may leave out what the first said.
#[test]
fn xfer_4_deliveries_of_many_frames() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    let session = pair.session();
    pair.link(session, attach("x", Role::Sender));
    let first = Transfer {
        delivery_id: Some(0),
        message_format: Some(OTHER_FORMAT),
        more: true,
        ..Transfer::default()
    };
    let aborted = Transfer { aborted: true, ..Transfer::default() };
    let second = Transfer { delivery_id: Some(1), ..first.clone() };
    let last = Transfer::default();
    let frames = [(&first, "lost"), (&aborted, ""), (&second, "a"), (&last, "b")];
    for (transfer, payload) in frames {
        pair.server.read(&frame_of(0, transfer, payload.as_bytes()), Millis(0));
    }
    let [Event::Delivery(delivery)] = &pair.server.events[..] else { panic!("one delivery") };
    assert_eq!(delivery.payload.as_deref(), Ok(&b"ab"[..]));
    assert_eq!((delivery.id.id, delivery.message_format), (1, OTHER_FORMAT));
    assert_eq!(pair.server.connection.registry.incoming.partial_bytes, 0);
}

/// Each side says what it takes, and gets no larger frame.
#[test]
fn quota_31_conn_9_a_frame_is_no_larger_than_the_other_side_takes() {
    let brief = Limits { frame_bytes_max: 1_000, ..Limits::default() };
    let mut pair = Pair::opened(brief, Limits::default());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    pair.client.connection.grant(ours, 1).unwrap();
    pair.run();
    pair.client.take_events();
    let payload = vec![b'm'; 5_000];
    pair.server.connection.send(theirs, &message(0, payload.clone())).unwrap();
    let written = pair.server.written();
    let (mut frames, mut rest) = (0, &written[..]);
    while let Some((head, _)) = rest.split_first_chunk::<4>() {
        let bytes = u32::from_be_bytes(*head) as usize;
        assert!(bytes <= 1_000, "a frame of {bytes} bytes");
        (frames, rest) = (frames + 1, &rest[bytes..]);
    }
    assert_eq!(frames, 6);
    pair.client.read(&written, pair.now);
    let [Event::Delivery(delivery)] = &pair.client.events[..] else { panic!("one delivery") };
    assert_eq!(delivery.payload.as_deref(), Ok(&payload[..]));
}
