//! One experiment from its start to its verdict: a cluster, clients, faults one after the other; then
//! healing, draining, a look at what is there, and the checker.

mod backups;
mod course;
mod rounds;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use client::ClientOptions;
use remote::Places;
use tokio::sync::watch;

use crate::Error;
use crate::cluster::{Cluster, Settings};
use crate::plan::{Draw, FaultKind, Planned};
use crate::report::Report;
use crate::workloads::{Paces, Producers, Workload};
use course::Course;

/// Messages of the round that lasts from the beginning to the end, and how many a second it sends at least: it shows for
/// how long there was no service.
const LASTING_MESSAGES_MAX: f64 = 100_000.0;
const LASTING_RATE_MIN: f64 = 20.0;

/// Whom it is done to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A cluster of its own, of this binary.
    ///
    /// `synced`: an acknowledgement waits for disks. Without, a power failure of several nodes may lose
    /// what was acknowledged, and promises are broken.
    ///
    /// `namespaces`: the kernel loses what nodes say to each other, in the place of proxies.
    ///
    /// `tls`: nodes know each other by certificates.
    ///
    /// `keys`: nodes ask clients for a key, which can be rotated.
    ///
    /// `previous`: the binary of another release that all nodes begin as.
    Own {
        program: PathBuf,
        nodes: u64,
        data_groups: u16,
        synced: bool,
        namespaces: bool,
        tls: bool,
        keys: bool,
        previous: Option<PathBuf>,
    },
    /// One that runs already, by the addresses of some of its nodes: only what clients may do is done
    /// to it, and what agents beside its nodes do.
    Given { addresses: Vec<String>, options: Box<ClientOptions>, agents: Option<Places> },
}

impl Target {
    /// Whether a fault of this kind can be done to it.
    ///
    /// # Errors
    /// Why not, and what would let it.
    pub fn takes(&self, kind: FaultKind) -> Result<(), String> {
        match self {
            Target::Own { tls, keys, previous, .. } => kind.fits(*tls, *keys, previous.is_some()),
            Target::Given { .. } if kind.needs_no_process() => Ok(()),
            Target::Given { agents: Some(_), .. } if kind.is_for_agents() => Ok(()),
            Target::Given { .. } if kind.is_for_agents() => Err(format!(
                "{kind} needs an agent beside each node: pass --agent, or leave --connect"
            )),
            Target::Given { .. } => {
                Err(format!("{kind} needs a cluster of its own: leave --connect"))
            }
        }
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub seed: u64,
    /// Of load and faults; healing and draining come after it.
    pub lasts: Duration,
    pub target: Target,
    pub faults: Vec<FaultKind>,
    /// In the place of faults drawn from the seed.
    pub schedule: Option<Vec<Planned>>,
    pub workloads: Vec<Workload>,
    /// Messages per second of all workloads together.
    pub rate: u32,
    /// In the end all disks are lost, and the last of the backups that were made meanwhile is restored. Of a cluster
    /// of its own only, and without [`Workload::Temporary`], whose queues are of no account then.
    pub restores: bool,
    /// The command that repeats it.
    pub command: String,
}

/// Told now and then what is going on, in a line.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

impl Experiment {
    /// The faults there will be, on so many nodes and groups with data. Of the kinds that are asked for,
    /// those that such a cluster has.
    pub fn plan(&self, nodes: u64, groups: u32) -> Vec<Planned> {
        self.schedule.clone().unwrap_or_else(|| {
            let kinds = self.faults.iter().copied();
            let kinds = kinds.filter(|kind| self.target.takes(*kind).is_ok()).collect();
            let (seed, lasts) = (self.seed, self.lasts);
            Draw { seed, nodes, groups, lasts, kinds }.plan()
        })
    }

    /// As [`Experiment::plan`]; what a schedule asks for and this target does not take is refused.
    fn planned(&self, nodes: u64, groups: u32) -> Result<Vec<Planned>, Error> {
        let plan = self.plan(nodes, groups);
        let refused = plan.iter().find_map(|fault| self.target.takes(fault.kind).err());
        refused.map_or(Ok(plan), |told| Err(Error::Wrong(told)))
    }

    async fn cluster(&self, tell: &Tell) -> Result<(Cluster, Vec<Planned>), Error> {
        match &self.target {
            Target::Own {
                program,
                nodes,
                data_groups,
                synced,
                namespaces,
                tls,
                keys,
                previous,
            } => {
                let (program, nodes, data_groups) = (program.clone(), *nodes, *data_groups);
                let (synced, namespaces, tls, keys) = (*synced, *namespaces, *tls, *keys);
                let plan = self.planned(nodes, data_groups.into())?;
                let small_disks = plan.iter().any(|fault| fault.kind == FaultKind::FullDisk);
                tell(&format!("starting {nodes} nodes"));
                let settings = Settings {
                    program,
                    nodes,
                    data_groups,
                    synced,
                    small_disks,
                    namespaces,
                    tls,
                    keys,
                    previous: previous.clone(),
                    message_history_mebibytes: None,
                };
                Ok((Cluster::start(&settings).await?, plan))
            }
            Target::Given { addresses, options, agents } => {
                let cluster =
                    Cluster::join(addresses, options.as_ref().clone(), agents.clone()).await?;
                let nodes = cluster.ids().len() as u64;
                let plan = self.planned(nodes, cluster.groups.saturating_sub(1) as u32)?;
                Ok((cluster, plan))
            }
        }
    }

    /// From the first process to the verdict. Everything it starts has ended when it returns. Once
    /// `stopped` holds, the load ends early, and the verdict is about what was done until then.
    pub async fn run(&self, tell: Tell, stopped: watch::Receiver<bool>) -> Result<Report, Error> {
        let (cluster, plan) = self.cluster(&tell).await?;
        let mut course = Course::begin(self, cluster, tell, stopped, &plan).await?;
        let faults = course.trouble(&plan).await?;
        course.heal().await?;
        course.end_rounds().await;
        course.end_sends().await;
        course.restore().await?;
        course.drain().await?;
        let end = course.look().await?;
        course.judge(faults, end).await
    }

    /// How producers share so many messages a second.
    fn paces(&self, per_second: f64, workloads: &[Workload]) -> Paces {
        let of_all = workloads.iter().map(|workload| workload.producers());
        let producers = of_all.fold(Producers::default(), |sum, of_one| Producers {
            quick: sum.quick + of_one.quick,
            slow: sum.slow + of_one.slow,
        });
        Paces::of(per_second, producers)
    }

    /// What the round that lasts from the beginning to the end sends, of the rate: what it did is known until then.
    fn lasting_rate(&self) -> f64 {
        let rate = f64::from(self.rate);
        // What is restored must have been there all the time.
        if self.restores || !self.workloads.iter().any(|workload| workload.comes_in_rounds()) {
            return rate;
        }
        let fits = LASTING_MESSAGES_MAX / self.lasts.as_secs_f64().max(1.0);
        rate.min(fits.max(LASTING_RATE_MIN))
    }
}
