//! Deadlines: opening, heartbeats, silence, a peer that does not read, a close without an answer.

use super::event::Millis;
use crate::Limits;

/// How long an answer to `close` is waited for.
const CLOSE_MS: u64 = 5_000;

#[derive(Debug)]
pub(crate) struct Timing {
    open_by: Option<Millis>,
    /// Last whole frame from the peer: a frame that trickles in for ever is silence.
    received_at: Millis,
    /// After this much silence a heartbeat is due.
    heartbeat_ms: Option<u64>,
    /// How much of the output was ever written, and since when that has been all although there is
    /// more. Set by the first tick that sees it, so patience is up to twice the limit.
    taken: u64,
    stalled_since: Option<Millis>,
    /// This side does not read at present, so that it hears nothing is its own doing.
    is_paused: bool,
    close_by: Option<Millis>,
}

/// Where a connection stands, as far as deadlines depend on it.
pub(crate) struct Standing<'a> {
    pub limits: &'a Limits,
    pub now: Millis,
    pub is_opened: bool,
    pub wants_input: bool,
    pub has_output: bool,
    pub sent_at: Millis,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The peer did not answer a close.
    CloseAnswer,
    Open,
    /// Nothing was heard from the peer.
    Silence,
    /// The peer takes nothing of what is written.
    Stall,
    Heartbeat,
}

impl Timing {
    pub(crate) fn new(limits: &Limits, now: Millis) -> Timing {
        Timing {
            open_by: Some(now.plus(limits.open_ms.into())),
            received_at: now,
            heartbeat_ms: None,
            taken: 0,
            stalled_since: None,
            is_paused: false,
            close_by: None,
        }
    }

    pub(crate) fn received(&mut self, now: Millis) {
        self.received_at = now;
    }

    /// CONN-10: before half of the peer's idle time-out has passed it hears something.
    pub(crate) fn opened(&mut self, idle_time_out: Option<u32>) {
        self.open_by = None;
        self.heartbeat_ms =
            idle_time_out.filter(|ms| *ms > 0).map(|ms| u64::from(ms) * 2 / 5).map(|ms| ms.max(1));
    }

    pub(crate) fn closing(&mut self, now: Millis) {
        self.close_by = Some(now.plus(CLOSE_MS));
    }

    /// Notes whether the peer took some of the output since last asked: `taken` is all it ever took.
    pub(crate) fn see_progress(&mut self, taken: u64, has_output: bool, now: Millis) {
        if taken != self.taken || !has_output {
            self.taken = taken;
            self.stalled_since = None;
        } else {
            self.stalled_since.get_or_insert(now);
        }
    }

    /// Notes whether this side reads; the peer's silence counts from when it does again.
    pub(crate) fn see_pause(&mut self, is_paused: bool, now: Millis) {
        if self.is_paused && !is_paused {
            self.received(now);
        }
        self.is_paused = is_paused;
    }

    /// When something is due next.
    pub(crate) fn deadline(&self, standing: &Standing<'_>) -> Option<Millis> {
        self.all(standing).into_iter().filter_map(|(at, _)| at).min()
    }

    /// What is due now. Of several the gravest.
    pub(crate) fn due(&self, standing: &Standing<'_>) -> Option<Due> {
        let is_due = |at: Option<Millis>| at.is_some_and(|at| at <= standing.now);
        self.all(standing).into_iter().find(|(at, _)| is_due(*at)).map(|(_, due)| due)
    }

    /// All deadlines, the gravest first.
    fn all(&self, standing: &Standing<'_>) -> [(Option<Millis>, Due); 5] {
        [
            (self.close_by, Due::CloseAnswer),
            (self.open_by, Due::Open),
            (self.silent_at(standing), Due::Silence),
            (self.stalled_at(standing), Due::Stall),
            (self.heartbeat_at(standing), Due::Heartbeat),
        ]
    }

    fn silent_at(&self, standing: &Standing<'_>) -> Option<Millis> {
        let is_listening = standing.is_opened && !self.is_paused && standing.wants_input;
        let patience = u64::from(standing.limits.idle_ms) * 2;
        is_listening.then(|| self.received_at.plus(patience))
    }

    fn stalled_at(&self, standing: &Standing<'_>) -> Option<Millis> {
        let since = self.stalled_since.unwrap_or(standing.now);
        standing.has_output.then(|| since.plus(standing.limits.stall_ms.into()))
    }

    fn heartbeat_at(&self, standing: &Standing<'_>) -> Option<Millis> {
        let every = self.heartbeat_ms?;
        // What waits to be written will do as a sign of life.
        let is_due = standing.is_opened && !standing.has_output;
        is_due.then(|| standing.sent_at.plus(every))
    }
}
