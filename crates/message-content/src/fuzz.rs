//! What is fed to the ways in and out of store, and what must hold whatever they are fed with.

use amqp_protocol::Limits;
use amqp_protocol::message::Message;
use bytes::{Bytes, BytesMut};
use fuzz::{Answer, Target};

use crate::{BATCH_FORMAT, Neutral, ingest, native, stored};

#[test]
fn no_input_breaks_a_decoder() {
    let message = Target { name: "message", feed: message };
    fuzz::run(&[message], include_str!("fuzz/seeds.txt"));
}

fn message(input: &[u8], answer: &mut Answer) {
    let bytes = &Bytes::copy_from_slice(input);
    let (limits, scratch) = (Limits::default(), &mut BytesMut::new());
    let guid = || [7; 16];
    for format in [0, BATCH_FORMAT] {
        if let Some(messages) = answer.of(ingest(format, bytes, &limits, guid, scratch)) {
            answer.kind(&messages.len().min(8));
            for message in messages {
                let shown = answer.of(stored(&message.content, &limits, scratch));
                assert!(shown.is_some(), "what was taken can be shown");
            }
        }
    }
    answer.of(native(bytes));
    let Some(message) = answer.of(Message::parse(bytes.clone(), &limits)) else { return };
    if let Some(neutral) = answer.of(Neutral::from_amqp(&message, &limits)) {
        neutral.to_amqp(scratch);
    }
}
