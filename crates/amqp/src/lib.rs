//! AMQP 1.0 as the Service Bus SDKs speak it, without a socket, a clock or a broker: bytes and
//! verdicts in, bytes and events out.

pub mod codec;
pub mod condition;
pub mod engine;
mod limits;
pub mod message;

pub use limits::Limits;
