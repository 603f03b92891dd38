//! Commands that wait to be proposed, in the order they came: the log's order is theirs (MSG-10).

use std::collections::VecDeque;

use domain::{
    BATCH_BYTES_MAX, Command, Entry, ReceiverId, Refusal, Settlement, TOKENS_MAX, Timestamp, Weight,
};

use crate::config::ProposerConfig;
use crate::exchange::Reply;

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
    /// The driver, in front of what matches (RULE-41).
    Limit,
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

impl Waitlist {
    pub fn push(&mut self, command: Command, slot: Slot) {
        self.push_copied(command, slot, 1);
    }

    /// As [`Waitlist::push`], for a command each of whose messages becomes so many.
    pub fn push_copied(&mut self, command: Command, slot: Slot, copies: u64) {
        let mut weight = command.weight(encoded_bytes);
        let copies = usize::try_from(copies).unwrap_or(usize::MAX);
        weight.messages = weight.messages.saturating_mul(copies);
        self.weight = self.weight + weight;
        self.items.push_back(Item { command, slot, weight });
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Messages that what waits stores, takes or settles.
    pub fn messages(&self) -> usize {
        self.weight.messages
    }

    /// Whether what waits fills an entry.
    pub fn full(&self, config: &ProposerConfig) -> bool {
        is_full(self.weight, config)
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
            let after = filled + item.weight;
            if !commands.is_empty() && (is_full(filled, config) || after.bytes > ENTRY_BYTES_MAX) {
                return;
            }
            filled = after;
            self.weight = self.weight - item.weight;
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

/// Why a command is not to be posted: an entry with it could not be brought to the other replicas, and
/// would hold up its group for ever.
pub(crate) fn excess(command: &Command) -> Option<Refusal> {
    if let Command::Send(_) = command {
        return None; // Its edge has looked, and its serial must not be missed.
    }
    let (bytes, max) = (command.weight(encoded_bytes).bytes as u64, ENTRY_BYTES_MAX as u64);
    (bytes > max).then_some(Refusal::MessageSizeExceeded { what: "the request", bytes, max })
}

/// Splits settlements into requests, in their order: a client may say as much of each as of one
/// message.
pub(crate) fn settle_requests(settlements: Vec<Settlement>) -> Vec<Vec<Settlement>> {
    let mut requests: Vec<Vec<Settlement>> = vec![Vec::new()];
    let mut bytes = 0;
    for settlement in settlements {
        let more = settlement.bytes();
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

fn encoded_bytes(command: &Command) -> usize {
    let entry = Entry { at: Timestamp::ZERO, seed: [0; 16], commands: vec![command.clone()] };
    wire::encode_entry(&entry).len()
}

fn is_full(weight: Weight, config: &ProposerConfig) -> bool {
    weight.bytes >= config.entry_bytes_full || weight.messages >= config.entry_messages_full
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use domain::{EntityId, NewMessage, Send};

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
