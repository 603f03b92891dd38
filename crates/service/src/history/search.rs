//! One node's search: once through all that it recorded, group by group in the order of the log.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use domain::{AcceptedMessage, LifeStep, MessageEvent};
use prost::Message;
use replication::{MessageHistory, RecordedRange};
use wire::history::is_of;
use wire::v1;

use super::actors::ActorNotes;
use super::recorded_event;

/// Most steps that one node tells, the latest ones, and most bytes of them: an answer may have 24 MiB.
const STEPS_MAX: usize = 4_000;
const STEPS_BYTES_MAX: usize = 4 << 20;
/// Most messages that are followed.
const PLACES_MAX: usize = 10_000;

/// What is looked for, and the places where it was found so far.
pub(super) struct Search {
    entity: Option<String>,
    message_ids: HashSet<String>,
    session_ids: HashSet<String>,
    numbers: HashSet<u64>,
    /// By the number: the entities in which it is meant.
    places: HashMap<u64, Vec<String>>,
    /// The entities that have any.
    entities: HashSet<String>,
    places_count: usize,
    steps: Steps,
}

/// The latest steps that were found.
#[derive(Default)]
struct Steps {
    found: Vec<v1::MessageEvent>,
    bytes: usize,
    more: bool,
}

impl Search {
    pub fn of(asked: v1::AskHistoryRequest) -> Search {
        let mut search = Search {
            entity: Some(asked.entity).filter(|entity| !entity.is_empty()),
            message_ids: asked.message_ids.into_iter().collect(),
            session_ids: asked.session_ids.into_iter().collect(),
            numbers: asked.sequence_numbers.into_iter().collect(),
            places: HashMap::new(),
            entities: HashSet::new(),
            places_count: 0,
            steps: Steps::default(),
        };
        for v1::MessagePlace { entity, sequence_number } in asked.places {
            search.follow(&entity, sequence_number);
        }
        search
    }

    /// Looks through all that is recorded, or as far as there is time.
    pub fn run(
        mut self,
        recorded: &MessageHistory,
        notes: Option<&ActorNotes>,
        until: Instant,
    ) -> v1::AskHistoryResponse {
        let ranges = recorded.ranges();
        for range in &ranges {
            let mut next = range.first_index;
            while next <= range.last_index
                && let Some(chunk) = recorded.next(range.group, next)
            {
                if Instant::now() >= until {
                    self.steps.more = true;
                    break;
                }
                next = chunk.last_index + 1;
                for event in &chunk.events {
                    if self.wants(&event.event) {
                        self.steps.push(recorded_event(range.group, event));
                    }
                }
            }
        }
        self.steps.keep_latest();
        // By the names that clients have for entities, which differ in case.
        let is_meant = |entity: &str, number: u64| {
            let entities = self.places.get(&number).into_iter().flatten();
            entities.into_iter().any(|it| it.eq_ignore_ascii_case(entity))
        };
        let (actors, is_all) = match notes {
            Some(notes) if !self.places.is_empty() => notes.find(is_meant, until),
            Some(_) | None => (Vec::new(), true),
        };
        let Steps { found: events, more, .. } = self.steps;
        let ranges = ranges.into_iter().map(shown).collect();
        v1::AskHistoryResponse { recorded: true, events, ranges, more: more || !is_all, actors }
    }

    fn wants(&mut self, event: &MessageEvent) -> bool {
        let (entity, number) = (&*event.entity, event.number.0);
        let is_wanted = self.follows(entity, number)
            || match &event.step {
                LifeStep::EntityDeleted => return self.entities.contains(entity),
                LifeStep::Accepted(accepted) => self.means(accepted, entity),
                LifeStep::Activated { scheduled_as, .. } => self.follows(entity, scheduled_as.0),
                _ => false,
            }
            || self.numbers.contains(&number) && self.is_inside(entity);
        if is_wanted {
            self.follow(entity, number);
        }
        is_wanted
    }

    fn means(&self, accepted: &AcceptedMessage, entity: &str) -> bool {
        let is_among = |wanted: &HashSet<String>, text: &Option<Box<str>>| {
            text.as_deref().is_some_and(|text| wanted.contains(text))
        };
        let texts = &accepted.texts;
        (is_among(&self.message_ids, &texts.message_id)
            || is_among(&self.session_ids, &texts.session_id))
            && self.is_inside(entity)
    }

    fn is_inside(&self, entity: &str) -> bool {
        self.entity.as_deref().is_none_or(|wanted| is_of(entity, wanted))
    }

    fn follows(&self, entity: &str, number: u64) -> bool {
        self.places.get(&number).is_some_and(|entities| entities.iter().any(|it| it == entity))
    }

    fn follow(&mut self, entity: &str, number: u64) {
        if self.follows(entity, number) {
            return;
        }
        if self.places_count == PLACES_MAX {
            self.steps.more = true;
            return;
        }
        self.places_count += 1;
        self.places.entry(number).or_default().push(entity.to_owned());
        if !self.entities.contains(entity) {
            self.entities.insert(entity.to_owned());
        }
    }
}

impl Steps {
    fn push(&mut self, event: v1::MessageEvent) {
        self.bytes += event.encoded_len();
        self.found.push(event);
        if self.found.len() >= 2 * STEPS_MAX || self.bytes >= 2 * STEPS_BYTES_MAX {
            self.keep_latest();
        }
    }

    fn keep_latest(&mut self) {
        // It leaves those of one group in their order.
        self.found.sort_by_key(|event| event.at_ms);
        let mut first = 0;
        while self.found.len() - first > STEPS_MAX || self.bytes > STEPS_BYTES_MAX {
            self.bytes -= self.found[first].encoded_len();
            first += 1;
            self.more = true;
        }
        self.found.drain(..first);
    }
}

