//! Idleness, as a leader meets it (IDLE): it writes down what only it knows, names what is idle, and
//! lets nothing be sealed before its edges were there.

use std::time::Duration;

use domain::{Command, EntityId, Outcome, ReceiverId, Refusal, Span, Timestamp};

use super::{Driver, Leading};
use crate::call::{Answer, CallResult, Reply};
use crate::metric;
use crate::waitlist::Slot;

/// Well below `SILENCE_MAX`: a beat may wait for a round of the log, or for another.
const BEAT_EVERY: Duration = Duration::from_secs(60);
const NEW_LEADER: &str = "the group's leader is new: its edges have a minute to come back";

impl Driver {
    /// Looks at what may be idle, and keeps a log that has temporary entities from falling silent.
    pub(super) fn look(&mut self) {
        let Some(leading) = &mut self.leading else { return };
        if leading.engine.temporary_count() == 0 {
            return;
        }
        let now = leading.now(self.clock.now());
        if leading.engine.next_look().is_some_and(|look_at| look_at <= now) {
            let rows = self.replication.rows(self.group.id);
            let patience = self.idle.reattach.saturating_sub(leading.since.elapsed());
            let patience = Span(patience.as_millis() as u64);
            let looked = leading.engine.look(now, patience, &rows);
            for entity in looked.touch {
                leading.touch(entity, Slot::Quiet);
            }
            self.group.name_idle(looked.candidates);
        }
        if leading.waitlist.is_empty() && leading.beat_at().is_some_and(|beat_at| beat_at <= now) {
            leading.waitlist.push(Command::Beat, Slot::Quiet);
        }
    }

    /// IDLE-4: a receiver that was just given credit waits, or one that asks for a session or holds
    /// one, and nobody tells it that there is nothing before the log knows.
    pub(super) fn awaited(&mut self, receiver: ReceiverId) {
        let Some(leading) = &mut self.leading else { return };
        if leading.engine.temporary_count() == 0 {
            return;
        }
        let Some(queue) = leading.grants.queue(receiver) else { return };
        let now = leading.now(self.clock.now());
        let rows = self.replication.rows(self.group.id);
        if leading.engine.awaited(queue.entity, now, &rows) {
            leading.grants.acquiring(receiver);
            leading.touch(queue.entity, Slot::Touch(receiver));
        }
    }

    /// A command that waits for its turn, unless this leader knows better than to propose it.
    pub(super) fn take(&mut self, command: Command, reply: Reply) {
        let Some(leading) = &mut self.leading else { return };
        if let Command::Seal(seal) = &command {
            if leading.since.elapsed() < self.idle.reattach {
                let outcome = Outcome::Refused(Refusal::InvalidOperation { why: NEW_LEADER });
                return reply.send(Ok(Answer { outcome, contents: Vec::new() }));
            }
            let now = leading.now(self.clock.now());
            let rows = self.replication.rows(self.group.id);
            if let Some(entity) = leading.engine.awaited_of(seal.entity, now, &rows) {
                leading.touch(entity, Slot::Quiet);
            }
        }
        leading.take_in(command, Slot::Call(reply));
    }

    pub(super) fn sealed(answer: Answer) -> CallResult {
        match answer.outcome {
            Outcome::Done => metric::sealed("deleted"),
            Outcome::Spared => metric::sealed("spared"),
            _ => (),
        }
        Ok(answer)
    }
}

impl Leading {
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
