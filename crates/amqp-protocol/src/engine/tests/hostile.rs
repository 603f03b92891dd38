//! Peers that break the rules, flood, or do not read (CONN-17, FLOW-6): the right condition, bounded
//! memory.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::TestRng;

use super::links::deliveries;
use super::*;
use crate::codec::{Begin, DeliveryState, Detach, Disposition, End, Flow, Transfer};

fn small() -> Limits {
    Limits {
        incoming_unsettled_max: 8,
        incoming_bytes_max: 4096,
        output_bytes_max: 1024,
        incoming_window: 4,
        handle_max: 3,
        links_max: 3,
        channel_max: 2,
        outgoing_unsettled_max: 4,
        ..Limits::default()
    }
}

/// A server with a session on channel 0 and a link at handle 0 that the client sends on.
fn served(limits: Limits) -> Pair {
    let mut pair = Pair::opened(Limits::default(), limits);
    let session = pair.session();
    pair.link(session, attach("x", Role::Sender));
    pair.server.take_events();
    pair
}

fn begin() -> Begin {
    Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 10,
        outgoing_window: 10,
        handle_max: u32::MAX,
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    }
}

fn transfer(handle: u32, id: u32, more: bool) -> Transfer {
    Transfer { handle, delivery_id: Some(id), more, ..Transfer::default() }
}

/// What the server ended, and why.
fn ended(server: &mut Peer) -> (&'static str, String) {
    let events = server.take_events();
    let last = events.last().cloned();
    match last {
        Some(Event::Closed { error: Some(error), .. }) => {
            ("connection", error.condition.to_string())
        }
        Some(Event::Ended { error: Some(error), .. }) => ("session", error.condition.to_string()),
        Some(Event::Detached { error: Some(error), .. }) => ("link", error.condition.to_string()),
        other => panic!("nothing ended: {other:?}"),
    }
}

/// CONN-17: each violation ends as much as it must, with its condition.
#[test]
fn conn_17_violations_have_their_conditions() {
    let at_handle = |handle| Attach { handle, ..attach("y", Role::Sender) };
    let flow = Flow { handle: Some(2), ..Flow::default() };
    let resumed = Transfer { resume: true, ..transfer(0, 1, false) };
    let nameless = Transfer { delivery_id: None, ..transfer(0, 0, false) };
    let table: Vec<(Vec<u8>, &str, &str)> = vec![
        (vec![0, 0, 0, 7, 2, 0, 0, 0], "connection", "amqp:connection:framing-error"),
        (vec![0xff, 0, 0, 0, 2, 0, 0, 0], "connection", "amqp:connection:framing-error"),
        (vec![0, 0, 0, 8, 1, 0, 0, 0], "connection", "amqp:connection:framing-error"),
        (vec![0, 0, 0, 8, 3, 0, 0, 0], "connection", "amqp:connection:framing-error"),
        (vec![0, 0, 0, 8, 2, 1, 0, 0], "connection", "amqp:connection:framing-error"),
        (vec![0, 0, 0, 9, 2, 0, 0, 0, 0], "connection", "amqp:decode-error"),
        (frame_of(9, &begin(), &[]), "connection", "amqp:connection:framing-error"),
        (frame_of(0, &begin(), &[]), "connection", "amqp:connection:framing-error"),
        (frame_of(1, &flow, &[]), "connection", "amqp:connection:framing-error"),
        (frame_of(0, &at_handle(4), &[]), "connection", "amqp:connection:framing-error"),
        (frame_of(0, &at_handle(0), &[]), "session", "amqp:session:handle-in-use"),
        (frame_of(0, &flow, &[]), "session", "amqp:session:unattached-handle"),
        (frame_of(0, &transfer(2, 0, false), &[]), "session", "amqp:session:unattached-handle"),
        (frame_of(0, &resumed, &[]), "link", "amqp:not-implemented"),
        (frame_of(0, &nameless, &[]), "link", "amqp:invalid-field"),
    ];
    for (bytes, what, condition) in table {
        let mut pair = served(small());
        pair.server.read(&bytes, Millis(0));
        assert_eq!(ended(&mut pair.server), (what, condition.to_owned()), "{bytes:02x?}");
        let written = pair.server.written();
        let told = condition.as_bytes();
        assert!(written.windows(told.len()).any(|bytes| bytes == told), "the client is told");
    }
}

