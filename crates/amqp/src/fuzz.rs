//! What is fed to the decoders of requests and tokens, and what must hold whatever they are fed with.

use std::mem::discriminant;

use auth::{Key, Token, resource_path};
use bytes::{Bytes, BytesMut};
use fuzz::{Answer, Target};

use crate::{Limits, cbs, management};

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
