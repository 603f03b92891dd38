//! `mayfly experiment run` from end to end, with commands of `mayfly` as the programs: what holds and what is broken,
//! nodes that die under the record, and that nothing is left behind whatever ends a run. Programs of the SDKs are in
//! `tests/experiments`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings, mayfly};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
const WITHIN: Duration = Duration::from_secs(60);

/// A file in the directory; `{mayfly}` in it is the program.
fn written(dir: &Path, text: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join("experiment.toml");
    fs::write(&path, text.replace("{mayfly}", &mayfly()?.display().to_string()))?;
    Ok(path)
}

fn experiment(file: &Path, flags: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(mayfly()?);
    command.args(["experiment", "run"]).arg(file).args(flags);
    Ok(command)
}

/// Runs a file; how it ended, what it said, and its report.
fn run(dir: &Path, text: &str) -> anyhow::Result<(Output, String, Value)> {
    let (file, out) = (written(dir, text)?, dir.join("out"));
    let done = experiment(&file, &["--report", &out.to_string_lossy()])?.output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    let report = fs::read_to_string(out.join("report.json"));
    let report = serde_json::from_str(&report.context("a report")?)?;
    Ok((done, said, report))
}

/// A cluster that records what happens to messages.
async fn recording() -> anyhow::Result<Cluster> {
    let odd = Some((1, &["--message-history", "64"][..]));
    Cluster::start(Settings { nodes: 1, odd, ..Settings::default() }).await
}

/// Whether a process is there that can do anything still.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// The process that a program wrote down.
async fn noted(path: &Path) -> anyhow::Result<i32> {
    let noted = async {
        loop {
            if let Ok(pid) = fs::read_to_string(path).unwrap_or_default().trim().parse() {
                return pid;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WITHIN, noted).await.context("the program does not start")
}

fn wait_with_output(child: Child) -> anyhow::Result<(Option<i32>, String)> {
    let done = child.wait_with_output()?;
    let said = [done.stdout, done.stderr].concat();
    Ok((done.status.code(), String::from_utf8_lossy(&said).into_owned()))
}

/// Three nodes of which two are killed one after the other, and a consumer that is killed, too: all is completed once.
#[tokio::test(flavor = "multi_thread")]
async fn the_record_outlasts_nodes_and_says_that_all_holds() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let dir = tempfile::tempdir()?;
    let text = r#"
lasts = "8s"
seed = 5
[[queues]]
name = "orders"
lock_duration = "5s"
[[programs]]
name = "worker"
command = ["{mayfly}", "receive", "orders", "--complete", "--follow"]
restart = "200ms"
events = [{ at = "3s", do = "kill", lasts = "300ms" }, { at = "5s", do = "pause", lasts = "500ms" }]
[[sends]]
to = "orders"
count = 120
rate = 30
message_id = "order-{number}"
[[node_faults]]
at = "1s"
lasts = "1500ms"
kind = "kill"
leader_of = 1
[[node_faults]]
at = "4s"
lasts = "1500ms"
kind = "kill"
leader_of = 1
[[invariants]]
kind = "settled"
entity = "orders"
within = "40s"
[[invariants]]
kind = "completed-once"
entity = "orders"
[[invariants]]
kind = "waited"
entity = "orders"
within = "40s"
[[invariants]]
kind = "none-dead-lettered"
entity = "orders"
[[invariants]]
kind = "backlog-cleared"
entity = "orders"
within = "30s"
"#;
    let (done, said, report) = run(dir.path(), text)?;
    ensure!(done.status.success(), "{said}");
    ensure!(said.contains("every invariant held") && report["verdict"] == "held", "{said}");
    ensure!(report["seed"] == 5 && report["gaps"].as_array().is_some_and(Vec::is_empty), "{said}");
    ensure!(report["sent"][0]["acknowledged"] == 120, "{said}");
    let invariants = report["invariants"].as_array().context("invariants")?;
    for one in invariants {
        ensure!(one["messages"] == 120, "{one}");
    }
    ensure!(report["entities"][0]["ends"]["completed"] == 120, "{}", report["entities"][0]["ends"]);
    let faults = report["node_faults"].as_array().context("node faults")?;
    ensure!(faults.len() == 2 && faults.iter().all(|fault| fault["skipped"].is_null()), "{said}");
    let kinds: Vec<&str> = report["moments"]
        .as_array()
        .context("moments")?
        .iter()
        .filter_map(|moment| moment["kind"].as_str())
        .collect();
    ensure!(kinds.starts_with(&["started", "ended", "started"]), "{kinds:?}");
    ensure!(kinds.contains(&"paused") && kinds.contains(&"resumed"), "{kinds:?}");
    let page = fs::read_to_string(dir.path().join("out/report.html"))?;
    ensure!(!page.contains("{{data}}") && page.matches("</script>").count() == 2);
    ensure!(fs::read_to_string(dir.path().join("out/worker.log"))?.contains("order-"));
    Ok(())
}

/// What a consumer leaves, takes without completing it, or dead-letters is told with each message's life.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_told_with_the_lives_of_its_messages() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let dir = tempfile::tempdir()?;
    let text = r#"
name = "a </script> name"
lasts = "3s"
[cluster]
nodes = 1
[[queues]]
name = "orders"
lock_duration = "5s"
[[queues]]
name = "bills"
[[programs]]
name = "worker"
command = "exec {mayfly} receive orders --dead-letter 'no such lamp' --max 3 --wait 20s"
[[sends]]
to = "orders"
count = 5
message_id = "order-{number}"
[[invariants]]
kind = "settled"
entity = "orders"
within = "4s"
[[invariants]]
kind = "none-dead-lettered"
entity = "orders"
[[invariants]]
kind = "replied"
requests = "orders"
replies = "bills"
within = "4s"
[[invariants]]
kind = "completed-once"
entity = "ordres"
[[invariants]]
kind = "locks-kept"
entity = "orders"
"#;
    let (done, said, report) = run(dir.path(), text)?;
    ensure!(done.status.code() == Some(1), "{said}");
    for told in [
        "(2 failures, 5 messages)\n",
        "is still there to be received",
        "was dead-lettered: no such lamp",
        "dead-lettered: no such lamp",
        "accepted by orders as number ",
        "has no reply",
        "no message was sent to ordres that this could be about",
        "held         no lock of orders is lost while programs run (5 messages)",
        "repeat it with: mayfly experiment run ",
        "last words of worker:",
    ] {
        ensure!(said.contains(told), "'{told}' is missing in:\n{said}");
    }
    let counts: Vec<Option<u64>> = report["invariants"]
        .as_array()
        .context("invariants")?
        .iter()
        .map(|one| one["failure_count"].as_u64())
        .collect();
    // Of five three are dead letters, which need no reply.
    ensure!(counts == [2, 3, 2, 1, 0].map(Some), "{counts:?}\n{said}");
    Ok(())
}

