//! One consumer: takes what has come, works on it, gives a verdict, and notes everything.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::file::Consumers;
use crate::ledger::{Ledger, Seen};
use crate::link::{Arrival, Broken, Outcome, ReceiveLink, Turned, Verdict};
use crate::meter::{Books, Meter};
use crate::stamp::Stamp;
use crate::threshold::Span;
use crate::time_line::TimeLine;

const PAUSE: Duration = Duration::from_millis(200);

/// What comes back with the answer to a settlement.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    stamp: Option<(Stamp, Seen)>,
    verdict: Verdict,
    since: Instant,
}

/// Where a consumer takes from.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// In the ledger.
    pub place: usize,
    /// Dead letters are what it takes.
    pub is_dead: bool,
    /// How long a lock lasts there, if that is known.
    pub lock_ms: Option<u64>,
    /// What the broker's clock showed at the run's beginning, milliseconds since the Unix epoch.
    pub epoch_ms: u64,
}

/// A consumer and what it notes in.
pub struct Consumer {
    pub spec: Consumers,
    pub post: Post,
    pub random: ChaCha8Rng,
    pub time_line: Arc<TimeLine>,
    pub ledger: Arc<Ledger>,
    pub meter: Arc<Meter>,
}

/// A message that is worked on.
struct Work<H> {
    done_at: Instant,
    renew_at: Option<Instant>,
    handle: H,
    note: Note,
}

impl<H> PartialEq for Work<H> {
    fn eq(&self, other: &Work<H>) -> bool {
        self.wakes_at() == other.wakes_at()
    }
}

impl<H> Eq for Work<H> {}

