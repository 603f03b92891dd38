//! Clients that hold something and do nothing with it: links without traffic are detached (ERR-22),
//! connections without links or without a token are closed (ERR-23). Every SDK comes back by itself
//! once it has something to do.

use std::time::Duration;

use amqp_protocol::codec::Error;
use amqp_protocol::engine::Millis;

use crate::condition;

/// How long what is not used may be held. `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLimits {
    /// ERR-22: a link to an entity without a transfer, a disposition or a flow. Default 10 min.
    pub link: Option<Duration>,
    /// ERR-23: a connection that had links and has none. Default 5 min.
    pub linkless: Option<Duration>,
    /// ERR-23: a connection that has not asked for its first link. Default 1 min.
    pub first_link: Option<Duration>,
    /// ERR-23: a connection that has not proved who its client is, where proof is asked for. Default
    /// 20 s.
    pub token: Option<Duration>,
}

impl Default for IdleLimits {
    fn default() -> IdleLimits {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        IdleLimits {
            link: seconds(600),
            linkless: seconds(300),
            first_link: seconds(60),
            token: seconds(20),
        }
    }
}

/// What one connection holds without using it, and since when.
#[derive(Debug)]
pub(super) struct IdleTimers {
    limits: IdleLimits,
    /// No token came until now; `None`: one did, or none is needed.
    token_from: Option<Millis>,
    /// There has been no link since then; `None`: there is one, or the connection is not open.
    linkless_from: Option<Millis>,
    had_link: bool,
    /// When links are looked through next: none can be idle for too long before. What happens on a link
    /// only notes its time, and is compared with nothing.
    look_at: Option<Millis>,
}

impl IdleTimers {
    pub fn new(limits: IdleLimits) -> IdleTimers {
        let (token_from, linkless_from, look_at) = (None, None, None);
        IdleTimers { limits, token_from, linkless_from, had_link: false, look_at }
    }

    pub fn opened(&mut self, now: Millis, is_proved: bool) {
        self.linkless_from = Some(now);
        self.token_from = (!is_proved).then_some(now);
    }

    /// A token came.
    pub fn proved(&mut self) {
        self.token_from = None;
    }

    pub fn link_added(&mut self, now: Millis) {
        self.had_link = true;
        self.linkless_from = None;
        let Some(limit) = self.limits.link else { return };
        self.look_at.get_or_insert(after(now, limit));
    }

    pub fn last_link_gone(&mut self, now: Millis) {
        self.linkless_from = Some(now);
        self.look_at = None;
    }

    /// When something is due, unless something happens before.
    pub fn deadline(&self) -> Option<Millis> {
        [self.token_by(), self.linkless_by(), self.look_at].into_iter().flatten().min()
    }

    fn token_by(&self) -> Option<Millis> {
        Some(after(self.token_from?, self.limits.token?))
    }

    fn linkless_by(&self) -> Option<Millis> {
        Some(after(self.linkless_from?, self.linkless_limit()?))
    }

    fn linkless_limit(&self) -> Option<Duration> {
        match self.had_link {
            true => self.limits.linkless,
            false => self.limits.first_link,
        }
    }

    /// ERR-23: why the connection is to be closed now. It is said once.
    pub fn farewell(&mut self, now: Millis) -> Option<Error> {
        let is_due = |by: Option<Millis>| by.is_some_and(|by| by <= now);
        let (what, limit) = if is_due(self.token_by()) {
            ("no token came", self.limits.token)
        } else if is_due(self.linkless_by()) {
            ("there was no link", self.linkless_limit())
        } else {
            return None;
        };
        let ms = limit.unwrap_or_default().as_millis();
        let why = format!("{what} on this connection within the allowed {ms} milliseconds");
        (self.token_from, self.linkless_from, self.look_at) = (None, None, None);
        Some(Error::new(condition::CONNECTION_FORCED, why))
    }

    /// Before which instant a link's last traffic must lie for it to be detached now. `None`: it is not
    /// yet time to look.
    pub fn idle_before(&self, now: Millis) -> Option<Millis> {
        let limit = ms(self.limits.link?);
        self.look_at.filter(|at| *at <= now).map(|_| Millis(now.0.saturating_sub(limit)))
    }

    /// Sets the next look by the link that was used least lately.
    pub fn looked(&mut self, least: Option<Millis>) {
        self.look_at = least.zip(self.limits.link).map(|(used, limit)| after(used, limit));
    }
}

pub(super) fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn after(at: Millis, span: Duration) -> Millis {
    Millis(at.0.saturating_add(ms(span)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn opened(is_proved: bool) -> IdleTimers {
        let mut timers = IdleTimers::new(IdleLimits::default());
        timers.opened(Millis(0), is_proved);
        timers
    }

    fn said(timers: &mut IdleTimers, now_ms: u64) -> Option<String> {
        let error = timers.farewell(Millis(now_ms))?;
        assert_eq!(error.condition.as_str(), condition::CONNECTION_FORCED);
        error.description.map(String::from)
    }

    /// ERR-23: the three of them, each at its time and not before.
    #[test]
    fn err_23_a_connection_of_no_use_is_closed() {
        let mut timers = opened(false);
        assert_eq!((timers.deadline(), said(&mut timers, 19_999)), (Some(Millis(20_000)), None));
        assert!(said(&mut timers, 20_000).unwrap().contains("no token"));
        assert_eq!((timers.deadline(), said(&mut timers, u64::MAX)), (None, None), "said once");

        let mut timers = opened(false);
        timers.proved();
        assert_eq!(
            (timers.deadline(), said(&mut timers, MINUTE - 1)),
            (Some(Millis(MINUTE)), None)
        );
        assert!(said(&mut timers, MINUTE).unwrap().contains("allowed 60000 milliseconds"));

        let mut timers = opened(true);
        timers.link_added(Millis(1_000));
        assert_eq!(said(&mut timers, 9 * MINUTE), None, "it has a link");
        timers.last_link_gone(Millis(2 * MINUTE));
        let (due, before) = (7 * MINUTE, 7 * MINUTE - 1);
        assert_eq!((timers.deadline(), said(&mut timers, before)), (Some(Millis(due)), None));
        assert!(said(&mut timers, due).unwrap().contains("allowed 300000 milliseconds"));
    }

    /// ERR-22: looked at no sooner than the link that was used least lately can be due.
    #[test]
    fn err_22_links_are_looked_through_when_one_may_be_due() {
        let mut timers = opened(true);
        timers.link_added(Millis(1_000));
        timers.link_added(Millis(5_000));
        let first = Millis(10 * MINUTE + 1_000);
        assert_eq!(timers.deadline(), Some(first));
        assert_eq!(timers.idle_before(Millis(first.0 - 1)), None);
        assert_eq!(timers.idle_before(first), Some(Millis(1_000)));
        timers.looked(Some(Millis(4 * MINUTE)));
        assert_eq!(timers.deadline(), Some(Millis(14 * MINUTE)));
    }

    #[test]
    fn err_23_what_has_no_limit_is_held_for_ever() {
        let limits = IdleLimits { link: None, linkless: None, first_link: None, token: None };
        let mut timers = IdleTimers::new(limits);
        timers.opened(Millis(0), false);
        timers.link_added(Millis(0));
        timers.last_link_gone(Millis(1));
        assert_eq!((timers.deadline(), said(&mut timers, u64::MAX)), (None, None));
    }
}