#[test]
fn conn_17_other_links_live_on_when_one_is_ended() {
    let mut pair = served(Limits::default());
    let second = Attach { handle: 1, ..attach("y", Role::Sender) };
    pair.server.read(&frame_of(0, &second, &[]), Millis(0));
    let (link, request) = attach_request(&mut pair.server);
    pair.server.connection.accept(link, request.reply(100)).unwrap();
    pair.server.read(&frame_of(0, &transfer(0, 0, true), b"half"), Millis(0));
    pair.server.read(&frame_of(0, &transfer(0, 1, true), b"other"), Millis(0));
    assert_eq!(ended(&mut pair.server), ("link", "amqp:invalid-field".into()));
    // What was on its way to the ended link is dropped, what comes on the other is taken.
    pair.server.read(&frame_of(0, &transfer(0, 2, false), b"late"), Millis(0));
    pair.server.read(&frame_of(0, &transfer(1, 3, false), b"m"), Millis(0));
    let arrived: Vec<_> = deliveries(&pair.server.events).map(|delivery| delivery.id.id).collect();
    assert_eq!((arrived, pair.server.connection.registry.incoming.partial_bytes), (vec![3], 0));
}

/// Python answers the answers to its own detach and end: nobody is harmed.
#[test]
fn conn_18_a_detach_or_an_end_too_many_is_ignored() {
    let mut pair = served(Limits::default());
    let detach = frame_of(0, &Detach { handle: 0, closed: true, error: None }, &[]);
    let end = frame_of(0, &End::default(), &[]);
    let frames = [&detach, &detach, &end, &detach, &end];
    frames.into_iter().for_each(|frame| pair.server.read(frame, Millis(0)));
    assert!(matches!(
        pair.server.events[..],
        [Event::Detached { by: Side::Peer, .. }, Event::Ended { by: Side::Peer, .. }]
    ));
    assert!(!pair.server.connection.is_finished());
}

/// CONN-16: links are bounded over all sessions.
#[test]
fn conn_16_more_links_than_allowed_end_the_session() {
    let mut pair = served(small());
    pair.server.read(&frame_of(1, &begin(), &[]), Millis(0));
    for (channel, handle) in [(0, 1), (1, 0), (1, 1)] {
        let attach = Attach { handle, ..attach("more", Role::Sender) };
        pair.server.read(&frame_of(channel, &attach, &[]), Millis(0));
    }
    let found = ended(&mut pair.server);
    assert_eq!(found, ("session", "amqp:resource-limit-exceeded".into()));
    assert_eq!(pair.server.connection.registry.links.len(), 2);
}

/// A flood without credit: reading stops, and goes on with the verdicts.
#[test]
fn flow_6_a_flood_waits_for_verdicts() {
    let mut pair = served(Limits { incoming_window: 1000, ..small() });
    for id in 0..20 {
        pair.server.read(&frame_of(0, &transfer(0, id, false), b"m"), Millis(0));
    }
    assert!(!pair.server.connection.wants_input());
    let first: Vec<DeliveryId> = deliveries(&pair.server.take_events()).map(|d| d.id).collect();
    assert_eq!(first.len(), 8);
    for id in &first[..5] {
        pair.server.connection.settle(*id, DeliveryState::ACCEPTED).unwrap();
    }
    pair.server.read(&[], Millis(0));
    assert_eq!(deliveries(&pair.server.events).count(), 5);
}

#[test]
fn conn_17_unfinished_messages_are_bounded() {
    let mut pair = served(Limits { incoming_window: 1000, ..small() });
    for _ in 0..5 {
        pair.server.read(&frame_of(0, &transfer(0, 0, true), &[0; 1000]), Millis(0));
    }
    assert_eq!(ended(&mut pair.server), ("link", "amqp:resource-limit-exceeded".into()));
    assert_eq!(pair.server.connection.registry.incoming.partial_bytes, 0);
}

/// FLOW-3: a window that is overrun by another whole window.
#[test]
fn flow_3_a_window_that_is_ignored_ends_the_session() {
    let mut pair = served(small());
    // Read at once, so that the flow that renews the window is never written.
    let more = frame_of(0, &transfer(0, 0, true), b"");
    pair.server.read(&more.repeat(8), Millis(0));
    assert!(pair.server.events.is_empty());
    pair.server.read(&more, Millis(0));
    assert_eq!(ended(&mut pair.server), ("session", "amqp:session:window-violation".into()));
}

