//! A run by several workers: opened together, begun at one instant, and ended together, whatever becomes of one of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remote::Places;
use tokio::sync::watch;

use super::clock::ClockDifference;
use super::fleet::{Fleet, Member, Told};
use super::{VERSION, attachment, sample};
use crate::api::worker_event::Event;
use crate::api::worker_request::Request as Asked;
use crate::api::{Begin, Clock, Finish, Open, ReadClock, Stop, TakeDeadLetters, TellLedger};
use crate::file::LoadFile;
use crate::ledger::{Ledger, Merged};
use crate::meter::Meter;
use crate::report::WorkerReport;
use crate::run::{
    Course, CpuUse, Drain, LoadResult, LoadRun, Measured, Missing, OfWorkers, Sampler,
};
use crate::time_line::TimeLine;
use crate::{Error, plan};

/// Questions for the clock of one worker: the shortest way of so many counts.
const CLOCK_READINGS: u64 = 24;
/// From the word until the beginning: by then everybody has heard it.
const LEAD: Duration = Duration::from_millis(500);
/// Links of large loads take a while to open.
const OPEN_WITHIN: Duration = Duration::from_secs(120);
/// To one question. A worker that is gone is noticed before.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// With nothing counted for so long, what is missing is looked for.
const STILL: Duration = Duration::from_millis(500);

/// A run and who does it.
pub struct WorkersRun {
    pub run: LoadRun,
    pub workers: Places,
    /// Told of a worker that is lost, at once.
    pub notice: Notice,
}

/// Tells a person of something in one sentence.
pub type Notice = Box<dyn Fn(&str) + Send>;

impl WorkersRun {
    /// As [`LoadRun::run`], by workers.
    ///
    /// # Errors
    /// [`Error::Wrong`] if a worker is not there, busy, of another version or started with another secret, or the target
    /// cannot be reached from it; nothing was sent then.
    pub async fn run(self) -> Result<LoadResult, Error> {
        let WorkersRun { run, workers, notice } = self;
        let LoadRun { file, target, watcher, stop } = run;
        let file = Arc::new(file);
        let mut fleet = Fleet::connect(&workers).await?;
        open(&mut fleet, &file, &(&target).into()).await?;
        for worker in 0..fleet.members.len() {
            fleet.members[worker].clock = compare_clocks(&mut fleet, worker).await?;
        }
        let epoch = Instant::now() + LEAD;
        for member in &fleet.members {
            member.ask(Asked::Begin(Begin { epoch_ns: member.clock.theirs(epoch) })).await;
        }
        let line = Arc::new(TimeLine::new(epoch, file.phases));
        let meter = Arc::new(Meter::default());
        let course = Course::begin(file.clone(), target, line, meter, watcher, stop);
        let mut coordinator =
            Coordinator { fleet, course, notice, merging: None, clock: None, changed_at: epoch };
        coordinator.send().await;
        let (ledger, is_dry, drained) = coordinator.drain().await;
        coordinator.finish(&ledger, is_dry, drained).await
    }
}

/// Has every worker read the file and open its links.
async fn open(
    fleet: &mut Fleet,
    file: &LoadFile,
    target: &crate::api::Target,
) -> Result<(), Error> {
    let count = fleet.members.len();
    for (index, member) in (0..).zip(&fleet.members) {
        for part in attachment::parts(&file.attachments) {
            member.ask(Asked::Attachment(part)).await;
        }
        let source = &file.source;
        let open = Open {
            version: VERSION.to_owned(),
            file_name: source.name.clone(),
            file: source.text.clone(),
            run: source.run,
            seconds: source.seconds,
            index,
            count: count as u32,
            target: Some(target.clone()),
        };
        member.ask(Asked::Open(open)).await;
    }
    let mut opened = 0;
    while opened < count {
        let Told { worker, what, .. } = within(OPEN_WITHIN, fleet).await?;
        let member = &mut fleet.members[worker];
        match what {
            Ok(Event::Opened(told)) => {
                member.cores = told.cores;
                opened += 1;
            }
            Ok(_) => {}
            Err(lost) => return Err(Error::Wrong(format!("{member}: {lost}"))),
        }
    }
    Ok(())
}

/// What is told next, if anything is in time.
async fn within(patience: Duration, fleet: &mut Fleet) -> Result<Told, Error> {
    let told = tokio::time::timeout(patience, fleet.next()).await;
    told.map_err(|_| {
        let addresses: Vec<&str> = fleet.members.iter().map(|of| of.address.as_str()).collect();
        let (workers, seconds) = (addresses.join(", "), patience.as_secs());
        Error::Wrong(format!("one of the workers {workers} does not answer within {seconds} s"))
    })
}

