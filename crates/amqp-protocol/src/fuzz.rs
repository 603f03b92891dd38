//! What is fed to codec and engine, and what must hold whatever it is fed with.

use std::mem::discriminant;

use bytes::{Buf, Bytes, BytesMut};
use fuzz::{Answer, Target, unhex};

use crate::Limits;
use crate::codec::{DeliveryState, Encode, Performative, Reader, SaslFrame, Symbols, Tag, Value};
use crate::engine::{Config, Connection, Delivery, Event, Millis, Outgoing, Payload};
use crate::message::Message;

/// More events than bytes there are, from one input: it never ends.
const EVENTS_MAX: usize = 1 << 20;
/// What one input may make a connection remember to write.
const OUTPUT_BYTES_MAX: usize = 16 << 20;
/// Long after every deadline.
const LATE: Millis = Millis(1 << 40);
/// A login as Python does it, between two headers.
const LOGIN: &str = "414d515003010000\
    0000002602010000005341c01903a309414e4f4e594d4f5553a000a1096c6f63616c686f7374\
    414d515000010000";

const TARGETS: [Target; 6] = [
    // All a client sends, from the first byte.
    Target { name: "login", feed: |input, answer| connection(&[], input, answer) },
    // What it sends once it is logged in.
    Target { name: "connection", feed: |input, answer| connection(&unhex(LOGIN), input, answer) },
    Target { name: "value", feed: value },
    Target { name: "performative", feed: performative },
    Target { name: "sasl", feed: sasl },
    Target {
        name: "message",
        feed: |input, answer| message(&Bytes::copy_from_slice(input), answer),
    },
];

#[test]
fn no_input_breaks_a_decoder() {
    fuzz::run(&TARGETS, include_str!("fuzz/seeds.txt"));
}

/// The engine with an owner that agrees to everything. Memory stays bounded, and it can be ended.
fn connection(login: &[u8], input: &[u8], answer: &mut Answer) {
    let limits = Limits::default();
    let config = Config {
        container_id: "fuzz".into(),
        hostname: None,
        offered_capabilities: Symbols::default(),
        properties: None,
        limits,
    };
    let mut connection = Connection::server(config, Millis(0));
    let mut buffer = BytesMut::from(login);
    let mut left = EVENTS_MAX;
    // In pieces of a size that the input chooses: frames come in any.
    let piece = usize::from(input.first().copied().unwrap_or(0)) + 1;
    for piece in input.chunks(piece * 16) {
        buffer.extend_from_slice(piece);
        while let Some(event) = connection.poll(&mut buffer, Millis(1)) {
            left = left.checked_sub(1).expect("events end");
            own(&mut connection, event, answer);
        }
        connection.flush();
        let output = connection.output();
        assert!(output.remaining() < OUTPUT_BYTES_MAX, "{} bytes to write", output.remaining());
        output.advance(output.remaining());
    }
    let frame_bytes_max = Limits::default().frame_bytes_max as usize;
    assert!(buffer.len() <= frame_bytes_max.max(input.len()), "{} bytes kept", buffer.len());
    // Silence ends it, twice: one deadline may be that of an answer to a close.
    for now in [LATE, Millis(LATE.0 * 2)] {
        connection.tick(now);
    }
    assert!(connection.is_finished(), "it outlives every deadline");
}

fn own(connection: &mut Connection, event: Event, answer: &mut Answer) {
    answer.kind(&discriminant(&event));
    // What is gone meanwhile is named so, and that is all.
    match event {
        Event::Login(_) => connection.login(true),
        Event::AttachRequested { link, attach, .. } => {
            let _ = connection.accept(link, attach.reply(1 << 20));
            let _ = connection.grant(link, 10);
        }
        Event::Credit { link, drain, .. } => {
            let outgoing = Outgoing {
                tag: Tag::new(b"tag").expect("a short one"),
                message_format: 0,
                settled: false,
                state: None,
                payload: Payload::from(Bytes::from_static(b"\0SpE")),
            };
            let sent = connection.send(link, &outgoing);
            answer.kind(&sent.is_ok());
            if drain {
                let _ = connection.drained(link);
            }
        }
        Event::Delivery(Delivery { id, settled, payload, .. }) => {
            if let Ok(payload) = payload {
                message(&payload, answer);
            }
            if !settled {
                let _ = connection.settle(id, DeliveryState::ACCEPTED);
            }
        }
        Event::Disposed { id, settled: false, .. } => {
            let _ = connection.answer(id, DeliveryState::ACCEPTED);
        }
        Event::Closed { error, .. }
        | Event::Ended { error, .. }
        | Event::Detached { error, .. } => {
            let error = error.map(|error| error.condition.to_string());
            answer.words(&error.unwrap_or_default());
        }
        Event::Opened(_)
        | Event::Began(_)
        | Event::Attached { .. }
        | Event::Drained(_)
        | Event::Answered { .. }
        | Event::Settled { .. }
        | Event::Disposed { .. } => {}
    }
}

fn performative(input: &[u8], answer: &mut Answer) {
    let (bytes, limits) = (Bytes::copy_from_slice(input), Limits::default());
    let read = Performative::read(&mut Reader::new(&bytes, &limits));
    let Some(read) = answer.of(read) else { return };
    answer.kind(&discriminant(&read));
    let mut out = BytesMut::new();
    read.write(&mut out);
    let out = out.freeze();
    let again = Performative::read(&mut Reader::new(&out, &limits));
    assert!(again.is_ok(), "what was read is written readably: {again:?}");
}

fn sasl(input: &[u8], answer: &mut Answer) {
    let (bytes, limits) = (Bytes::copy_from_slice(input), Limits::default());
    let read = SaslFrame::read(&mut Reader::new(&bytes, &limits));
    if let Some(read) = answer.of(read) {
        answer.kind(&discriminant(&read));
    }
}

/// What was decoded is encoded again to what decodes to the same.
fn value(input: &[u8], answer: &mut Answer) {
    let (bytes, limits) = (Bytes::copy_from_slice(input), Limits::default());
    let Some(value) = answer.of(Value::parse(&bytes, &limits)) else { return };
    answer.kind(&discriminant(&value));
    let encoded = |value: &Value| {
        let mut out = BytesMut::new();
        value.encode(&mut out);
        out.freeze()
    };
    let once = encoded(&value);
    if let Ok(again) = Value::parse(&once, &limits) {
        // By bytes: a float may be no number, and then equals nothing.
        assert_eq!(encoded(&again), once, "{value:?}");
    }
}

fn message(bytes: &Bytes, answer: &mut Answer) {
    let limits = Limits::default();
    let Some(message) = answer.of(Message::parse(bytes.clone(), &limits)) else { return };
    answer.kind(&message.body_kind().map(|kind| discriminant(&kind)));
    answer.of(message.header(&limits));
    answer.of(message.properties(&limits));
    answer.of(message.message_annotations(&limits));
    answer.of(message.application_properties(&limits));
}
