//! The lives of messages, put together from what the broker recorded.

use std::collections::HashMap;

use client::v1::message_event::Step;
use client::v1::{MessageAccepted, MessageEvent};
use client::{is_of, main_of};

/// How the path of a dead-letter queue ends.
const DEAD_LETTER: &str = "/$deadletterqueue";

/// A message in one queue, subscription or topic, from the moment it came until it was gone.
#[derive(Clone, Debug)]
pub struct Life {
    /// Where it lives; of its subqueue's steps, too, it is the queue.
    pub entity: String,
    /// The last one it had: where it was scheduled it had another before.
    pub sequence_number: u64,
    /// What it came with. None: it was there before the record began.
    pub accepted: Option<MessageAccepted>,
    pub events: Vec<MessageEvent>,
}

/// Where a message has got to.
#[derive(Clone, Debug, PartialEq)]
pub enum Rest {
    /// Its time has not come.
    Scheduled,
    /// To be received, since then.
    Waiting {
        since_ms: u64,
    },
    Locked,
    Deferred,
    /// In the dead-letter queue, or it was.
    DeadLettered {
        at_ms: u64,
        reason: String,
    },
    Completed {
        at_ms: u64,
        on_delivery: bool,
    },
    /// It went on to the next entity, or to a topic's subscriptions.
    HandedOn,
    /// Its sender took it back.
    Cancelled,
    /// It was lost to whoever was to process it: expired, or deleted, by itself or with its entity.
    Gone {
        why: &'static str,
    },
}

impl Life {
    /// Its id, where it has one.
    pub fn message_id(&self) -> Option<&str> {
        self.accepted.as_ref().map(|of| of.message_id.as_str()).filter(|id| !id.is_empty())
    }

    pub fn correlation_id(&self) -> Option<&str> {
        self.accepted.as_ref().map(|of| of.correlation_id.as_str()).filter(|id| !id.is_empty())
    }

    pub fn session_id(&self) -> Option<&str> {
        self.accepted.as_ref().map(|of| of.session_id.as_str()).filter(|id| !id.is_empty())
    }

    /// As people call it: by its id, or else its number.
    pub fn name(&self) -> String {
        match self.message_id() {
            Some(id) => format!("'{id}' ({})", self.sequence_number),
            None => format!("number {}", self.sequence_number),
        }
    }

    /// When it was there to be received first: accepted, or come out where it was scheduled. None: not yet, or before
    /// the record began.
    pub fn came_ms(&self) -> Option<u64> {
        self.events.iter().find_map(|event| match event.step.as_ref()? {
            Step::Accepted(of) if of.scheduled_for_ms.is_none() => Some(event.at_ms),
            Step::Activated(_) => Some(event.at_ms),
            _ => None,
        })
    }

    /// When its sender was answered.
    pub fn accepted_ms(&self) -> Option<u64> {
        self.accepted.as_ref().and(self.events.first()).map(|event| event.at_ms)
    }

    /// Whether it is a topic's, which handed out all copies of it: those have lives of their own.
    fn is_handed_out(&self) -> bool {
        matches!(self.events.last().map(|event| &event.step), Some(Some(Step::Published(_))))
    }

    /// Where it is after all that is recorded.
    pub fn rest(&self) -> Rest {
        let since_ms = self.events.first().map_or(0, |it| it.at_ms);
        self.rests().last().map_or(Rest::Waiting { since_ms }, |(_, rest)| rest)
    }

    /// Where it was after each step, and since when.
    pub fn rests(&self) -> impl Iterator<Item = (u64, Rest)> {
        let since_ms = self.events.first().map_or(0, |it| it.at_ms);
        self.events.iter().scan(Rest::Waiting { since_ms }, |rest, event| {
            *rest = after(rest.clone(), event);
            Some((event.at_ms, rest.clone()))
        })
    }

    /// Every time that it was there to be received, and until when; the last one may go on.
    pub fn waits(&self) -> Vec<(u64, Option<u64>)> {
        let mut waits: Vec<(u64, Option<u64>)> = Vec::new();
        let mut since = None;
        for (at_ms, rest) in self.rests() {
            match (rest, since) {
                (Rest::Waiting { since_ms }, None) => since = Some(since_ms),
                (Rest::Waiting { .. }, Some(_)) | (_, None) => (),
                (_, Some(from)) => {
                    waits.push((from, Some(at_ms)));
                    since = None;
                }
            }
        }
        waits.extend(since.map(|from| (from, None)));
        waits
    }
}

