//! Commands that wait to be proposed, in the order they came: the log's order is theirs within each namespace
//! (MSG-10), and namespaces take turns.

use std::collections::{HashMap, VecDeque};

use domain::{
    BATCH_BYTES_MAX, Command, EntityId, Entry, Namespace, ReceiverId, Refusal, Settlement,
    TOKENS_MAX, Timestamp, Weight,
};

use crate::config::ProposerConfig;
use crate::exchange::Reply;

/// Most bytes of one entry. A command alone may be larger than what is aimed at, never than this: a
/// batch is at most 1 MiB (QUOTA-6), and whatever else comes to more is refused before it is posted
/// (see [`excess`]).
const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entities whose namespaces are remembered; what is asked about beyond has them looked up again.
const KNOWN_MAX: usize = 128 * 1024;

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

/// What one namespace may have of an entry in its turn: messages, or as many KiB.
const TURN: i64 = 32;

/// What waits goes in the order it came within a namespace. Of several namespaces each has its turn, so that one that
/// asks for more than the group does holds up itself alone (NS-11).
pub(crate) struct Waitlist {
    /// Of no entity: it goes first.
    of_group: VecDeque<Item>,
    /// Of namespaces that have something waiting.
    lanes: HashMap<Namespace, Lane>,
    /// The same, in the order of their turns.
    turns: VecDeque<Namespace>,
    /// Of entities that were asked about.
    known: HashMap<EntityId, Namespace>,
    namespace_of: Box<NamespaceOf>,
    weight: Weight,
}

/// The namespace of an entity that the group has.
type NamespaceOf = dyn Fn(EntityId) -> Option<Namespace> + Send + Sync;

/// What waits of one namespace.
struct Lane {
    items: VecDeque<Item>,
    /// What it may have still, of its turn and of those before; below zero, it had more than that.
    credit: i64,
}

struct Item {
    command: Command,
    slot: Slot,
    weight: Weight,
}

impl Item {
    fn cost(&self) -> i64 {
        let cost = self.weight.messages.max(self.weight.bytes / 1024).max(1);
        i64::try_from(cost).unwrap_or(i64::MAX)
    }
}

impl Waitlist {
    pub fn new(
        namespace_of: impl Fn(EntityId) -> Option<Namespace> + Send + Sync + 'static,
    ) -> Waitlist {
        Waitlist {
            of_group: VecDeque::new(),
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            known: HashMap::new(),
            namespace_of: Box::new(namespace_of),
            weight: Weight::default(),
        }
    }

    pub fn push(&mut self, command: Command, slot: Slot) {
        self.push_copied(command, slot, 1);
    }

    /// As [`Waitlist::push`], for a command each of whose messages becomes so many.
    pub fn push_copied(&mut self, command: Command, slot: Slot, copies: u64) {
        let mut weight = command.weight(encoded_bytes);
        let copies = usize::try_from(copies).unwrap_or(usize::MAX);
        weight.messages = weight.messages.saturating_mul(copies);
        self.weight = self.weight + weight;
        // A refusal stands where what was asked would have stood, or the serials behind it would find a gap.
        let asked = match &slot {
            Slot::Refused { asked, .. } => asked,
            _ => &command,
        };
        let entity = asked.facts().entity;
        let item = Item { command, slot, weight };
        match entity {
            None => self.of_group.push_back(item),
            Some(entity) => {
                let namespace = self.namespace(entity);
                let turns = &mut self.turns;
                let lane = self.lanes.entry(namespace).or_insert_with_key(|namespace| {
                    turns.push_back(namespace.clone());
                    Lane { items: VecDeque::new(), credit: TURN }
                });
                lane.items.push_back(item);
            }
        }
    }

    /// What is not here, by whatever mistake, waits with the default namespace.
    fn namespace(&mut self, entity: EntityId) -> Namespace {
        if let Some(namespace) = self.known.get(&entity) {
            return namespace.clone();
        }
        let Some(namespace) = (self.namespace_of)(entity) else { return Namespace::DEFAULT };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(entity, namespace.clone());
        namespace
    }

    pub fn is_empty(&self) -> bool {
        self.of_group.is_empty() && self.turns.is_empty()
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
        while let Some(next) = self.next() {
            let after = filled + next.weight;
            if !commands.is_empty() && (is_full(filled, config) || after.bytes > ENTRY_BYTES_MAX) {
                return;
            }
            filled = after;
            let Some(item) = self.take() else { return };
            self.weight = self.weight - item.weight;
            commands.push(item.command);
            slots.push(item.slot);
        }
    }

    /// The one whose turn it is.
    fn next(&mut self) -> Option<&Item> {
        if self.of_group.is_empty() {
            while self.turns.len() > 1 {
                let lane = self.lanes.get_mut(&self.turns[0])?;
                if lane.credit > 0 {
                    break;
                }
                lane.credit += TURN;
                self.turns.rotate_left(1);
            }
        }
        self.of_group.front().or_else(|| self.lanes.get(self.turns.front()?)?.items.front())
    }

    /// Takes that one.
    fn take(&mut self) -> Option<Item> {
        if let Some(item) = self.of_group.pop_front() {
            return Some(item);
        }
        let is_alone = self.turns.len() == 1;
        let lane = self.lanes.get_mut(self.turns.front()?)?;
        let item = lane.items.pop_front()?;
        // Nobody has less by what one has that waits alone.
        lane.credit = if is_alone { TURN } else { lane.credit - item.cost() };
        if lane.items.is_empty() {
            self.lanes.remove(&self.turns.pop_front()?);
        }
        Some(item)
    }

