//! When a replica asks for votes, and when it refuses them. Raft's own timer wakes every group many times a second; here
//! silence is looked at for all groups at once ([`crate::liveness`]), and a leader is heard without Raft being woken.

use std::sync::Arc;
use std::time::Duration;

use domain::GroupId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Timings;

/// The timer of one replica, shared by what hears for it and what asks in its name.
#[derive(Clone)]
pub(crate) struct ElectionTimer(Arc<TimerCore>);

struct TimerCore {
    timings: Timings,
    state: Mutex<TimerState>,
}

struct TimerState {
    /// When a leader last called. At first, when the replica started.
    heard: Instant,
    /// Nobody is voted for before: a leader was heard lately.
    leased_until: Option<Instant>,
    /// From here on silence counts.
    since: Instant,
    /// How much of it is borne: until this replica's turn among those that may campaign, which lie evenly between the two
    /// election timeouts, and a random part of the time to the next turn. So two do not take each other's votes, and if they
    /// do, not again.
    turn: Turn,
    jitter: f64,
    /// It has just started, and asks soon.
    starts: bool,
    /// A voter has more of the log: those that have are to campaign first (openraft's `smaller_log_timeout`).
    defers: bool,
}

impl TimerState {
    fn due(&self, timings: Timings) -> Instant {
        let deferred = if self.defers { timings.election_max * 2 } else { Duration::ZERO };
        self.since + self.patience(timings) + deferred
    }

    fn patience(&self, timings: Timings) -> Duration {
        if self.starts {
            return timings.heartbeat.mul_f64(self.jitter);
        }
        let Turn { place, of } = self.turn;
        let to_next = timings.election_max.saturating_sub(timings.election_min) / of.max(1);
        timings.election_min + to_next * place + (to_next / 2).mul_f64(self.jitter)
    }
}

impl ElectionTimer {
    /// A replica that starts does not know since when nobody leads, and asks soon: while somebody does, it is refused.
    pub fn new(timings: Timings) -> ElectionTimer {
        let now = Instant::now();
        let state = TimerState {
            heard: now,
            leased_until: None,
            since: now,
            turn: Turn { place: 0, of: 1 },
            jitter: rand::random(),
            starts: true,
            defers: false,
        };
        ElectionTimer(Arc::new(TimerCore { timings, state: Mutex::new(state) }))
    }

    /// The leader called, whom this replica follows or will at once.
    pub fn hear(&self, now: Instant) {
        let until = now + self.0.timings.election_max;
        let mut state = self.0.state.lock();
        state.starts = false;
        (state.heard, state.since, state.leased_until) = (now, until, Some(until));
    }

    /// When a leader last called.
    pub fn heard(&self) -> Instant {
        self.0.state.lock().heard
    }

    /// What there is to wait for begins now: this replica leads, or has voted for another.
    pub fn restart(&self, now: Instant) {
        self.0.state.lock().since = now;
    }

    /// The leader is gone, for certain, or gives way: others may be voted for.
    pub fn release(&self, now: Instant) {
        let mut state = self.0.state.lock();
        (state.leased_until, state.since) = (None, now);
    }

    /// This node stood still for so long: what it did not hear in that time is nobody's silence.
    pub fn excuse(&self, stood_still: Duration) {
        self.0.state.lock().since += stood_still;
    }

    /// Whether a leader was heard so lately that nobody else is voted for.
    pub fn is_leased(&self, now: Instant) -> bool {
        self.0.state.lock().leased_until.is_some_and(|until| now < until)
    }

    /// A voter has entries that this replica has not.
    pub fn defer(&self) {
        self.0.state.lock().defers = true;
    }

    /// When it is this replica's turn, should the leader fall silent.
    pub fn take_turn(&self, turn: Turn) {
        self.0.state.lock().turn = turn;
    }

    /// When it is time to ask for votes, as far as is known now.
    pub fn due(&self) -> Instant {
        self.0.state.lock().due(self.0.timings)
    }

    /// Whether it is time to ask for votes. If so, the next time is a while away.
    pub fn campaigns(&self, now: Instant) -> bool {
        let mut state = self.0.state.lock();
        if now < state.due(self.0.timings) {
            return false;
        }
        state.since = now;
        state.jitter = rand::random();
        (state.starts, state.defers) = (false, false);
        true
    }
}

