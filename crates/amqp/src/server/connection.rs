//! One connection: its socket, its engine and its links, in turns.

use std::future::{pending, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use amqp_protocol::Limits;
use amqp_protocol::codec::{Error, Map, Symbol, Value};
use amqp_protocol::engine::{self, Connection, Event, Millis, Output};
use bytes::{Buf, BytesMut};
use futures::StreamExt;
use futures::future::join;
use futures::stream::FuturesUnordered;
use limits::{Exceeded, Limit, Slot};
use service::KeyWatch;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Sleep, timeout};
use tokio_util::io::poll_read_buf;
use transport::{Arrival, Stream};

use super::access;
use super::attach::DELAYED_DELIVERY;
use super::dues::Dues;
use super::fates::Breakage;
use super::links::Links;
use super::note::{NOTES_WAITING_MAX, Note};
use super::{Config, Shared, failure};
use crate::condition;

/// What other brokers' clients ask for before they use it: a sender whose messages say where they go
/// (LINK-24), and messages that are scheduled (SCHED-1).
const OFFERED: [&str; 2] = ["ANONYMOUS-RELAY", DELAYED_DELIVERY];
/// SETTLE-14.
const OUTCOME_DELAY_MS: u32 = 1;
/// Room for what is read at a time. An idle connection holds none.
const READ_BYTES: usize = 32 * 1024;
/// The same of a client that has not proved who it is.
const UNPROVED_READ_BYTES: usize = 4 * 1024;
/// Slices written at a time.
const SLICES_MAX: usize = 32;
/// A client that was told that the node ends has so long to say goodbye.
const GOODBYE_MS: u64 = 2_000;
/// When the node ends: a client that always has something under way is not waited for longer.
const QUIET_WITHIN_MS: u64 = 300;
/// By then, what clients have received is given back, or behind their backs (LOCK-28), and what they have asked is
/// answered, or not at all.
const SETTLED_WITHIN_MS: u64 = 1_000;
/// What links still have to hand back when the connection is gone takes no longer.
const LINKS_END_WITHIN: Duration = Duration::from_secs(2);
/// Why a client is let go.
const SHUTTING_DOWN: &str = "the node is shutting down";
const CLOSED_BY_OPERATOR: &str = "an operator closed this connection; connect again";
/// It is looked whether tokens have run out when they do by the present clock, and so often in case
/// that is set.
const TOKENS_LOOK_MS: u64 = 60_000;

