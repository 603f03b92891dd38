//! Headers, SASL, open (CONN-3, CONN-4, CONN-8, SASL-1 to SASL-6).

use super::*;
use crate::codec::{Error, Open};

fn login(mechanism: Mechanism) -> Option<Credentials> {
    let client = Connection::client(config(Limits::default()), mechanism, Millis(0));
    let mut pair =
        Pair { client: Peer::new(client), server: Peer::server(Limits::default()), now: Millis(0) };
    pair.run();
    assert!(matches!(pair.client.events[..], [Event::Opened(_)]), "{:?}", pair.client.events);
    pair.server.events.into_iter().find_map(|event| match event {
        Event::Login(credentials) => Some(credentials),
        _ => None,
    })
}

#[test]
fn sasl_2_sasl_3_every_mechanism_logs_in() {
    let plain = Mechanism::plain("Root", "key=");
    let expected = Credentials::Plain { user: "Root".into(), password: "key=".into() };
    assert_eq!(login(Mechanism::Anonymous), Some(Credentials::Anonymous));
    assert_eq!(login(Mechanism::Mssbcbs), Some(Credentials::Anonymous));
    assert_eq!(login(plain), Some(expected));
    assert_eq!(login(Mechanism::External), Some(Credentials::Anonymous), "it is not offered");
}

/// .NET takes the first mechanism it knows, Python an array and no single symbol.
#[test]
fn sasl_1_the_mechanisms_are_offered_as_an_array() {
    let mut server = Peer::server(Limits::default());
    server.read(b"AMQP\x03\x01\x00\x00", Millis(0));
    let written = server.written();
    assert_eq!(written[..8], *b"AMQP\x03\x01\x00\x00");
    let (head, list) = written[8..].split_at(11);
    assert_eq!(head[4..], *b"\x02\x01\x00\x00\x00\x53\x40", "a SASL frame of mechanisms");
    assert_eq!(list, b"\xc0\x1d\x01\xe0\x1a\x03\xa3\x07MSSBCBS\x05PLAIN\x09ANONYMOUS");
}

/// Asked for without a certificate, it is the owner who says no.
#[test]
fn sasl_9_external_is_offered_to_who_has_shown_a_certificate_alone() {
    for (server, offered) in [
        (Peer::server(Limits::default()), false),
        (Peer::new(Connection::server_of_certified(config(Limits::default()), Millis(0))), true),
    ] {
        let mut server = server;
        server.read(b"AMQP\x03\x01\x00\x00", Millis(0));
        let written = server.written();
        assert_eq!(written.windows(8).any(|bytes| bytes == b"EXTERNAL"), offered);
        for (response, identity) in [
            (&b"\x40"[..], Some("")),
            (b"\xa0\x00", Some("")),
            (b"\xa0\x06worker", Some("worker")),
            (b"\xa0\x01\xff", None),
        ] {
            let mut server = match offered {
                false => Peer::server(Limits::default()),
                true => {
                    Peer::new(Connection::server_of_certified(config(Limits::default()), Millis(0)))
                }
            };
            server.read(b"AMQP\x03\x01\x00\x00", Millis(0));
            let fields = [b"\xa3\x08EXTERNAL", response].concat();
            let size = u8::try_from(fields.len() + 1).expect("few");
            let body = [b"\x00\x53\x41\xc0", &[size, 2][..], &fields].concat();
            let bytes = u32::try_from(body.len() + 8).expect("few").to_be_bytes();
            let frame = [&bytes[..], b"\x02\x01\x00\x00", &body].concat();
            server.read(&frame, Millis(0));
            let expected = identity
                .map(|identity| Event::Login(Credentials::External { identity: identity.into() }));
            let login = server.events.iter().find(|event| matches!(event, Event::Login(_)));
            assert_eq!(login, expected.as_ref(), "{response:?}");
            assert_eq!(server.connection.is_finished(), identity.is_none(), "{response:?}");
        }
    }
}

#[test]
fn sasl_8_a_frame_too_long_for_a_login_is_none() {
    for (bytes, ends) in [(8192_u32, false), (8193, true)] {
        let mut server = Peer::server(Limits::default());
        server.read(b"AMQP\x03\x01\x00\x00", Millis(0));
        server.read(&[&bytes.to_be_bytes()[..], b"\x02\x01\x00\x00"].concat(), Millis(0));
        assert_eq!(server.connection.is_finished(), ends, "{bytes}");
    }
}

