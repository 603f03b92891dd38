//! A run: all links first, then the phases, the drain, the account.

mod crew;
mod sampler;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use workload::Progress;

use crate::file::LoadFile;
use crate::ledger::Account;
use crate::meter::Meter;
use crate::over_amqp::AmqpTarget;
use crate::over_grpc::DEAD_LETTER;
use crate::report::{Figures, GeneratorUse, LoadReport, PhaseSeconds, latencies};
use crate::time_line::TimeLine;
use crate::{Error, plan};
use crew::{Crew, Shared};
use sampler::Sampler;

/// With nothing coming for so long in the drain, what is missing will not come.
const QUIET: Duration = Duration::from_secs(10);
/// With nothing coming for so long before the drain's end, what is missing is taken for lost.
const STILL: Duration = Duration::from_secs(3);
/// An expiry may be applied so much later than it is due.
const EXPIRY_MARGIN: Duration = Duration::from_secs(2);

/// Where messages go.
#[derive(Clone)]
pub enum Target {
    Grpc(Client),
    Amqp(AmqpTarget),
}

impl Target {
    fn protocol(&self) -> &'static str {
        match self {
            Target::Grpc(_) => "gRPC",
            Target::Amqp(_) => "AMQP",
        }
    }
}

/// A file and where it is run.
pub struct LoadRun {
    pub file: LoadFile,
    pub target: Target,
    /// As people call it.
    pub address: String,
    pub progress: Progress,
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

/// What a run is made of while it goes on.
struct Course {
    file: Arc<LoadFile>,
    shared: Shared,
    sampler: Sampler,
    progress: Progress,
    stop: watch::Receiver<bool>,
}

impl LoadRun {
    /// Opens every link, and then loads. Entities are the caller's to create and to remove.
    ///
    /// # Errors
    /// [`Error::Wrong`] if the target is not there, refuses, or does not offer what the file asks for; nothing was
    /// sent then.
    pub async fn run(self) -> Result<LoadResult, Error> {
        let LoadRun { file, target, address, progress, stop } = self;
        let file = Arc::new(file);
        let ledger = Arc::new(plan::ledger(&file));
        let meter = Arc::new(Meter::default());
        let (crew, mut links) = Crew::open(&file, &target, &ledger).await?;
        let epoch_ms = broker_ms(&target).await?;
        let time_line = Arc::new(TimeLine::new(Instant::now(), file.phases));
        let started_at_ms = unix_ms();
        let shared = Shared {
            time_line: time_line.clone(),
            ledger: ledger.clone(),
            meter: meter.clone(),
            epoch_ms,
        };
        let sampler = Sampler::new(&file.phases);
        let mut consumers = crew.consume(&mut links, &shared);
        let mut producers = crew.produce(&mut links, &shared);
        let mut course = Course { file, shared, sampler, progress, stop };
        course.send(&mut producers).await;
        crew.take_dead_letters(&mut consumers, &course.shared);
        let (drained, is_dry) = course.drain().await;
        consumers.shutdown().await;
        let account = ledger.account(is_dry);
        let mut result = course.finish(account, drained);
        let report = &mut result.report;
        report.protocol = target.protocol().to_owned();
        report.target = address;
        report.started_at_ms = started_at_ms;
        Ok(result)
    }
}

/// What the broker's clock shows now, milliseconds since the Unix epoch; over AMQP none is shown, and it is taken for
/// this one.
async fn broker_ms(target: &Target) -> Result<u64, Error> {
    let Target::Grpc(client) = target else { return Ok(unix_ms()) };
    let asked = Instant::now();
    let told = client.now().await.map_err(Error::of_target)?.now_ms;
    Ok(told + asked.elapsed().as_millis() as u64 / 2)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Course {
    /// Until nothing more is sent, and all that was is answered.
    async fn send(&mut self, producers: &mut JoinSet<()>) {
        while !(producers.is_empty() && self.is_sent()) {
            self.sample();
            let tick = tokio::time::sleep(self.sampler.tick());
            let is_stopped = self.shared.time_line.is_stopped();
            tokio::select! {
                // None: consumers alone, until their time is up.
                Some(_) = producers.join_next() => {}
                () = tick => {}
                Ok(_) = self.stop.wait_for(|stop| *stop), if !is_stopped => {
                    self.shared.time_line.stop();
                }
            }
        }
    }

    fn is_sent(&self) -> bool {
        self.shared.time_line.now() >= self.shared.time_line.sending_ends()
    }

    /// Waits for what is missing; how long, and whether nothing more is to be expected.
    async fn drain(&mut self) -> (Duration, bool) {
        let began = self.shared.time_line.now();
        let ends = self.shared.time_line.answers_end().max(began + STILL);
        let quiet = QUIET + plan::longest_wait(&self.file);
        let dead_by =
            self.shared.time_line.sending_ends() + plan::longest_life(&self.file) + EXPIRY_MARGIN;
        let lapses = self.file.consumers.iter().any(|of| of.lapse.0 > 0.0);
        let (mut last, mut came_at) = (0, began);
        loop {
            self.sampler.look(&self.shared.time_line, &self.shared.meter);
            let now = self.shared.time_line.now();
            let counts = self.shared.meter.books().counts;
            let found = counts.deliveries + counts.dead;
            if found != last {
                (last, came_at) = (found, now);
            }
            let (missing, mortal) =
                (self.shared.ledger.missing(false), self.shared.ledger.missing(true));
            let unfinished = self.shared.ledger.unfinished();
            if missing == 0 && unfinished == 0 && (mortal == 0 || now > dead_by) {
                return (now - began, true);
            }
            if now - came_at > quiet && !lapses {
                return (now - began, true);
            }
            if now > ends || (self.shared.time_line.is_stopped() && now - came_at > STILL) {
                return (now - began, now - came_at > STILL);
            }
            let told = format!("{} left", missing + mortal);
            let share = (now - began).as_secs_f64() / (ends - began).as_secs_f64();
            self.progress.tell("drain", share, &told);
            tokio::time::sleep(self.sampler.tick()).await;
        }
    }

    fn sample(&mut self) {
        if let Some((phase, share, figures)) =
            self.sampler.look(&self.shared.time_line, &self.shared.meter)
        {
            self.progress.tell(phase, share, &figures);
        }
    }

    fn finish(self, account: Account, drained: Duration) -> LoadResult {
        let Course { file, shared, sampler, .. } = self;
        let (time_line, meter) = (shared.time_line, shared.meter);
        let phases = file.phases;
        let sampled = sampler.finish(&time_line, &meter);
        let books = meter.books();
        let rates = sampled.rates();
        let figures = Figures {
            latency: &books.measured,
            account: &account,
            counts: &books.counts,
            rates,
            backlog_max: sampled.backlog_max,
        };
        let thresholds: Vec<_> = file.thresholds.iter().map(|of| figures.judge(of)).collect();
        let holds = thresholds.iter().all(|judged| judged.holds);
        let report = LoadReport {
            name: file.name.clone(),
            protocol: String::new(),
            target: String::new(),
            seed: file.seed,
            run: format!("{:08x}", file.run),
            started_at_ms: 0,
            interrupted: time_line.is_stopped(),
            phases: PhaseSeconds {
                warm_up: phases.warm_up.as_secs_f64(),
                measure: sampled.measured.as_secs_f64(),
                cool_down: phases.cool_down.as_secs_f64(),
                drain: drained.as_secs_f64(),
            },
            sent_per_second: rates[0],
            delivered_per_second: rates[1],
            completed_per_second: rates[2],
            latency: latencies(&books.measured, true),
            verdicts: books.verdicts(),
            errors: books.errors.clone(),
            backlog_max: sampled.backlog_max,
            generator: generator(&sampled),
            thresholds,
            series: sampled.series,
            holds,
            account,
        };
        LoadResult { report, interval_log: sampled.interval_log }
    }
}

fn generator(of: &sampler::Sampled) -> GeneratorUse {
    let seconds = of.measured.as_secs_f64().max(0.001);
    let messages = of.to.acknowledged - of.from.acknowledged;
    let messages = messages.max(of.to.delivered - of.from.delivered).max(1);
    let cpu_seconds = of.cpu.as_secs_f64();
    GeneratorUse {
        cpu_seconds,
        us_per_message: cpu_seconds * 1e6 / messages as f64,
        cores_used: cpu_seconds / seconds,
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
    }
}

/// The dead letters of a place.
fn dead_letters(path: &str) -> String {
    format!("{path}{DEAD_LETTER}")
}
