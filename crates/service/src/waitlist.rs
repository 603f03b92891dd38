//! Commands that wait to be proposed, in the order they came: the log's order is theirs (MSG-10).

use std::collections::VecDeque;

use bytes::Bytes;
use domain::{
    BATCH_BYTES_MAX, Command, Disposition, Entry, ForwardCommand, NewMessage, Operation,
    ReceiverId, Refusal, Send, SendVia, SessionCommand, Settle, Settlement, TOKENS_MAX, Timestamp,
    properties_bytes,
};

use crate::call::Reply;
use crate::config::ProposerConfig;

/// Most bytes of one entry. A command alone may be larger than what is aimed at, never than this: a
/// batch is at most 1 MiB (QUOTA-6), and whatever else comes to more is refused before it is posted
/// (see [`excess`]).
const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Who asked for a command.
pub(crate) enum Slot {
    Call(Reply),
    /// A client, for something else, in whose place a [`Command::Refuse`] goes into the log.
    Refused {
        reply: Reply,
        asked: Command,
    },
    /// The driver, for a receiver whose credit waits.
    Acquire(ReceiverId),
    /// The driver, for one that waits for a session.
    Accept(ReceiverId),
    /// The driver, for a receiver that is told only then that there is nothing.
    Touch(ReceiverId),
    /// The engine's timers.
    Timer,
    /// The driver, and nobody waits for it: releases of grants that found nobody.
    Quiet,
}

#[derive(Default)]
pub(crate) struct Waitlist {
    items: VecDeque<Item>,
    weight: Weight,
}

struct Item {
    command: Command,
    slot: Slot,
    weight: Weight,
}

/// What an entry is filled by.
#[derive(Clone, Copy, Default)]
struct Weight {
    bytes: usize,
    messages: usize,
}

impl Weight {
    fn plus(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes + other.bytes, messages: self.messages + other.messages }
    }

    fn minus(self, other: Weight) -> Weight {
        Weight { bytes: self.bytes - other.bytes, messages: self.messages - other.messages }
    }

    fn full(self, config: &ProposerConfig) -> bool {
        self.bytes >= config.entry_bytes_full || self.messages >= config.entry_messages_full
    }
}

impl Waitlist {
    pub fn push(&mut self, command: Command, slot: Slot) {
        self.push_copied(command, slot, 1);
    }

    /// As [`Waitlist::push`], for a command each of whose messages becomes so many.
    pub fn push_copied(&mut self, command: Command, slot: Slot, copies: u64) {
        let mut weight = weigh(&command);
        let copies = usize::try_from(copies).unwrap_or(usize::MAX);
        weight.messages = weight.messages.saturating_mul(copies);
        self.weight = self.weight.plus(weight);
        self.items.push_back(Item { command, slot, weight });
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether what waits fills an entry.
    pub fn full(&self, config: &ProposerConfig) -> bool {
        self.weight.full(config)
    }

    /// Moves commands into an entry until it is full.
    pub fn fill(
        &mut self,
        config: &ProposerConfig,
        commands: &mut Vec<Command>,
        slots: &mut Vec<Slot>,
    ) {
        let mut filled = Weight::default();
        while let Some(item) = self.items.front() {
            let after = filled.plus(item.weight);
            if !commands.is_empty() && (filled.full(config) || after.bytes > ENTRY_BYTES_MAX) {
                return;
            }
            filled = after;
            self.weight = self.weight.minus(item.weight);
            let item = self.items.pop_front().expect("the item just looked at");
            commands.push(item.command);
            slots.push(item.slot);
        }
    }

    /// Everything that waits, for a leader that is one no more.
    pub fn drain(&mut self) -> impl Iterator<Item = (Command, Slot)> + '_ {
        self.weight = Weight::default();
        self.items.drain(..).map(|item| (item.command, item.slot))
    }
}

/// What a command or a settlement takes beside its contents.
const FIXED_BYTES: usize = 64;

