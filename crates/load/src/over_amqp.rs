//! AMQP 1.0: any broker that speaks it, with what Service Bus lays over it where that is asked for.

mod encode;
mod offer;
mod receive;
mod send;
mod step;
mod target;

pub use receive::AmqpReceive;
pub use send::AmqpSend;
pub use target::{AmqpTarget, Sasl};

use amqp_protocol::codec::{DeliveryState, Outcome as Disposed};
use workload::Lost;

use crate::link::{Broken, Outcome};

fn broken(lost: Lost) -> Broken {
    Broken(lost.to_string())
}

/// What a delivery's state says of it.
fn outcome(state: Option<DeliveryState>) -> Outcome {
    match state {
        Some(DeliveryState::Outcome(Disposed::Accepted)) => Outcome::Done,
        Some(DeliveryState::Outcome(Disposed::Rejected(error))) => {
            let why =
                error.map_or_else(|| "rejected".to_owned(), |error| error.condition.to_string());
            Outcome::Refused(why)
        }
        Some(DeliveryState::Outcome(Disposed::Released)) => Outcome::Refused("released".to_owned()),
        Some(DeliveryState::Outcome(Disposed::Modified(_))) => {
            Outcome::Refused("modified".to_owned())
        }
        other => Outcome::Unknown(format!("outcome {other:?}")),
    }
}
