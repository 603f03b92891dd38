//! What a load needs of a broker beyond what every AMQP 1.0 broker does: told before the run where it is not offered.

use std::fmt;

/// Where a file asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub feature: Feature,
    /// `file:12: key`.
    pub place: String,
}

/// What not every broker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    Sessions,
    Schedules,
    Cancelling,
    DeadLetterQueues,
    Deferral,
    Batches,
    Transactions,
    Renewal,
}

impl Feature {
    /// Laid over AMQP by Service Bus, so that no other broker knows it.
    pub fn is_of_service_bus(self) -> bool {
        match self {
            Feature::Sessions
            | Feature::Schedules
            | Feature::Cancelling
            | Feature::DeadLetterQueues
            | Feature::Deferral
            | Feature::Batches => true,
            // The standard's; whether a broker has them is asked.
            Feature::Transactions => false,
            // Over AMQP not done at all.
            Feature::Renewal => false,
        }
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Feature::Sessions => "sessions",
            Feature::Schedules => "scheduled messages",
            Feature::Cancelling => "scheduled messages that can be cancelled",
            Feature::DeadLetterQueues => "dead-letter queues beside each queue",
            Feature::Deferral => "deferred messages",
            Feature::Batches => "batches that are one transfer",
            Feature::Transactions => "transactions",
            Feature::Renewal => "renewal of locks",
        })
    }
}
