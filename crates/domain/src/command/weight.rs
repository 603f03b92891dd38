//! How much of an entry a command fills: near enough to keep entries bounded, in what they take to
//! replicate and in what they take to apply.

use std::ops::{Add, Sub};

use bytes::Bytes;

use crate::{
    Command, Disposition, ForwardCommand, NewMessage, Operation, RelocationCommand, SessionCommand,
    Settle, Settlement, properties_bytes,
};

/// What a command, a message or a settlement takes beside its contents.
const FIXED_BYTES: usize = 64;

/// What an entry is filled by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub bytes: usize,
    /// Messages it works on, or rows that cost about as much.
    pub messages: usize,
}

impl Weight {
    const fn new(bytes: usize, messages: usize) -> Weight {
        Weight { bytes, messages }
    }

    /// Of something about so many messages, and as many bytes for each.
    const fn each(bytes: usize, messages: usize) -> Weight {
        Weight { bytes: bytes * messages, messages }
    }
}

impl Add for Weight {
    type Output = Weight;

    fn add(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes + other.bytes, messages: self.messages + other.messages }
    }
}

impl Sub for Weight {
    type Output = Weight;

    fn sub(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes - other.bytes, messages: self.messages - other.messages }
    }
}

impl Command {
    /// What it weighs. `encoded_bytes` tells how long its encoding is: it is asked only of commands
    /// that are rare and of any size, as rules and descriptions are texts of their clients.
    pub fn weight(&self, encoded_bytes: impl FnOnce(&Command) -> usize) -> Weight {
        let contents = match self {
            Command::Send(send) => weight_of_messages(&send.messages),
            Command::Settle(settle) => settle.weight(),
            Command::Commit(commit) => {
                let parts = commit.operations.iter().map(Operation::weight);
                parts.fold(Weight::default(), |sum, part| sum + part)
            }
            Command::Acquire(acquire) => Weight::each(0, acquire.count_max as usize),
            Command::Renew(renew) => Weight::each(16, renew.tokens.len()),
            Command::CancelScheduled(cancel) => Weight::each(8, cancel.numbers.len()),
            Command::ReceiveDeferred(receive) => Weight::each(8, receive.numbers.len()),
            Command::Select(select) => Weight::each(8, select.numbers.len()),
            Command::FireLocks(fire) => Weight::each(32, fire.locks.len()),
            Command::DeleteBatch(delete) => Weight::each(0, delete.count_max as usize),
            Command::Fire(fire) => Weight::each(0, fire.count_max as usize),
            Command::CreateQueue(_)
            | Command::UpdateQueue(_)
            | Command::Catalog(_)
            | Command::Topic(_) => Weight::new(encoded_bytes(self), 1),
            Command::DeleteEntity { .. }
            | Command::Sweep
            | Command::AdvanceClock { .. }
            | Command::RaiseClock { .. } => Weight::new(1024, 1),
            Command::Forward(command) => command.weight(),
            Command::Refuse(_) | Command::Touch { .. } | Command::Seal(_) | Command::Beat => {
                Weight::new(0, 1)
            }
            Command::LimitMatching { .. } | Command::Cut { .. } | Command::ReachLevel { .. } => {
                Weight::new(0, 0)
            }
            Command::Relocate(RelocationCommand::Admit(admit)) => {
                Weight::new(encoded_bytes(self), admit.rows.len())
            }
            Command::Relocate(_) => Weight::new(1024, 1),
            Command::Restore(restore) => Weight::new(encoded_bytes(self), restore.rows.len()),
            Command::Session(command) => command.weight(),
        };
        contents + Weight::new(FIXED_BYTES, 0)
    }
}

impl Operation {
    fn weight(&self) -> Weight {
        let contents = match self {
            Operation::Send(send) => weight_of_messages(&send.messages),
            Operation::SendVia(send) => weight_of_messages(&send.messages),
            Operation::Settle(settle) => settle.weight(),
            Operation::CancelScheduled(cancel) => Weight::new(64, cancel.numbers.len()),
            Operation::Renew(renew) => Weight::new(64, renew.tokens.len()),
            Operation::SetState(set) => Weight::new(set.state.as_ref().map_or(0, Bytes::len), 1),
        };
        contents + Weight::new(FIXED_BYTES, 0)
    }
}

impl ForwardCommand {
    fn weight(&self) -> Weight {
        match self {
            ForwardCommand::Arrive(arrive) | ForwardCommand::ArriveBehind { arrive, .. } => {
                let contents = arrive.messages.iter().map(|m| m.message.content.len() + 128);
                Weight::new(contents.sum(), arrive.messages.len())
            }
            // Rows are deleted, or put aside by the list: less than a message's storing each.
            ForwardCommand::Ship(_) | ForwardCommand::Shipped(_) | ForwardCommand::Unpark(_) => {
                Weight::new(2048, 64)
            }
            ForwardCommand::ForgetArrivals(_) => Weight::new(0, 1),
        }
    }
}

impl SessionCommand {
    fn weight(&self) -> Weight {
        match self {
            SessionCommand::Accept(_) | SessionCommand::Renew(_) => Weight::new(128, 1),
            SessionCommand::Receive(receive) => Weight::new(128, receive.count_max as usize),
            SessionCommand::Resume(resume) => Weight::each(16, resume.arrived.len()),
            SessionCommand::Release(_) => Weight::new(128, 64),
            SessionCommand::SetState(set) => {
                Weight::new(set.state.as_ref().map_or(0, Bytes::len), 1)
            }
            SessionCommand::ReceiveDeferred(receive) => Weight::each(8, receive.numbers.len()),
            SessionCommand::DeleteBatch(delete) => Weight::each(0, delete.count_max as usize),
            SessionCommand::Fire(fire) => Weight::each(128, fire.locks.len()),
        }
    }
}

impl Settle {
    fn weight(&self) -> Weight {
        let bytes = self.settlements.iter().map(|one| FIXED_BYTES + one.bytes());
        Weight::new(bytes.sum(), self.settlements.len())
    }
}

impl Settlement {
    /// What its client says with it.
    pub fn bytes(&self) -> usize {
        match &self.disposition {
            Disposition::Complete | Disposition::Release | Disposition::Withheld => 0,
            Disposition::Abandon { properties } | Disposition::Defer { properties } => {
                properties_bytes(properties)
            }
            Disposition::DeadLetter { reason, description, properties } => {
                let texts = [reason, description].into_iter().flatten().map(String::len);
                properties_bytes(properties) + texts.sum::<usize>()
            }
        }
    }
}

fn weight_of_messages(messages: &[NewMessage]) -> Weight {
    let bytes = messages.iter().map(|message| message.content.len() + FIXED_BYTES);
    Weight::new(bytes.sum(), messages.len())
}
