//! Deadlines: opening, heartbeats, silence, a peer that does not read, a close without an answer.

use bytes::Buf;

use super::connection::Connection;
use super::event::{Event, Millis, Side};
use super::login::Stage;
use crate::Limits;
use crate::codec::Error;
use crate::condition;

/// How long an answer to `close` is waited for.
const CLOSE_MS: u64 = 5_000;

#[derive(Debug)]
pub(crate) struct Timing {
    /// The latest time heard of.
    pub now: Millis,
    open_by: Option<Millis>,
    pub is_open_sent: bool,
    /// Last whole frame from the peer: a frame that trickles in for ever is silence.
    received_at: Millis,
    sent_at: Millis,
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

impl Timing {
    pub(crate) fn new(limits: &Limits, now: Millis) -> Timing {
        Timing {
            now,
            open_by: Some(now.plus(limits.open_ms.into())),
            is_open_sent: false,
            received_at: now,
            sent_at: now,
            heartbeat_ms: None,
            taken: 0,
            stalled_since: None,
            is_paused: false,
            close_by: None,
        }
    }

    pub(crate) fn received(&mut self) {
        self.received_at = self.now;
    }

    pub(crate) fn sent(&mut self) {
        self.sent_at = self.now;
    }

    /// CONN-10: before half of the peer's idle time-out has passed it hears something.
    pub(crate) fn opened(&mut self, idle_time_out: Option<u32>) {
        self.open_by = None;
        self.heartbeat_ms =
            idle_time_out.filter(|ms| *ms > 0).map(|ms| u64::from(ms) * 2 / 5).map(|ms| ms.max(1));
    }

    pub(crate) fn closing(&mut self) {
        self.close_by = Some(self.now.plus(CLOSE_MS));
    }
}

impl Connection {
    /// When [`Connection::tick`] is next needed, if nothing happens until then. `None`: never.
    pub fn deadline(&self) -> Option<Millis> {
        let Timing { open_by, close_by, .. } = self.timing;
        let all = [open_by, close_by, self.silent_at(), self.stalled_at(), self.heartbeat_at()];
        all.into_iter().flatten().min().filter(|_| self.stage != Stage::Finished)
    }

    /// Does what is due: a heartbeat, or the end of a connection that kept one waiting too long. What
    /// became of it, [`Connection::poll`] tells.
    pub fn tick(&mut self, now: Millis) {
        self.timing.now = self.timing.now.max(now);
        if self.stage == Stage::Finished {
            return;
        }
        self.see_progress();
        self.see_pause();
        let is_due = |at: Option<Millis>| at.is_some_and(|at| at <= self.timing.now);
        if is_due(self.timing.close_by) {
            self.finish(Event::Closed { error: None, by: Side::Us });
        } else if is_due(self.timing.open_by) {
            self.fail(Error::new(condition::CONNECTION_FORCED, "the connection was not opened"));
        } else if is_due(self.silent_at()) {
            let why = "nothing was received for twice the idle time-out";
            self.fail(Error::new(condition::RESOURCE_LIMIT_EXCEEDED, why));
        } else if is_due(self.stalled_at()) {
            let why = "the peer does not read what is sent to it";
            self.fail(Error::new(condition::CONNECTION_FORCED, why));
        } else if is_due(self.heartbeat_at()) {
            self.write_heartbeat();
        }
    }

    /// Notes whether the peer took some of the output since last asked.
    fn see_progress(&mut self) {
        let taken = self.output.taken();
        if taken != self.timing.taken || !self.output.has_remaining() {
            self.timing.taken = taken;
            self.timing.stalled_since = None;
        } else {
            self.timing.stalled_since.get_or_insert(self.timing.now);
        }
    }

    /// Notes whether this side reads; the peer's silence counts from when it does again.
    pub(super) fn see_pause(&mut self) {
        let is_paused = !self.wants_input();
        if self.timing.is_paused && !is_paused {
            self.timing.received();
        }
        self.timing.is_paused = is_paused;
    }

    fn silent_at(&self) -> Option<Millis> {
        let is_listening =
            self.stage == Stage::Opened && !self.timing.is_paused && self.wants_input();
        let patience = u64::from(self.config.limits.idle_ms) * 2;
        is_listening.then(|| self.timing.received_at.plus(patience))
    }

    fn stalled_at(&self) -> Option<Millis> {
        let since = self.timing.stalled_since.unwrap_or(self.timing.now);
        let stall_ms = self.config.limits.stall_ms.into();
        self.output.has_remaining().then(|| since.plus(stall_ms))
    }

    fn heartbeat_at(&self) -> Option<Millis> {
        let every = self.timing.heartbeat_ms?;
        // What waits to be written will do as a sign of life.
        let is_due = self.stage == Stage::Opened && !self.output.has_remaining();
        is_due.then(|| self.timing.sent_at.plus(every))
    }

    fn write_heartbeat(&mut self) {
        const EMPTY_FRAME: [u8; 8] = [0, 0, 0, 8, 2, 0, 0, 0];
        self.output.tail().extend_from_slice(&EMPTY_FRAME);
        self.timing.sent();
    }
}
