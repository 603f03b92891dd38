//! A run: all links first, then the phases, the drain, the account.

mod crew;
mod drain;
mod sampler;
mod stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Error;
use crate::file::LoadFile;
use crate::glance::{Glance, Watcher};
use crate::ledger::Account;
use crate::meter::Meter;
use crate::place::DEAD_LETTER;
use crate::plan::Part;
use crate::report::{Figures, GeneratorUse, LoadReport, PhaseSeconds, WorkerReport, latencies};
use crate::target::TargetAddress;
use crate::time_line::TimeLine;
pub(crate) use drain::{Drain, Missing};
pub(crate) use sampler::{CpuUse, Marks, Measured, Sampler, own_cpu};
pub(crate) use stage::{Ready, UnderWay, unix_ms};

/// A file and where it is run.
pub struct LoadRun {
    pub file: LoadFile,
    pub target: TargetAddress,
    pub watcher: Watcher,
    /// Ends sending before its time.
    pub stop: watch::Receiver<bool>,
}

/// What a run leaves.
#[derive(Clone, Debug)]
pub struct LoadResult {
    pub report: LoadReport,
    /// Every slice's histograms, as HdrHistogram's tools read them.
    pub interval_log: String,
}

impl LoadRun {
    /// Opens every link, and then loads. Entities are the caller's to create and to remove.
    ///
    /// # Errors
    /// [`Error::Wrong`] if the target is not there, refuses, or does not offer what the file asks for; nothing was
    /// sent then.
    pub async fn run(self) -> Result<LoadResult, Error> {
        let LoadRun { file, target, watcher, stop } = self;
        let file = Arc::new(file);
        let ready = Ready::open(&file, &target.open()?, Part::WHOLE).await?;
        let mut under_way = ready.begin(Instant::now());
        let (line, meter) = (under_way.shared.time_line.clone(), under_way.shared.meter.clone());
        let mut course = Course::begin(file, target, line, meter, watcher, stop);
        course.send(&mut under_way.producers).await;
        under_way.take_dead_letters();
        let ledger = under_way.shared.ledger.clone();
        let mut drain = Drain::begin(&course.file, &course.line);
        let is_dry = loop {
            let missing = Missing::of(&ledger);
            let books = course.meter.books().counts;
            let found = books.deliveries + books.dead;
            if let Some(is_dry) = drain.judge(&course.line, found, &missing) {
                break is_dry;
            }
            course.sample(Some(&missing));
            tokio::time::sleep(Sampler::TICK).await;
        };
        let drained = drain.lasted(&course.line);
        under_way.consumers.shutdown().await;
        Ok(course.finish(ledger.account(is_dry), drained, None))
    }
}

/// A run while it goes on, as its report will have it: who does the work, tasks here or workers elsewhere, books it in
/// the meter.
pub(crate) struct Course {
    pub file: Arc<LoadFile>,
    pub line: Arc<TimeLine>,
    pub meter: Arc<Meter>,
    pub stop: watch::Receiver<bool>,
    target: TargetAddress,
    sampler: Sampler,
    watcher: Watcher,
    /// Of the generators, where they are others.
    pub elsewhere: Option<CpuUse>,
    started_at_ms: u64,
}

/// What workers found, each by itself.
pub(crate) struct OfWorkers {
    pub measured: Measured,
    pub workers: Vec<WorkerReport>,
}

impl Course {
    pub fn begin(
        file: Arc<LoadFile>,
        target: TargetAddress,
        line: Arc<TimeLine>,
        meter: Arc<Meter>,
        watcher: Watcher,
        stop: watch::Receiver<bool>,
    ) -> Course {
        let sampler = Sampler::new(&file.phases);
        Course {
            file,
            line,
            meter,
            stop,
            target,
            sampler,
            watcher,
            elsewhere: None,
            started_at_ms: unix_ms(),
        }
    }

    /// Until nothing more is sent, and all that was is answered.
    async fn send(&mut self, producers: &mut JoinSet<()>) {
        while !(producers.is_empty() && self.is_sent()) {
            self.sample(None);
            let is_stopped = self.line.is_stopped();
            tokio::select! {
                // None: consumers alone, until their time is up.
                Some(_) = producers.join_next() => {}
                () = tokio::time::sleep(Sampler::TICK) => {}
                Ok(_) = self.stop.wait_for(|stop| *stop), if !is_stopped => self.line.stop(),
            }
        }
    }

    pub fn is_sent(&self) -> bool {
        self.line.now() >= self.line.sending_ends()
    }

    /// Takes what is due to be taken, and tells of it. In the drain: what is missing.
    pub fn sample(&mut self, missing: Option<&Missing>) {
        let used = self.elsewhere.unwrap_or_else(CpuUse::own);
        if let Some(glance) = self.sampler.look(&self.line, &self.meter, used) {
            let missing = missing.map(|of| of.immortal + of.mortal);
            (self.watcher)(&Glance { missing, ..glance });
        }
    }

    /// `of_workers`: what was measured where the work was done; without it, it was here.
    pub fn finish(
        self,
        account: Account,
        drained: Duration,
        of_workers: Option<OfWorkers>,
    ) -> LoadResult {
        let Course { file, line, meter, stop, target, sampler, started_at_ms, .. } = self;
        let sampled = sampler.finish(&line, &meter);
        let (measured, workers) = match of_workers {
            None => (sampled.measured, Vec::new()),
            Some(OfWorkers { measured, workers }) => (measured, workers),
        };
        let (phases, books) = (file.phases, meter.books());
        let (rates, backlog_max) = (measured.rates(), sampled.backlog_max);
        let recorded = books.measured();
        let figures = Figures {
            latency: &recorded,
            account: &account,
            counts: &books.counts,
            rates,
            backlog_max,
        };
        let thresholds: Vec<_> = file.thresholds.iter().map(|of| figures.judge(of)).collect();
        let is_whole = workers.iter().all(|of| of.lost.is_none());
        let holds = is_whole && thresholds.iter().all(|judged| judged.holds);
        let report = LoadReport {
            name: file.name.clone(),
            protocol: target.protocol().to_owned(),
            target: target.name(),
            seed: file.seed,
            run: format!("{:08x}", file.source.run),
            started_at_ms,
            interrupted: *stop.borrow(),
            phases: PhaseSeconds {
                warm_up: phases.warm_up.as_secs_f64(),
                measure: measured.lasted.as_secs_f64(),
                cool_down: phases.cool_down.as_secs_f64(),
                drain: drained.as_secs_f64(),
            },
            sent_per_second: rates[0],
            delivered_per_second: rates[1],
            completed_per_second: rates[2],
            latency: latencies(&recorded, true),
            verdicts: books.verdicts(),
            errors: books.errors.clone(),
            backlog_max,
            generator: generator(&measured, &workers),
            workers,
            thresholds,
            series: sampled.series,
            holds,
            account,
        };
        LoadResult { report, interval_log: sampled.interval_log }
    }
}

fn generator(of: &Measured, workers: &[WorkerReport]) -> GeneratorUse {
    let seconds = of.lasted.as_secs_f64().max(0.001);
    let messages = of.acknowledged.max(of.delivered).max(1);
    let cpu_seconds = of.cpu.as_secs_f64();
    let own = || std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    GeneratorUse {
        cpu_seconds,
        us_per_message: cpu_seconds * 1e6 / messages as f64,
        cores_used: cpu_seconds / seconds,
        cores: if workers.is_empty() { own() } else { workers.iter().map(|of| of.cores).sum() },
    }
}

/// The dead letters of a place.
fn dead_letters(path: &str) -> String {
    format!("{path}{DEAD_LETTER}")
}
