//! Join tokens that nobody made: people copy them, and strangers write them.

use fuzz::{Answer, Target};

use crate::join_token::JoinToken;

#[test]
fn no_input_breaks_a_decoder() {
    let join_token = Target { name: "join-token", feed: join_token };
    fuzz::run(&[join_token], include_str!("fuzz/seeds.txt"));
}

/// What is read is written the same.
fn join_token(input: &[u8], answer: &mut Answer) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Some(token) = answer.of(text.parse::<JoinToken>()) {
        assert_eq!(token.to_string(), text);
        answer.kind(&(token.node.is_some(), token.authorities.len()));
    }
}
