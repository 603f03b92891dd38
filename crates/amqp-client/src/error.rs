//! What a call comes to.

use std::io;

use amqp_protocol::codec::{self, DecodeError};
use amqp_protocol::engine::{Gone, SendError};
use thiserror::Error;

/// What the server answers: what was asked for, or why not. The connection goes on either way.
pub type Answer<T> = Result<T, codec::Error>;

/// Why a call has no answer.
#[derive(Debug, Error)]
pub enum Error {
    #[error("the stream failed: {0}")]
    Io(#[from] io::Error),
    /// The server ended the connection, the session or the link that was asked for something.
    #[error("the server let go{}", said(.0))]
    Ended(Option<codec::Error>),
    /// The session, link or delivery ended before.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// There is no room for another message at present.
    #[error(transparent)]
    NotSent(#[from] SendError),
    #[error("no answer within the time allowed: {0}")]
    Late(&'static str),
    /// The server's answer makes no sense.
    #[error("the answer is not one: {0}")]
    Senseless(&'static str),
    #[error("the answer cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
}

fn said(error: &Option<codec::Error>) -> String {
    match error {
        None => String::new(),
        Some(error) => match &error.description {
            Some(description) => format!(": {}: {description}", &*error.condition),
            None => format!(": {}", &*error.condition),
        },
    }
}
