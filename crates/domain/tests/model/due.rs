//! What is due in the model: locks that lapse, messages that expire or activate.

use domain::{DeadlineKind, EntityStatus, Fired, Lifetime, LockToken, Outcome, SubQueue};

use crate::message::{Message, Place};
use crate::plain::{Gone, Plain};

impl Plain {
    /// LOCK-12: if there is such a lock and it is over.
    pub fn lapse(&mut self, sub: SubQueue, token: LockToken, fired: &mut Fired) {
        let at = self.at;
        let lapsed = self.messages.iter().find_map(|message| match message.lock {
            Some((held, until))
                if held == token
                    && message.is_in(sub)
                    && message.session.is_none()
                    && until <= at =>
            {
                Some((message.number, until))
            }
            _ => None,
        });
        let Some((number, until)) = lapsed else { return };
        let counted = !self.refuses_receive();
        fired.released += 1;
        match self.release(number, sub, counted) {
            None => note_late(fired, at.since(until).0),
            Some(gone) => note(fired, gone, at.since(until).0),
        }
    }

    pub fn fire(&mut self, kind: DeadlineKind, count: usize, actual: &Outcome) -> Outcome {
        let suspended = self.properties.status == EntityStatus::Disabled;
        let mut fired = Fired::default();
        match kind {
            DeadlineKind::Duplicate => fired.more = self.trim(count),
            _ if suspended => (),
            // A queue has no rules.
            DeadlineKind::Matching => (),
            DeadlineKind::Scheduled => self.activate(count, &mut fired),
            DeadlineKind::Fixed => self.sweep(count, actual, &mut fired, |message| {
                matches!(message.lifetime, Lifetime::Fixed { .. })
            }),
            DeadlineKind::Derived => self
                .sweep(count, actual, &mut fired, |message| message.lifetime == Lifetime::Derived),
        }
        Outcome::Fired(fired)
    }

    fn activate(&mut self, count: usize, fired: &mut Fired) {
        let mut due: Vec<_> = self
            .messages
            .iter()
            .filter_map(|message| match message.place {
                Place::Waiting { due } if due <= self.at => Some((due, message.number)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        fired.more = due.len() > count;
        for (due, number) in due.into_iter().take(count) {
            let (at, next) = (self.at, self.next);
            let lifetime = self
                .lifetime(self.messages.iter().find(|m| m.number == number).and_then(|m| m.ttl));
            let message = self.find(number);
            message.place = Place::Main;
            message.was_scheduled = true;
            message.number = next;
            message.since = at;
            message.lifetime = lifetime;
            message.available_at = at;
            self.next += 1;
            self.stand();
            fired.activated += 1;
            note_late(fired, at.since(due).0);
        }
        let pending = self.messages.iter().any(|m| matches!(m.place, Place::Waiting { .. }));
        if fired.activated > 0 && !pending {
            self.last_use = self.last_use.max(self.at);
        }
    }

    /// Ends what is due, earliest first. A bounded `Fire` may meet messages that a lock or deferral
    /// shields, so how many it ended is taken from its outcome; without "more" it ended all.
    fn sweep(
        &mut self,
        count: usize,
        actual: &Outcome,
        fired: &mut Fired,
        kind: impl Fn(&Message) -> bool,
    ) {
        let Outcome::Fired(actual) = actual else { panic!("not fired: {actual:?}") };
        let mut due: Vec<_> = self
            .messages
            .iter()
            .filter(|message| message.is_available(SubQueue::Main) && kind(message))
            .map(|message| (self.expires_at(message), message.number))
            .filter(|(due, _)| *due <= self.at)
            .collect();
        due.sort_unstable();
        let ended = (actual.dropped + actual.dead_lettered) as usize;
        assert!(ended <= count, "{ended} ended, asked for {count}");
        assert!(actual.more || ended == due.len(), "{due:?} are due, {actual:?}");
        assert!(ended <= due.len(), "only {due:?} are due, {actual:?}");
        fired.more = actual.more;
        for (due, number) in due.into_iter().take(ended) {
            let gone = self.expire(number);
            note(fired, gone, self.at.since(due).0);
        }
    }
}

pub fn note(fired: &mut Fired, gone: Gone, late_ms: u64) {
    match gone {
        Gone::Dropped => fired.dropped += 1,
        Gone::DeadLettered => fired.dead_lettered += 1,
    }
    note_late(fired, late_ms);
}

pub fn note_late(fired: &mut Fired, late_ms: u64) {
    fired.late_ms_max = fired.late_ms_max.max(late_ms);
    fired.late_ms_sum += late_ms;
}
