//! What several nodes told of messages, put together: each step once, by the messages that they are of.

use std::collections::{BTreeMap, HashMap};

use domain::Refusal;
use wire::history::{is_of, main_of};
use wire::v1::find_messages_request::By;
use wire::v1::message_event::Step;
use wire::v1::{self, MessageEvent};

/// Most steps that are told.
const STEPS_MAX: u32 = 1_000;
/// Most places that nodes are asked about, of the messages that were met last.
const PLACES_MAX: usize = 2_000;

/// What somebody looks for, and how far it is known by now.
pub(crate) struct MessageSearch {
    entity: String,
    by: By,
    follow: bool,
    steps_max: usize,
    /// Of messages that are meant, wherever they are.
    message_ids: Vec<String>,
    places: Vec<v1::MessagePlace>,
}

/// What nodes that answered told.
#[derive(Default)]
pub(crate) struct Looked {
    pub events: Vec<MessageEvent>,
    pub ranges: Vec<v1::HistoryRange>,
    pub actors: Vec<v1::NotedActor>,
    pub more: bool,
}

impl Looked {
    /// Of each log entry what that node told that told most of it: it knew more of what was looked for.
    pub fn merged(answers: Vec<v1::AskHistoryResponse>) -> Looked {
        let mut looked = Looked::default();
        let mut entries: BTreeMap<(u32, u64), Vec<MessageEvent>> = BTreeMap::new();
        for answer in answers {
            looked.ranges.extend(answer.ranges);
            looked.actors.extend(answer.actors);
            looked.more |= answer.more;
            let mut told: BTreeMap<(u32, u64), Vec<MessageEvent>> = BTreeMap::new();
            for event in answer.events {
                told.entry((event.group, event.index)).or_default().push(event);
            }
            for (entry, events) in told {
                let known = entries.entry(entry).or_default();
                if events.len() > known.len() {
                    *known = events;
                }
            }
        }
        looked.events = entries.into_values().flatten().collect();
        // It leaves those of one group in their order.
        looked.events.sort_by_key(|event| event.at_ms);
        looked
    }

    /// What no node has.
    fn gaps(&self) -> Vec<v1::HistoryGap> {
        let mut gaps = Vec::new();
        for (group, ranges) in self.by_group() {
            let mut next = ranges[0].0;
            for (first, last, _) in ranges {
                if first > next {
                    let (first_index, last_index) = (next, first - 1);
                    gaps.push(v1::HistoryGap { group, first_index, last_index });
                }
                next = next.max(last + 1);
            }
        }
        gaps
    }

    /// From when on there is something of every group. None: all there ever was.
    fn since_ms(&self) -> Option<u64> {
        let began = |(_, ranges): (u32, Vec<(u64, u64, u64)>)| {
            let (first, _, since_ms) = ranges[0];
            (first > 1).then_some(since_ms)
        };
        self.by_group().into_iter().filter_map(began).max()
    }

    /// First index, last index and beginning, in order; of no group none.
    fn by_group(&self) -> BTreeMap<u32, Vec<(u64, u64, u64)>> {
        let mut groups: BTreeMap<u32, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for range in &self.ranges {
            let v1::HistoryRange { group, first_index, last_index, since_ms } = *range;
            groups.entry(group).or_default().push((first_index, last_index, since_ms));
        }
        groups.values_mut().for_each(|ranges| ranges.sort_unstable());
        groups
    }
}

impl MessageSearch {
    /// # Errors
    /// Refused where it does not say what is looked for.
    pub fn of(asked: v1::FindMessagesRequest) -> Result<MessageSearch, Refusal> {
        let v1::FindMessagesRequest { entity, by, follow, steps_max, within_ms: _ } = asked;
        let missing =
            |what: &'static str, why: &str| Err(Refusal::Argument { what, why: why.to_owned() });
        if entity.is_empty() {
            return missing(
                "entity",
                "name the queue, topic or subscription that the message came to",
            );
        }
        let by = match by {
            Some(By::MessageId(id)) if id.is_empty() => None,
            Some(By::SessionId(id)) if id.is_empty() => None,
            by => by,
        };
        let Some(by) = by else {
            return missing("message", "name a message id, a sequence number or a session id");
        };
        let message_ids = match &by {
            By::MessageId(id) => vec![id.clone()],
            By::SequenceNumber(_) | By::SessionId(_) => Vec::new(),
        };
        let steps_max = if steps_max == 0 { STEPS_MAX } else { steps_max.min(STEPS_MAX) } as usize;
        Ok(MessageSearch { entity, by, follow, steps_max, message_ids, places: Vec::new() })
    }

