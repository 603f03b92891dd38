//! Who did what to messages over the connections of this node. The log does not carry it, so it is noted where the
//! connection is, and looked for by place and lock when somebody asks.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{LockToken, QualifiedName, SequenceNumber};
use parking_lot::Mutex;
use wire::v1;

/// Notes that are looked at, or let go of, while the lock is held.
const AT_ONCE_MAX: usize = 2_048;
/// Most of them that are told.
const TOLD_MAX: usize = 8_000;

/// Who asks for something, as connections are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Among those of its node.
    pub connection: String,
    /// Of the key that was proven; empty where none was asked for.
    pub key_name: String,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Sent,
    Received,
    /// In whatever way: the log says which.
    Settled,
    Renewed,
    Cancelled,
}

struct ActorNote {
    at: Instant,
    /// By its name in all the cluster, in the case that the client wrote it in.
    entity: Arc<str>,
    deed: Deed,
    /// What was not locked has no nonce.
    messages: Box<[LockToken]>,
    actor: Arc<Actor>,
}

impl ActorNote {
    fn bytes(&self) -> usize {
        // The entity's name and its count, which most often nobody else has.
        size_of::<ActorNote>() + size_of_val(&*self.messages) + self.entity.len() + 16
    }
}

/// The latest notes of a node, as many as there is memory for.
pub(crate) struct ActorNotes {
    node: u64,
    bytes_max: usize,
    keep: Duration,
    kept: Mutex<KeptNotes>,
}

#[derive(Default)]
struct KeptNotes {
    notes: VecDeque<ActorNote>,
    /// How many came before the first.
    gone: u64,
    bytes: usize,
}

impl KeptNotes {
    fn pop(&mut self) -> Option<ActorNote> {
        let note = self.notes.pop_front()?;
        self.gone += 1;
        self.bytes -= note.bytes();
        Some(note)
    }
}

impl ActorNotes {
    /// `bytes_max`: about so many are held, of what was asked for within the last `keep`.
    pub fn new(node: u64, bytes_max: usize, keep: Duration) -> ActorNotes {
        ActorNotes { node, bytes_max, keep, kept: Mutex::default() }
    }

    fn note(&self, note: ActorNote) {
        let kept = &mut *self.kept.lock();
        kept.bytes += note.bytes();
        kept.notes.push_back(note);
        while kept.bytes > self.bytes_max && kept.pop().is_some() {}
    }

    /// Lets go of what is too old, some notes at a time.
    pub fn let_go(&self) {
        self.let_go_at(Instant::now());
    }

    fn let_go_at(&self, now: Instant) {
        loop {
            let kept = &mut *self.kept.lock();
            for _ in 0..AT_ONCE_MAX {
                match kept.notes.front() {
                    Some(first) if now.duration_since(first.at) > self.keep => drop(kept.pop()),
                    Some(_) | None => return,
                }
            }
        }
    }

    /// Who did something to messages in places that are meant, as far as there is time to look; whether that is all.
    pub fn find(
        &self,
        is_meant: impl Fn(&str, u64) -> bool,
        until: Instant,
    ) -> (Vec<v1::NotedActor>, bool) {
        let (mut found, mut next) = (Vec::new(), 0);
        while Instant::now() < until && found.len() < TOLD_MAX {
            let kept = self.kept.lock();
            let first = usize::try_from(kept.gone.max(next) - kept.gone).unwrap_or(usize::MAX);
            if first >= kept.notes.len() {
                return (found, true);
            }
            let now = Instant::now();
            for note in kept.notes.iter().skip(first).take(AT_ONCE_MAX) {
                if now.duration_since(note.at) > self.keep {
                    continue;
                }
                let meant = note.messages.iter();
                let meant = meant.filter(|message| is_meant(&note.entity, message.sequence.0));
                found.extend(meant.map(|message| self.shown(note, *message)));
            }
            next = kept.gone + (first + AT_ONCE_MAX) as u64;
        }
        (found, false)
    }

    fn shown(&self, note: &ActorNote, message: LockToken) -> v1::NotedActor {
        let Actor { connection, key_name } = &*note.actor;
        v1::NotedActor {
            entity: note.entity.to_string(),
            sequence_number: message.sequence.0,
            deed: match note.deed {
                Deed::Sent => v1::NotedDeed::Sent,
                Deed::Received => v1::NotedDeed::Received,
                Deed::Settled => v1::NotedDeed::Settled,
                Deed::Renewed => v1::NotedDeed::Renewed,
                Deed::Cancelled => v1::NotedDeed::Cancelled,
            }
            .into(),
            lock_token: match note.deed {
                Deed::Sent | Deed::Cancelled => String::new(),
                Deed::Received | Deed::Settled | Deed::Renewed => message.to_string(),
            },
            actor: Some(v1::MessageActor {
                connection: format!("{}-{connection}", self.node),
                key_name: key_name.clone(),
            }),
        }
    }
}

