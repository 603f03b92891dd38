//! Locks whose settlement waits in an open transaction (TX-9). Known to a group's leader only, and
//! forgotten with its leadership: from then on the check at the commit protects alone. As many as
//! there are locks at most, for each was held when it was marked.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use domain::{Command, Disposition, LockToken, QueueId, Refusal, TRANSACTION_TIMEOUT};
use parking_lot::Mutex;

use crate::exchange::{LockClaim, TransactionId};

/// Marks looked through for what has ended, at the earliest.
const PRUNE_MIN: usize = 1024;

/// A group's marks.
#[derive(Default)]
pub(crate) struct LockClaims {
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Marks {
    by_lock: HashMap<(QueueId, LockToken), Mark>,
    by_transaction: BTreeMap<TransactionId, Vec<(QueueId, LockToken)>>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
struct Mark {
    transaction: TransactionId,
    operation: u32,
    /// TX-3: should its node never say that it has ended.
    until: Instant,
}

impl LockClaims {
    /// Marks all of them, or none if one is marked already.
    pub fn mark(&self, claim: &LockClaim) -> Result<(), Refusal> {
        let LockClaim { transaction, operation, queue, .. } = *claim;
        let now = Instant::now();
        let mut marks = self.marks.lock();
        marks.prune(now);
        let taken = |token: &&LockToken| {
            let mark = marks.by_lock.get(&(queue, **token)).filter(|mark| now < mark.until);
            mark.is_some_and(|mark| (mark.transaction, mark.operation) != (transaction, operation))
        };
        if let Some(token) = claim.tokens.iter().find(taken) {
            return Err(Refusal::MessageLockLost { token: *token });
        }
        if !claim.settles {
            return Ok(());
        }
        let mark = Mark {
            transaction,
            operation,
            until: now + Duration::from_millis(TRANSACTION_TIMEOUT.0),
        };
        for token in &claim.tokens {
            let lock = (queue, *token);
            if marks.by_lock.insert(lock, mark).is_none_or(|old| old.transaction != transaction) {
                marks.by_transaction.entry(transaction).or_default().push(lock);
            }
        }
        Ok(())
    }

    /// Has a settlement that another transaction waits with refused, wherever it stands.
    pub fn withhold(&self, command: &mut Command) {
        let marks = self.marks.lock();
        if marks.by_lock.is_empty() {
            return;
        }
        let now = Instant::now();
        for settle in command.settles_mut() {
            let queue = settle.queue;
            for settlement in &mut settle.settlements {
                let mark = marks.by_lock.get(&(queue, settlement.token));
                if mark.is_some_and(|mark| now < mark.until) {
                    settlement.disposition = Disposition::Withheld;
                }
            }
        }
    }

    /// A transaction has ended, or is being committed. At once, and past what waits for the driver: a claim,
    /// which is a read, must find the lock free that its client was told of (TX-8).
    pub fn release(&self, transaction: TransactionId) {
        self.marks.lock().release(transaction);
    }

    /// A node has gone, and its clients' transactions with it (TX-7).
    pub fn leave(&self, node: u64) {
        let mut marks = self.marks.lock();
        let of_node = TransactionId { node, id: 0 }..=TransactionId { node, id: u64::MAX };
        let transactions: Vec<TransactionId> =
            marks.by_transaction.range(of_node).map(|(transaction, _)| *transaction).collect();
        transactions.into_iter().for_each(|transaction| marks.release(transaction));
    }

    pub fn clear(&self) {
        *self.marks.lock() = Marks::default();
    }
}

impl Marks {
    fn release(&mut self, transaction: TransactionId) {
        for lock in self.by_transaction.remove(&transaction).unwrap_or_default() {
            if self.by_lock.get(&lock).is_some_and(|mark| mark.transaction == transaction) {
                self.by_lock.remove(&lock);
            }
        }
    }

    /// Forgets what has ended, now and then.
    fn prune(&mut self, now: Instant) {
        if self.by_lock.len() < self.prune_at.max(PRUNE_MIN) {
            return;
        }
        let ended: Vec<TransactionId> = self
            .by_lock
            .values()
            .filter(|mark| mark.until <= now)
            .map(|mark| mark.transaction)
            .collect();
        ended.into_iter().for_each(|transaction| self.release(transaction));
        self.prune_at = 2 * self.by_lock.len();
    }
}

#[cfg(test)]
mod tests {
    use domain::{EntityId, SequenceNumber, Settle, Settlement};

    use super::*;

    const QUEUE: QueueId = QueueId { entity: EntityId(7), sub: domain::SubQueue::Main };

    fn token(sequence: u64) -> LockToken {
        LockToken { sequence: SequenceNumber(sequence), nonce: 1 }
    }

    fn claim(id: u64, operation: u32, tokens: &[u64]) -> LockClaim {
        let tokens = tokens.iter().copied().map(token).collect();
        let transaction = TransactionId { node: id / 10, id };
        LockClaim { transaction, operation, queue: QUEUE, tokens, settles: true }
    }

    fn withheld(claims: &LockClaims, sequence: u64) -> bool {
        let settlements =
            vec![Settlement { token: token(sequence), disposition: Disposition::Complete }];
        let settle = Settle { origin: None, queue: QUEUE, settlements, atomic: false };
        let mut command = Command::Settle(settle);
        claims.withhold(&mut command);
        let Command::Settle(settle) = command else { unreachable!("it was one") };
        settle.settlements[0].disposition == Disposition::Withheld
    }

    #[test]
    fn tx_9_what_waits_in_one_transaction_is_withheld_from_others() {
        let claims = LockClaims::default();
        assert_eq!(claims.mark(&claim(11, 0, &[1, 2])), Ok(()));
        // Asked again, because the answer was lost.
        assert_eq!(claims.mark(&claim(11, 0, &[1, 2])), Ok(()));
        // Neither by another transaction nor by another operation of the same; then none of them.
        let lost = Err(Refusal::MessageLockLost { token: token(2) });
        assert_eq!(claims.mark(&claim(12, 0, &[3, 2])), lost);
        assert_eq!(claims.mark(&claim(11, 1, &[2])), lost);
        assert_eq!([1, 2, 3].map(|n| withheld(&claims, n)), [true, true, false]);
        claims.release(TransactionId { node: 1, id: 11 });
        assert_eq!([1, 2].map(|n| withheld(&claims, n)), [false, false]);
        assert_eq!(claims.mark(&claim(12, 0, &[3, 2])), Ok(()));
    }

    #[test]
    fn tx_9_a_renewal_keeps_nothing_from_others_and_gets_nothing_of_theirs() {
        let claims = LockClaims::default();
        let renewal = |id| LockClaim { settles: false, ..claim(id, 0, &[1]) };
        assert_eq!(claims.mark(&renewal(11)), Ok(()));
        assert!(!withheld(&claims, 1));
        assert_eq!(claims.mark(&claim(12, 0, &[1])), Ok(()));
        assert!(claims.mark(&renewal(11)).is_err());
    }

    #[test]
    fn tx_7_a_node_that_goes_takes_its_transactions_along() {
        let claims = LockClaims::default();
        for (id, number) in [(11, 1), (12, 2), (21, 3)] {
            assert_eq!(claims.mark(&claim(id, 0, &[number])), Ok(()));
        }
        claims.leave(1);
        assert_eq!([1, 2, 3].map(|n| withheld(&claims, n)), [false, false, true]);
        claims.clear();
        assert!(!withheld(&claims, 3));
    }
}