    /// What nodes are asked next.
    pub fn question(&self, within_ms: u32) -> v1::AskHistoryRequest {
        let is_known = !self.message_ids.is_empty();
        let (session_ids, sequence_numbers) = match &self.by {
            By::MessageId(_) => (Vec::new(), Vec::new()),
            By::SequenceNumber(number) => (Vec::new(), vec![*number]),
            By::SessionId(id) => (vec![id.clone()], Vec::new()),
        };
        // Once its id is known it is followed by it; what has the number elsewhere is another message.
        let is_followed = self.follow && is_known;
        v1::AskHistoryRequest {
            entity: if is_followed { String::new() } else { self.entity.clone() },
            message_ids: self.message_ids.clone(),
            session_ids,
            sequence_numbers: if is_followed { Vec::new() } else { sequence_numbers },
            places: self.places.clone(),
            within_ms,
        }
    }

    /// Takes in what was told. True: nodes are to be asked again, since one that has only a later part of a life does
    /// not know by its id whose it is, but by the place.
    pub fn learn(&mut self, looked: &Looked) -> bool {
        let lives = lives(&looked.events);
        let before = (self.message_ids.len(), self.places.len());
        for life in self.meant(&lives) {
            let id = life.message_id();
            if self.follow
                && matches!(self.by, By::SequenceNumber(_))
                && let Some(id) = id.filter(|id| !self.message_ids.iter().any(|known| known == id))
            {
                self.message_ids.push(id.to_owned());
            }
        }
        let mut places: Vec<v1::MessagePlace> = Vec::new();
        for life in self.meant(&lives) {
            let place = |number: &u64| v1::MessagePlace {
                entity: life.entity.clone(),
                sequence_number: *number,
            };
            places.extend(life.numbers.iter().map(place));
        }
        places.drain(..places.len().saturating_sub(PLACES_MAX));
        let grown = places.len() > before.1 || self.message_ids.len() > before.0;
        self.places = places;
        grown
    }

    /// The answer.
    pub fn told(&self, looked: &Looked) -> v1::FindMessagesResponse {
        let lives = lives(&looked.events);
        let is_here = |life: &&Life| is_of(&life.entity, &self.entity);
        let meant = self.meant(&lives);
        let meant = match meant.iter().any(is_here) {
            true => meant,
            false => Vec::new(),
        };
        let shown = meant.into_iter().filter(|life| is_here(life) || life.is_handed_on());
        let actors = Actors::of(&looked.actors);
        let mut steps: Vec<v1::MessageStep> = shown.flat_map(|life| life.steps(&actors)).collect();
        // Who settles has the token, and keys are named to whoever may do more than listen to this entity.
        if !self.follow {
            steps.iter_mut().for_each(conceal);
        }
        // Of one entity they stay as they were.
        steps.sort_by_key(|step| step.event.as_ref().map(|event| event.at_ms));
        let more = looked.more || steps.len() > self.steps_max;
        steps.drain(..steps.len().saturating_sub(self.steps_max));
        let (gaps, since_ms) = (looked.gaps(), looked.since_ms());
        v1::FindMessagesResponse { steps, untold: Vec::new(), more, gaps, since_ms }
    }

    fn meant<'a>(&self, lives: &'a [Life]) -> Vec<&'a Life> {
        let is_meant = |life: &&Life| {
            let is_here = is_of(&life.entity, &self.entity);
            let has_id =
                life.message_id().is_some_and(|id| self.message_ids.iter().any(|it| it == id));
            match &self.by {
                By::MessageId(_) => has_id && (is_here || self.follow),
                By::SequenceNumber(number) => {
                    is_here && life.numbers.contains(number) || self.follow && has_id
                }
                By::SessionId(id) => {
                    is_here && life.accepted.as_ref().is_some_and(|of| of.session_id == *id)
                }
            }
        };
        lives.iter().filter(is_meant).collect()
    }
}

/// A message in one queue, subscription or topic, from the moment it came until it was gone.
struct Life {
    /// Of its subqueue's steps, too, it is the queue.
    entity: String,
    /// More than one where it was scheduled: it had another before.
    numbers: Vec<u64>,
    /// What it came with. None: it was there before the record begins.
    accepted: Option<v1::MessageAccepted>,
    events: Vec<MessageEvent>,
    is_gone: bool,
}

