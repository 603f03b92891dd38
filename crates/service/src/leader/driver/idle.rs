//! Idleness, as a leader meets it (IDLE): it writes down what only it knows, names what is idle, and
//! lets nothing be sealed before its edges were there.

use std::time::Duration;

use domain::{Command, EntityId, Outcome, ReceiverId, Refusal, Span, Timestamp};

use super::leadership::Leading;
use crate::exchange::{Answer, Reply};
use crate::leader::waitlist::Slot;
use crate::metric;

/// Well below `SILENCE_MAX`: a beat may wait for a round of the log, or for another.
const BEAT_EVERY: Duration = Duration::from_secs(60);
const NEW_LEADER: &str = "the group's leader is new: its edges have a minute to come back";

impl Leading {
    /// Looks at what may be idle, and keeps a log that has temporary entities from falling silent.
    pub(super) fn look(&mut self) {
        if self.engine.temporary_count() == 0 {
            return;
        }
        let now = self.now();
        if self.engine.next_look().is_some_and(|look_at| look_at <= now) {
            let patience = self.reattach.saturating_sub(self.since.elapsed());
            let patience = Span(patience.as_millis() as u64);
            let looked = self.engine.look(now, patience, &self.rows);
            for entity in looked.touch {
                self.touch(entity, Slot::Quiet);
            }
            self.group.name_idle(looked.candidates);
        }
        if self.waitlist.is_empty() && self.beat_at().is_some_and(|beat_at| beat_at <= now) {
            self.waitlist.push(Command::Beat, Slot::Quiet);
        }
    }

    /// IDLE-4: a receiver that was just given credit waits, or one that asks for a session or holds
    /// one, and nobody tells it that there is nothing before the log knows.
    pub(super) fn awaited(&mut self, receiver: ReceiverId) {
        if self.engine.temporary_count() == 0 {
            return;
        }
        let Some(queue) = self.receivers.queue(receiver) else { return };
        let now = self.now();
        if self.engine.awaited(queue.entity, now, &self.rows) {
            self.receivers.acquiring(receiver);
            self.touch(queue.entity, Slot::Touch(receiver));
        }
    }

    /// A command that waits for its turn, unless this leader knows better than to propose it.
    pub(super) fn take(&mut self, command: Command, reply: Reply) {
        if let Command::Seal(seal) = &command {
            if self.since.elapsed() < self.reattach {
                let outcome = Outcome::Refused(Refusal::InvalidOperation { why: NEW_LEADER });
                return reply.send(Ok(Answer { outcome, contents: Vec::new() }));
            }
            let now = self.now();
            if let Some(entity) = self.engine.awaited_of(seal.entity, now, &self.rows) {
                self.touch(entity, Slot::Quiet);
            }
        }
        self.take_in(command, Slot::Call(reply));
    }

    fn touch(&mut self, entity: EntityId, slot: Slot) {
        metric::touched();
        self.waitlist.push(Command::Touch { entity }, slot);
    }

    /// When the log must say something, if only that there is a leader.
    pub(super) fn beat_at(&self) -> Option<Timestamp> {
        let beat_at = self.last_at.plus(Span(BEAT_EVERY.as_millis() as u64));
        (self.engine.temporary_count() > 0).then_some(beat_at)
    }
}
