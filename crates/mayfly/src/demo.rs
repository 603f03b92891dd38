//! `mayfly demo`: a week of earthquakes, replayed as alerts that expire, with a leader killed
//! half-way; and an account of every alert. Then, as a second act, the week as bulletins on a topic.
//!
//! Reading order: the alerts, what is known of each (ledger), who sends, handles and collects them,
//! what happens to the leader, what is shown meanwhile, the account; the bulletins, their tally.

mod account;
mod alert;
mod auditor;
mod bulletins;
mod failure;
mod ledger;
mod replay;
mod tally;
mod view;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use account::Account;
use alert::Alert;
use anyhow::{anyhow, bail};
use client::{Client, QueuePath, v1};
use ledger::Ledger;
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::{Connect, Login};
use crate::input::duration;
use crate::terminal;
use crate::up::{LocalCluster, Plan};

const EXAMPLES: &str = "\
Examples:
  mayfly demo                                 on a three-node cluster of its own, in a minute
  mayfly demo --keep-data /tmp/demo           and its data and logs stay there
  mayfly demo --connect 127.0.0.1:5310        on a cluster that runs; no leader is killed

The exit code is 0 only if both acts balance.";

/// The shortest there is: what a killed node had handed out comes free after this.
const LOCK: Duration = Duration::from_secs(5);
const MAX_DELIVERY_COUNT: u32 = 5;
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Receivers here are back at once when leaders change, and nobody waits a minute for a demo's end.
const REATTACH: Duration = Duration::from_secs(5);
/// After the last alert was sent: its life, a lock, and some room.
const SETTLED_WITHIN: Duration = Duration::from_secs(25);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Use this cluster, whose nodes are left alone, instead of an own one
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    connect: Option<Vec<String>>,
    #[command(flatten)]
    login: Login,
    /// Name of the queue
    #[arg(long, default_value = "alerts")]
    queue: String,
    /// How long the week takes
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration::parse)]
    replay: Duration,
    /// How long the worker takes over one alert
    #[arg(long, value_name = "DURATION", default_value = "12ms", value_parser = duration::parse)]
    work: Duration,
    /// Keep the cluster's data and logs in this directory
    #[arg(long, value_name = "PATH")]
    keep_data: Option<PathBuf>,
    /// Leave the leader alone
    #[arg(long)]
    no_kill: bool,
}

