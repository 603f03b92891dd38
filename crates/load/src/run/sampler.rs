//! Figures of each slice of time, and of the time that is measured.

use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use workload::IntervalLog;

use crate::file::Phases;
use crate::meter::{Counts, Meter};
use crate::report::{Point, latencies};
use crate::threshold::Span;
use crate::time_line::TimeLine;

/// Slices are no shorter than one of these, of which a run has no more than about so many.
const SLICE_MIN: Duration = Duration::from_millis(250);
const SLICES: u32 = 240;

/// What all counted at an instant, and the CPU it had cost.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Duration,
    counts: Counts,
    cpu: Duration,
}

/// The two ends of the time that is measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    from: Option<Look>,
    to: Option<Look>,
}

/// What was counted between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured {
    pub lasted: Duration,
    pub acknowledged: u64,
    pub delivered: u64,
    pub completed: u64,
    /// Of the generator.
    pub cpu: Duration,
}

impl Marks {
    /// To be told often: notes the counts once each end is reached.
    pub fn look(&mut self, line: &TimeLine, counts: &Counts) {
        let now = line.now();
        let look = || Look { at: now, counts: *counts, cpu: own_cpu() };
        if self.from.is_none() && now >= line.phases().warm_up {
            self.from = Some(look());
        }
        if self.to.is_none() && now >= line.measure_ends().min(line.sending_ends()) {
            self.to = Some(look());
        }
    }

    /// An end that was not reached is now.
    pub fn finish(self, line: &TimeLine, counts: &Counts) -> Measured {
        let look = Look { at: line.now(), counts: *counts, cpu: own_cpu() };
        let (from, to) = (self.from.unwrap_or(look), self.to.unwrap_or(look));
        Measured {
            lasted: to.at.saturating_sub(from.at),
            acknowledged: to.counts.acknowledged - from.counts.acknowledged,
            delivered: to.counts.delivered - from.counts.delivered,
            completed: to.counts.completed - from.counts.completed,
            cpu: to.cpu.saturating_sub(from.cpu),
        }
    }
}

impl Measured {
    /// Sent, delivered and completed a second.
    pub fn rates(&self) -> [f64; 3] {
        let seconds = self.lasted.as_secs_f64().max(0.001);
        [self.acknowledged, self.delivered, self.completed].map(|count| count as f64 / seconds)
    }
}

/// Takes a slice whenever one is over.
pub(crate) struct Sampler {
    slice: Duration,
    last: (Duration, Counts),
    marks: Marks,
    series: Vec<Point>,
    log: IntervalLog,
    backlog_max: u64,
}

/// Everything taken.
pub(crate) struct Sampled {
    pub series: Vec<Point>,
    pub interval_log: String,
    pub backlog_max: u64,
    pub measured: Measured,
}

impl Sampler {
    /// How often to look.
    pub const TICK: Duration = Duration::from_millis(50);

    pub fn new(phases: &Phases) -> Sampler {
        let slice = (phases.sending() / SLICES).max(SLICE_MIN);
        let last = (Duration::ZERO, Counts::default());
        let log = IntervalLog::new(SystemTime::now());
        Sampler { slice, last, marks: Marks::default(), series: Vec::new(), log, backlog_max: 0 }
    }

    /// Takes what is due to be taken. After a slice: which phase it was of, how far that is, and figures.
    pub fn look(&mut self, line: &TimeLine, meter: &Meter) -> Option<(&'static str, f64, String)> {
        let now = line.now();
        let counts = meter.books().counts;
        self.marks.look(line, &counts);
        self.backlog_max = self.backlog_max.max(backlog(&counts));
        if now - self.last.0 < self.slice {
            return None;
        }
        Some(self.take(now, line, meter))
    }

    fn take(
        &mut self,
        now: Duration,
        line: &TimeLine,
        meter: &Meter,
    ) -> (&'static str, f64, String) {
        let (slice, counts) = {
            let mut books = meter.books();
            (books.take_slice(), books.counts)
        };
        let (since, before) = std::mem::replace(&mut self.last, (now, counts));
        let seconds = (now - since).as_secs_f64();
        let (phase, share) = phase(now, line);
        for span in Span::ALL.into_iter().filter(|span| slice.of(*span).count() > 0) {
            self.log.add(span.name(), since, now - since, slice.of(span));
        }
        let point = Point {
            at_seconds: now.as_secs_f64(),
            seconds,
            phase: phase.to_owned(),
            sent: counts.acknowledged - before.acknowledged,
            delivered: counts.delivered - before.delivered,
            completed: counts.completed - before.completed,
            errors: counts.errors - before.errors,
            backlog: backlog(&counts),
            latency: latencies(&slice, false),
        };
        let rate = |count: u64| count as f64 / seconds.max(0.001);
        let mut figures =
            format!("{:.0} sent/s, {:.0} delivered/s", rate(point.sent), rate(point.delivered));
        if let Some(latency) = point.latency.get("end_to_end") {
            figures += &format!(", p99 {:.1} ms", latency.p99);
        }
        if point.errors > 0 {
            figures += &format!(", {} errors", point.errors);
        }
        self.series.push(point);
        (phase, share, figures)
    }

    pub fn finish(mut self, line: &TimeLine, meter: &Meter) -> Sampled {
        let now = line.now();
        self.take(now, line, meter);
        let measured = self.marks.finish(line, &meter.books().counts);
        Sampled {
            series: self.series,
            interval_log: self.log.into_text(),
            backlog_max: self.backlog_max,
            measured,
        }
    }
}

/// Acknowledged, and neither delivered nor among the dead letters. Of a message that several subscriptions get each
/// delivery counts.
fn backlog(counts: &Counts) -> u64 {
    counts.acknowledged.saturating_sub(counts.delivered + counts.dead)
}

/// Which phase it is, and how much of it is over.
fn phase(now: Duration, line: &TimeLine) -> (&'static str, f64) {
    let phases = line.phases();
    let share = |from: Duration, lasts: Duration| {
        now.saturating_sub(from).as_secs_f64() / lasts.as_secs_f64().max(0.001)
    };
    let (warm_up, measured) = (phases.warm_up, line.measure_ends());
    match now {
        _ if now >= line.sending_ends() => ("drain", share(line.sending_ends(), phases.drain)),
        _ if now < warm_up => ("warm-up", share(Duration::ZERO, warm_up)),
        _ if now < measured => ("measure", share(warm_up, phases.measure)),
        _ => ("cool-down", share(measured, phases.cool_down)),
    }
}

/// CPU of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(us).unwrap_or_default())
}