    /// Everything that waits, for a leader that is one no more.
    pub fn drain(&mut self) -> impl Iterator<Item = (Command, Slot)> + '_ {
        self.weight = Weight::default();
        self.turns.clear();
        let of_lanes = self.lanes.drain().flat_map(|(_, lane)| lane.items);
        self.of_group.drain(..).chain(of_lanes).map(|item| (item.command, item.slot))
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
        send_to(1, messages, content_bytes)
    }

    fn send_to(entity: u64, messages: usize, content_bytes: usize) -> Command {
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
        Command::Send(Send { origin: None, entity: EntityId(entity), messages })
    }

    fn fill(waitlist: &mut Waitlist) -> Vec<Command> {
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        waitlist.fill(&ProposerConfig::default(), &mut commands, &mut slots);
        assert_eq!(commands.len(), slots.len());
        commands
    }

    #[test]
    fn entries_are_filled_in_order_and_bounded() {
        let mut waitlist = Waitlist::new(|_| Some(Namespace::DEFAULT));
        for messages in 1..=40 {
            waitlist.push(send(messages, 1024), Slot::Quiet);
        }
        assert!(waitlist.full(&ProposerConfig::default()));
        let mut seen = Vec::new();
        while !waitlist.is_empty() {
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
        let mut waitlist = Waitlist::new(|_| Some(Namespace::DEFAULT));
        for _ in 0..8 {
            waitlist.push(send(1, 1024 * 1024), Slot::Quiet);
        }
        let config = ProposerConfig { entry_bytes_full: usize::MAX, ..ProposerConfig::default() };
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        waitlist.fill(&config, &mut commands, &mut slots);
        assert_eq!(commands.len(), 3);
    }

    /// Entities below 100 are of one namespace, those below 200 of another, and of those above nobody knows.
    fn of_two() -> Waitlist {
        Waitlist::new(|EntityId(id)| match id {
            0..100 => Some(Namespace::named("loud").expect("a name")),
            100..200 => Some(Namespace::named("quiet").expect("a name")),
            _ => None,
        })
    }

    fn places(commands: &[Command], wanted: EntityId) -> Vec<usize> {
        let is_of = |command: &Command| command.facts().entity == Some(wanted);
        (0..).zip(commands).filter(|(_, it)| is_of(it)).map(|(place, _)| place).collect()
    }

    #[test]
    fn ns_11_what_a_namespace_asks_for_too_much_holds_up_nobody_else() {
        let mut waitlist = of_two();
        for number in 0..10_000 {
            waitlist.push(send_to(number % 50, 1, 100), Slot::Quiet);
        }
        for _ in 0..3 {
            waitlist.push(send_to(100, 1, 100), Slot::Quiet);
        }
        waitlist.push(send_to(500, 1, 100), Slot::Quiet);
        waitlist.push(Command::Beat, Slot::Quiet);
        let commands = fill(&mut waitlist);
        assert_eq!(commands[0], Command::Beat, "what is of no entity goes first");
        let turn = TURN as usize;
        assert_eq!(places(&commands, EntityId(100)), [1 + turn, 2 + turn, 3 + turn]);
        assert_eq!(places(&commands, EntityId(500)), [4 + turn]);
        let mut left = commands.len();
        while !waitlist.is_empty() {
            left += fill(&mut waitlist).len();
        }
        assert_eq!(left, 10_005);
    }

    #[test]
    fn msg_10_within_a_namespace_the_order_is_the_one_they_came_in() {
        let mut waitlist = of_two();
        for number in 0..2_000 {
            // Large ones have their namespace pay for them in turns that it leaves out.
            let bytes = if number % 7 == 0 { 90_000 } else { 10 };
            let size = usize::try_from(number).expect("small") + 1;
            waitlist.push(send_to(number % 2 * 100 + number % 5, 1, bytes + size), Slot::Quiet);
        }
        let mut seen: [Vec<usize>; 2] = Default::default();
        while !waitlist.is_empty() {
            for command in fill(&mut waitlist) {
                let Command::Send(send) = command else { panic!("only sends") };
                let bytes = send.messages[0].content.len();
                let number = if bytes > 90_000 { bytes - 90_001 } else { bytes - 11 };
                seen[usize::from(send.entity.0 >= 100)].push(number);
            }
        }
        assert_eq!(seen[0].len() + seen[1].len(), 2_000);
        assert!(seen.iter().all(|numbers| numbers.is_sorted()));
    }

    #[test]
    fn send_8_a_refusal_keeps_the_place_of_what_was_asked() {
        let mut waitlist = of_two();
        waitlist.push(send_to(1, 1, 10), Slot::Quiet);
        let (reply, _) = tokio::sync::oneshot::channel();
        let slot = Slot::Refused { reply: Reply::Local(reply), asked: send_to(1, 1, 10) };
        let why = Refusal::InvalidOperation { why: "for a test" };
        waitlist.push(Command::Refuse(domain::Refuse { origin: None, refusal: why }), slot);
        let commands = fill(&mut waitlist);
        assert!(matches!(commands[..], [Command::Send(_), Command::Refuse(_)]), "{commands:?}");
    }
}