/// How one worker's clock differs.
async fn compare_clocks(fleet: &mut Fleet, worker: usize) -> Result<ClockDifference, Error> {
    let mut best: Option<ClockDifference> = None;
    for number in 0..CLOCK_READINGS {
        let asked = Instant::now();
        fleet.members[worker].ask(Asked::ReadClock(ReadClock { number })).await;
        loop {
            let told = within(ANSWER_WITHIN, fleet).await?;
            match told.what {
                Ok(Event::Clock(clock)) if told.worker == worker && clock.number == number => {
                    let found = ClockDifference::of(asked, told.at, &clock);
                    best = Some(best.map_or(found, |best| best.or(found)));
                    break;
                }
                Ok(_) => {}
                Err(lost) => {
                    let member = &fleet.members[told.worker];
                    return Err(Error::Wrong(format!("{member}: {lost}")));
                }
            }
        }
    }
    Ok(best.unwrap_or_default())
}

struct Coordinator {
    fleet: Fleet,
    course: Course,
    notice: Notice,
    /// The ledger that is told at present, and by whom.
    merging: Option<(usize, Merged)>,
    /// A clock that was told: whose, and when.
    clock: Option<(usize, Instant, Clock)>,
    /// When anything was counted last.
    changed_at: Instant,
}

impl Coordinator {
    /// Until nobody sends any more, and all that was sent is answered.
    async fn send(&mut self) {
        loop {
            let are_sent = self.there().all(|member| member.is_sent);
            if are_sent && self.course.is_sent() {
                return;
            }
            self.sample(None);
            self.step().await;
        }
    }

    fn sample(&mut self, missing: Option<&Missing>) {
        let mut used = CpuUse::default();
        for member in &self.fleet.members {
            used.cpu += Duration::from_micros(member.sample.cpu_us);
            used.cores += member.cores;
        }
        self.course.elsewhere = Some(used);
        self.course.sample(missing);
    }

    fn there(&self) -> impl Iterator<Item = &Member> {
        self.fleet.members.iter().filter(|member| member.is_there())
    }

    /// Waits a little, for what is told and for the word to stop.
    async fn step(&mut self) {
        let is_stopped = self.course.line.is_stopped();
        tokio::select! {
            told = self.fleet.next() => self.note(told).await,
            () = tokio::time::sleep(Sampler::TICK) => {}
            Ok(_) = wait_for(&mut self.course.stop), if !is_stopped => self.stop().await,
        }
    }

    /// Ends sending everywhere.
    async fn stop(&mut self) {
        if self.course.line.is_stopped() {
            return;
        }
        self.course.line.stop();
        let at_ns = self.course.line.now().as_nanos() as u64;
        self.fleet.ask_all(&Asked::Stop(Stop { at_ns })).await;
    }

    async fn note(&mut self, told: Told) {
        let member = &mut self.fleet.members[told.worker];
        match told.what {
            Ok(Event::Sample(next)) => {
                if is_news(&member.sample, &next) {
                    self.changed_at = told.at;
                }
                sample::book(&mut self.course.meter.books(), &member.sample, &next);
                member.sample = next;
            }
            Ok(Event::Sent(_)) => member.is_sent = true,
            Ok(Event::Finished(finished)) => member.finished = Some(finished),
            Ok(Event::Ledger(part)) => {
                let is_last = part.is_last;
                let Some((of, merged)) = &mut self.merging else { return };
                if *of != told.worker {
                    return;
                }
                match merged.take(part) {
                    Ok(()) if is_last => *of = usize::MAX,
                    Ok(()) => {}
                    Err(wrong) => self.lose(told.worker, wrong.to_owned()).await,
                }
            }
            Ok(Event::Clock(clock)) => self.clock = Some((told.worker, told.at, clock)),
            Ok(Event::Opened(_)) => {}
            // Its end is its last word.
            Err(_) if member.finished.is_some() => {}
            Err(lost) => self.lose(told.worker, lost).await,
        }
    }

    /// Goes on without a worker, to an early end.
    async fn lose(&mut self, worker: usize, why: String) {
        let member = &mut self.fleet.members[worker];
        if !member.is_there() {
            return;
        }
        (self.notice)(&format!("{member} is lost ({why}); the others end the run"));
        member.lost = Some(why);
        self.stop().await;
    }

    /// Waits for what is missing: what all know together, whether nothing more is to be expected, and how long it took.
    async fn drain(&mut self) -> (Ledger, bool, Duration) {
        self.fleet.ask_all(&Asked::TakeDeadLetters(TakeDeadLetters {})).await;
        let line = self.course.line.clone();
        let mut drain = Drain::begin(&self.course.file, &line);
        // Everything, as far as anybody knows yet.
        let mut missing = Missing { immortal: 1, mortal: 0, unfinished: 1 };
        let (mut ledger, mut looked_at) = (plan::ledger(&self.course.file), None);
        loop {
            let counts = self.course.meter.books().counts;
            let is_still = self.changed_at.elapsed() > STILL;
            if is_still && looked_at.is_none_or(|looked_at| looked_at < self.changed_at) {
                let changed_at = self.changed_at;
                ledger = self.tell_ledger().await;
                missing = Missing::of(&ledger);
                looked_at = Some(changed_at);
            }
            if let Some(is_dry) = drain.judge(&line, counts.deliveries + counts.dead, &missing) {
                if looked_at != Some(self.changed_at) {
                    ledger = self.tell_ledger().await;
                }
                let are_all_there = self.fleet.members.iter().all(Member::is_there);
                return (ledger, is_dry && are_all_there, drain.lasted(&line));
            }
            self.sample(Some(&missing));
            self.step().await;
        }
    }