/// Why a command is not to be posted: an entry with it could not be brought to the other replicas, and
/// would hold up its group for ever.
pub(crate) fn excess(command: &Command) -> Option<Refusal> {
    if let Command::Send(_) = command {
        return None; // Its edge has looked, and its serial must not be missed.
    }
    let (bytes, max) = (weigh(command).bytes as u64, ENTRY_BYTES_MAX as u64);
    (bytes > max).then_some(Refusal::MessageSizeExceeded { what: "the request", bytes, max })
}

/// Splits settlements into requests, in their order: a client may say as much of each as of one
/// message.
pub(crate) fn settle_requests(settlements: Vec<Settlement>) -> Vec<Vec<Settlement>> {
    let mut requests: Vec<Vec<Settlement>> = vec![Vec::new()];
    let mut bytes = 0;
    for settlement in settlements {
        let more = settlement_bytes(&settlement);
        let request = requests.last_mut().expect("there is one from the beginning");
        let is_full = request.len() >= TOKENS_MAX || bytes + more > BATCH_BYTES_MAX;
        if is_full && !request.is_empty() {
            requests.push(vec![settlement]);
            bytes = more;
        } else {
            request.push(settlement);
            bytes += more;
        }
    }
    requests
}

/// Bytes and messages, near enough to keep entries bounded.
fn weigh(command: &Command) -> Weight {
    let (bytes, messages) = match command {
        Command::Send(send) => weigh_messages(&send.messages),
        Command::Settle(settle) => weigh_settle(settle),
        Command::Commit(commit) => {
            let parts = commit.operations.iter().map(|operation| match operation {
                Operation::Send(Send { messages, .. })
                | Operation::SendVia(SendVia { messages, .. }) => weigh_messages(messages),
                Operation::Settle(settle) => weigh_settle(settle),
                Operation::CancelScheduled(cancel) => (64, cancel.numbers.len()),
                Operation::Renew(renew) => (64, renew.tokens.len()),
                Operation::SetState(set) => (set.state.as_ref().map_or(0, Bytes::len), 1),
            });
            parts.fold((0, 0), |sum, part| (sum.0 + part.0 + FIXED_BYTES, sum.1 + part.1))
        }
        Command::Acquire(acquire) => (0, acquire.count_max as usize),
        Command::Renew(renew) => (16 * renew.tokens.len(), renew.tokens.len()),
        Command::CancelScheduled(cancel) => (8 * cancel.numbers.len(), cancel.numbers.len()),
        Command::ReceiveDeferred(receive) => (8 * receive.numbers.len(), receive.numbers.len()),
        Command::FireLocks(fire) => (32 * fire.locks.len(), fire.locks.len()),
        Command::DeleteBatch(delete) => (0, delete.count_max as usize),
        Command::Fire(fire) => (0, fire.count_max as usize),
        // Rare, and of any size: rules and descriptions are texts of their clients.
        Command::CreateQueue(_)
        | Command::UpdateQueue(_)
        | Command::Catalog(_)
        | Command::Topic(_) => (encoded_bytes(command), 1),
        Command::DeleteEntity { .. }
        | Command::Sweep
        | Command::AdvanceClock { .. }
        | Command::RaiseClock { .. } => (1024, 1),
        Command::Forward(command) => weigh_forward(command),
        Command::Refuse(_) | Command::Touch { .. } | Command::Seal(_) | Command::Beat => (0, 1),
        Command::Session(session) => weigh_session(session),
    };
    Weight { bytes: FIXED_BYTES + bytes, messages }
}

fn encoded_bytes(command: &Command) -> usize {
    let entry = Entry { at: Timestamp::ZERO, seed: [0; 16], commands: vec![command.clone()] };
    wire::encode_entry(&entry).len()
}