#[test]
fn flow_2_the_window_is_announced_anew_when_half_of_it_is_used() {
    let mut pair = served(small());
    pair.server.written();
    let more = frame_of(0, &transfer(0, 0, true), b"");
    pair.server.read(&more, Millis(0));
    assert_eq!(pair.server.written(), b"", "three of four frames are left");
    pair.server.read(&more, Millis(0));
    let renewed = Flow {
        next_incoming_id: Some(2),
        incoming_window: 4,
        outgoing_window: i32::MAX as u32,
        ..Flow::default()
    };
    assert_eq!(pair.server.written(), frame_of(0, &renewed, &[]));
}

/// A client that never reads: it is answered as far as the limit, then not read from.
#[test]
fn flow_12_a_client_that_never_reads_is_not_remembered_for() {
    let mut pair = served(small());
    let echo = frame_of(0, &Flow { handle: Some(0), echo: true, ..Flow::default() }, &[]);
    for _ in 0..1000 {
        pair.server.read(&echo, Millis(0));
        pair.server.connection.flush();
    }
    let held = pair.server.connection.output().remaining();
    assert!(held <= 1024 + 64, "{held} bytes");
    assert!(!pair.server.connection.wants_input());
    pair.server.written();
    assert!(pair.server.connection.wants_input());
}

/// What is sent and not settled is bounded, and so is what waits for the client's window.
#[test]
fn flow_12_there_is_no_room_for_what_is_not_settled() {
    let narrow = Limits { incoming_window: 2, incoming_unsettled_max: 2, ..Limits::default() };
    let mut pair = Pair::opened(narrow, small());
    let session = pair.session();
    let (ours, theirs) = pair.link(session, attach("x", Role::Receiver));
    pair.client.connection.grant(ours, 100).unwrap();
    pair.run();
    let mut sent = 0;
    while pair.server.connection.room(theirs) > 0 {
        pair.server.connection.send(theirs, &message(sent, vec![0; 100])).unwrap();
        sent += 1;
    }
    assert!(sent <= 4, "{sent}");
    assert_eq!(pair.server.connection.send(theirs, &message(9, "m")), Err(SendError::Full));
}

#[derive(Clone, Debug)]
enum Hostile {
    Attach(u32, bool),
    Detach(u32),
    Flow(Option<u32>, u32, bool, bool),
    Transfer(Transfer, usize),
    Disposition(bool, u32, u32, bool),
    Begin(u16),
    End,
    Raw(Vec<u8>),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let handle = 0..3u32;
    prop_oneof![
        2 => (handle.clone(), any::<bool>()).prop_map(|(h, s)| Hostile::Attach(h, s)),
        1 => handle.clone().prop_map(Hostile::Detach),
        3 => (prop::option::of(handle.clone()), any::<u32>(), any::<bool>(), any::<bool>())
            .prop_map(|(h, c, d, e)| Hostile::Flow(h, c, d, e)),
        8 => (handle, prop::option::of(0..5u32), any::<bool>(), any::<bool>(), 0..300usize)
            .prop_map(|(handle, delivery_id, more, settled, bytes)| {
                let settled = Some(settled);
                let transfer =
                    Transfer { handle, delivery_id, more, settled, ..Transfer::default() };
                Hostile::Transfer(transfer, bytes)
            }),
        4 => (any::<bool>(), any::<u32>(), any::<u32>(), any::<bool>())
            .prop_map(|(r, f, l, s)| Hostile::Disposition(r, f, l, s)),
        1 => (0..3u16).prop_map(Hostile::Begin),
        1 => Just(Hostile::End),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Hostile::Raw),
    ]
}

