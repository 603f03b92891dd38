//! When an entry begins that is not full, so that rounds follow the load.
//!
//! A round of the log costs as much for one message as for many. Begun as soon as the one before has ended, rounds keep a
//! node as busy with two thousand messages a second as with ten thousand. A pause gathers more; but clients that wait
//! for each answer send nothing meanwhile, and lose by it. So a pause lasts until all have come who can be expected, as
//! many messages as lately waited at the most when an entry began; or until nobody has come for as long as a round takes.
//! Clients that send whether they are answered or not are always more than was expected: now and then a pause goes on
//! regardless, and finds them.

use std::time::{Duration, Instant};

/// Entries whose messages are remembered: a client that has gone is waited for in so many rounds.
const REMEMBERED: usize = 8;
/// From one beginning to the next a pause lets pass at most so many times what a round takes.
const ROUNDS_MAX: u32 = 3;
/// So many entries begin because all have come, before a pause goes on regardless; and each time it finds nobody
/// twice as many, up to `REGARDLESS_MAX`.
const REGARDLESS_MIN: u32 = 4;
const REGARDLESS_MAX: u32 = 512;

pub(super) struct Pace {
    pause_max: Duration,
    /// What a round lately took, smoothed.
    round: Duration,
    /// When the last one began.
    began: Option<Instant>,
    /// When more came last, or somebody was answered who may come again.
    stirred: Option<Instant>,
    /// Messages of the last entries, as they began.
    messages: [usize; REMEMBERED],
    next: usize,
    until_regardless: u32,
    regardless_every: u32,
}

impl Pace {
    /// `pause_max`: the longest from one beginning to the next; zero is no pause at all.
    pub fn new(pause_max: Duration) -> Pace {
        Pace {
            pause_max,
            round: Duration::ZERO,
            began: None,
            stirred: None,
            messages: [0; REMEMBERED],
            next: 0,
            until_regardless: REGARDLESS_MIN,
            regardless_every: REGARDLESS_MIN,
        }
    }

    /// Until when an entry of so many messages waits for more, unless they come; `None`: it may begin.
    pub fn pause(&self, messages: usize, now: Instant) -> Option<Instant> {
        let all_came = messages >= self.expected() && self.until_regardless > 0;
        let pause_max = (self.round * ROUNDS_MAX).min(self.pause_max);
        let until = (self.began? + pause_max).min(self.stirred? + self.round);
        (!all_came && now < until).then_some(until)
    }

    /// More wait.
    pub fn came(&mut self, now: Instant) {
        self.stirred = Some(now);
    }

    /// An entry of so many messages begins.
    pub fn begin(&mut self, messages: usize, now: Instant) {
        let expected = self.expected();
        if self.until_regardless == 0 {
            let found_more = messages > expected + expected / 8;
            self.regardless_every = match found_more {
                true => REGARDLESS_MIN,
                false => (self.regardless_every * 2).min(REGARDLESS_MAX),
            };
            self.until_regardless = self.regardless_every;
        } else if messages >= expected {
            self.until_regardless -= 1;
        }
        self.messages[self.next] = messages;
        self.next = (self.next + 1) % REMEMBERED;
        self.began = Some(now);
    }

    /// A round has ended that took so long, and its clients are answered.
    pub fn end(&mut self, took: Duration, now: Instant) {
        self.stirred = Some(now);
        self.round = match self.round.is_zero() {
            true => took,
            false => (self.round * 7 + took) / 8,
        };
    }

