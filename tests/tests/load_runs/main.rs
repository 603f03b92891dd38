//! `mayfly load` from end to end: files that ship are run in short form over both protocols, thresholds decide the exit
//! code, a node that pauses is felt, several generators are one, and whatever is wrong leaves nothing behind.

mod contents;
mod target;
mod terminal;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use mayfly_tests::specification::root;
use mayfly_tests::{Cluster, Settings, mayfly};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::sync::Mutex;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn load(cluster: &Cluster, file: &Path, flags: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(mayfly()?);
    let addresses: Vec<&str> = cluster.ids().map(|id| cluster.addresses(id)[0]).collect();
    command.args(["load", "run"]).arg(file).args(flags);
    command.args(["--connect", &addresses.join(",")]);
    Ok(command)
}

/// Runs a file; how it ended, and its report.
fn run(cluster: &Cluster, file: &Path, flags: &[&str]) -> anyhow::Result<(Output, Value)> {
    let dir = tempfile::tempdir()?;
    let json = dir.path().join("report.json");
    let done = load(cluster, file, flags)?.arg("--json").arg(&json).output()?;
    let told = || String::from_utf8_lossy(&done.stderr).into_owned();
    let text = fs::read_to_string(&json).with_context(told)?;
    let report = serde_json::from_str(&text)?;
    Ok((done, report))
}

fn shipped(name: &str) -> PathBuf {
    root().join("benches/loads").join(name)
}

fn written(dir: &Path, text: &str) -> anyhow::Result<PathBuf> {
    let path = dir.join("load.toml");
    fs::write(&path, text)?;
    Ok(path)
}

/// Nothing is left of what runs have made.
async fn ensure_nothing_left(cluster: &Cluster) -> anyhow::Result<()> {
    let client = cluster.client()?;
    let queues: Vec<String> =
        client.list_queues("load-").await?.into_iter().map(|queue| queue.name).collect();
    let topics: Vec<String> =
        client.list_topics("load-").await?.into_iter().map(|topic| topic.name).collect();
    ensure!(queues.is_empty() && topics.is_empty(), "left behind: {queues:?} {topics:?}");
    Ok(())
}

fn number(report: &Value, path: &str) -> anyhow::Result<u64> {
    report.pointer(path).and_then(Value::as_u64).with_context(|| format!("{path} in {report}"))
}

/// Every file that ships, in short form, over gRPC.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_ship_hold_what_they_promise() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("benches/loads"))?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|of| of == "toml"));
    files.sort();
    ensure!(files.len() >= 3, "{files:?}");
    for file in files {
        let (done, report) = run(&cluster, &file, &["--seconds", "3"])?;
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}");
        ensure!(done.status.success(), "{}: {said}", file.display());
        ensure!(report["holds"] == true && report["interrupted"] == false, "{said}");
        let acknowledged = number(&report, "/account/acknowledged")?;
        ensure!(acknowledged > 300, "{acknowledged} messages prove nothing: {said}");
        let series = report["series"].as_array().map_or(0, Vec::len);
        ensure!(series > 5, "{series} points of the time series");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// A report's files open by themselves, and two reports are set side by side.
