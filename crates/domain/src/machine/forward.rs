//! The commands of forwarding.

use crate::machine::Step;
use crate::{ForwardCommand, Outcome, Refusal, Rows};

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
