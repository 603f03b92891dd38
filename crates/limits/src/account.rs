//! What one address or one key has of a node, and where accounts are kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::rate::Bucket;

/// With fewer nobody is forgotten.
const REMEMBERED_MIN: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub connections: AtomicU64,
    /// In flight.
    pub bytes: AtomicU64,
    pub requests: Bucket,
    pub entities: Bucket,
}

impl Account {
    fn is_idle(&self, now_ns: u64) -> bool {
        self.requests.is_idle(now_ns) && self.entities.is_idle(now_ns)
    }
}

/// Counts one more, if that is not over the maximum.
pub(crate) fn enter(count: &AtomicU64, max: u64) -> bool {
    let before = count.fetch_add(1, Ordering::Relaxed);
    let is_in = before < max;
    if !is_in {
        leave(count);
    }
    is_in
}

pub(crate) fn leave(count: &AtomicU64) {
    count.fetch_sub(1, Ordering::Relaxed);
}

/// The accounts of addresses, or of keys. One that nobody holds is kept until its rates owe nothing, so that
/// a new connection is no way around them.
#[derive(Debug)]
pub(crate) struct Accounts<Name>(Mutex<Known<Name>>);

#[derive(Debug)]
struct Known<Name> {
    accounts: HashMap<Name, Arc<Account>>,
    /// With so many those that are idle are forgotten: twice as many as were left the last time.
    swept_at: usize,
}

impl<Name> Default for Accounts<Name> {
    fn default() -> Accounts<Name> {
        let known = Known { accounts: HashMap::new(), swept_at: REMEMBERED_MIN };
        Accounts(Mutex::new(known))
    }
}

impl<Name: Eq + Hash> Accounts<Name> {
    pub fn of(&self, name: Name, now_ns: u64) -> Arc<Account> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.accounts.len() >= known.swept_at {
            known
                .accounts
                .retain(|_, account| Arc::strong_count(account) > 1 || !account.is_idle(now_ns));
            known.swept_at = (2 * known.accounts.len()).max(REMEMBERED_MIN);
        }
        known.accounts.entry(name).or_default().clone()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().expect("nobody panicked").accounts.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rate::Rate;

    #[test]
    fn who_owes_something_is_remembered_and_others_are_forgotten() {
        let accounts: Accounts<u32> = Accounts::default();
        let rate = Rate { max: 1, window: Duration::from_secs(60) };
        assert_eq!(accounts.of(0, 0).entities.take(1, rate, 0), Ok(()));
        let held = accounts.of(1, 0);
        for name in 2..100_000 {
            accounts.of(name, 0);
        }
        assert!(accounts.len() <= 2 * REMEMBERED_MIN, "{}", accounts.len());
        assert!(Arc::ptr_eq(&held, &accounts.of(1, 0)));
        assert!(accounts.of(0, 0).entities.take(1, rate, 0).is_err());
    }
}
