//! The history: every call a workload made and every message it was handed, in the order in which
//! they ended. Only added to, and judged when the run is over.
//!
//! Two clocks stand in it. Instants named `asked_ms`, `answered_ms` and `at_ms` are the experiment's;
//! all others are the broker's. They agree to within `clock.offset_max`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

use crate::Clock;

/// A lock token or a hold of a session, in hexadecimal digits.
pub type Token = String;

/// What is known of a call's effect. Three of the answers say that it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// Nothing was changed, and it would be refused again: ERR's name of the reason.
    Refused(String),
    /// Certainly not done.
    NotDone,
    /// Nobody knows. A call that was never answered, too.
    Perhaps,
}

impl Answer {
    pub fn of(error: &client::Error) -> Answer {
        match error {
            client::Error::Refused(detail) => Answer::Refused(detail.name.clone()),
            client::Error::NotDone(_) => Answer::NotDone,
            client::Error::PerhapsDone(_) => Answer::Perhaps,
        }
    }

    /// Whether the effect may be there.
    pub fn may_be_done(&self) -> bool {
        matches!(self, Answer::Done | Answer::Perhaps)
    }
}

/// A message as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Unlike every other's, except where duplicates are sent on purpose.
    pub id: String,
    /// The number the broker gave it, once that is known.
    pub number: Option<u64>,
    pub ttl_ms: Option<u64>,
    /// SCHED-2.
    pub due_ms: Option<u64>,
    pub session: Option<String>,
    /// What subscriptions choose by.
    pub class: Option<String>,
}

/// How a delivery was settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    Complete,
    Abandon,
    /// DEFER-1: from then on it is received by its number.
    Defer,
    /// LOCK-16: given up uncounted.
    Release,
    /// With this reason.
    DeadLetter(String),
}

/// A delivery as its holder names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub id: String,
    pub number: u64,
    pub token: Token,
    /// Of the dead-letter queue.
    pub dead: bool,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    Send(Vec<Sent>),
    Settle(Held, How),
    /// LOCK-13: where done, until when.
    Renew(Held, u64),
    /// SCHED-3.
    Cancel {
        id: String,
        number: u64,
    },
    /// DEFER-2: of the dead-letter queue where `dead` says so.
    ReceiveDeferred {
        id: String,
        number: u64,
        dead: bool,
    },
    /// TX-2: sends and settlements, all or nothing. It is asked from the first of them until its end; one
    /// that was rolled back, or given up, is certainly not done.
    Commit {
        sent: Vec<Sent>,
        settled: Vec<(Held, How)>,
    },
    /// COORD-6: over AMQP a verdict in a transaction was settled before its discharge.
    SettledEarly(Held),
    /// TX-8: the end of a transaction in which these were settled, without a commit.
    RollBack(Vec<Held>),
    /// SESS-7, SESS-8: where done, which session and until when. A hold is known by its token.
    Accept {
        session: String,
        hold: Token,
        until_ms: u64,
    },
    RenewSession {
        session: String,
        hold: Token,
        until_ms: u64,
    },
    /// SESS-14. Without `orderly`, its holder was told that it is lost.
    EndHold {
        session: String,
        hold: Token,
        orderly: bool,
        /// What ended it, of those that a client can choose from.
        way: String,
    },
    /// A link or a stream is opened, or is over.
    Attach,
    Create,
    Delete,
    /// To another group.
    Move {
        group: u32,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub entity: String,
    pub asked_ms: u64,
    pub answered_ms: u64,
    pub what: What,
    pub answer: Answer,
}

/// One message handed to a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    pub entity: String,
    pub at_ms: u64,
    /// From the dead-letter queue.
    pub dead: bool,
    /// By its number (DEFER-2), not in its turn.
    pub deferred: bool,
    pub id: String,
    pub number: u64,
    /// LOCK-19: 1 at the first delivery.
    pub count: u32,
    pub token: Token,
    pub enqueued_ms: u64,
    pub expires_ms: Option<u64>,
    pub locked_until_ms: u64,
    pub session: Option<String>,
    pub hold: Option<Token>,
    /// DLQ-8.
    pub reason: Option<String>,
}

