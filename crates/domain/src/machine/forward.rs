//! The commands of forwarding.

use crate::machine::Step;
use crate::{ForwardCommand, Outcome, Refusal, Rows};

impl ForwardCommand {
    pub(super) fn apply<R: Rows>(self, step: &mut Step<'_, R>) -> Result<Outcome, Refusal> {
        match self {
            ForwardCommand::Ship(command) => Ok(command.apply(step)),
            ForwardCommand::Arrive(command) => {
                check_cut(step, 0, command.serial)?;
                command.apply(step)
            }
            ForwardCommand::ArriveBehind { cut, arrive } => {
                check_cut(step, cut, arrive.serial)?;
                arrive.apply(step)
            }
            ForwardCommand::Shipped(command) => Ok(command.apply(step)),
            ForwardCommand::Unpark(command) => Ok(command.apply(step)),
            ForwardCommand::ForgetArrivals(command) => Ok(command.apply(step)),
        }
    }
}

/// A group takes in only what was sent between the same cuts as it is between: what is sent behind a cut
/// arrives behind it, and what has arrived before one, and nothing else, is settled before it.
fn check_cut<R: Rows>(step: &mut Step<'_, R>, cut: u64, serial: u64) -> Result<(), Refusal> {
    match step.last_cut() {
        own if own != cut => Err(Refusal::OtherCut { cut: own }),
        // Where it goes may be still to come: it waits for its turn.
        _ if step.is_restoring() => Err(Refusal::SerialGap { expected: serial }),
        _ => Ok(()),
    }
}
