//! Several generators: `mayfly load worker`, and `mayfly load run --workers`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings, cert, mayfly};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{ONE_AT_A_TIME, ensure_nothing_left, load, number, run, written};

const SECRET: &str = "the secret of workers";

/// A worker that is there until it is dropped.
struct Worker {
    process: Child,
    address: String,
}

impl Worker {
    fn start(flags: &[&str]) -> anyhow::Result<Worker> {
        let mut command = Command::new(mayfly()?);
        command.args(["load", "worker", "--listen", "127.0.0.1:0"]).args(flags);
        command.env("MAYFLY_WORKER_SECRET", SECRET);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let out = process.stdout.take().context("its output")?;
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().strip_prefix("worker at ").context(line.clone())?.to_owned();
        Ok(Worker { process, address })
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill(Pid::from_raw(self.process.id().cast_signed()), signal)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn flags(workers: &[&Worker]) -> Vec<String> {
    let addresses: Vec<&str> = workers.iter().map(|worker| worker.address.as_str()).collect();
    ["--workers", &addresses.join(","), "--worker-secret", SECRET].map(str::to_owned).to_vec()
}

/// One producer and one consumer are on two workers, so that every message sent at one is received at the other; those of
/// the second queue are abandoned often, and come again at any of three consumers; sessions keep their order.
const FILE: &str = r#"
thresholds = [
  "lost == 0", "doubled == 0", "out_of_order == 0", "late == 0", "errors == 0",
  "end_to_end.p50 < 2s", "sent >= 800", "redelivered > 20",
]

[phases]
warm_up = "500ms"
measure = "2s"

[[queues]]
name = "load-across-{run}"

[[queues]]
name = "load-again-{run}"
max_delivery_count = 100

[[queues]]
name = "load-ordered-{run}"
requires_session = true

[[producers]]
to = "load-across-{run}"
rate = 200

[[producers]]
to = "load-again-{run}"
count = 3
rate = 200

[[producers]]
to = "load-ordered-{run}"
count = 2
rate = 100
session_id = "s-{number % 4}"

[[consumers]]
from = "load-across-{run}"

[[consumers]]
from = "load-again-{run}"
count = 3
abandon = "20%"

[[consumers]]
from = "load-ordered-{run}"
count = 4
sessions = true
session_idle = "200ms"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_are_one_load_and_every_message_is_accounted_for() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = written(dir.path(), FILE)?;
    let workers = [Worker::start(&[])?, Worker::start(&[])?];
    let flags = flags(&[&workers[0], &workers[1]]);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    // A worker takes one run after the other; AMQP as well as gRPC.
    let over_amqp =
        [&flags[..], &["--protocol", "amqp", "--amqp", cluster.amqp_address(1)]].concat();
    for flags in [flags, over_amqp] {
        let (done, report) = run(&cluster, &file, &flags)?;
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}{}", String::from_utf8_lossy(&done.stderr));
        ensure!(done.status.success(), "{said}");
        // 500 a second for 2.5 s, by five producers that have their share each.
        let sent = number(&report, "/account/acknowledged")?;
        ensure!((1240..=1260).contains(&sent), "{said}");
        let (deliveries, delivered) =
            (number(&report, "/account/deliveries")?, number(&report, "/account/delivered")?);
        let redelivered = number(&report, "/account/redelivered")?;
        ensure!(delivered == sent && deliveries == delivered + redelivered, "{said}");
        ensure!(number(&report, "/account/finished")? == sent, "{said}");
        let shares: Vec<u64> = (0..2)
            .map(|at| number(&report, &format!("/workers/{at}/sent")))
            .collect::<anyhow::Result<_>>()?;
        ensure!(shares.iter().sum::<u64>() == sent && shares.iter().all(|of| *of > 300), "{said}");
        for at in 0..2 {
            let error = report["workers"][at]["clock_error_ms"].as_f64().unwrap_or(f64::MAX);
            ensure!(error > 0.0 && error < 50.0, "on one machine a way is short: {error} ms");
            let drift = report["workers"][at]["clock_drift_ms"].as_f64().unwrap_or(f64::MAX);
            ensure!(drift.abs() < 50.0, "one machine has one clock: {drift} ms");
        }
        ensure!(said.contains("latencies between workers are right to"), "{said}");
        let measured = report["latency"]["end_to_end"]["count"].as_u64().unwrap_or_default();
        ensure!(measured >= 1000, "{measured} of 1000 messages that were measured: {said}");
        ensure!(report["latency"]["send"]["count"] == 1000, "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// A worker that dies is told at once; the others end, what was sent is reported, and the exit code is its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_is_told_and_the_rest_ends_orderly() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = written(
        dir.path(),
        "thresholds = [\"lost == 0\"]\n[phases]\nwarm_up = \"1s\"\nmeasure = \"60s\"\n\
         [[queues]]\nname = \"load-dies-{run}\"\n\
         [[producers]]\nto = \"load-dies-{run}\"\ncount = 2\nrate = 200\n\
         [[consumers]]\nfrom = \"load-dies-{run}\"\ncount = 2\n",
    )?;
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let workers = [Worker::start(&[])?, Worker::start(&[])?];
        let json = dir.path().join("report.json");
        let mut command = load(&cluster, &file, &["--json", &json.to_string_lossy()])?;
        command.args(flags(&[&workers[0], &workers[1]]));
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let client = cluster.client()?;
        loop {
            let queues = client.list_queues("load-dies").await?;
            let accepted = queues.first().and_then(|queue| queue.counters).map(|of| of.accepted);
            if accepted.is_some_and(|accepted| accepted > 100) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let second = load(&cluster, &file, &[])?.args(flags(&[&workers[0]])).output()?;
        let refused = String::from_utf8_lossy(&second.stderr);
        ensure!(second.status.code() == Some(2) && refused.contains("it is busy"), "{refused}");
        workers[1].signal(signal)?;
        let began = Instant::now();
        let done = running.wait_with_output()?;
        let (said, told) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        println!("{said}{told}");
        ensure!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
        ensure!(done.status.code() == Some(3), "{:?} {said}", done.status);
        let lost = format!("worker {} is lost (", workers[1].address);
        ensure!(told.matches(&lost).count() == 1, "{told}");
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
        ensure!(report["workers"][1]["lost"].is_string(), "{report}");
        ensure!(report["workers"][0]["lost"].is_null() && report["holds"] == false, "{report}");
        ensure!(number(&report, "/account/acknowledged")? > 50, "{said}");
        // What the lost one received nobody knows.
        ensure!(number(&report, "/account/lost")? == 0, "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// Whoever does not know the secret, comes second, or is told nonsense is refused in one line; over TLS as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_no_open_door() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let certs = dir.path().to_string_lossy().into_owned();
    cert(dir.path(), &["authority"])?;
    cert(dir.path(), &["node", "1", "127.0.0.1"])?;
    let (pem, key) = (format!("{certs}/node-1.pem"), format!("{certs}/node-1.key"));
    let authority = format!("{certs}/authority.pem");
    let plain = Worker::start(&[])?;
    let encrypted = Worker::start(&["--tls-cert", &pem, "--tls-key", &key])?;
    let over_tls = format!("https://{}", encrypted.address);
    let file = written(
        dir.path(),
        "[phases]\nwarm_up = \"0s\"\nmeasure = \"1s\"\n\
         [[queues]]\nname = \"load-door-{run}\"\n\
         [[producers]]\nto = \"load-door-{run}\"\nrate = 100\n\
         [[consumers]]\nfrom = \"load-door-{run}\"\n",
    )?;
    let here = &plain.address;
    let secret = ["--worker-secret", SECRET];
    let cases: [(Vec<&str>, &str); 8] = [
        (vec!["--workers", here], "workers want a secret; set MAYFLY_WORKER_SECRET"),
        (
            vec!["--workers", here, "--worker-secret", "another"],
            "it was started with another secret",
        ),
        (
            [&["--workers", "127.0.0.1:9"][..], &secret].concat(),
            "worker 127.0.0.1:9: it does not answer",
        ),
        (
            [&["--workers", cluster.addresses(1)[0]][..], &secret].concat(),
            "it is no worker of mayfly load",
        ),
        (
            [&["--workers", "192.0.2.1:9", "--secret", "key"][..], &secret].concat(),
            "the target's key would go to 192.0.2.1:9 in plain text",
        ),
        ([&["--workers", &over_tls][..], &secret].concat(), "it does not answer: "),
        (
            [&["--workers", &encrypted.address][..], &secret].concat(),
            "where it was started with --tls-cert, write https:// before it",
        ),
        (vec!["--workers-ca", &authority], "--workers"),
    ];
    for (flags, told) in cases {
        let done = load(&cluster, &file, &flags)?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.code() == Some(2), "{told}: {:?} {said}", done.status.code());
        ensure!(said.contains(told), "{told}: {said}");
        ensure_nothing_left(&cluster).await?;
    }
    let flags = [&["--workers", &over_tls, "--workers-ca", &authority][..], &secret].concat();
    let (done, report) = run(&cluster, &file, &flags)?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    ensure!(number(&report, "/account/delivered")? == 100, "{report}");
    Ok(())
}