/// Where a message is after a step.
fn after(before: Rest, event: &MessageEvent) -> Rest {
    let at_ms = event.at_ms;
    let Some(step) = &event.step else { return before };
    let is_dead = event.entity.ends_with(DEAD_LETTER);
    match step {
        // What is done in the dead-letter queue changes nothing: it was there, and with what reason.
        _ if is_dead && matches!(before, Rest::DeadLettered { .. }) => before,
        Step::Accepted(of) if of.scheduled_for_ms.is_some() => Rest::Scheduled,
        Step::Accepted(_) | Step::Activated(_) => Rest::Waiting { since_ms: at_ms },
        Step::Abandoned(_) | Step::Released(_) | Step::LockLapsed(_) => match before {
            // One that is deferred is locked and given back where it is.
            Rest::Deferred => Rest::Deferred,
            _ => Rest::Waiting { since_ms: at_ms },
        },
        Step::Locked(_) | Step::LockRenewed(_) => match before {
            Rest::Deferred => Rest::Deferred,
            _ => Rest::Locked,
        },
        Step::Completed(of) => Rest::Completed { at_ms, on_delivery: of.on_delivery },
        Step::Cancelled(_) => Rest::Cancelled,
        Step::Deferred(_) => Rest::Deferred,
        Step::DeadLettered(of) => Rest::DeadLettered { at_ms, reason: of.reason.clone() },
        Step::Forwarded(_) | Step::Published(_) => Rest::HandedOn,
        Step::Expired(_) => Rest::Gone { why: "expired" },
        Step::Deleted(_) => Rest::Gone { why: "was deleted by a batch delete" },
        Step::EntityDeleted(_) => Rest::Gone { why: "was deleted with its entity" },
    }
}

/// All lives that are known.
#[derive(Clone, Debug, Default)]
pub struct Lives {
    all: Vec<Life>,
    /// By the entity's path and the number.
    places: HashMap<(String, u64), usize>,
}

impl Lives {
    /// Adds what was recorded next. Events of one group come in its log's order.
    pub fn extend(&mut self, events: impl IntoIterator<Item = MessageEvent>) {
        for event in events {
            self.add(event);
        }
    }

    fn add(&mut self, event: MessageEvent) {
        let entity = main_of(&event.entity).to_owned();
        if matches!(event.step, Some(Step::EntityDeleted(_))) {
            for life in self.all.iter_mut().filter(|life| life.entity == entity) {
                if matches!(life.rest(), Rest::Waiting { .. } | Rest::Locked | Rest::Scheduled) {
                    life.events.push(event.clone());
                }
            }
            return;
        }
        let number = event.sequence_number;
        let before = match &event.step {
            Some(Step::Activated(of)) => of.scheduled_as,
            _ => number,
        };
        let at = match self.places.get(&(entity.clone(), before)) {
            Some(at) => *at,
            None => {
                let life = Life {
                    entity: entity.clone(),
                    sequence_number: number,
                    accepted: None,
                    events: Vec::new(),
                };
                self.all.push(life);
                self.all.len() - 1
            }
        };
        self.places.insert((entity, number), at);
        let life = &mut self.all[at];
        life.sequence_number = number;
        if let Some(Step::Accepted(of)) = &event.step {
            life.accepted = Some(of.clone());
        }
        life.events.push(event);
    }

    pub fn all(&self) -> &[Life] {
        &self.all
    }

    /// Lives in a queue or subscription, or in all subscriptions of a topic and in itself while it hands them out.
    pub fn of<'a>(&'a self, entity: &'a str) -> impl Iterator<Item = &'a Life> {
        self.all.iter().filter(move |life| is_of(&life.entity, entity) && !life.is_handed_out())
    }

