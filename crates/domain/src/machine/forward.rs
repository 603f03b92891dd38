//! The commands of forwarding, and what every entity that forwards is held to.

use crate::machine::Step;
use crate::{ForwardCommand, Outcome, QueueProperties, Refusal, Rows, Span};

impl ForwardCommand {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        match self {
            ForwardCommand::Ship(command) => Ok(command.apply(step)),
            ForwardCommand::Arrive(command) => command.apply(step),
            ForwardCommand::Shipped(command) => Ok(command.apply(step)),
            ForwardCommand::Unpark(command) => Ok(command.apply(step)),
            ForwardCommand::ForgetArrivals(command) => Ok(command.apply(step)),
        }
    }
}

/// FWD-11, IDLE-3.
pub(super) fn settled(mut properties: QueueProperties) -> QueueProperties {
    if properties.is_forwarding() {
        properties.auto_delete_on_idle = Span::MAX;
    }
    properties
}