#[tokio::test(flavor = "multi_thread")]
async fn reports_are_left_and_compared() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let mut reports = Vec::new();
    for (rate, name) in [("100", "one"), ("400", "other")] {
        let text = format!(
            "name = \"a </script> name\"\n[phases]\nwarm_up = \"1s\"\nmeasure = \"4s\"\n\
             [[queues]]\nname = \"load-report-{{run}}\"\n\
             [[producers]]\nto = \"load-report-{{run}}\"\nrate = {rate}\n\
             [[consumers]]\nfrom = \"load-report-{{run}}\"\n"
        );
        let file = written(dir.path(), &text)?;
        let out = dir.path().join(name);
        let (done, report) = run(&cluster, &file, &["--report", &out.to_string_lossy()])?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let page = fs::read_to_string(out.join("report.html"))?;
        ensure!(!page.contains("{{data}}") && page.matches("</script>").count() == 2, "{name}");
        let csv = fs::read_to_string(out.join("series.csv"))?;
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        ensure!(columns.len() > 10 && columns.iter().all(|of| *of == columns[0]), "{csv}");
        let log = fs::read_to_string(out.join("latency.hlog"))?;
        ensure!(log.starts_with("#[Histogram log format version 1.3]"), "{log}");
        ensure!(log.lines().any(|line| line.starts_with("Tag=end_to_end,")), "{log}");
        let written: Value = serde_json::from_str(&fs::read_to_string(out.join("report.json"))?)?;
        ensure!(written == report, "--json and --report differ");
        reports.push(out.join("report.json"));
    }
    let done = Command::new(mayfly()?).args(["load", "compare"]).args(&reports).output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}");
    ensure!(done.status.success(), "{said}");
    let sent = said.lines().find(|line| line.starts_with("sent/s")).unwrap_or_default();
    ensure!(sent.ends_with("differs"), "four times the rate: {said}");
    let wrong =
        Command::new(mayfly()?).args(["load", "compare", "/nowhere", "/nowhere"]).output()?;
    ensure!(wrong.status.code() == Some(2), "{wrong:?}");
    Ok(())
}