fn shown(range: RecordedRange) -> v1::HistoryRange {
    let RecordedRange { group, first_index, last_index, since } = range;
    v1::HistoryRange { group: group.0.into(), first_index, last_index, since_ms: since.0 }
}

#[cfg(test)]
mod tests {
    use domain::{MessageTexts, SequenceNumber, SubQueue, Timestamp};

    use super::*;

    fn event(entity: &str, number: u64, step: LifeStep) -> MessageEvent {
        let number = SequenceNumber(number);
        MessageEvent { entity: entity.into(), sub: SubQueue::Main, number, step }
    }

    fn accepted(entity: &str, number: u64, id: &str, session: &str) -> MessageEvent {
        let texts = MessageTexts {
            message_id: Some(id.into()),
            session_id: Some(session.into()),
            ..MessageTexts::default()
        };
        let accepted = AcceptedMessage { texts: texts.into(), ..AcceptedMessage::default() };
        event(entity, number, LifeStep::Accepted(Box::new(accepted)))
    }

    /// What happens in a group, in its order.
    fn lives() -> Vec<MessageEvent> {
        let due = Timestamp(5);
        let activated =
            LifeStep::Activated { scheduled_as: SequenceNumber(2), due, expires_at: due };
        vec![
            accepted("orders", 1, "a", "s"),
            accepted("orders", 2, "b", "s"),
            accepted("orders-2", 1, "a", "s"),
            accepted("orders/Subscriptions/mail", 1, "a", "t"),
            event("orders", 1, LifeStep::Deferred),
            event("orders", 3, activated),
            event("orders", 3, LifeStep::Deleted),
            event("orders-2", 1, LifeStep::Deleted),
            event("orders", 0, LifeStep::EntityDeleted),
        ]
    }

    fn asked(entity: &str) -> v1::AskHistoryRequest {
        v1::AskHistoryRequest { entity: entity.to_owned(), ..Default::default() }
    }

    /// Each row: what is asked for, and which of the lives' steps are told.
    #[test]
    fn a_search_tells_the_steps_of_what_it_finds_and_no_others() {
        let texts = |text: &str| vec![text.to_owned()];
        let place = |entity: &str, sequence_number| v1::MessagePlace {
            entity: entity.to_owned(),
            sequence_number,
        };
        let rows: Vec<(&str, v1::AskHistoryRequest, &[usize])> = vec![
            (
                "an id in an entity, whose subscriptions are of it, and whose end is its end",
                v1::AskHistoryRequest { message_ids: texts("a"), ..asked("Orders") },
                &[0, 3, 4, 8],
            ),
            (
                "an id anywhere",
                v1::AskHistoryRequest { message_ids: texts("a"), ..asked("") },
                &[0, 2, 3, 4, 7, 8],
            ),
            (
                "a scheduled message, which has another number once it is active",
                v1::AskHistoryRequest { message_ids: texts("b"), ..asked("orders") },
                &[1, 5, 6, 8],
            ),
            (
                "a session",
                v1::AskHistoryRequest { session_ids: texts("s"), ..asked("orders") },
                &[0, 1, 4, 5, 6, 8],
            ),
            (
                "a number",
                v1::AskHistoryRequest { sequence_numbers: vec![1], ..asked("orders-2") },
                &[2, 7],
            ),
            (
                "places that others found, in these letters",
                v1::AskHistoryRequest { places: vec![place("orders-2", 1)], ..asked("orders") },
                &[2, 7],
            ),
            (
                "what is not there",
                v1::AskHistoryRequest { message_ids: texts("c"), ..asked("orders") },
                &[],
            ),
        ];
        for (what, asked, told) in rows {
            let mut search = Search::of(asked);
            let events = lives();
            let found = events.iter().enumerate().filter(|(_, event)| search.wants(event));
            assert_eq!(found.map(|(place, _)| place).collect::<Vec<_>>(), told, "{what}");
        }
    }

    #[test]
    fn so_many_messages_are_followed_and_it_is_said_that_there_are_more() {
        let mut search =
            Search::of(v1::AskHistoryRequest { session_ids: vec!["s".to_owned()], ..asked("q") });
        for number in 1..=PLACES_MAX as u64 {
            assert!(search.wants(&accepted("q", number, "m", "s")));
        }
        assert!(!search.steps.more);
        search.wants(&accepted("q", PLACES_MAX as u64 + 1, "m", "s"));
        assert!(search.steps.more);
        assert!(search.wants(&event("q", 1, LifeStep::Deleted)), "what is followed still is");
    }

    /// Each row: how many steps there are, of how many bytes each about, and how many are told.
    #[test]
    fn the_latest_steps_are_told_within_what_an_answer_may_have() {
        for (count, bytes, told) in [
            (STEPS_MAX, 10, STEPS_MAX..=STEPS_MAX),
            (STEPS_MAX + 1, 10, STEPS_MAX..=STEPS_MAX),
            (3 * STEPS_MAX, 10, STEPS_MAX..=STEPS_MAX),
            (10, STEPS_BYTES_MAX / 4, 3..=4),
        ] {
            let mut steps = Steps::default();
            for place in 0..count as u64 {
                let entity = "e".repeat(bytes);
                steps.push(v1::MessageEvent { at_ms: place + 1, entity, ..Default::default() });
            }
            steps.keep_latest();
            assert!(told.contains(&steps.found.len()), "{count} {bytes}: {}", steps.found.len());
            assert_eq!(steps.more, steps.found.len() < count, "{count} {bytes}");
            let last = steps.found.last().map(|event| event.at_ms);
            assert_eq!(last, Some(count as u64), "the latest stay");
            assert_eq!(steps.bytes, steps.found.iter().map(Message::encoded_len).sum::<usize>());
        }
    }
}
