//! What is fed to the decoders of requests and tokens, and what must hold whatever they are fed with.

use std::mem::discriminant;

use amqp_protocol::codec::Error;
use amqp_protocol::message::Message;
use amqp_protocol::request::{Envelope, ReplyLink, reply_link};
use auth::{Key, Token, resource_path};
use bytes::{Bytes, BytesMut};
use fuzz::{Answer, Target};

use crate::{Limits, cbs, condition, management};

const TARGETS: [Target; 2] = [
    // Requests to `$management` and to `$cbs`.
    Target { name: "request", feed: request },
    Target { name: "token", feed: token },
];

#[test]
fn no_input_breaks_a_decoder() {
    fuzz::run(&TARGETS, include_str!("fuzz/seeds.txt"));
}

fn request(input: &[u8], answer: &mut Answer) {
    let (bytes, limits) = (Bytes::copy_from_slice(input), Limits::default());
    if let Some((_, operation)) = answer.of(management::decode(&bytes, &limits))
        && let Some(operation) = answer.of(operation)
    {
        answer.kind(&discriminant(&operation));
    }
    if let Some((envelope, request)) = answer.of(cbs::decode(&bytes, &limits)) {
        answer.kind(&discriminant(&request));
        cbs::Status::accepted().reply(&envelope, &mut BytesMut::new());
    }
    is_answered(&bytes, &limits);
}

/// REQ-9: each request is answered, or its link is closed. One is closed only for a request that says
/// nowhere whose it is.
fn is_answered(bytes: &Bytes, limits: &Limits) {
    let envelope = match Envelope::decode(bytes, limits) {
        Ok(envelope) => envelope,
        Err(_) => match Envelope::salvage(bytes, limits) {
            Some(envelope) => envelope,
            None => {
                let names_itself = Message::parse(bytes.clone(), limits)
                    .and_then(|message| message.properties(limits))
                    .is_ok_and(|properties| {
                        properties.message_id.or(properties.correlation_id).is_some()
                    });
                assert!(!names_itself, "its link is closed, and it could be answered");
                return;
            }
        },
    };
    let error = Error::new(condition::DECODE_ERROR, "it cannot be decoded");
    let reply = management::Reply::Refused(error).encode(&envelope, &mut BytesMut::new());
    let properties = Message::parse(reply, limits).and_then(|reply| reply.properties(limits));
    let correlation_id = properties.map(|properties| properties.correlation_id);
    assert_eq!(correlation_id, Ok(envelope.message_id.clone()), "nobody knows what it answers");
    // REQ-31: whatever it says of where to reply to, one link for replies is found, and none is none.
    let only = ReplyLink { link: 1, name: "replies", target: Some("me") };
    assert_eq!(reply_link([only].into_iter(), envelope.reply_to()), Some(1), "it is not answered");
    let none = std::iter::empty::<ReplyLink<'_, u8>>();
    assert_eq!(reply_link(none, envelope.reply_to()), None, "its link is closed");
}

/// Nobody gets in without the key.
fn token(input: &[u8], answer: &mut Answer) {
    const KEY: &str = "a key that is in no seed";
    let text = String::from_utf8_lossy(input);
    resource_path(&text);
    let Some(token) = answer.of(Token::parse(&text)) else { return };
    let granted = token.at("localhost").verify([&Key::root(KEY)], "sb://localhost/q", 1);
    assert!(granted.is_err(), "{granted:?}");
    answer.of(granted);
}