/// The same file over AMQP, against one node.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_ship_run_over_amqp() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings::default()).await?;
    for name in ["lifecycle.toml", "lifetime.toml", "sessions.toml"] {
        let flags = ["--seconds", "3", "--protocol", "amqp", "--amqp", cluster.amqp_address(1)];
        let (done, report) = run(&cluster, &shipped(name), &flags)?;
        let said = String::from_utf8_lossy(&done.stdout);
        println!("{said}");
        ensure!(done.status.success(), "{name}: {said}");
        ensure!(report["protocol"] == "AMQP", "{said}");
        ensure!(number(&report, "/account/acknowledged")? > 300, "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// A node that is stopped for a second, under one message at a time: a fifth of all was due meanwhile, and waited.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_node_is_felt_by_all_that_was_due() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = written(
        dir.path(),
        "thresholds = [\"send.p90 > 100ms\", \"lost == 0\", \"unsent == 0\"]\n\
         [phases]\nwarm_up = \"1s\"\nmeasure = \"5s\"\n\
         [[queues]]\nname = \"load-paused-{run}\"\n\
         [[producers]]\nto = \"load-paused-{run}\"\nrate = 100\nwindow = 1\nbody = 100\n\
         [[consumers]]\nfrom = \"load-paused-{run}\"\n",
    )?;
    let json = dir.path().join("report.json");
    let mut command = load(&cluster, &file, &["--json", &json.to_string_lossy()])?;
    let running = command.stdout(Stdio::piped()).spawn()?;
    // Once it sends: its queue is there, and has taken some.
    let client = cluster.client()?;
    loop {
        let queues = client.list_queues("load-paused").await?;
        let accepted = queues.first().and_then(|queue| queue.counters).map(|of| of.accepted);
        if accepted.is_some_and(|accepted| accepted > 150) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.signal(1, Signal::SIGSTOP)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    cluster.signal(1, Signal::SIGCONT)?;
    let done = running.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    let report: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    println!("{said}");
    ensure!(done.status.success(), "{said}");
    let of = |name: &str| report["latency"]["send"][name].as_f64().unwrap_or_default();
    ensure!(of("count") == 500.0, "{said}");
    // A hundred of five hundred waited, evenly up to a second.
    ensure!(of("p90") > 300.0 && of("max") > 850.0, "{said}");
    Ok(())
}

/// Whatever is wrong is told in one line, and nothing is made or left.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_in_a_line_and_leaves_nothing() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let queue = "[[queues]]\nname = \"load-wrong-{run}\"\n";
    let sessions =
        format!("{queue}requires_session = true\n[[consumers]]\nfrom = \"load-wrong-{{run}}\"\n");
    let renewal = format!("{queue}[[consumers]]\nfrom = \"load-wrong-{{run}}\"\nrenew = \"1s\"\n");
    let nowhere = "127.0.0.1:9";
    let amqp = ["--protocol", "amqp", "--amqp"];
    let here = cluster.amqp_address(1);
    let cases: [(&str, Vec<&str>, &str); 8] = [
        ("x", vec![], "load.toml:1: "),
        ("[[producers]]\nto = \"q\"\nrte = 5\n", vec![], "load.toml:3: unknown key 'rte'"),
        (
            &format!("{queue}[[producers]]\nto = \"load-gone\"\n"),
            vec![],
            "'load-gone' is not there; create it, or",
        ),
        (
            &sessions,
            vec![],
            "has sessions, and its consumers do not take any; write sessions = true",
        ),
        (&sessions, [&amqp[..], &[nowhere]].concat(), nowhere),
        (
            &format!("{queue}[[producers]]\nto = \"load-gone\"\n"),
            [&amqp[..], &[here]].concat(),
            "load-gone: amqp:not-found",
        ),
        (&renewal, [&amqp[..], &[here]].concat(), "renew is not done over AMQP"),
        (queue, vec![], "nobody sends or receives"),
    ];
    for (text, flags, told) in cases {
        let file = written(dir.path(), text)?;
        let done = load(&cluster, &file, &flags)?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        ensure!(done.status.code() == Some(2), "{told}: {:?} {said}", done.status.code());
        ensure!(said.lines().count() == 1 && said.contains(told), "{told}: {said}");
        ensure!(!said.contains("panicked"), "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    let gone = load(&cluster, Path::new("/nowhere.toml"), &[])?.output()?;
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    ensure!(
        gone.status.code() == Some(2) && said.contains("cannot read '/nowhere.toml'"),
        "{said}"
    );
    Ok(())
}

/// A threshold that does not hold is exit code 1; Ctrl-C is 130, with a report of what was done.
#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_how_it_ended() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let text = "thresholds = [\"lost == 0\", \"delivered > 1000000\"]\n\
                [phases]\nwarm_up = \"1s\"\nmeasure = \"60s\"\n\
                [[queues]]\nname = \"load-code-{run}\"\n\
                [[producers]]\nto = \"load-code-{run}\"\nrate = 200\n\
                [[consumers]]\nfrom = \"load-code-{run}\"\n";
    let file = written(dir.path(), text)?;
    let (done, report) = run(&cluster, &file, &["--seconds", "1"])?;
    let said = String::from_utf8_lossy(&done.stdout);
    ensure!(done.status.code() == Some(1), "{said}");
    ensure!(said.contains("NOT HELD     delivered > 1000000 (it is "), "{said}");
    ensure!(said.contains("held         lost == 0"), "{said}");
    ensure!(report["thresholds"][1]["holds"] == false, "{report}");
    ensure_nothing_left(&cluster).await?;

    let json = dir.path().join("report.json");
    let mut command = load(&cluster, &file, &["--json", &json.to_string_lossy()])?;
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let client = cluster.client()?;
    while client.list_queues("load-code").await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT)?;
    let done = running.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stdout);
    ensure!(done.status.code() == Some(130), "{:?} {said}", done.status);
    let report: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    ensure!(report["interrupted"] == true, "{report}");
    let sent = number(&report, "/account/acknowledged")?;
    ensure!((20..2000).contains(&sent) && number(&report, "/account/lost")? == 0, "{said}");
    ensure_nothing_left(&cluster).await?;

    let (_, _) = run(&cluster, &file, &["--seconds", "1", "--keep"])?;
    ensure!(client.list_queues("load-code").await?.len() == 1, "--keep keeps it");
    Ok(())
}
