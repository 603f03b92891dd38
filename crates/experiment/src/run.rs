//! One run from its first program to its verdict.

use std::path::PathBuf;
use std::time::Duration;

use chaos::{Happened, carry_out, watch_while};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::Error;
use crate::checks::{Evidence, check};
use crate::feed::{Fed, Feed};
use crate::file::ExperimentFile;
use crate::program::Supervisor;
use crate::recorder::Recorder;
use crate::report::{Known, Report};
use crate::stage::{Stage, Tell};
use crate::timeline::{Diary, RunClock};

/// After the last fault, until every replica is whole.
const WHOLE_WITHIN: Duration = Duration::from_secs(90);
/// Between two looks at whether something is missing still.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A file and where it is run. Its entities are the caller's to create and to remove.
pub struct ExperimentRun<'a> {
    pub file: &'a ExperimentFile,
    pub stage: &'a mut Stage,
    /// Where programs' outputs go; it is there.
    pub logs: PathBuf,
    /// What repeats it.
    pub command: String,
    pub tell: Tell,
    /// Once it holds, input and faults end early, and the verdict is about what was done until then.
    pub stopped: watch::Receiver<bool>,
}

/// What goes on beside faults of nodes. Dropped, programs are killed.
struct Company {
    programs: JoinSet<()>,
    feeds: JoinSet<Fed>,
    /// Input is over; programs are to end.
    over: watch::Sender<bool>,
    end: watch::Sender<bool>,
}

impl ExperimentRun<'_> {
    /// # Errors
    /// The cluster does not do its part, or its record cannot be read. A broken invariant is none.
    pub async fn run(mut self) -> Result<Report, Error> {
        let started = std::time::SystemTime::now();
        let reader = self.stage.client().follow_history().await?;
        let recorder = Recorder::start(reader);
        let now = self.stage.client().now().await?;
        let of_run = (self.file.run, self.file.seed);
        let client = self.stage.client().clone();
        let put = self.stage.rules.put(&client, &self.file.rules, of_run, self.file.lasts).await;
        if let Err(error) = put {
            self.stage.clear().await?;
            return Err(error);
        }
        let clock = RunClock::start(now.now_ms);
        let diary = Diary::new(clock);
        (self.tell)(&format!(
            "programs: {}; input and faults for {:.0} s",
            self.file.programs.len(),
            self.file.lasts.as_secs_f64()
        ));
        let mut company = self.company(clock, &diary);
        let node_faults = self.trouble(clock).await?;
        company.over.send_replace(true);
        let mut fed = Vec::new();
        while let Some(of) = company.feeds.join_next().await {
            fed.extend(of.ok());
        }
        fed.sort_by(|a, b| a.to.cmp(&b.to));
        let rules = self.stage.rules.take(&client).await?;
        let whole = self.heal().await?;
        let healed_ms = clock.now_ms();
        self.settle(clock, &diary, &recorder, healed_ms).await?;
        (self.tell)("ending programs");
        company.end.send_replace(true);
        while company.programs.join_next().await.is_some() {}
        let (lives, gaps) = recorder.finish().await?;
        Ok(Report::new(Known {
            file: self.file,
            command: self.command,
            started,
            nodes: self.stage.cluster.ids().len(),
            interrupted: *self.stopped.borrow(),
            begun_ms: clock.begun_ms(),
            healed_ms,
            now_ms: clock.now_ms(),
            whole,
            lives: &lives,
            gaps,
            moments: diary.so_far(),
            node_faults,
            rules,
            fed,
            logs: self.logs,
        }))
    }

    fn company(&self, clock: RunClock, diary: &Diary) -> Company {
        let (over, end) = (watch::Sender::new(false), watch::Sender::new(false));
        let (mut programs, mut feeds) = (JoinSet::new(), JoinSet::new());
        for (spec, deeds) in self.file.programs.iter().zip(&self.stage.plan.programs) {
            let supervisor = Supervisor {
                spec: spec.clone(),
                env: self.stage.env().clone(),
                log: self.logs.join(format!("{}.log", spec.name)),
                deeds: deeds.clone(),
                begun: clock.begun(),
                diary: diary.clone(),
            };
            programs.spawn(supervisor.run(end.subscribe()));
        }
        for (number, sends) in self.file.sends.iter().enumerate() {
            let feed = Feed {
                sends: sends.clone(),
                client: self.stage.client().clone(),
                number: number as u32,
                run: self.file.run,
                seed: self.file.seed,
                begun: clock.begun(),
            };
            feeds.spawn(feed.run(over.subscribe()));
        }
        Company { programs, feeds, over, end }
    }

    /// Faults of nodes one after the other, each at its time, until the time is over.
    async fn trouble(&mut self, clock: RunClock) -> Result<Vec<Happened>, Error> {
        let begun = Instant::from_std(clock.begun());
        let end = begun + self.file.lasts;
        let chaos_clock = chaos::Clock::start();
        let mut happened = Vec::new();
        let Stage { cluster, plan, .. } = &mut *self.stage;
        for fault in &plan.node_faults {
            let at = begun + Duration::from_millis(fault.at_ms);
            watch_while(cluster, at.min(end), &self.stopped).await?;
            if Instant::now() >= end || *self.stopped.borrow() {
                break; // Those before may have taken longer than planned.
            }
            let mut fault = carry_out(cluster, &chaos_clock, fault, &self.stopped).await?;
            // By the cluster's clock, as everything else is.
            let since = |at_ms: u64| at_ms.saturating_sub(chaos_clock.begun_ms());
            fault.begun_ms = clock.begun_ms() + since(fault.begun_ms);
            fault.ended_ms = clock.begun_ms() + since(fault.ended_ms);
            match &fault.skipped {
                None => (self.tell)(&fault.told),
                Some(why) => (self.tell)(&format!("skipped: {}: {why}", fault.told)),
            }
            happened.push(fault);
        }
        watch_while(cluster, end, &self.stopped).await?;
        Ok(happened)
    }

    /// Whatever is wrong still is put right. Why the cluster is not whole, where it is not.
    async fn heal(&mut self) -> Result<Option<String>, Error> {
        let cluster = &mut self.stage.cluster;
        if !cluster.is_own() {
            return Ok(None);
        }
        (self.tell)("healing");
        cluster.put_right().await?;
        if let Err(told) = cluster.dismiss(WHOLE_WITHIN).await? {
            return Ok(Some(told));
        }
        Ok(cluster.wait_whole(WHOLE_WITHIN).await.err().map(|error| error.to_string()))
    }

    /// Until nothing is missing any more, or its time is over.
    async fn settle(
        &mut self,
        clock: RunClock,
        diary: &Diary,
        recorder: &Recorder,
        healed_ms: u64,
    ) -> Result<(), Error> {
        (self.tell)("waiting for what is open");
        let settled = Instant::now() + self.file.settle;
        while !*self.stopped.borrow() {
            let look = Instant::now() + LOOK_EVERY;
            watch_while(&mut self.stage.cluster, look.max(settled), &self.stopped).await?;
            let (moments, now_ms) = (diary.so_far(), clock.now_ms());
            let lives = recorder.lives();
            let evidence = Evidence { lives: &lives, moments: &moments, healed_ms, now_ms };
            let open =
                self.file.invariants.iter().filter_map(|of| check(of, evidence).open_until_ms);
            // What was recorded last may not have been read.
            if open.max().is_none_or(|until_ms| until_ms < now_ms) {
                break;
            }
        }
        Ok(())
    }
}