/// On whose behalf something is asked for; nobody's where that is not noted.
#[derive(Clone, Default)]
pub(crate) struct Attribution(Option<(Arc<ActorNotes>, Arc<Actor>)>);

impl Attribution {
    pub fn to(notes: Arc<ActorNotes>, actor: Actor) -> Attribution {
        Attribution(Some((notes, Arc::new(actor))))
    }

    /// Something is asked for that is about locks.
    pub fn note(
        &self,
        deed: Deed,
        entity: &QualifiedName,
        messages: impl IntoIterator<Item = LockToken>,
    ) {
        let Some((notes, actor)) = &self.0 else { return };
        let messages: Box<[LockToken]> = messages.into_iter().collect();
        if messages.is_empty() {
            return;
        }
        let (at, entity, actor) = (Instant::now(), entity.shared(), actor.clone());
        notes.note(ActorNote { at, entity, deed, messages, actor });
    }

    /// The same, of what is not locked.
    pub fn note_numbers(&self, deed: Deed, entity: &QualifiedName, numbers: &[SequenceNumber]) {
        let unlocked = |sequence: &SequenceNumber| LockToken { sequence: *sequence, nonce: 0 };
        self.note(deed, entity, numbers.iter().map(unlocked));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn attribution(notes: &Arc<ActorNotes>) -> Attribution {
        let actor = Actor { connection: "000001-7".to_owned(), key_name: "sender".to_owned() };
        Attribution::to(notes.clone(), actor)
    }

    fn q() -> QualifiedName {
        QualifiedName::known("q")
    }

    fn numbers(notes: &ActorNotes) -> Vec<u64> {
        let (found, all) = notes.find(|_, _| true, Instant::now() + HOUR);
        assert!(all);
        found.iter().map(|noted| noted.sequence_number).collect()
    }

    #[test]
    fn hist_8_who_did_it_is_noted_once_for_all_messages_of_a_request() {
        let notes = Arc::new(ActorNotes::new(3, 1 << 20, HOUR));
        let by = attribution(&notes);
        by.note_numbers(Deed::Sent, &q(), &[SequenceNumber(1), SequenceNumber(2)]);
        by.note(Deed::Settled, &q(), [LockToken { sequence: SequenceNumber(2), nonce: 9 }]);
        by.note(Deed::Settled, &q(), []);
        Attribution::default().note_numbers(Deed::Sent, &q(), &[SequenceNumber(2)]);
        assert_eq!(notes.kept.lock().notes.len(), 2);
        let of_two = |entity: &str, number| entity == "q" && number == 2;
        let (found, _) = notes.find(of_two, Instant::now() + HOUR);
        let told: Vec<_> = found
            .iter()
            .map(|noted| (noted.deed(), noted.lock_token.is_empty(), noted.actor.clone()))
            .collect();
        let actor =
            v1::MessageActor { connection: "3-000001-7".to_owned(), key_name: "sender".to_owned() };
        let expected = [(v1::NotedDeed::Sent, true), (v1::NotedDeed::Settled, false)];
        assert_eq!(told, expected.map(|(deed, plain)| (deed, plain, Some(actor.clone()))));
    }

    #[test]
    fn hist_8_notes_are_bounded_in_bytes_and_in_time() {
        let notes = Arc::new(ActorNotes::new(1, 10_000, HOUR));
        let by = attribution(&notes);
        (1..=1_000).for_each(|n| by.note_numbers(Deed::Sent, &q(), &[SequenceNumber(n)]));
        let kept = numbers(&notes);
        assert!((50..=110).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept.last(), Some(&1_000));
        assert!(notes.kept.lock().bytes <= 10_000);
        notes.let_go();
        assert_eq!(numbers(&notes), kept);
        notes.let_go_at(Instant::now() + 2 * HOUR);
        assert_eq!((numbers(&notes).len(), notes.kept.lock().bytes), (0, 0));
    }

    #[test]
    fn hist_8_a_search_goes_through_all_of_many_notes() {
        let notes = Arc::new(ActorNotes::new(1, 1 << 24, HOUR));
        let by = attribution(&notes);
        let all = 3 * AT_ONCE_MAX as u64 + 5;
        (1..=all).for_each(|n| by.note_numbers(Deed::Sent, &q(), &[SequenceNumber(n)]));
        for wanted in [1, AT_ONCE_MAX as u64, AT_ONCE_MAX as u64 + 1, all] {
            let (found, is_all) = notes.find(|_, n| n == wanted, Instant::now() + HOUR);
            assert_eq!((found.len(), is_all), (1, true), "{wanted}");
        }
        let (_, is_all) = notes.find(|_, _| true, Instant::now());
        assert!(!is_all, "there was no time");
    }
}