fn bytes_of(hostile: &Hostile) -> Vec<u8> {
    let role = |is_sender| if is_sender { Role::Sender } else { Role::Receiver };
    match hostile {
        Hostile::Attach(handle, is_sender) => {
            let attach = Attach { handle: *handle, ..attach("h", role(*is_sender)) };
            frame_of(0, &attach, &[])
        }
        Hostile::Detach(handle) => {
            frame_of(0, &Detach { handle: *handle, closed: true, error: None }, &[])
        }
        Hostile::Flow(handle, credit, drain, echo) => {
            let flow = Flow {
                handle: *handle,
                next_incoming_id: Some(*credit),
                incoming_window: *credit,
                link_credit: Some(*credit),
                drain: *drain,
                echo: *echo,
                ..Flow::default()
            };
            frame_of(0, &flow, &[])
        }
        Hostile::Transfer(transfer, bytes) => frame_of(0, transfer, &vec![1; *bytes]),
        Hostile::Disposition(is_sender, first, last, settled) => {
            let disposition = Disposition {
                role: role(*is_sender),
                first: *first,
                last: Some(*last),
                settled: *settled,
                state: Some(DeliveryState::ACCEPTED),
                batchable: false,
            };
            frame_of(0, &disposition, &[])
        }
        Hostile::Begin(channel) => frame_of(*channel, &begin(), &[]),
        Hostile::End => frame_of(0, &End::default(), &[]),
        Hostile::Raw(bytes) => bytes.clone(),
    }
}

/// Whatever comes: no panic, counters that add up, memory within the limits. The owner accepts every
/// link, sends where there is room and gives a verdict on every other delivery.
fn withstand(frames: &[Hostile]) {
    let mut pair = served(small());
    for hostile in frames {
        pair.server.read(&bytes_of(hostile), Millis(0));
        for event in pair.server.take_events() {
            own(&mut pair.server.connection, event);
        }
        pair.server.connection.flush();
        let connection = &mut pair.server.connection;
        assert!(
            connection.registry.incoming.partial_bytes <= 4096
                && connection.registry.incoming.unsettled <= 8
        );
        let held = connection.output().remaining();
        assert!(held <= 1024 + 2048, "{held} bytes wait");
        if held > 1024 {
            pair.server.written();
        }
        assert_books_balance(&pair.server.connection);
    }
}

fn own(connection: &mut Connection, event: Event) {
    match event {
        Event::AttachRequested { link, attach, .. } => {
            let _ = connection.accept(link, attach.reply(1000));
            let _ = connection.grant(link, 3);
        }
        Event::Delivery(delivery) if delivery.id.id % 2 == 0 => {
            let _ = connection.settle(delivery.id, DeliveryState::ACCEPTED);
        }
        Event::Disposed { id, settled: false, .. } => {
            let _ = connection.answer(id, DeliveryState::RELEASED);
        }
        Event::Credit { link, drain, .. } => {
            if connection.room(link) > 0 {
                connection.send(link, &message(1, vec![2; 200])).unwrap();
            }
            if drain {
                let _ = connection.drained(link);
            }
        }
        _ => {}
    }
}

fn assert_books_balance(connection: &Connection) {
    let sessions = connection
        .registry
        .channels
        .values()
        .filter_map(|id| connection.registry.sessions.get(id.0));
    let (mut unsettled, mut links) = (0, 0);
    for session in sessions {
        unsettled += session.received.len();
        links += session.handles.len();
        assert!(session.sent.len() <= 4);
    }
    assert_eq!(connection.registry.incoming.unsettled as usize, unsettled);
    assert_eq!(connection.registry.links.len(), links);
}

proptest! {
    #[test]
    fn any_frames_leave_the_books_in_balance(frames in prop::collection::vec(hostile(), 0..60)) {
        withstand(&frames);
    }

    #[test]
    fn any_bytes_end_in_events(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut fresh = Peer::server(Limits::default());
        fresh.read(&bytes, Millis(0));
        let mut pair = served(small());
        pair.server.read(&bytes, Millis(0));
    }
}

/// For as long as `MAYFLY_FUZZ_MS` says, 200 by default.
#[test]
fn fuzz_frames_for_a_while() {
    let budget = std::env::var("MAYFLY_FUZZ_MS").ok().and_then(|ms| ms.parse().ok());
    let until = Instant::now() + Duration::from_millis(budget.unwrap_or(200));
    let config = ProptestConfig::default();
    let rng = TestRng::from_seed(config.rng_algorithm, &std::process::id().to_be_bytes().repeat(8));
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(config, rng);
    let frames = prop::collection::vec(hostile(), 0..200);
    while Instant::now() < until {
        let tree = frames.new_tree(&mut runner).expect("frames");
        let frames = proptest::strategy::ValueTree::current(&tree);
        // On failure the frames print themselves; shrinking is left to the property above.
        let result = std::panic::catch_unwind(|| withstand(&frames));
        assert!(result.is_ok(), "{frames:?}");
    }
}
