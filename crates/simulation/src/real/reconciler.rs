//! What a service does for its node's replica, over and over: runs it where it shall be, tells it who
//! else shall, and forgets it once the group goes on without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use replication::{Error, Replication};
use store::{DataDir, Incarnation, LogDisk};

use super::disk::log::ModelLog;
use super::plan::{KnownPlan, Plan};
use super::{GROUP, Planted};

const LOOK_EVERY: Duration = Duration::from_millis(250);

pub struct Reconciler {
    pub replication: Replication,
    pub data: DataDir,
    pub log: ModelLog,
    pub plan: KnownPlan,
    pub bug: Option<Planted>,
    /// The replica runs.
    pub runs: Arc<AtomicBool>,
}

impl Reconciler {
    /// Until something fails.
    pub async fn run(self) -> Error {
        let Err(error) = self.look_on().await;
        error
    }

    async fn look_on(&self) -> Result<std::convert::Infallible, Error> {
        self.replication.take_part().await?;
        loop {
            if let Some(plan) = self.plan.get() {
                self.look(&plan).await?;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn look(&self, plan: &Plan) -> Result<(), Error> {
        let Reconciler { replication, .. } = self;
        let stays = plan.replicas.contains(&replication.node());
        if !self.runs.load(Ordering::Relaxed) {
            // One that is not wanted may have a vote still.
            if !stays && !replication.held().contains(&GROUP) {
                return Ok(());
            }
            self.start(plan).await?;
        }
        replication.want(GROUP, plan.wanted());
        let out = replication.is_out(GROUP) || self.bug == Some(Planted::LeavesUnasked);
        if !stays && out {
            replication.drop_group(GROUP).await?;
            self.runs.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn start(&self, plan: &Plan) -> Result<(), Error> {
        let incarnation = match self.log.incarnation(GROUP) {
            Some(Incarnation::Runs(incarnation)) => incarnation,
            Some(Incarnation::Over) | None => self.data.incarnation(),
        };
        self.log.speaks_as(self.replication.node() | u64::from(incarnation) << 16);
        match plan.moves {
            0 => self.replication.add_group(GROUP, plan.replicas.clone()).await?,
            _ => self.replication.join_group(GROUP).await?,
        }
        self.runs.store(true, Ordering::Relaxed);
        Ok(())
    }
}