    /// Lives of what was sent to a queue or topic itself.
    pub fn sent_to<'a>(&'a self, entity: &'a str) -> impl Iterator<Item = &'a Life> {
        self.all.iter().filter(move |life| life.entity.eq_ignore_ascii_case(entity))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use client::v1;

    /// A step of a message: at, entity, number, step.
    pub fn event(at_ms: u64, entity: &str, sequence_number: u64, step: Step) -> MessageEvent {
        let entity = entity.to_owned();
        let (group, index, step) = (1, at_ms, Some(step));
        MessageEvent { at_ms, group, index, entity, sequence_number, leader: 1, step }
    }

    pub fn accepted(id: &str) -> Step {
        Step::Accepted(MessageAccepted { message_id: id.to_owned(), ..MessageAccepted::default() })
    }

    pub fn in_session(id: &str, session: &str) -> Step {
        let (message_id, session_id) = (id.to_owned(), session.to_owned());
        Step::Accepted(MessageAccepted { message_id, session_id, ..MessageAccepted::default() })
    }

    pub fn reply_to(id: &str) -> Step {
        let correlation_id = id.to_owned();
        Step::Accepted(MessageAccepted { correlation_id, ..MessageAccepted::default() })
    }

    pub fn locked() -> Step {
        Step::Locked(v1::MessageLocked::default())
    }

    pub fn completed() -> Step {
        Step::Completed(v1::MessageCompleted { on_delivery: false })
    }

    pub fn deleted_on_delivery() -> Step {
        Step::Completed(v1::MessageCompleted { on_delivery: true })
    }

    pub fn published() -> Step {
        Step::Published(v1::MessagePublished { copies: 1 })
    }

    pub fn abandoned() -> Step {
        Step::Abandoned(v1::MessageAbandoned::default())
    }

    pub fn lapsed() -> Step {
        Step::LockLapsed(v1::MessageLockLapsed::default())
    }

    pub fn dead_lettered(reason: &str) -> Step {
        let reason = reason.to_owned();
        Step::DeadLettered(v1::MessageDeadLettered { reason, description: String::new() })
    }

    pub fn lives(events: Vec<(u64, &str, u64, Step)>) -> Lives {
        let mut lives = Lives::default();
        lives.extend(
            events.into_iter().map(|(at, entity, number, step)| event(at, entity, number, step)),
        );
        lives
    }

    #[test]
    fn a_message_rests_where_its_last_step_left_it() {
        let scheduled = || {
            let scheduled_for_ms = Some(50);
            Step::Accepted(MessageAccepted { scheduled_for_ms, ..MessageAccepted::default() })
        };
        let activated =
            || Step::Activated(v1::MessageActivated { scheduled_as: 1, ..Default::default() });
        let dead = || Rest::DeadLettered { at_ms: 2, reason: "Broken".to_owned() };
        for (steps, expected) in [
            (vec![accepted("a")], Rest::Waiting { since_ms: 0 }),
            (vec![accepted("a"), locked()], Rest::Locked),
            (vec![accepted("a"), locked(), lapsed()], Rest::Waiting { since_ms: 2 }),
            (
                vec![accepted("a"), locked(), completed()],
                Rest::Completed { at_ms: 2, on_delivery: false },
            ),
            (vec![accepted("a"), locked(), dead_lettered("Broken")], dead()),
            (vec![scheduled()], Rest::Scheduled),
            (vec![scheduled(), Step::Cancelled(v1::MessageCancelled {})], Rest::Cancelled),
            (
                vec![accepted("a"), locked(), Step::Deferred(v1::MessageDeferred {}), locked()],
                Rest::Deferred,
            ),
            (
                vec![accepted("a"), Step::Expired(v1::MessageExpired { late_ms: 0 })],
                Rest::Gone { why: "expired" },
            ),
        ] {
            let steps = steps.into_iter().enumerate();
            let lives = lives(steps.map(|(at, step)| (at as u64, "q", 1, step)).collect());
            assert_eq!(lives.all()[0].rest(), expected);
        }
        let lives = lives(vec![
            (0, "q", 1, scheduled()),
            (60, "q", 9, activated()),
            (61, "q", 9, locked()),
        ]);
        assert_eq!(lives.all().len(), 1, "it is one life under two numbers");
        let life = &lives.all()[0];
        assert_eq!(
            (life.sequence_number, life.came_ms(), life.rest()),
            (9, Some(60), Rest::Locked)
        );
    }

    #[test]
    fn steps_in_a_dead_letter_queue_are_of_the_same_life_and_change_nothing() {
        let dlq = "q/$deadletterqueue";
        let lives = lives(vec![
            (0, "q", 1, accepted("a")),
            (2, "q", 1, dead_lettered("Broken")),
            (3, dlq, 1, locked()),
            (4, dlq, 1, completed()),
        ]);
        let [life] = lives.all() else { panic!("one life") };
        assert_eq!(life.rest(), Rest::DeadLettered { at_ms: 2, reason: "Broken".to_owned() });
    }

    #[test]
    fn waits_begin_when_a_message_comes_or_is_given_back() {
        let lives = lives(vec![
            (0, "q", 1, accepted("a")),
            (10, "q", 1, locked()),
            (20, "q", 1, abandoned()),
            (50, "q", 1, locked()),
            (60, "q", 1, lapsed()),
        ]);
        assert_eq!(lives.all()[0].waits(), [(0, Some(10)), (20, Some(50)), (60, None)]);
    }
}
