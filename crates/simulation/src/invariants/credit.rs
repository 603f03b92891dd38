//! Credit is neither lost nor made: what a receiver granted is used, withdrawn, or still there.

use domain::ReceiverId;
use engine::Engine;

use crate::report::{Broken, Holds};

/// A receiver's account, kept beside the engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    pub granted: u32,
    /// Deliveries its acquires were answered with.
    pub taken: u32,
    /// Drained.
    pub withdrawn: u32,
}

/// LOCK-7: every credit is served in its turn, once.
pub fn check(engine: &Engine, receiver: ReceiverId, account: &Account) -> Holds {
    let left = engine.credit_left(receiver);
    if account.granted == account.taken + account.withdrawn + left {
        return Ok(());
    }
    let what = format!("{receiver:?} has {left} credit left of {account:?}");
    Err(Broken { invariant: "credit", source: "LOCK-7, architecture 4 (receive)", what })
}