#[test]
fn sasl_6_a_refused_login_ends_the_connection() {
    let mut server = Peer::server(Limits::default());
    let plain = Mechanism::plain("Root", "wrong");
    let client = Connection::client(config(Limits::default()), plain, Millis(0));
    let mut client = Peer::new(client);
    for _ in 0..2 {
        server.input.extend_from_slice(&client.written());
        if let Some(Event::Login(_)) = server.connection.poll(&mut server.input, Millis(0)) {
            server.connection.login(false);
        }
        let bytes = server.written();
        client.read(&bytes, Millis(0));
    }
    assert!(server.connection.is_finished() && client.connection.is_finished());
    let [Event::Closed { error: Some(Error { condition, .. }), by: Side::Us }] = &client.events[..]
    else {
        panic!("{:?}", client.events)
    };
    assert_eq!(condition.as_str(), "amqp:unauthorized-access");
}

/// CONN-4: Python sends header, open and begin before it hears an answer; and any cut of the bytes
/// gives the same events.
#[test]
fn conn_4_bytes_cut_anywhere_give_the_same_events() {
    let bytes = pipelined();
    let mut whole = Peer::server(Limits::default());
    whole.read(&bytes, Millis(0));
    let answer = whole.written();
    assert_eq!(whole.events.len(), 3, "{:?}", whole.events);
    for cut in 0..=bytes.len() {
        let mut server = Peer::server(Limits::default());
        server.read(&bytes[..cut], Millis(0));
        server.read(&bytes[cut..], Millis(0));
        assert_eq!(server.events, whole.events, "cut at {cut}");
        assert_eq!(server.written(), answer, "cut at {cut}");
    }
}

fn pipelined() -> Vec<u8> {
    let mut client =
        Peer::new(Connection::client(config(Limits::default()), Mechanism::Mssbcbs, Millis(0)));
    let mut server = Peer::server(Limits::default());
    let mut all = Vec::new();
    for _ in 0..4 {
        let bytes = client.written();
        all.extend_from_slice(&bytes);
        server.read(&bytes, Millis(0));
        let bytes = server.written();
        client.read(&bytes, Millis(0));
    }
    client.connection.begin().expect("a channel");
    all.extend(client.written());
    all
}

/// CONN-3: a protocol that is not spoken is answered with the one that is.
#[test]
fn conn_3_another_protocol_is_told_which_is_spoken() {
    for header in [b"AMQP\x00\x01\x01\x00", b"AMQP\x02\x01\x00\x00", b"GET / HT"] {
        let mut server = Peer::server(Limits::default());
        server.read(header, Millis(0));
        assert_eq!(server.written(), b"AMQP\x03\x01\x00\x00");
        assert!(server.connection.is_finished());
    }
}

/// A client without SASL is let in, and nobody vouches for it.
#[test]
fn conn_3_a_client_may_open_without_sasl() {
    let mut server = Peer::server(Limits::default());
    let open = Open {
        container_id: "bare".into(),
        hostname: None,
        max_frame_size: 65_536,
        channel_max: 10,
        idle_time_out: None,
        outgoing_locales: Symbols::default(),
        incoming_locales: Symbols::default(),
        offered_capabilities: Symbols::default(),
        desired_capabilities: Symbols::default(),
        properties: None,
    };
    server.read(b"AMQP\x00\x01\x00\x00", Millis(0));
    server.read(&frame_of(0, &open, b""), Millis(0));
    assert!(server.written().starts_with(b"AMQP\x00\x01\x00\x00"));
    assert!(matches!(&server.events[..], [Event::Opened(_)]), "{:?}", server.events);
}

#[test]
fn conn_8_the_open_of_the_server_is_explicit() {
    let mut pair = Pair::new(Limits::default(), Limits::default());
    pair.run();
    let [Event::Opened(open)] = &pair.client.events[..] else { panic!("an open") };
    let Open { max_frame_size, channel_max, idle_time_out, .. } = **open;
    assert_eq!((max_frame_size, channel_max, idle_time_out), (262_144, 4_999, Some(120_000)));
}

#[test]
fn conn_14_a_close_is_answered() {
    let mut pair = Pair::opened(Limits::default(), Limits::default());
    pair.client.connection.close(None);
    pair.run();
    assert_eq!(pair.client.events, [Event::Closed { error: None, by: Side::Us }]);
    assert_eq!(pair.server.events, [Event::Closed { error: None, by: Side::Peer }]);
    assert!(pair.client.connection.is_finished() && pair.server.connection.is_finished());
}