    /// What all know together.
    async fn tell_ledger(&mut self) -> Ledger {
        let mut merged = Merged::new(plan::ledger(&self.course.file));
        for worker in 0..self.fleet.members.len() {
            if !self.fleet.members[worker].is_there() {
                continue;
            }
            self.merging = Some((worker, merged));
            self.fleet.members[worker].ask(Asked::TellLedger(TellLedger {})).await;
            let is_told = |it: &Coordinator| {
                !it.fleet.members[worker].is_there()
                    || it.merging.as_ref().is_none_or(|(of, _)| *of == usize::MAX)
            };
            self.await_answer(worker, is_told).await;
            let (_, told) =
                self.merging.take().expect("it was put there, and nobody else takes it");
            merged = told;
        }
        merged.into_ledger()
    }

    /// Goes on until a worker has answered; one that does not is lost.
    async fn await_answer(&mut self, worker: usize, is_answered: impl Fn(&Coordinator) -> bool) {
        let asked = Instant::now();
        while !is_answered(self) {
            if asked.elapsed() > ANSWER_WITHIN {
                let told = format!("it does not answer within {} s", ANSWER_WITHIN.as_secs());
                return self.lose(worker, told).await;
            }
            self.sample(None);
            self.step().await;
        }
    }

    /// As [`compare_clocks`], after the run.
    async fn compare_again(&mut self, worker: usize) {
        for number in 0..CLOCK_READINGS {
            let asked = Instant::now();
            self.fleet.members[worker].ask(Asked::ReadClock(ReadClock { number })).await;
            let is_told = |it: &Coordinator| {
                let told = it.clock.as_ref();
                let is_it =
                    told.is_some_and(|(of, _, clock)| (*of, clock.number) == (worker, number));
                is_it || !it.fleet.members[worker].is_there()
            };
            self.await_answer(worker, is_told).await;
            let member = &mut self.fleet.members[worker];
            let Some((_, at, clock)) = self.clock.take() else { return };
            let found = ClockDifference::of(asked, at, &clock);
            member.clock_after = Some(member.clock_after.map_or(found, |best| best.or(found)));
        }
    }

    async fn finish(
        mut self,
        ledger: &Ledger,
        is_dry: bool,
        drained: Duration,
    ) -> Result<LoadResult, Error> {
        for worker in 0..self.fleet.members.len() {
            if !self.fleet.members[worker].is_there() {
                continue;
            }
            self.compare_again(worker).await;
        }
        self.fleet.ask_all(&Asked::Finish(Finish {})).await;
        for worker in 0..self.fleet.members.len() {
            let is_over = |it: &Coordinator| {
                let member = &it.fleet.members[worker];
                member.finished.is_some() || !member.is_there()
            };
            self.await_answer(worker, is_over).await;
        }
        let mut measured = Measured::default();
        for finished in self.fleet.members.iter().filter_map(|member| member.finished.as_ref()) {
            measured.lasted = measured.lasted.max(Duration::from_micros(finished.measured_us));
            measured.acknowledged += finished.acknowledged;
            measured.delivered += finished.delivered;
            measured.completed += finished.completed;
            measured.cpu += Duration::from_micros(finished.cpu_us);
            let recorded = sample::recorders(&finished.measured);
            self.course.meter.books().add_measured(&recorded);
        }
        let workers = self.fleet.members.iter().map(report).collect();
        let of_workers = OfWorkers { measured, workers };
        Ok(self.course.finish(ledger.account(is_dry), drained, Some(of_workers)))
    }
}

async fn wait_for(stop: &mut watch::Receiver<bool>) -> Result<(), watch::error::RecvError> {
    stop.wait_for(|stop| *stop).await.map(drop)
}

/// Whether more was counted than CPU.
fn is_news(last: &crate::api::Sample, next: &crate::api::Sample) -> bool {
    (last.acknowledged, last.deliveries, last.dead, &last.verdicts, &last.errors)
        != (next.acknowledged, next.deliveries, next.dead, &next.verdicts, &next.errors)
}

fn report(member: &Member) -> WorkerReport {
    let finished = member.finished.clone().unwrap_or_default();
    let cpu_seconds = finished.cpu_us as f64 / 1e6;
    let drift = member.clock_after.map(|after| after.ahead_ns - member.clock.ahead_ns);
    WorkerReport {
        address: member.address.clone(),
        cores: member.cores,
        cores_used: cpu_seconds / (finished.measured_us as f64 / 1e6).max(0.001),
        cpu_seconds,
        sent: member.sample.acknowledged,
        delivered: member.sample.delivered,
        wall_clock_ahead_ms: member.clock.wall_ahead_us as f64 / 1e3,
        clock_error_ms: member.clock.error_ns as f64 / 1e6,
        clock_drift_ms: drift.map(|ns| ns as f64 / 1e6),
        lost: member.lost.clone(),
    }
}