impl Delivered {
    /// As its holder names it from here on.
    pub fn held(&self) -> Held {
        let Delivered { id, number, token, dead, .. } = self;
        Held { id: id.clone(), number: *number, token: token.clone(), dead: *dead }
    }
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    pub calls: Vec<Call>,
    pub deliveries: Vec<Delivered>,
}

/// Writes a history, from any task.
#[derive(Clone)]
pub struct Recorder {
    pub clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    history: History,
    /// Calls under way: one that is never answered is perhaps done.
    open: BTreeMap<u64, Call>,
    last: u64,
}

/// A call under way. Dropped without an answer, it is perhaps done.
pub struct Open {
    recorder: Recorder,
    key: u64,
}

impl Recorder {
    pub fn new(clock: Clock) -> Recorder {
        Recorder { clock, shared: Arc::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// A call is about to be made.
    pub fn begin(&self, entity: &str, what: What) -> Open {
        let now = self.clock.now_ms();
        let (entity, answer) = (entity.to_owned(), Answer::Perhaps);
        let mut shared = self.shared();
        shared.last += 1;
        let key = shared.last;
        let call = Call { entity, asked_ms: now, answered_ms: now, what, answer };
        shared.open.insert(key, call);
        Open { recorder: self.clone(), key }
    }

    /// A message was handed over; it is told with its time.
    pub fn delivered(&self, mut delivered: Delivered) -> Delivered {
        delivered.at_ms = self.clock.now_ms();
        self.shared().history.deliveries.push(delivered.clone());
        delivered
    }

    /// Everything so far, which is kept no longer. Calls under way stand in it as perhaps done.
    pub fn take_history(&self) -> History {
        let now = self.clock.now_ms();
        let mut shared = self.shared();
        let mut history = std::mem::take(&mut shared.history);
        let open = shared.open.values().cloned();
        history.calls.extend(open.map(|call| Call { answered_ms: now, ..call }));
        history
    }

    /// Whether a call is under way that may still bring a message into a queue.
    pub fn is_sending(&self) -> bool {
        let sends = |call: &Call| matches!(call.what, What::Send(_) | What::Commit { .. });
        self.shared().open.values().any(sends)
    }
}

impl Open {
    /// It was answered.
    pub fn end<T>(self, result: &Result<T, client::Error>) {
        self.end_as(Answer::of_result(result), |_| ());
    }

    /// It was answered, and the answer tells more of what was done.
    pub fn end_as(self, answer: Answer, complete: impl FnOnce(&mut What)) {
        let now = self.recorder.clock.now_ms();
        let mut shared = self.recorder.shared();
        if let Some(mut call) = shared.open.remove(&self.key) {
            complete(&mut call.what);
            shared.history.calls.push(Call { answered_ms: now, answer, ..call });
        }
    }
}

impl Answer {
    pub fn of_result<T>(result: &Result<T, client::Error>) -> Answer {
        result.as_ref().err().map_or(Answer::Done, Answer::of)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let now = self.recorder.clock.now_ms();
        let mut shared = self.recorder.shared();
        if let Some(call) = shared.open.remove(&self.key) {
            shared.history.calls.push(Call { answered_ms: now, ..call });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_answered_is_perhaps_done() {
        let recorder = Recorder::new(Clock::start());
        let answered = recorder.begin("q", What::Create);
        let forgotten = recorder.begin("q", What::Delete);
        let _under_way = recorder.begin("q", What::Send(Vec::new()));
        answered.end_as(Answer::Done, |_| ());
        drop(forgotten);
        let answers: Vec<(What, Answer)> = recorder
            .take_history()
            .calls
            .into_iter()
            .map(|call| (call.what, call.answer))
            .collect();
        let expected = [
            (What::Create, Answer::Done),
            (What::Delete, Answer::Perhaps),
            (What::Send(Vec::new()), Answer::Perhaps),
        ];
        assert_eq!(answers, expected);
    }
}
