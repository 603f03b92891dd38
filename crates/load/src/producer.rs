//! One producer: sends what is due, whatever became of earlier ones, and notes every answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::draft::Drafts;
use crate::ledger::Ledger;
use crate::link::{Broken, Outcome, SendLink, Ticket};
use crate::meter::Meter;
use crate::rate::Due;
use crate::threshold::Span;
use crate::time_line::TimeLine;

/// After a link broke, the next is tried this much later.
const PAUSE: Duration = Duration::from_millis(200);

/// When one producer's messages are due: every so many-th of the profile's.
pub struct Turns {
    /// Absent: as soon as there is room.
    pub due: Option<Due>,
    /// Which of them is the next.
    pub next: u64,
    pub step: u64,
}

impl Turns {
    /// When the next batch is due, as its last message is. None: never again.
    fn due(&mut self, batch: u64, now: Duration) -> Option<Duration> {
        let last = self.next + self.step * (batch - 1);
        match &mut self.due {
            None => Some(now),
            Some(due) => due.of(last).map(Duration::from_secs_f64),
        }
    }

    fn take(&mut self, batch: u64) {
        self.next += self.step * batch;
    }
}

/// A producer and what it notes its answers in.
pub struct Producer {
    pub index: usize,
    pub drafts: Drafts,
    pub turns: Turns,
    pub window: u64,
    pub batch: u64,
    pub time_line: Arc<TimeLine>,
    pub ledger: Arc<Ledger>,
    pub meter: Arc<Meter>,
    /// Messages without an answer.
    unanswered: u64,
    /// Handed over and not booked yet: how late, how many, and whether they are measured.
    lags: Vec<(Duration, u64, bool)>,
}

impl Producer {
    pub fn new(
        index: usize,
        drafts: Drafts,
        turns: Turns,
        (window, batch): (usize, usize),
        time_line: Arc<TimeLine>,
        ledger: Arc<Ledger>,
        meter: Arc<Meter>,
    ) -> Producer {
        let (window, batch) = (window as u64, batch as u64);
        let (unanswered, lags) = (0, Vec::new());
        Producer { index, drafts, turns, window, batch, time_line, ledger, meter, unanswered, lags }
    }

    /// Sends until time is up, and waits for the answers. `link` is its first; `open` makes another.
    pub async fn run<L: SendLink>(
        mut self,
        mut link: Option<L>,
        open: impl AsyncFn() -> Result<L, Broken>,
    ) {
        loop {
            let broken = match link.take() {
                Some(mut open) => match self.drive(&mut open).await {
                    Ok(()) => return open.close().await,
                    Err(broken) => broken,
                },
                None => match open().await {
                    Ok(opened) => {
                        link = Some(opened);
                        continue;
                    }
                    Err(broken) => broken,
                },
            };
            self.lose(&broken);
            if self.is_over() {
                return self.give_up();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// What was on its way over a link that broke is perhaps stored.
    fn lose(&mut self, broken: &Broken) {
        let unknown = std::mem::take(&mut self.unanswered);
        self.meter.books().error(&broken.0, unknown.max(1));
    }

    fn is_over(&self) -> bool {
        self.time_line.now() >= self.time_line.sending_ends()
    }

    /// Counts what was due and is not sent.
    fn give_up(&mut self) {
        let ends = self.time_line.sending_ends();
        let mut unsent = 0;
        while self.turns.due(self.batch, ends).is_some_and(|due| due < ends) {
            self.turns.take(self.batch);
            unsent += self.batch;
        }
        self.ledger.sent(self.index).unsent += unsent;
    }

    /// Over one link, until it breaks or all is answered.
    async fn drive<L: SendLink>(&mut self, link: &mut L) -> Result<(), Broken> {
        let mut answers = Vec::new();
        loop {
            let (now, ends) = (self.time_line.now(), self.time_line.sending_ends());
            // What was due before the end is sent after it, too: a wait is not made shorter by the test's end.
            let next = self.send(link, now.min(ends)).await;
            self.book_lags();
            let next = next?;
            let is_over = now >= ends && next.is_none_or(|next| next >= ends);
            if is_over && self.unanswered == 0 {
                return Ok(());
            }
            if now >= self.time_line.answers_end() {
                self.meter.books().error("no answer", self.unanswered);
                self.give_up();
                return Ok(());
            }
            let patience = if is_over { self.time_line.answers_end() } else { ends };
            let until = match next {
                Some(next) if next > now => next.min(patience),
                // Something is due, and there is no room: an answer makes some.
                Some(_) | None => patience.max(now + Duration::from_millis(1)),
            };
            link.turn(Some(self.time_line.instant(until)), &mut answers).await?;
            self.note(&mut answers);
        }
    }

    /// Sends what is due by then, as far as there is room. When the next is due.
    async fn send<L: SendLink>(
        &mut self,
        link: &mut L,
        by: Duration,
    ) -> Result<Option<Duration>, Broken> {
        loop {
            let Some(due) = self.turns.due(self.batch, by) else { return Ok(None) };
            let is_due = due <= by && due < self.time_line.sending_ends();
            if !is_due || self.unanswered + self.batch > self.window || !link.has_room() {
                return Ok(Some(due));
            }
            let is_measured = self.time_line.is_measured(due);
            let first = self.drafts.number();
            let fate = self.drafts.fate();
            let drafts = (0..self.batch).map(|_| self.drafts.next(due, is_measured)).collect();
            self.turns.take(self.batch);
            let due_at = self.time_line.instant(due);
            let ticket = Ticket { first, count: self.batch, due: due_at, is_measured, fate };
            // Of unknown outcome until it is answered: a link that breaks says nothing of it.
            self.hand_over(&ticket);
            link.send(drafts, ticket).await?;
        }
    }

    fn hand_over(&mut self, ticket: &Ticket) {
        self.unanswered += ticket.count;
        self.ledger.sent(self.index).handed = ticket.first + ticket.count;
        if self.turns.due.is_some() {
            self.lags.push((ticket.due.elapsed(), ticket.count, ticket.is_measured));
        }
    }

    fn book_lags(&mut self) {
        if self.lags.is_empty() {
            return;
        }
        let mut books = self.meter.books();
        for (lag, count, is_measured) in self.lags.drain(..) {
            books.record_all(Span::Lag, lag, count, is_measured);
        }
    }

    fn note(&mut self, answers: &mut Vec<(Ticket, Outcome)>) {
        if answers.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut sent = self.ledger.sent(self.index);
        let mut books = self.meter.books();
        for (ticket, outcome) in answers.drain(..) {
            let Ticket { first, count, due, is_measured, fate } = ticket;
            self.unanswered = self.unanswered.saturating_sub(count);
            match outcome {
                Outcome::Done => {
                    sent.acknowledged.insert_run(first, count);
                    books.counts.acknowledged += count;
                    let took = now.saturating_duration_since(due);
                    books.record_all(Span::Send, took, count, is_measured);
                }
                Outcome::Withdrawn => {
                    sent.withdrawn(fate).insert_run(first, count);
                }
                Outcome::Refused(why) => {
                    sent.refused.insert_run(first, count);
                    books.error(&why, count);
                }
                // Neither stored nor refused, as far as anybody knows.
                Outcome::Unknown(why) => books.error(&why, count),
            }
        }
    }
}

#[cfg(test)]
mod tests;