    fn expected(&self) -> usize {
        self.messages.iter().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MAX: Duration = Duration::from_millis(4);
    const ROUND: Duration = Duration::from_millis(1);
    const STEP: Duration = Duration::from_micros(100);

    /// What a second of rounds came to.
    #[derive(Debug)]
    struct Second {
        rounds: u32,
        messages: usize,
        /// From arrival to answer.
        longest: Duration,
    }

    /// Rounds of a millisecond, looked at in steps of a tenth; `arrive` says how many messages come in a step, told how many
    /// were answered in the one before.
    fn second(pause_max: Duration, mut arrive: impl FnMut(u32, usize) -> usize) -> Second {
        let (mut pace, start) = (Pace::new(pause_max), Instant::now());
        let (mut waiting, mut under_way) = (Vec::new(), Vec::new());
        let mut ends: Option<Instant> = None;
        let mut told = Second { rounds: 0, messages: 0, longest: Duration::ZERO };
        for step in 0..10_000 {
            let now = start + STEP * step;
            let mut answered = 0;
            if ends.is_some_and(|ends| ends <= now) {
                ends = None;
                pace.end(ROUND, now);
                answered = under_way.len();
                told.messages += answered;
                let waits = under_way.drain(..).map(|came| now - came).max();
                told.longest = told.longest.max(waits.unwrap_or_default());
            }
            let more = arrive(step, answered);
            if more > 0 {
                pace.came(now);
                waiting.extend(std::iter::repeat_n(now, more));
            }
            if ends.is_none() && !waiting.is_empty() && pace.pause(waiting.len(), now).is_none() {
                pace.begin(waiting.len(), now);
                told.rounds += 1;
                under_way.append(&mut waiting);
                ends = Some(now + ROUND);
            }
        }
        told
    }

    #[test]
    fn rounds_are_fewer_where_clients_do_not_wait_for_answers() {
        for (every, per_second) in [(5, 2_000), (2, 5_000), (1, 10_000)] {
            let arrive = |step: u32, _| usize::from(step.is_multiple_of(every));
            let (at_once, paced) = (second(Duration::ZERO, arrive), second(PAUSE_MAX, arrive));
            assert!(at_once.rounds > 800, "{per_second}/s: {at_once:?}");
            assert!(paced.rounds < 400, "{per_second}/s: {paced:?}");
            assert!(paced.messages + 100 > per_second, "{per_second}/s: {paced:?}");
            assert!(paced.longest <= PAUSE_MAX + ROUND, "{per_second}/s: {paced:?}");
        }
    }

    #[test]
    fn clients_that_wait_for_each_answer_lose_nothing() {
        // Each comes again so many steps after its answer, one after the other.
        for (clients, turnaround) in [(1, 3), (2, 3), (8, 2), (8, 5), (64, 4)] {
            let run = |pause_max| {
                let mut coming: Vec<u32> = (0..clients).collect();
                second(pause_max, |step, answered| {
                    let late = 0..u32::try_from(answered).expect("few");
                    coming.extend(late.map(|place| step + turnaround + place % 3));
                    let before = coming.len();
                    coming.retain(|due| *due > step);
                    before - coming.len()
                })
            };
            let (at_once, paced) = (run(Duration::ZERO), run(PAUSE_MAX));
            let what = format!("{clients} clients: {paced:?} beside {at_once:?}");
            assert!(paced.messages * 100 >= at_once.messages * 98, "{what}");
            assert!(paced.rounds <= at_once.rounds, "{what}");
        }
    }

    #[test]
    fn what_comes_seldom_begins_at_once() {
        let seldom = second(PAUSE_MAX, |step, _| usize::from(step.is_multiple_of(100)));
        assert_eq!(seldom.longest, ROUND, "{seldom:?}");
    }

    #[test]
    fn a_client_that_has_gone_is_not_waited_for_long() {
        let mut coming = vec![0; 8];
        let mut left = 0;
        let gone = second(PAUSE_MAX, |step, answered| {
            // From half a second on one comes alone.
            let again = if step < 5_000 { answered } else { answered.min(1) };
            coming.extend(std::iter::repeat_n(step + 3, again));
            let before = coming.len();
            coming.retain(|due| *due > step);
            left += usize::from(step >= 6_000) * (before - coming.len());
            before - coming.len()
        });
        // A millisecond and three tenths each, for four tenths of a second.
        assert!(left > 280, "{left} of {gone:?}");
    }
}
