//! The handle that every port for clients has.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use auth::{Denied, Guesses, Principal};
use domain::{Excerpt, Namespace};
use metrics::{Unit, counter, describe_counter};
use service::Events;
use transport::Denials;

use crate::action::Action;
use crate::journal::{Journal, Settings};
use crate::outcome::Outcome;
use crate::record::{Caller, Protocol, Record};
use crate::strangers::Strangers;

/// By `protocol` and `reason`.
const REFUSED: &str = "mayfly_refused_proofs_total";
/// A record has a few hundred bytes.
const RECORDS_WAITING_MAX: usize = 8_192;
/// Written together, before the file is flushed.
const RECORDS_AT_ONCE_MAX: usize = 256;
/// Steps of one change are told as one within this.
const ONE_CHANGE_LASTS: Duration = Duration::from_secs(60);
/// How often it is looked what is still to be told of refused proofs.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Describes what is recorded here to the installed recorder.
pub fn describe() {
    describe_counter!(
        REFUSED,
        Unit::Count,
        "Proofs that were refused, and requests for which a right was missing, by `protocol` and `reason`."
    );
    // There from the start: the first refusal is a rise, then.
    for protocol in [Protocol::Amqp, Protocol::Http, Protocol::Grpc] {
        for reason in Denied::REASONS {
            counter!(REFUSED, "protocol" => protocol.name(), "reason" => *reason).increment(0);
        }
    }
    crate::journal::describe();
}

/// Takes what is to be told. Clones are one trail.
#[derive(Clone)]
pub struct Trail {
    shared: Arc<Shared>,
    /// Absent: nothing is written.
    orders: Option<SyncSender<Order>>,
    /// Where what was done is told as an event of the cluster.
    events: Events,
}

struct Shared {
    /// Records that found no room.
    dropped: AtomicU64,
    strangers: Mutex<Strangers>,
    guesses: Mutex<Guesses>,
    /// To the log, by protocol.
    denials: [Denials; 3],
    /// The zero of their time.
    started: Instant,
}

enum Order {
    Write(Box<Record>),
    Reopen,
    /// The last one; answered when all before it are written.
    End(SyncSender<()>),
}

/// Somebody who was not let in.
pub struct Refused<'a> {
    pub protocol: Protocol,
    pub peer: Option<SocketAddr>,
    pub denied: &'a Denied,
    /// The key that his proof says it was made with, whether there is one or not.
    pub claimed: Option<&'a str>,
    /// What he asked for; empty: nothing yet.
    pub path: &'a str,
    /// How, in his protocol's words.
    pub method: &'a str,
    /// Where.
    pub namespace: &'a Namespace,
}

impl Default for Trail {
    fn default() -> Trail {
        Trail::off()
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Trail")
            .field("is_written", &self.orders.is_some())
            .finish_non_exhaustive()
    }
}

impl Trail {
    /// One that nothing is written of. Refusals are counted and told to the log all the same.
    pub fn off() -> Trail {
        Trail::counting(0)
    }

    fn counting(wrong_keys_per_minute: u32) -> Trail {
        let shared = Shared {
            dropped: AtomicU64::new(0),
            strangers: Mutex::default(),
            guesses: Mutex::new(Guesses::new(wrong_keys_per_minute)),
            denials: Default::default(),
            started: Instant::now(),
        };
        Trail { shared: Arc::new(shared), orders: None, events: Events::default() }
    }

    /// # Errors
    /// The file cannot be opened, or there is no thread to be had.
    pub fn start(settings: Settings) -> io::Result<Trail> {
        let mut trail = Trail::counting(settings.wrong_keys_per_minute);
        trail.events = settings.events.clone();
        let journal = Journal::open(settings)?;
        if journal.is_written() {
            let (orders, waiting) = sync_channel(RECORDS_WAITING_MAX);
            let shared = trail.shared.clone();
            let write = move || keep(&shared, journal, &waiting);
            std::thread::Builder::new().name("audit".to_owned()).spawn(write)?;
            trail.orders = Some(orders);
        }
        Ok(trail)
    }

    /// Something is about to be done: what comes of it is told by the entry.
    #[must_use = "it is told as perhaps done when it is dropped"]
    pub fn begin(&self, caller: Caller, action: Action, object: &str) -> Entry {
        // As long as it is open it counts as what it is if nobody says more.
        let outcome = Outcome::PerhapsDone("Interrupted".into());
        let record = Record { caller: Some(caller), ..Record::new(action, object, outcome) };
        Entry { trail: self.clone(), record: Some(Box::new(record)) }
    }

    /// Whether a proof that comes from there is looked at. `claimed`: as in [`Refused`].
    ///
    /// # Errors
    /// [`Denied::Held`], which is to be told as any other: its address sent too many wrong keys.
    pub fn admit(&self, peer: Option<SocketAddr>, claimed: Option<&str>) -> Result<(), Denied> {
        let Some(peer) = peer else { return Ok(()) };
        let guesses = self.shared.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        guesses.admit(peer.ip(), claimed, self.now_ms()).map_err(Denied::Held)
    }

    /// Counts somebody who was not let in, and tells of him: to the log once a second at most, to the trail
    /// once in ten seconds from one address. For so long he is to wait for his answer.
    #[must_use = "who guesses keys waits for his answer"]
    pub fn refuse(&self, refused: &Refused<'_>) -> Duration {
        self.tell(refused);
        match (refused.denied, refused.peer) {
            (Denied::Proof(error), Some(peer)) if Guesses::is_one(error) => {
                self.delay(peer, refused.claimed)
            }
            (Denied::JoinToken { is_guess: true, .. }, Some(peer)) => {
                self.delay(peer, refused.claimed)
            }
            _ => Duration::ZERO,
        }
    }

