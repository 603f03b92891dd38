//! Figures of each slice of time, and of the time that is measured.

use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use workload::IntervalLog;

use crate::file::Phases;
use crate::glance::Glance;
use crate::meter::{Counts, Meter, Recorders};
use crate::report::{GeneratorUse, Point, latencies};
use crate::threshold::Span;
use crate::time_line::TimeLine;

/// Slices are no shorter than one of these, of which a run has no more than about so many.
const SLICE_MIN: Duration = Duration::from_millis(250);
const SLICES: u32 = 240;
/// For whoever watches.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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

/// What a generator used until now, of how many cores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CpuUse {
    pub cpu: Duration,
    pub cores: u32,
}

impl CpuUse {
    /// Of this process.
    pub fn own() -> CpuUse {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        CpuUse { cpu: own_cpu(), cores }
    }
}

/// Takes a slice whenever one is over, and a look for whoever watches more often than that.
pub(crate) struct Sampler {
    slice: Duration,
    last: (Duration, Counts),
    /// Recorded since.
    recorded: Recorders,
    /// When was looked last, and what was counted and used then.
    looked: (Duration, Counts, Duration),
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
        Sampler {
            slice,
            last: (Duration::ZERO, Counts::default()),
            recorded: Recorders::default(),
            looked: (Duration::ZERO, Counts::default(), own_cpu()),
            marks: Marks::default(),
            series: Vec::new(),
            log: IntervalLog::new(SystemTime::now()),
            backlog_max: 0,
        }
    }

    /// Takes what is due to be taken; a look, where one is due.
    pub fn look(&mut self, line: &TimeLine, meter: &Meter, used: CpuUse) -> Option<Glance> {
        let now = line.now();
        let counts = meter.books().counts;
        self.marks.look(line, &counts);
        self.backlog_max = self.backlog_max.max(backlog(&counts));
        if now.saturating_sub(self.looked.0) < LOOK_EVERY.min(self.slice) {
            return None;
        }
        let (recorded, errors) = {
            let mut books = meter.books();
            (books.take_slice(), books.errors.clone())
        };
        self.recorded.merge(&recorded);
        let (since, before, cpu) = std::mem::replace(&mut self.looked, (now, counts, used.cpu));
        if now - self.last.0 >= self.slice {
            self.take(now, counts, line);
        }
        let seconds = (now - since).as_secs_f64().max(0.001);
        let rate = |count: u64| count as f64 / seconds;
        let (phase, share, left) = phase(now, line);
        let cpu_seconds = used.cpu.saturating_sub(cpu).as_secs_f64();
        Some(Glance {
            phase,
            share,
            left,
            at: now,
            sent: rate(counts.acknowledged - before.acknowledged),
            delivered: rate(counts.delivered - before.delivered),
            completed: rate(counts.completed - before.completed),
            latency: latencies(&recorded, false),
            backlog: backlog(&counts),
            missing: None,
            errors,
            generator: GeneratorUse {
                cpu_seconds,
                us_per_message: 0.0,
                cores_used: cpu_seconds / seconds,
                cores: used.cores,
            },
        })
    }

    /// A slice of what was recorded since the last.
    fn take(&mut self, now: Duration, counts: Counts, line: &TimeLine) {
        let slice = std::mem::take(&mut self.recorded);
        let (since, before) = std::mem::replace(&mut self.last, (now, counts));
        let (phase, ..) = phase(now, line);
        for span in Span::ALL.into_iter().filter(|span| slice.of(*span).count() > 0) {
            self.log.add(span.name(), since, now - since, slice.of(span));
        }
        self.series.push(Point {
            at_seconds: now.as_secs_f64(),
            seconds: (now - since).as_secs_f64(),
            phase: phase.to_owned(),
            sent: counts.acknowledged - before.acknowledged,
            delivered: counts.delivered - before.delivered,
            completed: counts.completed - before.completed,
            errors: counts.errors - before.errors,
            backlog: backlog(&counts),
            latency: latencies(&slice, false),
        });
    }

    pub fn finish(mut self, line: &TimeLine, meter: &Meter) -> Sampled {
        let (counts, recorded) = {
            let mut books = meter.books();
            (books.counts, books.take_slice())
        };
        self.recorded.merge(&recorded);
        self.take(line.now(), counts, line);
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

/// Which phase it is, how much of it is over, and how long it still is at most.
fn phase(now: Duration, line: &TimeLine) -> (&'static str, f64, Duration) {
    let phases = line.phases();
    let (warm_up, measured, sent) = (phases.warm_up, line.measure_ends(), line.sending_ends());
    let (name, from, lasts) = match now {
        _ if now >= sent => ("drain", sent, phases.drain),
        _ if now < warm_up => ("warm-up", Duration::ZERO, warm_up),
        _ if now < measured => ("measure", warm_up, phases.measure),
        _ => ("cool-down", measured, phases.cool_down),
    };
    let share = now.saturating_sub(from).as_secs_f64() / lasts.as_secs_f64().max(0.001);
    (name, share.min(1.0), (from + lasts).saturating_sub(now))
}

/// CPU of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(us).unwrap_or_default())
}