fn weigh_forward(command: &ForwardCommand) -> (usize, usize) {
    match command {
        ForwardCommand::Arrive(arrive) => {
            let contents = arrive.messages.iter().map(|m| m.message.content.len() + 128);
            (contents.sum(), arrive.messages.len())
        }
        // Rows are deleted, or put aside by the list: less than a message's storing each.
        ForwardCommand::Ship(_) | ForwardCommand::Shipped(_) | ForwardCommand::Unpark(_) => {
            (2048, 64)
        }
        ForwardCommand::ForgetArrivals(_) => (0, 1),
    }
}

fn weigh_messages(messages: &[NewMessage]) -> (usize, usize) {
    (messages.iter().map(|m| m.content.len() + FIXED_BYTES).sum(), messages.len())
}

fn weigh_settle(settle: &Settle) -> (usize, usize) {
    let bytes = settle.settlements.iter().map(|s| FIXED_BYTES + settlement_bytes(s));
    (bytes.sum(), settle.settlements.len())
}

fn weigh_session(command: &SessionCommand) -> (usize, usize) {
    match command {
        SessionCommand::Accept(_) | SessionCommand::Renew(_) => (128, 1),
        SessionCommand::Receive(receive) => (128, receive.count_max as usize),
        SessionCommand::Resume(resume) => (16 * resume.arrived.len(), resume.arrived.len()),
        SessionCommand::Release(_) => (128, 64),
        SessionCommand::SetState(set) => (set.state.as_ref().map_or(0, Bytes::len), 1),
        SessionCommand::ReceiveDeferred(receive) => {
            (8 * receive.numbers.len(), receive.numbers.len())
        }
        SessionCommand::DeleteBatch(delete) => (0, delete.count_max as usize),
        SessionCommand::Fire(fire) => (128 * fire.locks.len(), fire.locks.len()),
    }
}

fn settlement_bytes(settlement: &Settlement) -> usize {
    match &settlement.disposition {
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

#[cfg(test)]
mod tests {
    use domain::{EntityId, NewMessage};

    use super::*;

    fn send(messages: usize, content_bytes: usize) -> Command {
        let message = NewMessage {
            content: Bytes::from(vec![0; content_bytes]),
            size_bytes: content_bytes as u32,
            header_bytes: 0,
            message_id: None,
            session_id: None,
            partition_key: None,
            ttl: None,
            scheduled_at: None,
        };
        let messages = vec![message; messages];
        Command::Send(Send { origin: None, entity: EntityId(1), messages })
    }

    fn fill(waitlist: &mut Waitlist) -> Vec<Command> {
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        waitlist.fill(&ProposerConfig::default(), &mut commands, &mut slots);
        assert_eq!(commands.len(), slots.len());
        commands
    }

    #[test]
    fn entries_are_filled_in_order_and_bounded() {
        let mut waitlist = Waitlist::default();
        for messages in 1..=40 {
            waitlist.push(send(messages, 1024), Slot::Quiet);
        }
        assert!(waitlist.full(&ProposerConfig::default()));
        let mut seen = Vec::new();
        while !waitlist.items.is_empty() {
            let commands = fill(&mut waitlist);
            let messages = |command: &Command| match command {
                Command::Send(send) => send.messages.len(),
                other => panic!("{other:?}"),
            };
            let total: usize = commands.iter().map(messages).sum();
            assert!(total <= 256 + 40, "{total} messages in one entry");
            seen.extend(commands.iter().map(messages));
        }
        assert_eq!(seen, (1..=40).collect::<Vec<_>>());
        assert!(!waitlist.full(&ProposerConfig::default()));
    }

    #[test]
    fn no_entry_passes_four_mebibytes() {
        let mut waitlist = Waitlist::default();
        for _ in 0..8 {
            waitlist.push(send(1, 1024 * 1024), Slot::Quiet);
        }
        let config = ProposerConfig { entry_bytes_full: usize::MAX, ..ProposerConfig::default() };
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        waitlist.fill(&config, &mut commands, &mut slots);
        assert_eq!(commands.len(), 3);
    }
}
