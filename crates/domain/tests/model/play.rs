//! Plays drawn moves against a group and the model, and compares them after each step.

mod commands;
mod compare;

use domain::{
    Acquire, Command, Counts, CreateQueue, DeadlineKind, Delivery, Disposition, EntityId, Entry,
    FireLocks, Fired, Key, LockToken, MemoryRows, NewMessage, Outcome, Properties, QueueId,
    QueueProperties, ReceiverId, Send, SessionToken, Settle, Settlement, Span, Timestamp,
};

pub use self::commands::disposition;
use self::commands::fire;
use self::compare::{same_refusal, without_overlay};
use crate::act::{Act, Cut, Move};
use crate::plain::Plain;
use crate::support::{EPOCH, Group, QUEUE};

/// What a game came to.
pub struct Seen {
    pub counts: Counts,
    pub refused: Vec<&'static str>,
    /// Transactions of more than one operation.
    pub committed: u64,
    /// As idle (IDLE-15).
    pub deleted: bool,
}

/// What queue is played with.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub duplicates: bool,
    pub sessions: bool,
}

pub fn play(kind: Kind, moves: &[Move]) -> Seen {
    let mut game = Game::new(kind);
    for drawn in moves {
        if game.plain.deleted {
            break;
        }
        game.make(drawn);
    }
    game.flush();
    assert_eq!(game.neighbours(), game.beside, "another queue was touched");
    let Game { refused, committed, plain, .. } = game;
    Seen { counts: plain.counts(), refused, committed, deleted: plain.deleted }
}

struct Game {
    group: Group,
    plain: Plain,
    /// Entries of the step that is being gathered.
    entries: Vec<Entry>,
    now: Timestamp,
    /// Properties as of the last update gathered.
    properties: QueueProperties,
    tokens: Vec<(QueueId, LockToken)>,
    /// Of sessions.
    holds: Vec<SessionToken>,
    /// Rows of the queues before and behind in the order of keys.
    beside: MemoryRows,
    refused: Vec<&'static str>,
    committed: u64,
}

impl Game {
    fn new(kind: Kind) -> Game {
        let properties = QueueProperties {
            requires_duplicate_detection: kind.duplicates,
            requires_session: kind.sessions,
            duplicate_detection_window: Span(20_000),
            lock_duration: Span(20_000),
            max_delivery_count: 3,
            ..QueueProperties::default()
        };
        let mut group = Group::new(properties.clone());
        for neighbour in [QUEUE.0 - 1, QUEUE.0 + 1] {
            furnish(&mut group, EntityId(neighbour));
        }
        let mut game = Game {
            group,
            plain: Plain::new(properties.clone(), EPOCH),
            entries: Vec::new(),
            now: EPOCH,
            properties,
            tokens: Vec::new(),
            holds: Vec::new(),
            beside: MemoryRows::default(),
            refused: Vec::new(),
            committed: 0,
        };
        game.beside = game.neighbours();
        game
    }

    fn neighbours(&self) -> MemoryRows {
        let beside = |key: &&Key| owner(key).is_some_and(|owner| owner != QUEUE);
        let keys: Vec<_> = self.group.rows.0.keys().filter(beside).cloned().collect();
        let row = |key: Key| {
            let row = self.group.rows.0[&key].clone();
            (key, row)
        };
        MemoryRows(keys.into_iter().map(row).collect())
    }

    fn make(&mut self, drawn: &Move) {
        if matches!(drawn.cut, Cut::Step | Cut::Restart)
            || matches!(drawn.act, Act::FireAll | Act::Age)
        {
            self.flush();
        }
        if drawn.cut == Cut::Restart {
            self.group.reset();
        }
        let mut stamp = self.now;
        if drawn.back {
            stamp = Timestamp(stamp.0.saturating_sub(drawn.gap));
        } else {
            self.now = self.now.plus(Span(drawn.gap));
            stamp = self.now;
        }
        match drawn.act {
            Act::FireAll => return self.fire_all(),
            Act::Age => return self.age(),
            _ => (),
        }
        let command = self.command(&drawn.act, drawn.origin);
        match self.entries.last_mut() {
            Some(entry) if drawn.cut == Cut::Same && entry.at == stamp => {
                entry.commands.push(command);
            }
            _ => {
                let commands = vec![command];
                self.entries.push(Entry { at: stamp, seed: [0; 16], commands });
            }
        }
    }

    /// As an engine: until there is no more. Then nothing that is due is left.
    fn fire_all(&mut self) {
        let locks = self.locks(Timestamp::ZERO);
        self.ask(Command::FireLocks(FireLocks { locks }));
        let command = self.fire_sessions();
        self.ask(command);
        for kind in DeadlineKind::ALL {
            let mut rounds = 0;
            // What is deleted has nothing due.
            while self.ask(fire(kind, 3)).more {
                rounds += 1;
                assert!(rounds < 500, "{kind:?} never ends");
            }
        }
    }

    /// Nobody does anything for six minutes, as an engine lives through them.
    fn age(&mut self) {
        for _ in 0..6 {
            self.now = self.now.plus(Span(60_000));
            let commands = vec![Command::Beat];
            self.entries.push(Entry { at: self.now, seed: [0; 16], commands });
        }
        self.flush();
        let commands = vec![self.command(&Act::Seal(0), None)];
        self.entries.push(Entry { at: self.now, seed: [0; 16], commands });
        self.flush();
    }