impl<H> PartialOrd for Work<H> {
    fn partial_cmp(&self, other: &Work<H>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<H> Ord for Work<H> {
    fn cmp(&self, other: &Work<H>) -> Ordering {
        self.wakes_at().cmp(&other.wakes_at())
    }
}

impl<H> Work<H> {
    /// When something is to be done about it.
    fn wakes_at(&self) -> Instant {
        self.renew_at.map_or(self.done_at, |renew| renew.min(self.done_at))
    }
}

/// Verdicts that wait to be handed over, by kind.
type Batches<H> = VecDeque<(Verdict, Vec<(H, Note)>)>;

impl Consumer {
    /// Consumes until it is dropped. `link` is its first; `open` makes another.
    pub async fn run<L>(mut self, mut link: Option<L>, open: impl AsyncFn() -> Result<L, Broken>)
    where
        L: ReceiveLink<Note>,
    {
        loop {
            let broken = match link.take() {
                Some(mut open) => self.drive(&mut open).await,
                None => match open().await {
                    Ok(opened) => {
                        link = Some(opened);
                        continue;
                    }
                    Err(broken) => broken,
                },
            };
            // What was in hand comes again.
            self.meter.books().error(&broken.0, 1);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Over one link, until it breaks; why it did.
    async fn drive<L: ReceiveLink<Note>>(&mut self, link: &mut L) -> Broken {
        let mut work: BinaryHeap<Reverse<Work<L::Handle>>> = BinaryHeap::new();
        let mut turned = Turned::default();
        let mut unsettled = 0;
        let mut came_at = Instant::now();
        loop {
            let take = match self.spec.work {
                None => self.spec.prefetch as usize,
                Some(_) => self.spec.at_a_time.saturating_sub(work.len()),
            };
            let is_idle = self.spec.sessions && work.is_empty() && unsettled == 0;
            let leave_at = is_idle.then(|| came_at + self.spec.session_idle);
            let until = work.peek().map(|Reverse(work)| work.wakes_at()).or(leave_at);
            if let Err(broken) = link.turn(take, until, &mut turned).await {
                return broken;
            }
            if !turned.arrivals.is_empty() || std::mem::take(&mut turned.has_begun) {
                came_at = Instant::now();
            }
            unsettled -= turned.settled.len();
            let batches = self.note(&mut turned, &mut work);
            let given = batches.and_then(|mut batches| {
                self.finish(link, &mut work, &mut batches)?;
                for (verdict, held) in batches {
                    // Nothing answers to what is never said.
                    unsettled += if verdict == Verdict::Lapse { 0 } else { held.len() };
                    link.settle(held, verdict)?;
                }
                Ok(())
            });
            if let Err(broken) = given {
                return broken;
            }
            if leave_at.is_some_and(|at| at <= Instant::now())
                && came_at.elapsed() >= self.spec.session_idle
            {
                if let Err(broken) = link.leave_session().await {
                    return broken;
                }
                came_at = Instant::now();
            }
        }
    }

    /// Books what came and what was answered. What is worked on goes to the others at work, the rest gets its
    /// verdict.
    fn note<H>(
        &mut self,
        turned: &mut Turned<H, Note>,
        work: &mut BinaryHeap<Reverse<Work<H>>>,
    ) -> Result<Batches<H>, Broken> {
        let now = Instant::now();
        let (meter, ledger) = (self.meter.clone(), self.ledger.clone());
        let mut books = meter.books();
        let mut batches = Batches::new();
        for arrival in turned.arrivals.drain(..) {
            let stamp = self.note_arrival(&arrival, now, &mut books);
            let Some(handle) = arrival.handle else {
                if let Some((stamp, seen)) = stamp {
                    ledger.finished(self.post.place, &stamp, seen);
                    books.counts.completed += 1;
                    books.verdict(Verdict::Complete);
                }
                continue;
            };
            let verdict = self.verdict();
            let note = Note { stamp, verdict, since: now };
            match self.spec.work.as_ref().map(|times| times.draw(&mut self.random)) {
                None => put(&mut batches, handle, note),
                Some(takes) => {
                    let renew_at = self.spec.renew.map(|every| now + every);
                    work.push(Reverse(Work { done_at: now + takes, renew_at, handle, note }));
                }
            }
        }
        turned.errors.drain(..).for_each(|name| books.error(&name, 1));
        // Verdicts that were given together are mostly answered together, and recorded so.
        let (mut alike, mut count) = (None, 0);
        for (note, outcome) in turned.settled.drain(..) {
            let is_measured = note.stamp.is_none_or(|(stamp, _)| stamp.is_measured);
            let kind = Some((note.since, is_measured));
            if outcome == Outcome::Done {
                if kind != alike {
                    record_settled(&mut books, alike, count, now);
                    (alike, count) = (kind, 0);
                }
                count += 1;
            }
            self.note_settled(note, outcome, &mut books);
        }
        record_settled(&mut books, alike, count, now);
        Ok(batches)
    }

    fn note_arrival<H>(
        &self,
        arrival: &Arrival<H>,
        now: Instant,
        books: &mut Books,
    ) -> Option<(Stamp, Seen)> {
        let stamp = arrival.stamp?;
        if self.post.is_dead {
            self.note_dead(arrival, &stamp, books);
            return None;
        }
        let taken_ms = arrival.locked_until_ms.zip(self.post.lock_ms);
        let taken_ms = taken_ms.map(|(until, lock)| until.saturating_sub(lock));
        let is_late = arrival.expires_at_ms.zip(taken_ms).is_some_and(|(end, taken)| taken >= end);
        let seen = self.ledger.arrived(self.post.place, &stamp, is_late)?;
        books.counts.deliveries += 1;
        if seen == Seen::First {
            books.counts.delivered += 1;
            let took = now.saturating_duration_since(self.time_line.instant(stamp.ready));
            books.record(Span::EndToEnd, took, stamp.is_measured);
            if stamp.is_scheduled {
                books.record(Span::Lateness, took, stamp.is_measured);
            }
        }
        Some((stamp, seen))
    }

    /// How long after the end of its life a message was found among the dead letters.
    fn note_dead<H>(&self, arrival: &Arrival<H>, stamp: &Stamp, books: &mut Books) {
        books.counts.dead += u64::from(self.ledger.dead(self.post.place, stamp));
        let now_ms = self.post.epoch_ms + self.time_line.now().as_millis() as u64;
        if let Some(late_ms) = arrival.expires_at_ms.and_then(|end| now_ms.checked_sub(end)) {
            books.record(Span::Lateness, Duration::from_millis(late_ms), stamp.is_measured);
        }
    }

    fn note_settled(&self, note: Note, outcome: Outcome, books: &mut Books) {
        let Note { stamp, verdict, .. } = note;
        match outcome {
            Outcome::Done | Outcome::Withdrawn => {
                if stamp.is_some() {
                    books.counts.completed += u64::from(verdict == Verdict::Complete);
                    books.verdict(verdict);
                }
                let is_final = !matches!(verdict, Verdict::Abandon | Verdict::Lapse);
                if let Some((stamp, seen)) = stamp.filter(|_| is_final) {
                    self.ledger.finished(self.post.place, &stamp, seen);
                }
            }
            Outcome::Refused(why) | Outcome::Unknown(why) => books.error(&why, 1),
        }
    }

    /// Renews locks and gives verdicts, as it is time.
    fn finish<L: ReceiveLink<Note>>(
        &self,
        link: &mut L,
        work: &mut BinaryHeap<Reverse<Work<L::Handle>>>,
        batches: &mut Batches<L::Handle>,
    ) -> Result<(), Broken> {
        let now = Instant::now();
        while work.peek().is_some_and(|Reverse(work)| work.wakes_at() <= now) {
            let Some(Reverse(mut of)) = work.pop() else { break };
            if of.done_at <= now {
                put(batches, of.handle, Note { since: now, ..of.note });
                continue;
            }
            link.renew(&of.handle)?;
            of.renew_at = self.spec.renew.map(|every| now + every);
            work.push(Reverse(of));
        }
        Ok(())
    }

    fn verdict(&mut self) -> Verdict {
        let Consumers { abandon, dead_letter, defer, lapse, .. } = &self.spec;
        if abandon.0 + dead_letter.0 + defer.0 + lapse.0 == 0.0 || self.post.is_dead {
            return Verdict::Complete;
        }
        let mut drawn: f64 = self.random.random();
        for (share, verdict) in [
            (abandon, Verdict::Abandon),
            (dead_letter, Verdict::DeadLetter),
            (defer, Verdict::Defer),
            (lapse, Verdict::Lapse),
        ] {
            drawn -= share.0;
            if drawn < 0.0 {
                return verdict;
            }
        }
        Verdict::Complete
    }
}

/// Records so many verdicts that were given then and are answered now.
fn record_settled(books: &mut Books, alike: Option<(Instant, bool)>, count: u64, now: Instant) {
    if let Some((since, is_measured)) = alike {
        let took = now.saturating_duration_since(since);
        books.record_all(Span::Settle, took, count, is_measured);
    }
}

/// To the others with that verdict.
fn put<H>(batches: &mut Batches<H>, handle: H, note: Note) {
    match batches.iter_mut().find(|(verdict, _)| *verdict == note.verdict) {
        Some((_, batch)) => batch.push((handle, note)),
        None => batches.push_back((note.verdict, vec![(handle, note)])),
    }
}