/// Sessions in order, copies in subscriptions, and ids that are used twice.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_copies_in_subscriptions_are_told_apart() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let dir = tempfile::tempdir()?;
    let text = r#"
lasts = "4s"
[cluster]
nodes = 1
[[queues]]
name = "tasks"
requires_session = true
[[topics]]
name = "prices"
[[topics.subscriptions]]
name = "all"
[[topics.subscriptions]]
name = "none"
rules = [{ name = "none", filter = "1 = 0" }]
[[programs]]
name = "sessions"
command = "while :; do {mayfly} receive tasks --next-session --complete --max 0 --wait 1s; done"
[[programs]]
name = "prices"
command = ["{mayfly}", "receive", "prices/all", "--complete", "--follow"]
start = "500ms"
[[sends]]
to = "tasks"
count = 30
session_id = "customer-{number % 3}"
[[sends]]
to = "prices"
count = 20
rate = 20
message_id = "price-{number % 10}"
[[invariants]]
kind = "session-order"
entity = "tasks"
[[invariants]]
kind = "settled"
entity = "tasks"
within = "30s"
[[invariants]]
kind = "settled"
entity = "prices"
within = "30s"
[[invariants]]
kind = "waited"
entity = "prices/subscriptions/all"
within = "30s"
[[invariants]]
kind = "completed-once"
entity = "prices"
"#;
    let (done, said, report) = run(dir.path(), text)?;
    ensure!(done.status.code() == Some(1), "{said}");
    let of = |key: &str| -> anyhow::Result<Vec<Value>> {
        let all = report["invariants"].as_array().context("invariants")?;
        Ok(all.iter().map(|one| one[key].clone()).collect())
    };
    // Ids that are used twice are no ids: each of ten prices was completed twice in its subscription.
    ensure!(of("failure_count")? == [0, 0, 0, 0, 10], "{said}");
    ensure!(of("messages")? == [30, 30, 20, 20, 20], "{said}");
    Ok(())
}

