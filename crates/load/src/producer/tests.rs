//! Producers over a link in memory, whose broker can stall.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use workload::Noise;

use super::*;
use crate::file::{LoadFile, Pacing, Phases};
use crate::link::Draft;

/// A broker that answers at once, but for a while in which it answers nothing.
struct Stalling {
    stalls: std::ops::Range<Instant>,
    waiting: VecDeque<Ticket>,
    breaks_after: Option<usize>,
}

impl SendLink for Stalling {
    fn has_room(&mut self) -> bool {
        true
    }

    async fn send(&mut self, drafts: Vec<Draft>, ticket: Ticket) -> Result<(), Broken> {
        assert_eq!(drafts.len() as u64, ticket.count);
        self.waiting.push_back(ticket);
        Ok(())
    }

    async fn turn(
        &mut self,
        until: Option<Instant>,
        answers: &mut Vec<(Ticket, Outcome)>,
    ) -> Result<(), Broken> {
        let until = until.expect("producers always know when to look again");
        if self.waiting.is_empty() {
            tokio::time::sleep_until(until.into()).await;
            return Ok(());
        }
        if self.stalls.contains(&Instant::now()) {
            tokio::time::sleep_until(until.min(self.stalls.end).into()).await;
            return Ok(());
        }
        if let Some(left) = &mut self.breaks_after {
            *left = left.checked_sub(1).ok_or_else(|| Broken("it broke".to_owned()))?;
        }
        answers.extend(self.waiting.drain(..).map(|ticket| (ticket, Outcome::Done)));
        Ok(())
    }

    async fn close(self) {}
}

struct Bench {
    ledger: Arc<Ledger>,
    meter: Arc<Meter>,
}

/// A producer of so many ms, with what a file says of it.
async fn run(more: &str, ms: u64, stalls: std::ops::Range<u64>, breaks: Option<usize>) -> Bench {
    let text = format!("[[producers]]\nto = \"q\"\n{more}");
    let file = LoadFile::parse(&text, "f", 5, None).expect(&text);
    let spec = file.producers[0].clone();
    let of = Duration::from_millis;
    let phases = Phases { warm_up: of(0), measure: of(ms), cool_down: of(0), drain: of(2000) };
    let time_line = Arc::new(TimeLine::new(Instant::now(), phases));
    let ledger = Arc::new(Ledger::new(5, vec![false], Vec::new()));
    let meter = Arc::new(Meter::default());
    let due = match &spec.pacing {
        Pacing::Closed => None,
        Pacing::Open(rate) => Some(rate.clone().due()),
    };
    let turns = Turns { due, next: 0, step: 1 };
    let limits = (spec.window, spec.unit());
    let drafts = Drafts::new(spec, Noise::new(64), 1, 5, 0, 0);
    let stalls = time_line.instant(of(stalls.start))..time_line.instant(of(stalls.end));
    let open =
        |breaks_after| Stalling { stalls: stalls.clone(), waiting: VecDeque::new(), breaks_after };
    let (line, books) = (ledger.clone(), meter.clone());
    let producer = Producer::new(0, drafts, turns, limits, time_line, line, books);
    let opened = AtomicUsize::new(0);
    let again = async || {
        opened.fetch_add(1, Ordering::Relaxed);
        Ok(open(None))
    };
    producer.run(Some(open(breaks)), again).await;
    assert_eq!(opened.into_inner(), usize::from(breaks.is_some()));
    Bench { ledger, meter }
}

/// With one message under way, a broker that stalls for 400 of 1,000 ms keeps all others waiting that were due
/// meanwhile. They were, and so it is told: two fifths waited, half of them longer than 200 ms.
#[tokio::test]
async fn a_stall_is_felt_by_everyone_who_was_due_in_it() {
    let bench = run("rate = 200\nwindow = 1", 1000, 300..700, None).await;
    let books = bench.meter.books();
    let measured = books.measured();
    let send = measured.of(Span::Send);
    assert_eq!(send.count(), 200);
    let slow = |ms| send.count_above(Duration::from_millis(ms));
    // Where other tests take the machine's time, more of them do.
    assert!(slow(20) >= 70, "{} of 200 waited", slow(20));
    assert!(slow(200) >= 35, "{} of 200 waited longer than 200 ms", slow(200));
    assert!(send.max() > 380.0, "{}", send.max());
    let lag = measured.of(Span::Lag);
    assert!(lag.max() > 380.0, "they were not handed over meanwhile: {}", lag.max());
}

/// In a closed loop nobody is due meanwhile: one message waited.
#[tokio::test]
async fn without_a_rate_a_stall_is_felt_by_what_was_under_way() {
    let bench = run("window = 1\nbatch = 1", 3000, 1000..2000, None).await;
    let send = bench.meter.books().measured().of(Span::Send).clone();
    let slow = send.count_above(Duration::from_millis(400));
    assert!((1..=4).contains(&slow) && send.count() > 20, "{slow} of {}", send.count());
}

/// What was due before the end is sent although the stall goes beyond it, and what cannot be is told.
#[tokio::test]
async fn what_was_due_is_sent_or_told() {
    let bench = run("rate = 100\nwindow = 4", 500, 200..800, None).await;
    let account = bench.ledger.account(true);
    assert_eq!((account.sent, account.acknowledged, account.unsent), (50, 50, 0));
    let bench = run("rate = 100\nwindow = 4", 500, 200..9000, None).await;
    let account = bench.ledger.account(true);
    assert_eq!(account.sent + account.unsent, 50);
    assert!(account.unsent > 20, "{account:?}");
    assert_eq!(account.unknown, 4);
    assert_eq!(bench.meter.books().errors["no answer"], 4);
}

#[tokio::test]
async fn a_broken_link_leaves_what_was_under_way_in_doubt() {
    let bench = run("rate = 100\nwindow = 10\nbatch = 5", 600, 0..0, Some(1)).await;
    let account = bench.ledger.account(true);
    assert_eq!((account.sent, account.unknown + account.acknowledged), (60, 60));
    assert!((5..=10).contains(&account.unknown), "{account:?}");
    assert_eq!(bench.meter.books().errors["it broke"], account.unknown);
}