pub async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let balances = match &args.connect {
        Some(connect) => {
            let connect = Connect {
                connect: connect.clone(),
                login: args.login.clone(),
                timeout: Duration::from_secs(15),
            };
            both_acts(&args, &connect.client()?, None).await?
        }
        None => run_on_own_cluster(&args).await?,
    };
    Ok(if balances { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn run_on_own_cluster(args: &DemoArgs) -> anyhow::Result<bool> {
    let scratch = tempfile::Builder::new().prefix("mayfly-demo-").tempdir()?;
    let dir = match &args.keep_data {
        Some(dir) if dir.join("cluster.toml").exists() => {
            return Err(terminal::usage(format!(
                "'{}' holds a cluster already; delete it, or name another directory",
                dir.display()
            )));
        }
        Some(dir) => dir.clone(),
        None => scratch.path().to_owned(),
    };
    let plan = Plan {
        dir,
        restart: false,
        development: true,
        idle_reattach: Some(REATTACH),
        ..Plan::default()
    };
    // Beside whatever else runs here.
    let offsets = (0..40).map(|step| 10_000 + step * 100);
    let free = offsets.map(|base_offset| Plan { base_offset, ..plan.clone() });
    let Some(plan) = free.into_iter().find(|plan| plan.port_in_use().is_none()) else {
        bail!("no free ports for three nodes between 15300 and 21320");
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut cluster = LocalCluster::start(plan)?;
    // Whatever ends it, nodes are ended and their data go.
    let result = tokio::select! {
        result = start_and_act(args, &mut cluster) => result,
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; the nodes are ended")),
        _ = terminate.recv() => Err(anyhow!("told to end (SIGTERM); the nodes are ended")),
    };
    cluster.stop().await;
    result
}

async fn start_and_act(args: &DemoArgs, cluster: &mut LocalCluster) -> anyhow::Result<bool> {
    let spinner = terminal::spinner("starting three nodes");
    let ready = cluster.wait_ready(READY_WITHIN).await;
    spinner.finish_and_clear();
    ready?;
    both_acts(args, &cluster.client()?, Some(cluster)).await
}

/// Both acts; whether they balance.
async fn both_acts(
    args: &DemoArgs,
    client: &Client,
    cluster: Option<&LocalCluster>,
) -> anyhow::Result<bool> {
    let alerts = Arc::new(alert::all(args.replay));
    let account = first_act(args, client, cluster, &alerts).await?;
    terminal::line(&account)?;
    // An own cluster's clock is ours to move.
    let tally = bulletins::run(client, &args.queue, &alerts, cluster.is_some()).await?;
    terminal::line(&tally)?;
    Ok(account.balances() && tally.balances())
}

async fn first_act(
    args: &DemoArgs,
    client: &Client,
    cluster: Option<&LocalCluster>,
    alerts: &Arc<Vec<Alert>>,
) -> anyhow::Result<Account> {
    create_queue(client, &args.queue).await?;
    let ledger = Arc::new(Ledger::new(alerts, LOCK.as_millis() as u64, MAX_DELIVERY_COUNT));
    let started = Instant::now();
    let view = view::View::start(ledger.clone(), started, args.replay);

    let worker =
        tokio::spawn(worker::work(client.clone(), args.queue.clone(), args.work, ledger.clone()));
    let auditor =
        tokio::spawn(auditor::collect(client.clone(), args.queue.clone(), ledger.clone()));
    let failing = async {
        match cluster {
            Some(cluster) if !args.no_kill => {
                tokio::time::sleep(args.replay / 2).await;
                failure::kill_leader(client, cluster, &args.queue, &ledger).await
            }
            _ => Ok(None),
        }
    };
    let replaying = replay::replay(client, &args.queue, alerts, started, &ledger);
    let (failure, replayed) = tokio::join!(failing, replaying);

    settle(&ledger, SETTLED_WITHIN).await;
    worker.abort();
    auditor.abort();
    view.end().await;
    replayed?;
    find_left(client, &args.queue, &ledger).await?;
    let counters = client.get_queue(&args.queue).await?.counters.unwrap_or_default();
    if cluster.is_none() {
        client.delete_queue(&args.queue).await?;
    }
    Ok(Account::draw(&ledger, alerts.len(), failure?, counters, started.elapsed()))
}

async fn create_queue(client: &Client, queue: &str) -> anyhow::Result<()> {
    let properties = v1::QueueProperties {
        dead_letter_on_expiration: Some(true),
        lock_duration_ms: Some(LOCK.as_millis() as u64),
        max_delivery_count: Some(MAX_DELIVERY_COUNT),
        ..Default::default()
    };
    match client.create_queue(queue, properties).await {
        Ok(_) => Ok(()),
        Err(error) if error.name() == "MessagingEntityAlreadyExists" => Err(terminal::usage(
            format!("queue '{queue}' exists already; delete it, or choose another with --queue"),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Waits until every alert that was accepted has met its end, but not for ever.
async fn settle(ledger: &Ledger, within: Duration) {
    let started = Instant::now();
    while started.elapsed() < within && !ledger.all_ended() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if ledger.figures().perhaps > 0 {
        // Whatever was not settled after all comes free with its lock, and meets its end then.
        tokio::time::sleep(LOCK + Duration::from_secs(1)).await;
    }
}

/// What has not met its end is looked for where it should be.
async fn find_left(client: &Client, queue: &str, ledger: &Ledger) -> anyhow::Result<()> {
    for path in [QueuePath::main(queue), QueuePath::dead_letter(queue)] {
        let mut from = 0;
        loop {
            let page = client.peek(&path, from, 250).await?;
            let Some(last) = page.last() else { break };
            from = last.sequence_number() + 1;
            for delivery in &page {
                if let Some(id) = delivery.message_id() {
                    ledger.left(id);
                }
            }
        }
    }
    Ok(())
}

/// An alert as it is sent.
fn message(alert: &Alert, now_ms: u64) -> client::Message {
    let mut message = client::Message::new(alert.body)
        .message_id(&alert.id)
        .subject(alert.place.clone())
        .content_type("application/json")
        .ttl(alert.ttl);
    if let Some(delay) = alert.reminder_after {
        message = message.scheduled_at_ms(now_ms + delay.as_millis() as u64);
    }
    if let Some(magnitude) = alert.magnitude {
        message = message.property("magnitude", client::value::double(magnitude));
    }
    message
}