/// Ctrl-C ends input and gives a verdict; a second one ends all at once. Programs are gone either way, with all that
/// they started, and so is what was created in a cluster that stays.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_leaves_nothing_behind() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = recording().await?;
    let (client, dir) = (cluster.client()?, tempfile::tempdir()?);
    let text = r#"
lasts = "10m"
[[queues]]
name = "orders-{run}"
[[programs]]
name = "stubborn"
command = "trap '' TERM; sleep 1000 & echo $! > child; echo $$ > pid; while :; do sleep 0.1; done"
end_within = "500ms"
[[sends]]
to = "orders-{run}"
count = 10
[[faults]]
name = "slow"
operation = "send"
entity = "orders-{run}"
effect = "delay"
time = "1ms"
[[invariants]]
kind = "settled"
entity = "orders-{run}"
within = "5m"
"#;
    let file = written(dir.path(), text)?;
    let (grpc, amqp) = (cluster.addresses(1)[0], cluster.amqp_address(1));
    for signals in [1, 2] {
        let flags = ["--connect", grpc, "--amqp", amqp];
        let running =
            experiment(&file, &flags)?.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (pid, child) =
            (noted(&dir.path().join("pid")).await?, noted(&dir.path().join("child")).await?);
        ensure!(is_alive(pid) && is_alive(child));
        ensure!(client.list_queues("orders-").await?.len() == 1);
        ensure!(client.fault_rules().await?.rules.len() == 1);
        for _ in 0..signals {
            kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT)?;
            // Else they are one to the process.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (code, said) = wait_with_output(running)?;
        ensure!(code == Some(130), "{code:?} {said}");
        if signals == 1 {
            ensure!(said.contains("UNKNOWN      every message of orders-"), "{said}");
        }
        let gone = async {
            while is_alive(pid) || is_alive(child) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WITHIN, gone).await.context("programs outlive the run")?;
        ensure!(client.list_queues("orders-").await?.is_empty(), "{said}");
        ensure!(client.fault_rules().await?.rules.is_empty(), "{said}");
        fs::remove_file(dir.path().join("pid"))?;
        fs::remove_file(dir.path().join("child"))?;
    }
    Ok(())
}

/// Whatever is wrong is told in one line, with exit code 2, and nothing is made.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_in_a_line_and_leaves_nothing() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let silent = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let recording = recording().await?;
    let dir = tempfile::tempdir()?;
    let rest = "[[queues]]\nname = \"orders\"\n[[invariants]]\nkind = \"completed-once\"\nentity = \"orders\"\n";
    let worker = format!("[[programs]]\nname = \"w\"\ncommand = \"true\"\n{rest}");
    let missing = format!("[[programs]]\nname = \"w\"\ncommand = [\"./none\"]\n{rest}");
    let killed = format!("[[node_faults]]\nat = \"1s\"\nkind = \"kill\"\n{worker}");
    let twice = worker.replacen("orders", "there", 1);
    recording.client()?.create_queue("there", client::v1::QueueProperties::default()).await?;
    let (silent_at, recording_at) = (silent.addresses(1)[0], recording.addresses(1)[0]);
    let cases: [(&str, &[&str], &str); 8] = [
        ("x", &[], "experiment.toml:1: "),
        ("[[programs]]\nname = \"w\"\n", &[], "experiment.toml:1: missing field `command`"),
        (&missing, &[], "there is no file '"),
        (&worker, &["--connect", "127.0.0.1:9"], "127.0.0.1:9"),
        (&worker, &["--connect", silent_at], "message"),
        (&killed, &["--connect", recording_at], "kill needs a cluster of its own; leave --connect"),
        (&twice, &["--connect", recording_at], "is there already"),
        (&worker, &["--keep"], "--connect"),
    ];
    for (text, flags, told) in cases {
        let file = written(dir.path(), text)?;
        let done = experiment(&file, &[&["--quiet"], flags].concat())?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.code() == Some(2), "{told}: {:?} {said}", done.status.code());
        ensure!(said.lines().count() == 1 && said.contains(told), "{told}: {said}");
        ensure!(!said.contains("panicked"), "{said}");
        for cluster in [&silent, &recording] {
            ensure!(cluster.client()?.list_queues("orders").await?.is_empty(), "{told}");
        }
    }
    Ok(())
}
