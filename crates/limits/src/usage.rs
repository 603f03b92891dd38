//! What a connection of AMQP has: it counts for itself, and tells the ledger once in a turn.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ledger::{Party, Slot};
use crate::limit::Limit;

/// What a connection has, as it was last told. It has nothing any more when it is dropped.
#[derive(Debug)]
pub struct Usage {
    slot: Slot,
    party: Option<Party>,
    links: u64,
    sessions: u64,
    /// In flight.
    bytes: u64,
    links_refused: u64,
    sessions_refused: u64,
}

impl Usage {
    pub fn new(slot: Slot) -> Usage {
        let (links, sessions, bytes) = (0, 0, 0);
        Usage { slot, party: None, links, sessions, bytes, links_refused: 0, sessions_refused: 0 }
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    /// Whose connection it is, once it is known.
    pub fn party(&self) -> Option<&Party> {
        self.party.as_ref()
    }

    /// Whose it is: what is in flight counts for his key from now on.
    pub fn belong(&mut self, party: Party) {
        let bytes = std::mem::take(&mut self.bytes);
        self.count_bytes(bytes, 0);
        self.party = Some(party);
        self.count_bytes(0, bytes);
        self.bytes = bytes;
    }

    /// As many as there are now.
    pub fn set_links(&mut self, links: usize, sessions: usize) {
        let books = self.slot.ledger().books(self.slot.front_end());
        change(&books.links, &mut self.links, links as u64);
        change(&books.sessions, &mut self.sessions, sessions as u64);
    }

    /// As many as were refused since the connection began.
    pub fn set_refused(&mut self, links: u64, sessions: u64) {
        self.slot.count_refused(Limit::ConnectionLinks, links - self.links_refused);
        self.slot.count_refused(Limit::ConnectionSessions, sessions - self.sessions_refused);
        (self.links_refused, self.sessions_refused) = (links, sessions);
    }

    /// As many as are in flight now.
    pub fn set_bytes(&mut self, bytes: u64) {
        if bytes != self.bytes {
            self.count_bytes(self.bytes, bytes);
            self.bytes = bytes;
        }
    }

    fn count_bytes(&self, before: u64, now: u64) {
        let books = self.slot.ledger().books(self.slot.front_end());
        let account = self.party.as_ref().map(|party| &party.account.bytes);
        for count in [Some(&books.bytes), account].into_iter().flatten() {
            change(count, &mut { before }, now);
        }
    }
}

fn change(count: &AtomicU64, known: &mut u64, now: u64) {
    if *known != now {
        // It wraps where there are fewer, and so does the sum.
        count.fetch_add(now.wrapping_sub(*known), Ordering::Relaxed);
        *known = now;
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        self.set_links(0, 0);
        self.set_bytes(0);
    }
}

#[cfg(test)]
mod tests {
    use auth::Principal;

    use super::*;
    use crate::{FrontEnd, Ledger, Origin, Settings};

    #[test]
    fn a_connection_s_bytes_count_for_its_key_and_are_gone_with_it() {
        let mut settings = Settings::default();
        settings.set(Limit::KeyBytes, 1);
        let ledger = Ledger::new(settings);
        let from = |last: u8| Origin::plain(([10, 0, 0, last], 40_000).into());
        let slot = |last: u8| ledger.open(FrontEnd::Amqp, from(last)).unwrap();
        let (mut usage, mut other) = (Usage::new(slot(1)), Usage::new(slot(2)));
        usage.set_bytes(2_000);
        usage.belong(usage.slot().party(&Principal::Anyone, "default").unwrap());
        other.belong(other.slot().party(&Principal::Anyone, "default").unwrap());
        let has_room = |usage: &Usage| usage.party().expect("it is known").has_room().is_ok();
        assert!(!has_room(&usage) && !has_room(&other));
        usage.set_bytes(1_000);
        usage.set_links(3, 1);
        assert!(has_room(&usage) && has_room(&other));
        other.set_bytes(500);
        assert!(!has_room(&usage));
        drop(usage);
        assert!(has_room(&other));
        drop(other);
        let books = ledger.books(FrontEnd::Amqp);
        let left = [&books.bytes, &books.links, &books.sessions, &books.connections];
        assert_eq!(left.map(|count| count.load(Ordering::Relaxed)), [0; 4]);
    }
}