impl Life {
    fn message_id(&self) -> Option<&str> {
        self.accepted.as_ref().map(|of| of.message_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Each with whose request it was.
    fn steps(&self, actors: &Actors<'_>) -> Vec<v1::MessageStep> {
        let message_id = self.message_id().unwrap_or_default();
        let mut token = "";
        let step = |event| {
            let by = actors.who(&self.entity, event, &mut token).cloned();
            let message_id = message_id.to_owned();
            v1::MessageStep { event: Some(event.clone()), message_id, by }
        };
        self.events.iter().map(step).collect()
    }

    /// Whether it came from another entity, or went to one.
    fn is_handed_on(&self) -> bool {
        let came = |of: &v1::MessageAccepted| of.hops > 0 || of.published_as.is_some();
        let went = |event: &MessageEvent| {
            matches!(event.step, Some(Step::Forwarded(_) | Step::Published(_)))
        };
        self.accepted.as_ref().is_some_and(came) || self.events.iter().any(went)
    }
}

/// `events`: of each group in the order of its log.
fn lives(events: &[MessageEvent]) -> Vec<Life> {
    let mut all: Vec<Life> = Vec::new();
    let mut places: HashMap<(String, u64), usize> = HashMap::new();
    for event in events {
        let (entity, number) = (main_of(&event.entity).to_owned(), event.sequence_number);
        let known = match &event.step {
            Some(Step::EntityDeleted(_)) => {
                let there = all.iter_mut().filter(|life| life.entity == entity && !life.is_gone);
                there.for_each(|life| {
                    life.events.push(event.clone());
                    life.is_gone = true;
                });
                continue;
            }
            // An entity that was deleted and created anew numbers from the beginning.
            Some(Step::Accepted(_)) => None,
            Some(Step::Activated(of)) => places.get(&(entity.clone(), of.scheduled_as)).copied(),
            _ => places.get(&(entity.clone(), number)).copied(),
        };
        let at = known.unwrap_or_else(|| {
            let (entity, numbers) = (entity.clone(), Vec::new());
            all.push(Life { entity, numbers, accepted: None, events: Vec::new(), is_gone: false });
            all.len() - 1
        });
        let life = &mut all[at];
        if !life.numbers.contains(&number) {
            life.numbers.push(number);
        }
        places.insert((entity, number), at);
        if let Some(Step::Accepted(of)) = &event.step {
            life.accepted = Some(of.clone());
        }
        life.is_gone |= ends(event.step.as_ref());
        life.events.push(event.clone());
    }
    all
}

/// Whether a message is gone from its entity after a step.
fn ends(step: Option<&Step>) -> bool {
    match step {
        Some(
            Step::Cancelled(_)
            | Step::Completed(_)
            | Step::Expired(_)
            | Step::Deleted(_)
            | Step::Forwarded(_)
            | Step::EntityDeleted(_)
            | Step::Published(_),
        ) => true,
        Some(
            Step::Accepted(_)
            | Step::Activated(_)
            | Step::Locked(_)
            | Step::LockRenewed(_)
            | Step::Abandoned(_)
            | Step::Released(_)
            | Step::LockLapsed(_)
            | Step::Deferred(_)
            | Step::DeadLettered(_),
        )
        | None => false,
    }
}

/// Takes out what only some may know.
fn conceal(step: &mut v1::MessageStep) {
    step.by = None;
    if let Some(Step::Locked(locked)) = step.event.as_mut().and_then(|event| event.step.as_mut()) {
        locked.lock_token.clear();
    }
}

/// Who asked for what: by the entity in lower case, the number, what it was, and the lock.
struct Actors<'a>(HashMap<(String, u64, v1::NotedDeed, &'a str), &'a v1::MessageActor>);

impl<'a> Actors<'a> {
    fn of(noted: &'a [v1::NotedActor]) -> Actors<'a> {
        let entry = |noted: &'a v1::NotedActor| {
            let entity = noted.entity.to_ascii_lowercase();
            let token = noted.lock_token.as_str();
            Some(((entity, noted.sequence_number, noted.deed(), token), noted.actor.as_ref()?))
        };
        Actors(noted.iter().filter_map(entry).collect())
    }

    /// Whose request a step comes from; none where the broker did it by itself. `token`: of the lock that the message
    /// is under, from step to step.
    fn who<'e>(
        &self,
        entity: &str,
        event: &'e MessageEvent,
        token: &mut &'e str,
    ) -> Option<&'a v1::MessageActor> {
        let (deed, lock) = match event.step.as_ref()? {
            Step::Accepted(of) if of.hops == 0 && of.published_as.is_none() => {
                (v1::NotedDeed::Sent, "")
            }
            Step::Cancelled(_) => (v1::NotedDeed::Cancelled, ""),
            Step::Locked(of) => {
                *token = &of.lock_token;
                (v1::NotedDeed::Received, *token)
            }
            Step::LockRenewed(_) => (v1::NotedDeed::Renewed, *token),
            Step::Completed(_)
            | Step::Abandoned(_)
            | Step::Released(_)
            | Step::Deferred(_)
            | Step::DeadLettered(_) => (v1::NotedDeed::Settled, std::mem::take(token)),
            Step::Accepted(_)
            | Step::Activated(_)
            | Step::LockLapsed(_)
            | Step::Expired(_)
            | Step::Deleted(_)
            | Step::Forwarded(_)
            | Step::EntityDeleted(_)
            | Step::Published(_) => {
                *token = "";
                return None;
            }
        };
        let is_known = !lock.is_empty() || !is_of_lock(deed);
        let entity = entity.to_ascii_lowercase();
        is_known.then(|| self.0.get(&(entity, event.sequence_number, deed, lock)).copied())?
    }
}

fn is_of_lock(deed: v1::NotedDeed) -> bool {
    use v1::NotedDeed::{Cancelled, Received, Renewed, Sent, Settled, Unspecified};
    match deed {
        Received | Settled | Renewed => true,
        Sent | Cancelled | Unspecified => false,
    }
}

#[cfg(test)]
mod tests;