/// When one of several voters asks for votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// From 0.
    pub place: u32,
    /// How many there are.
    pub of: u32,
}

/// Different groups begin with different survivors, so that they do not all fall to one.
pub(crate) fn turn(group: GroupId, survivors: &[u64], id: u64) -> Turn {
    let count = survivors.len().max(1);
    let own = survivors.iter().position(|survivor| *survivor == id).unwrap_or_default();
    let place = (own + usize::from(group.0)) % count;
    let of = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Turn { place: of(place), of: of(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both election timeouts are 600 ms, so that nothing is left to chance, and the lease as long.
    fn timer() -> (ElectionTimer, impl Fn(u64) -> Instant) {
        let ms = Duration::from_millis;
        let timings = Timings { heartbeat: ms(0), election_min: ms(600), election_max: ms(600) };
        let timer = ElectionTimer::new(timings);
        let begun = timer.heard();
        (timer, move |at| begun + ms(at))
    }

    #[test]
    fn a_replica_campaigns_a_lease_and_its_patience_after_its_leader_fell_silent() {
        let (timer, at) = timer();
        assert!(timer.campaigns(at(0)), "nobody was heard since the start");
        timer.hear(at(100));
        assert_eq!([699, 700].map(|ms| timer.is_leased(at(ms))), [true, false]);
        assert_eq!([1_299, 1_300].map(|ms| timer.campaigns(at(ms))), [false, true]);
        assert_eq!([1_899, 1_900].map(|ms| timer.campaigns(at(ms))), [false, true], "and again");
        timer.hear(at(1_950));
        assert!(!timer.campaigns(at(3_149)), "somebody leads");
    }

    #[test]
    fn survivors_take_turns_and_groups_begin_with_different_ones() {
        let survivors = [4, 7, 9];
        let places = |group| survivors.map(|id| turn(GroupId(group), &survivors, id).place);
        assert_eq!(places(0), [0, 1, 2]);
        assert_eq!(places(1), [1, 2, 0]);
        assert_eq!(places(3), places(0));
        assert_eq!(turn(GroupId(5), &[4], 4), Turn { place: 0, of: 1 });
    }

    #[test]
    fn turns_lie_between_the_timeouts_and_do_not_overlap() {
        let timings = Timings::default();
        let patience = |place, jitter| {
            let state = TimerState {
                heard: Instant::now(),
                leased_until: None,
                since: Instant::now(),
                turn: Turn { place, of: 2 },
                jitter,
                starts: false,
                defers: false,
            };
            state.patience(timings).as_millis()
        };
        assert_eq!(
            [(0, 0.0), (0, 1.0), (1, 0.0), (1, 1.0)].map(|(p, j)| patience(p, j)),
            [600, 650, 700, 750]
        );
    }

    #[test]
    fn whoever_starts_asks_soon_unless_somebody_leads() {
        let (timer, at) = timer();
        timer.hear(at(0));
        assert_eq!([1_199, 1_200].map(|ms| timer.campaigns(at(ms))), [false, true]);
    }

    #[test]
    fn a_lease_ends_with_its_leader() {
        let (timer, at) = timer();
        assert!(timer.campaigns(at(0)));
        timer.hear(at(100));
        timer.release(at(200));
        assert!(!timer.is_leased(at(201)));
        assert_eq!([799, 800].map(|ms| timer.campaigns(at(ms))), [false, true]);
    }

    #[test]
    fn whoever_has_less_of_the_log_lets_others_ask_first_once() {
        let (timer, at) = timer();
        assert!(timer.campaigns(at(0)));
        timer.defer();
        assert_eq!([600, 1_799, 1_800].map(|ms| timer.campaigns(at(ms))), [false, false, true]);
        assert_eq!([2_399, 2_400].map(|ms| timer.campaigns(at(ms))), [false, true]);
    }

    #[test]
    fn a_vote_for_another_and_the_own_leadership_put_a_campaign_off() {
        let (timer, at) = timer();
        assert!(timer.campaigns(at(0)));
        timer.restart(at(500));
        assert_eq!([1_099, 1_100].map(|ms| timer.campaigns(at(ms))), [false, true]);
        assert!(!timer.is_leased(at(500)), "whoever was voted for does not lead yet");
    }
}