    /// A wrong guess came from there: how long its answer waits.
    fn delay(&self, peer: SocketAddr, claimed: Option<&str>) -> Duration {
        let mut guesses = self.shared.guesses.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_millis(guesses.wrong(peer.ip(), claimed, self.now_ms()))
    }

    fn tell(&self, refused: &Refused<'_>) {
        let Refused { protocol, peer, denied, path, method, namespace, .. } = *refused;
        let key = denied.key_name();
        let entity = (!path.is_empty()).then(|| tracing::field::display(Excerpt(path)));
        counter!(REFUSED, "protocol" => protocol.name(), "reason" => denied.reason()).increment(1);
        let now_ms = self.now_ms();
        let log = match protocol {
            Protocol::Amqp => &self.shared.denials[0],
            Protocol::Http => &self.shared.denials[1],
            Protocol::Grpc => &self.shared.denials[2],
        };
        if let Some(untold) = log.count(now_ms) {
            let (peer, title) = (peer.map(tracing::field::display), protocol.title());
            tracing::warn!(peer, key, entity, method, untold, "{title} client refused: {denied}");
        }
        if self.orders.is_none() {
            return;
        }
        let (action, principal) = match denied {
            Denied::Nothing
            | Denied::Proof(_)
            | Denied::Certificate(_)
            | Denied::JoinToken { .. }
            | Denied::Held(_) => (Action::ProofRefuse, None),
            Denied::Right { principal, .. } => (Action::AccessRefuse, Some(principal.clone())),
        };
        let record = Record::new(action, path, Outcome::Refused(denied.reason().into()));
        let namespace = namespace.clone();
        let caller = Some(Caller { protocol, address: peer, principal, namespace });
        let record = Record { caller, named_key: key.map(str::to_owned), ..record };
        let told = self.strangers().add(record, now_ms);
        if let Some(told) = told {
            self.put(Box::new(told));
        }
    }

    /// The file is opened anew, as after it was moved.
    pub fn reopen(&self) {
        if let Some(orders) = &self.orders
            && orders.try_send(Order::Reopen).is_err()
        {
            tracing::warn!("the audit trail is too busy to open its file anew; send SIGHUP again");
        }
    }

    /// Waits until all is written that was taken so far; blocks for as long at most.
    pub fn end(&self, within: Duration) {
        let Some(orders) = &self.orders else { return };
        let until = Instant::now() + within;
        let (ended, end) = sync_channel(1);
        let mut order = Order::End(ended);
        // It may be full, and has no way to wait for room for so long only.
        while let Err(TrySendError::Full(again)) = orders.try_send(order) {
            if Instant::now() >= until {
                return tracing::warn!("the audit trail was not written to its end in time");
            }
            order = again;
            std::thread::sleep(Duration::from_millis(5));
        }
        let left = until.saturating_duration_since(Instant::now());
        if let Err(RecvTimeoutError::Timeout) = end.recv_timeout(left) {
            tracing::warn!("the audit trail was not written to its end in time");
        }
    }

    fn tell_event(&self, record: &Record) {
        let principal = record.caller.as_ref().and_then(|caller| caller.principal.as_ref());
        let by = match principal {
            None | Some(Principal::Anyone) => String::new(),
            Some(principal) => principal.to_string(),
        };
        let Record { action, object, .. } = record;
        let (kind, text) = (action.name(), action.told(object));
        match action {
            // A purge comes in batches, and a move is asked for until the entity is there.
            Action::MessagesPurge | Action::EntityMove => {
                self.events.tell_again(kind, object, text, by, ONE_CHANGE_LASTS);
            }
            _ => self.events.tell(kind, object, text, by),
        }
    }

    fn put(&self, record: Box<Record>) {
        if let Some(orders) = &self.orders
            && orders.try_send(Order::Write(record)).is_err()
        {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn now_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, Strangers> {
        self.shared.strangers()
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn strangers(&self) -> std::sync::MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread: until nobody tells anything any more, or it is to end.
fn keep(shared: &Shared, mut journal: Journal, orders: &Receiver<Order>) {
    loop {
        let first = match orders.recv_timeout(LOOK_EVERY) {
            Ok(order) => Some(order),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return end(shared, &mut journal),
        };
        journal.lose_all(&shared.dropped);
        let more = std::iter::from_fn(|| orders.try_recv().ok());
        for order in first.into_iter().chain(more.take(RECORDS_AT_ONCE_MAX)) {
            match order {
                Order::Write(record) => journal.write(&record),
                Order::Reopen => journal.reopen(),
                Order::End(ended) => {
                    end(shared, &mut journal);
                    // Whoever asked may have waited long enough.
                    let _ = ended.send(());
                }
            }
        }
        let due = shared.strangers().due(shared.now_ms());
        due.iter().for_each(|record| journal.write(record));
        journal.flush();
    }
}

fn end(shared: &Shared, journal: &mut Journal) {
    journal.lose_all(&shared.dropped);
    let rest = shared.strangers().rest();
    rest.iter().for_each(|record| journal.write(record));
    journal.flush();
}

/// What is being done. Dropped without a word, as where a client goes away, it is told as perhaps done.
pub struct Entry {
    trail: Trail,
    record: Option<Box<Record>>,
}

impl Entry {
    /// It was not let in: that is told as a refusal, and not as something that was done.
    pub fn withdraw(mut self) {
        self.record = None;
    }

    /// What came of it.
    pub fn end(mut self, outcome: Outcome) {
        if let Some(mut record) = self.record.take() {
            record.outcome = outcome;
            if record.outcome == Outcome::Done {
                self.trail.tell_event(&record);
            }
            self.trail.put(record);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.trail.put(record);
        }
    }
}
