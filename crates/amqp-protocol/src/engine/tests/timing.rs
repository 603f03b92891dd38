//! Idle time-outs, slow openings, peers that do not read (CONN-10 to CONN-14).

use super::*;

fn condition_of(peer: &mut Peer, now: Millis) -> Option<String> {
    peer.connection.tick(now);
    peer.read(&[], now);
    peer.take_events().into_iter().find_map(|event| match event {
        Event::Closed { error, .. } => Some(error?.condition.to_string()),
        _ => None,
    })
}

#[test]
fn conn_10_a_heartbeat_comes_before_half_of_the_peers_time_out() {
    let brief = Limits { idle_ms: 10_000, ..Limits::default() };
    let mut pair = Pair::opened(brief, Limits::default());
    let due = pair.server.connection.deadline().unwrap();
    assert!(due < Millis(5_000), "{due:?}");
    pair.server.connection.tick(due);
    assert_eq!(pair.server.written(), [0, 0, 0, 8, 2, 0, 0, 0]);
    assert!(pair.server.connection.deadline().unwrap() > due);
}

#[test]
fn conn_11_silence_of_twice_the_time_out_is_the_end() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    pair.server.read(&[0, 0, 0, 8, 2, 0, 0, 0], Millis(100_000));
    assert_eq!(condition_of(&mut pair.server, Millis(339_999)), None);
    // A frame that trickles in is silence as well.
    pair.server.read(&[0, 0, 1], Millis(339_999));
    let end = condition_of(&mut pair.server, Millis(340_000));
    assert_eq!(end.as_deref(), Some("amqp:resource-limit-exceeded"));
}

#[test]
fn conn_12_a_connection_that_is_not_opened_ends() {
    let mut server = Peer::server(Limits::default());
    server.read(b"AMQP\x03", Millis(0));
    assert_eq!(server.connection.deadline(), Some(Millis(20_000)));
    let end = condition_of(&mut server, Millis(20_000));
    assert_eq!(end.as_deref(), Some("amqp:connection:forced"));
    assert!(server.connection.is_finished());
}

#[test]
fn conn_13_a_peer_that_does_not_read_is_given_up() {
    let mut stalled = Pair::opened(Limits::default(), Limits::default());
    stalled.client.connection.begin().expect("a channel");
    let bytes = stalled.client.written();
    stalled.server.read(&bytes, Millis(1));
    // The first tick sees that some was taken since the last one, the second that nothing is.
    stalled.server.connection.tick(Millis(1));
    stalled.server.connection.tick(Millis(1));
    assert_eq!(condition_of(&mut stalled.server, Millis(60_000)), None);
    let end = condition_of(&mut stalled.server, Millis(60_001));
    assert_eq!(end.as_deref(), Some("amqp:connection:forced"));
}

/// A close that is not answered is one all the same.
#[test]
fn conn_14_an_unanswered_close_ends_after_a_while() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    pair.server.connection.close(None);
    assert_eq!(pair.server.connection.deadline(), Some(Millis(5_000)));
    pair.server.connection.tick(Millis(4_999));
    assert!(!pair.server.connection.is_finished());
    pair.server.connection.tick(Millis(5_000));
    assert!(pair.server.connection.is_finished());
}