/// Serves a client to the end. One without a place is told why, and that is all.
pub(super) async fn run(
    arrival: Arrival,
    opened: Result<Slot, Rejection>,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let Arrival { stream, peer, accepted_at, certified, host, .. } = arrival;
    let (notes, inbox) = mpsc::channel(NOTES_WAITING_MAX);
    // CONN-12: what it took until it was told what is spoken counts.
    let began = millis(accepted_at.saturating_duration_since(shared.started));
    let config = engine_config(&shared.config);
    let has_key = certified
        .as_ref()
        .is_some_and(|shown| access::stands_for_a_key(&shared.config.access, shown));
    let engine = match has_key {
        true => Connection::server_of_certified(config, began),
        false => Connection::server(config, began),
    };
    // Until the node knows, it cannot tell what the host means that the client will say.
    let caught_up = tokio::select! {
        caught_up = shared.broker.namespaces().caught_up() => caught_up,
        _ = stopping.wait_for(|stops| *stops) => Ok(()),
    };
    let opened = opened.and_then(|slot| caught_up.map(|()| slot).map_err(Rejection::Uninformed));
    let (slot, refusal) = match opened {
        Ok(slot) => (Some(slot), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let place = slot.clone();
    let mut links = Links::new(engine, shared.clone(), notes, Dues::new(slot));
    (links.grants.trail, links.grants.peer) = (shared.config.trail.clone(), Some(peer));
    links.grants.certified = certified;
    links.grants.keys = Some(shared.keys.clone());
    if let Some(host) = host {
        links.enter(&host);
    }
    let catalog = shared.catalog.subscribe();
    let keys = shared.keys.clone();
    let mut socket = Socket {
        stream,
        is_flushed: true,
        refusal,
        place,
        input: BytesMut::new(),
        links,
        inbox,
        stopping,
        catalog,
        keys,
        end_by: None,
        leaving: None,
        farewell: SHUTTING_DOWN,
        giving_back: FuturesUnordered::new(),
        hangs_up: false,
        silent_until: None,
        is_reset: false,
        shared,
        alarm: Box::pin(tokio::time::sleep(Duration::ZERO)),
        alarm_at: None,
    };
    if let Err(error) = socket.serve().await {
        tracing::debug!(%error, "AMQP connection lost");
    }
    socket.end().await;
}

fn engine_config(config: &Config) -> engine::Config {
    let properties = Map::default()
        .symbol("product", "mayfly".into())
        .symbol("version", Value::from(env!("CARGO_PKG_VERSION")));
    engine::Config {
        container_id: config.container_id.as_str().into(),
        hostname: None,
        offered_capabilities: OFFERED.map(Symbol::from_static).into_iter().collect(),
        properties: Some(properties),
        limits: Limits { outcome_delay_ms: OUTCOME_DELAY_MS, ..limits_of(config) },
    }
}

/// As they are for a connection that comes now: those of the ledger may change.
fn limits_of(config: &Config) -> Limits {
    let max = |limit| match config.ledger.max(limit) {
        0 => usize::MAX,
        max => usize::try_from(max).unwrap_or(usize::MAX),
    };
    let sessions_max = max(Limit::ConnectionSessions);
    let bytes_max = config.ledger.max(Limit::ConnectionBytes).saturating_mul(1_024);
    Limits {
        links_max: max(Limit::ConnectionLinks),
        sessions_max,
        // With fewer, one too many is told so: what is not announced would be a violation (CONN-17).
        channel_max: u16::try_from(sessions_max.saturating_sub(1))
            .unwrap_or(u16::MAX)
            .max(config.limits.channel_max),
        incoming_bytes_max: if bytes_max == 0 { u64::MAX } else { bytes_max },
        ..config.limits.clone()
    }
}

fn now(shared: &Shared) -> Millis {
    millis(shared.started.elapsed())
}

fn millis(since: Duration) -> Millis {
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Why a client is told no as soon as it has opened its connection.
pub(super) enum Rejection {
    /// QUOTA-13: SDKs try again later.
    Surplus(Exceeded),
    /// CONN-25: others came while it had not proved who it is.
    Unproved { places: usize },
    /// CONN-24: it is another port that it looks for.
    Misdirected(Arc<str>),
    /// NS-5: nobody tells this node, which has just started, which namespaces there are.
    Uninformed(service::Error),
}

impl Rejection {
    fn error(&self) -> Error {
        match self {
            Rejection::Surplus(exceeded) => {
                Error::new(condition::RESOURCE_LIMIT_EXCEEDED, exceeded.sentence())
            }
            Rejection::Unproved { places } => {
                let why = format!(
                    "of the clients that have not proved who they are this node keeps {places}, and \
                     this one has waited longest"
                );
                Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why)
            }
            Rejection::Misdirected(why) => Error::new(condition::NOT_ALLOWED, &**why),
            Rejection::Uninformed(error) => failure::error(error),
        }
    }
}

/// Until when a client is served that is let go.
struct Leaving {
    /// From then on nothing more is taken of it.
    quiet_by: Millis,
    settled_by: Millis,
}

struct Socket {
    stream: Stream,
    /// All that was written to the stream has left it.
    is_flushed: bool,
    refusal: Option<Rejection>,
    /// One that is only told why it ends has none.
    place: Option<Slot>,
    /// Read and not understood yet.
    input: BytesMut,
    links: Links,
    inbox: mpsc::Receiver<Note>,
    stopping: watch::Receiver<bool>,
    /// See [`Shared::catalog`].
    catalog: watch::Receiver<Option<u64>>,
    /// Tells of keys that were removed or exchanged.
    keys: KeyWatch,
    /// The node ends, and with it this, whatever the client does.
    end_by: Option<Millis>,
    /// Set once it is known that the node ends, or that an operator ends the connection.
    leaving: Option<Leaving>,
    /// Why that is.
    farewell: &'static str,
    /// What is given back for that (LOCK-28).
    giving_back: FuturesUnordered<oneshot::Receiver<()>>,
    /// The last bytes are written, and no goodbye.
    hangs_up: bool,
    /// Until then nothing is read and nothing written, for a fault rule.
    silent_until: Option<Millis>,
    /// It ends by a reset, for a fault rule.
    is_reset: bool,
    shared: Arc<Shared>,
    alarm: Pin<Box<Sleep>>,
    /// What the alarm is set to; `None`: it has rung.
    alarm_at: Option<Millis>,
}

impl Socket {
    /// Turns until the connection is over.
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            self.turn();
            if let Some(breakage) = self.links.fates.take_breakage() {
                self.break_with(breakage).await?;
            }
            self.write().await?;
            self.let_go();
            if self.is_over() {
                return Ok(());
            }
            self.set_alarm();
            if !self.wait().await? {
                return Ok(());
            }
        }
    }

    /// Takes all that was read and noted, and gathers what it leads to.
    fn turn(&mut self) {
        let now = now(&self.shared);
        self.links.now = now;
        while let Ok(note) = self.inbox.try_recv() {
            self.links.on_note(note);
        }
        while self.links.wants_input() && !self.is_deaf() {
            let Some(event) = self.links.engine.poll(&mut self.input, now) else { break };
            match (&self.refusal, &event) {
                // Whoever it is, it is let in no further.
                (Some(Rejection::Misdirected(_) | Rejection::Uninformed(_)), Event::Login(_)) => {
                    self.links.engine.login(true);
                    continue;
                }
                (Some(refusal), Event::Opened(_)) => {
                    let error = refusal.error();
                    self.refuse(error);
                }
                _ => (),
            }
            self.links.on_event(event);
        }
        // A connection that was told why it ends has no more to hear.
        if let Some(exceeded) = self.links.dues.take_surplus().filter(|_| self.end_by.is_none()) {
            self.refuse(Rejection::Surplus(exceeded).error());
        }
        if self.links.grants.take_replaced() {
            self.links.detach_expired();
        }
        if self.links.engine.is_finished() {
            // The last event.
            while let Some(event) = self.links.engine.poll(&mut self.input, now) {
                self.links.on_event(event);
            }
        }
        self.links.finish_turn();
        self.links.engine.flush();
        let Links { dues, engine, unstored, .. } = &mut self.links;
        dues.tell(engine, unstored);
    }

    fn is_over(&mut self) -> bool {
        let is_late = self.end_by.is_some_and(|at| at <= now(&self.shared));
        let is_last = self.hangs_up || self.links.engine.is_finished();
        is_late || is_last && !self.has_output()
    }

    fn has_output(&mut self) -> bool {
        !self.is_silent() && self.has_unwritten()
    }

    fn has_unwritten(&mut self) -> bool {
        self.links.engine.output().has_remaining() || !self.is_flushed
    }

    /// What a fault rule does to the connection itself.
    ///
    /// # Errors
    /// It is over, without a goodbye.
    async fn break_with(&mut self, breakage: Breakage) -> io::Result<()> {
        match breakage {
            Breakage::Closed(error) => {
                self.refuse(error);
                self.links.engine.flush();
                return Ok(());
            }
            Breakage::Silent(time) => {
                let until = now(&self.shared).0.saturating_add(millis(time).0);
                self.silent_until = Some(Millis(until));
                return Ok(());
            }
            Breakage::Cut => {
                let output = self.links.engine.output();
                let but_the_last = output.remaining().saturating_sub(1);
                let bytes = output.copy_to_bytes(but_the_last);
                let written = async {
                    self.stream.write_all(&bytes).await?;
                    self.stream.flush().await
                };
                timeout(LINKS_END_WITHIN, written).await.unwrap_or(Ok(()))?;
            }
            Breakage::Reset => {}
        }
        self.is_reset = true;
        self.stream.reset_when_dropped();
        Err(io::Error::new(io::ErrorKind::ConnectionReset, "by a fault rule"))
    }

    /// Whether nothing goes through the connection in either direction, for a fault rule.
    fn is_silent(&self) -> bool {
        self.silent_until.is_some_and(|until| now(&self.shared) < until)
    }

    /// Writes what the socket takes at once.
    async fn write(&mut self) -> io::Result<()> {
        if self.is_silent() {
            return Ok(());
        }
        let Socket { stream, is_flushed, links, place, .. } = self;
        let place = place.as_ref();
        poll_fn(|cx| match poll_write(stream, links.engine.output(), is_flushed, place, cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    /// Waits for something to do; `false` if the client is gone.
    async fn wait(&mut self) -> io::Result<bool> {
        let wants_input = self.links.wants_input() && !self.is_deaf() && !self.is_silent();
        let has_output = self.has_output();
        let Socket { stream, is_flushed, input, links, inbox, stopping, catalog, keys, .. } = self;
        let (alarm, shared, place) = (&mut self.alarm, &self.shared, self.place.as_ref());
        let (unstored, is_full) = (links.unstored.clone(), links.unstored.is_full());
        let read_bytes = if links.guest.is_some() { UNPROVED_READ_BYTES } else { READ_BYTES };
        let (engine, work) = (&mut links.engine, &mut links.tasks.work);
        let (giving_back, is_leaving) = (&mut self.giving_back, self.leaving.is_some());
        let guest = &mut links.guest;
        let asked_out = async {
            match guest {
                Some(guest) => {
                    guest.asked_out().await;
                    guest.places()
                }
                None => pending().await,
            }
        };
        let exchange = poll_fn(|cx| {
            if has_output
                && let Poll::Ready(result) =
                    poll_write(stream, engine.output(), is_flushed, place, cx)
            {
                return Poll::Ready(result.map(|()| true));
            }
            match wants_input {
                true => poll_read(stream, input, read_bytes, place, cx),
                false => Poll::Pending,
            }
        });
        let closing = async {
            match place {
                Some(place) => place.closing().await,
                None => pending().await,
            }
        };
        tokio::select! {
            goes_on = exchange, if wants_input || has_output => return goes_on,
            () = unstored.room(), if is_full => {}
            Some(()) = work.next(), if !work.is_empty() => {}
            Some(note) = inbox.recv() => {
                links.now = now(shared);
                links.on_note(note);
            }
            () = alarm.as_mut(), if self.alarm_at.is_some() => self.ring(),
            Ok(()) = catalog.changed() => {
                links.now = now(shared);
                links.detach_orphans();
            }
            () = keys.changed() => {
                links.now = now(shared);
                links.renew_grants();
            }
            Some(_) = giving_back.next(), if !giving_back.is_empty() => {}
            () = closing, if !is_leaving && self.end_by.is_none() => {
                self.farewell = CLOSED_BY_OPERATOR;
                self.leave();
            }
            _ = stopping.changed(), if !is_leaving && self.end_by.is_none() => self.leave(),
            places = asked_out, if self.end_by.is_none() => {
                self.refuse(Rejection::Unproved { places }.error());
            }
        }
        Ok(true)
    }

    /// Sets the alarm to the next deadline, unless it rings before anyway.
    fn set_alarm(&mut self) {
        let next = self.links.grants.next_expiry_ms();
        let tokens = next.map(|ms| Millis(now(&self.shared).0 + ms.min(TOKENS_LOOK_MS)));
        let idle = self.links.timers.deadline();
        let leaving = self.leaving.as_ref().map(|leaving| match self.is_deaf() {
            true => leaving.settled_by,
            false => leaving.quiet_by,
        });
        let leaving = leaving.filter(|_| self.end_by.is_none());
        let silent = self.silent_until;
        let all = [self.links.engine.deadline(), tokens, idle, leaving, self.end_by, silent];
        let deadline = all.into_iter().flatten().min();
        let Some(at) = deadline else { return };
        if self.alarm_at.is_none_or(|set| at < set) {
            self.alarm_at = Some(at);
            self.alarm.as_mut().reset(self.shared.started + Duration::from_millis(at.0));
        }
    }

    fn ring(&mut self) {
        self.alarm_at = None;
        let now = now(&self.shared);
        self.links.now = now;
        self.silent_until.take_if(|until| *until <= now);
        self.links.engine.tick(now);
        self.links.detach_expired();
        self.links.detach_idle();
        if let Some(error) = self.links.timers.farewell(now) {
            // The engine closes once, and waits for an answer as long as it does for any.
            self.links.engine.close(Some(error));
        }
    }

    /// The node ends, or the connection. Every SDK connects anew by itself, and may be faster there than what it has received is given
    /// back, so that comes first; the client is served meanwhile, and let go between two calls, for what is under way
    /// then some SDKs do not ask again.
    fn leave(&mut self) {
        let now = now(&self.shared).0;
        let (quiet_by, settled_by) =
            (Millis(now + QUIET_WITHIN_MS), Millis(now + SETTLED_WITHIN_MS));
        self.leaving = Some(Leaving { quiet_by, settled_by });
        self.giving_back.extend(self.links.give_back());
    }

    /// Whether nothing more is read of what the client sends.
    fn is_deaf(&self) -> bool {
        let is_late = |leaving: &Leaving| leaving.quiet_by <= now(&self.shared);
        self.hangs_up || self.leaving.as_ref().is_some_and(is_late)
    }

    /// Lets the client go, if it is to be and nothing is under way.
    fn let_go(&mut self) {
        let Some(Leaving { settled_by, .. }) = self.leaving else { return };
        let is_late = settled_by <= now(&self.shared);
        let is_heard = self.input.is_empty() || self.is_deaf();
        let is_quiet = is_heard && !self.links.owes_answers() && !self.has_output();
        if self.end_by.is_some() || !(is_late || is_quiet && self.giving_back.is_empty()) {
            return;
        }
        // By links that came meanwhile.
        let more = self.links.give_back();
        if !is_late && !more.is_empty() {
            return self.giving_back.extend(more);
        }
        self.end_by = Some(Millis(now(&self.shared).0 + GOODBYE_MS));
        // CONN-21.
        if self.links.mistakes_close {
            self.hangs_up = true;
        } else {
            let error = Error::new(condition::CONNECTION_FORCED, self.farewell);
            self.links.engine.close(Some(error));
            self.links.engine.flush();
        }
    }

    /// SDKs tell their users.
    fn refuse(&mut self, error: Error) {
        self.end_by = Some(Millis(now(&self.shared).0 + GOODBYE_MS));
        self.links.engine.close(Some(error));
    }

    /// Lets the links hand back what was granted and never sent, and the client read what was written.
    async fn end(mut self) {
        self.links.grants.tell_unproved(&self.shared.config.access);
        self.links.drop_all();
        self.inbox.close(); // Nobody looks at it any more, so nobody is to wait for that.
        let Socket { mut stream, mut input, mut links, hangs_up, is_reset, .. } = self;
        let goodbye = async move {
            if is_reset {
                return; // Dropped with this.
            }
            drop(stream.shutdown().await);
            // Closed with something unread, a socket is reset, and what the client has not read is lost.
            while hangs_up
                && let Ok(true) =
                    poll_fn(|cx| poll_read(&mut stream, &mut input, READ_BYTES, None, cx)).await
            {
                input.clear();
            }
        };
        let work = async { while links.tasks.work.next().await.is_some() {} };
        drop(timeout(LINKS_END_WITHIN, join(goodbye, work)).await);
    }
}

/// Ready when all is written and has left the stream's own buffers, which TLS and tunnels have.
fn poll_write(
    stream: &mut Stream,
    output: &mut Output,
    is_flushed: &mut bool,
    place: Option<&Slot>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while output.has_remaining() {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = output.chunks_vectored(&mut slices);
        match ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[..count]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => {
                output.advance(written);
                if let Some(place) = place {
                    place.count_bytes(0, written as u64);
                }
            }
        }
        *is_flushed = false;
    }
    if !*is_flushed {
        ready!(Pin::new(stream).poll_flush(cx))?;
        *is_flushed = true;
    }
    Poll::Ready(Ok(()))
}

/// Reads what is there; `false` at the end of the stream. A connection that waits holds no buffer.
fn poll_read(
    stream: &mut Stream,
    input: &mut BytesMut,
    bytes: usize,
    place: Option<&Slot>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    input.reserve(bytes);
    let read = poll_read_buf(Pin::new(stream), cx, input);
    if let (Poll::Ready(Ok(count)), Some(place)) = (&read, place) {
        place.count_bytes(*count as u64, 0);
    }
    if input.is_empty() {
        *input = BytesMut::new();
    }
    read.map_ok(|count| count > 0)
}