    fn ask(&mut self, command: Command) -> Fired {
        self.entries.push(Entry { at: self.now, seed: [0; 16], commands: vec![command] });
        match self.flush().pop() {
            Some(Outcome::Fired(fired)) => fired,
            other => panic!("not fired: {other:?}"),
        }
    }

    /// Ends the step: applies its entries, and compares.
    fn flush(&mut self) -> Vec<Outcome> {
        let entries = std::mem::take(&mut self.entries);
        if entries.is_empty() {
            return Vec::new();
        }
        let outcomes = self.group.step(entries.clone());
        for (entry, outcomes) in entries.iter().zip(&outcomes) {
            self.plain.begin(entry.at);
            // An entry has one time, also where one of its commands moves the clock.
            let at = self.plain.at;
            let mut advanced = Span(0);
            for (command, outcome) in entry.commands.iter().zip(outcomes) {
                self.plain.at = at;
                let expected = self.plain.apply(command, outcome);
                if let Command::AdvanceClock { by } = command {
                    advanced = advanced.max(*by);
                }
                self.compare(command, outcome, &expected);
            }
            self.plain.at = at.plus(advanced);
        }
        self.compare_rows();
        outcomes.into_iter().flatten().collect()
    }

    fn compare(&mut self, command: &Command, outcome: &Outcome, expected: &Outcome) {
        let same = match (outcome, expected) {
            (Outcome::Refused(refusal), Outcome::Refused(expected)) => {
                self.refused.push(refusal.name());
                same_refusal(refusal, expected)
            }
            (Outcome::Settled { refused }, Outcome::Settled { refused: expected }) => {
                self.refused.extend(refused.iter().map(|(_, refusal)| refusal.name()));
                refused.len() == expected.len()
                    && refused
                        .iter()
                        .zip(expected)
                        .all(|(a, b)| a.0 == b.0 && same_refusal(&a.1, &b.1))
            }
            (
                Outcome::Acquired { deliveries, more },
                Outcome::Acquired { deliveries: expected, more: expected_more },
            ) => {
                self.remember(command, deliveries);
                let bare: Vec<_> = deliveries.iter().cloned().map(without_overlay).collect();
                // A recorded outcome is compared with itself.
                let expected: Vec<_> = expected.iter().cloned().map(without_overlay).collect();
                bare == expected && more == expected_more
            }
            (Outcome::Accepted { token, .. }, expected) => {
                self.holds.push(token.clone());
                outcome == expected
            }
            (Outcome::Committed { performed }, expected) => {
                self.committed += u64::from(performed.len() > 1);
                outcome == expected
            }
            _ => outcome == expected,
        };
        assert!(same, "{command:?}\n  came to   {outcome:?}\n  should be {expected:?}");
    }

    fn remember(&mut self, command: &Command, deliveries: &[Delivery]) {
        let queue = match command {
            Command::Acquire(take) => take.queue,
            Command::ReceiveDeferred(receive) => receive.queue,
            Command::Select(select) => select.queue,
            Command::Session(_) => QueueId::main(QUEUE),
            _ => return,
        };
        for delivery in deliveries {
            self.tokens.push((queue, delivery.lock.expect("a lock").token));
        }
    }
}

fn owner(key: &Key) -> Option<EntityId> {
    match key {
        // What its shipments left behind elsewhere.
        Key::Arrival(source, _) => Some(source.entity),
        key => key.entity(),
    }
}

/// A neighbour with a row in every table, all of it due or available.
fn furnish(group: &mut Group, entity: EntityId) {
    let properties = QueueProperties {
        requires_duplicate_detection: true,
        default_ttl: Span(1000),
        ..QueueProperties::default()
    };
    let create =
        CreateQueue { entity, name: format!("q{}", entity.0), properties: Box::new(properties) };
    assert_eq!(group.apply(Command::CreateQueue(create)), Outcome::Done);
    let draft = |index: u64| NewMessage {
        content: "neighbour".into(),
        size_bytes: 9,
        header_bytes: 1,
        message_id: Some(format!("id{index}")),
        session_id: None,
        partition_key: None,
        ttl: (index == 1).then_some(Span(5)),
        scheduled_at: (index == 2).then(|| EPOCH.plus(Span(5))),
    };
    let messages = (0..6).map(draft).collect();
    group.apply(Command::Send(Send { origin: None, entity, messages }));
    let queue = QueueId::main(entity);
    let receiver = ReceiverId::default();
    let take = Acquire { queue, receiver, count_max: 4, bytes_max: u32::MAX };
    let Outcome::Acquired { deliveries, .. } = group.apply(Command::Acquire(take)) else {
        panic!("nothing to take");
    };
    let how = [
        Disposition::Abandon { properties: Properties::new() },
        Disposition::Defer { properties: Properties::new() },
        Disposition::DeadLetter { reason: None, description: None, properties: Properties::new() },
    ];
    let settlements = deliveries
        .iter()
        .zip(how)
        .map(|(delivery, disposition)| Settlement {
            token: delivery.lock.expect("a lock").token,
            disposition,
        })
        .collect();
    group.apply(Command::Settle(Settle { origin: None, queue, settlements, atomic: true }));
}
