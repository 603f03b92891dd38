//! `mayfly chaos` from end to end: it starts a cluster, hurts it, finds every promise kept, and leaves
//! a report that opens without a network.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mayfly_tests::{Cluster, Settings, mayfly};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::time::timeout;

fn chaos(args: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new(mayfly()?).arg("chaos").args(args).output()?)
}

/// Runs a schedule for so many minutes; the exit code and the report.
fn scheduled(schedule: &str, minutes: &str, args: &[&str]) -> anyhow::Result<(Option<i32>, Value)> {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(&file, schedule)?;
    let path = file.path().to_string_lossy();
    let args = [&["--json", "--minutes", minutes, "--schedule", &path[..]][..], args].concat();
    let done = chaos(&args)?;
    let told = String::from_utf8_lossy(&done.stderr);
    let json = serde_json::from_slice(&done.stdout).with_context(|| told.into_owned())?;
    Ok((done.status.code(), json))
}

/// What is told of each fault.
fn told(report: &Value) -> Vec<&str> {
    let faults = report["faults"].as_array().into_iter().flatten();
    faults.filter_map(|fault| fault["told"].as_str()).collect()
}

#[test]
fn a_short_experiment_keeps_every_promise_and_leaves_a_report() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let report = dir.path().join("report");
    let place = report.to_string_lossy();
    let done = chaos(&["--minutes", "0.3", "--seed", "1", "--json", "--report", &place])?;
    let (told, said) = (String::from_utf8(done.stderr)?, String::from_utf8(done.stdout)?);
    ensure!(done.status.success(), "{}: {told}\n{said}", done.status);
    ensure!(told.contains("seed 1"), "{told}");

    let json: serde_json::Value = serde_json::from_str(&said)?;
    ensure!(json["holds"] == true && json["seed"] == 1, "{said}");
    let sent = json["figures"]["messages_sent"].as_u64();
    ensure!(sent.is_some_and(|sent| sent > 500), "{sent:?} messages prove nothing");
    let faults = json["faults"].as_array().map(Vec::len);
    ensure!(faults.is_some_and(|faults| faults > 0), "no fault came: {told}");

    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report.join("report.json"))?)?;
    ensure!(written == json, "the file and standard output differ");
    let page = std::fs::read_to_string(report.join("report.html"))?;
    ensure!(page.contains("\"seed\":1,") && !page.contains("{{data}}"), "no data in the page");
    ensure!(!report.join("history.json").exists(), "a history nobody needs");
    Ok(())
}

#[test]
fn wrong_usage_is_told_and_nothing_is_started() -> anyhow::Result<()> {
    let cases: [(&[&str], &str); 19] = [
        (&["--fault", "meteor"], "invalid value 'meteor'"),
        (&["--minutes", "0"], "allowed is more than 0"),
        (&["--nodes", "4"], "invalid value '4'"),
        (&["--connect", "a:1", "--fault", "kill"], "kill needs an agent beside each node"),
        (&["--connect", "a:1", "--fault", "wipe"], "wipe needs a cluster of its own"),
        (&["--connect", "a:1", "--agent", "b:1", "--fault", "wipe"], "needs a cluster of its own"),
        (&["--agent", "a:1"], "--connect"),
        (&["agent", "--", "--data-dir", "d"], "the node is not in development mode"),
        (&["agent", "--", "--no-such"], "behind --: unexpected argument '--no-such'"),
        (&["--connect", "a:1", "--durability", "replicated"], "cannot be used with"),
        (&["--connect", "a:1", "--namespaces"], "cannot be used with"),
        (&["--connect", "a:1", "--tls"], "cannot be used with"),
        (&["--connect", "a:1", "--keys"], "cannot be used with"),
        (&["--connect", "a:1", "--restore"], "cannot be used with"),
        (&["--restore", "--workload", "queue,temporary"], "--restore has no workload 'temporary'"),
        (&["--fault", "rotate-key", "--tls"], "rotate-key needs nodes that ask clients for a key"),
        (&["--fault", "kill,rotate-authority"], "rotate-authority needs nodes with certificates"),
        (&["--fault", "damaged-snapshot", "--tls"], "changes what nodes send in plain text"),
        (&["--schedule", "/nowhere.toml"], "cannot read '/nowhere.toml'"),
    ];
    for (args, told) in cases {
        let done = chaos(args)?;
        let said = String::from_utf8(done.stderr)?;
        ensure!(done.status.code() == Some(2) && said.contains(told), "{args:?}: {said}");
    }
    Ok(())
}

/// Nodes with agents, as they would be on machines of their own: with certificates, so that agents see bytes only.
#[tokio::test(flavor = "multi_thread")]
async fn agents_hurt_a_cluster_that_was_started_by_hand() -> anyhow::Result<()> {
    const SECRET: &str = "of-this-cluster-0123456789";
    let settings =
        Settings { agents: true, peer_tls: true, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let (connect, agents) = (cluster.addresses(1)[0], cluster.agents());
    let given = ["--connect", connect, "--agent", &agents];

    let other = chaos(&[&given[..], &["--secret", "of-another"]].concat())?;
    let said = String::from_utf8(other.stderr)?;
    ensure!(!other.status.success() && !said.contains("panicked"), "{said}");

    let schedule = "        [[fault]]\nat = 2\nlasts = 1\nkind = \"kill\"\nleader_of = 1\n\
        [[fault]]\nat = 5\nlasts = 2\nkind = \"pause\"\nleader_of = 2\n\
        [[fault]]\nat = 9\nlasts = 1\nkind = \"restart\"\nnode = 3\n\
        [[fault]]\nat = 12\nlasts = 2\nkind = \"partition\"\nleader_of = 1\n\
        [[fault]]\nat = 16\nlasts = 2\nkind = \"partition\"\nnode = 2\ndirection = \"in\"\nothers = 1\n\
        [[fault]]\nat = 20\nlasts = 2\nkind = \"delay\"\nnode = 1\n\
        [[fault]]\nat = 24\nlasts = 1\nkind = \"slow-sync\"\nnode = 1\n\
        [[fault]]\nat = 27\nlasts = 1\nkind = \"partition\"\nnode = 3\nothers = \"clients\"\n";
    let args = [&given[..], &["--seed", "1", "--secret", SECRET]].concat();
    let begun = Instant::now();
    let (code, report) = scheduled(schedule, "0.55", &args)?;
    let told = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{told:?}: {}", report["violations"]);
    let skipped = report["faults"].as_array().into_iter().flatten();
    ensure!(skipped.clone().all(|fault| fault["skipped"].is_null()), "{:#}", report["faults"]);
    ensure!(told.len() == 8, "{told:?} after {:?}", begun.elapsed());
    ensure!(told[3].contains("cut node") && told[3].contains('→'), "{told:?}");
    // Without the leader's node there is no service for a moment: the faults did happen.
    let outages = skipped.filter_map(|fault| fault["outage_ms"].as_u64());
    let outages: Vec<u64> = outages.collect();
    ensure!(outages[1] > 1_000 && outages[3] > 500, "no service was missed: {outages:?}");
    Ok(())
}

/// What an experiment did is put right when its connection ends, whatever became of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_puts_right_what_an_experiment_left() -> anyhow::Result<()> {
    let settings = Settings { agents: true, data_groups: 1, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let file = tempfile::NamedTempFile::new()?;
    fs::write(&file, "[[fault]]\nat = 1\nlasts = 600\nkind = \"pause\"\nnode = 2\n")?;
    let path = file.path().to_string_lossy().into_owned();
    let (connect, agents) = (cluster.addresses(1)[0].to_owned(), cluster.agents());
    let args = ["chaos", "--connect", &connect, "--agent", &agents, "--minutes", "11"];
    let mut experiment = Command::new(mayfly()?)
        .args(args)
        .args(["--schedule", &path, "--workload", "queue"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let of_two = cluster.client_of(2)?;
    let until = Instant::now() + Duration::from_secs(30);
    while matches!(timeout(Duration::from_secs(1), of_two.now()).await, Ok(Ok(_))) {
        ensure!(Instant::now() < until && experiment.try_wait()?.is_none(), "node 2 is not paused");
    }
    let busy = chaos(&["--connect", &connect, "--agent", &agents, "--minutes", "0.1"])?;
    let said = String::from_utf8(busy.stderr)?;
    ensure!(busy.status.code() == Some(2) && said.contains("busy with another"), "{said}");
    experiment.kill()?;
    experiment.wait()?;
    cluster.wait_ready().await?;
    of_two.now().await.context("node 2 goes on")?;
    Ok(())
}

/// Backups are made while nodes die and lose their disks, and the last one is restored when all is lost.
#[test]
#[ignore = "takes a minute: tests/nightly.sh"]
fn what_a_backup_has_outlives_the_loss_of_all_disks() -> anyhow::Result<()> {
    let args = ["--restore", "--seed", "4", "--minutes", "0.4", "--fault", "kill,wipe", "--json"];
    let done = chaos(&args)?;
    let (told, said) = (String::from_utf8(done.stderr)?, String::from_utf8(done.stdout)?);
    ensure!(done.status.success(), "{}: {told}\n{said}", done.status);
    let report: Value = serde_json::from_str(&said)?;
    let figures = &report["figures"];
    let sent = figures["messages_sent"].as_u64();
    ensure!(sent.is_some_and(|sent| sent > 500), "{sent:?} messages prove nothing");
    ensure!(figures["restore"]["seconds"].is_f64(), "nothing was restored: {told}");
    Ok(())
}

/// Two power failures, a disk that is slow at syncing, and snapshots whose bits change on their way.
#[test]
fn disks_and_snapshots_that_fail_break_no_promise() -> anyhow::Result<()> {
    let schedule = "\
        [[fault]]\nat = 3\nlasts = 4\nkind = \"slow-sync\"\nleader_of = 1\n\
        [[fault]]\nat = 9\nlasts = 1\nkind = \"power-failure\"\nleader_of = 2\n\
        [[fault]]\nat = 14\nlasts = 1\nkind = \"blackout\"\n\
        [[fault]]\nat = 22\nlasts = 3\nkind = \"damaged-snapshot\"\nnode = 2\n";
    let (code, report) = scheduled(schedule, "0.7", &["--seed", "1"])?;
    let told = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{told:?}: {}", report["violations"]);
    let [slow, failure, blackout, snapshot] = told[..] else { anyhow::bail!("{told:?}") };
    ensure!(slow.contains("made syncs of node") && slow.contains("longer"), "{slow}");
    ensure!(failure.contains("cut the power of node"), "{failure}");
    ensure!(blackout.contains("all nodes") && blackout.contains("node 3 lost "), "{blackout}");
    ensure!(snapshot.contains("flipped"), "{snapshot}");
    Ok(())
}

/// Nodes with certificates: one gets another, all get those of another authority, one joins with its own,
/// and each time all connections between them are made anew.
#[test]
#[ignore = "takes a minute: tests/nightly.sh"]
fn certificates_that_are_replaced_under_load_break_no_promise() -> anyhow::Result<()> {
    let schedule = "\
        [[fault]]\nat = 3\nlasts = 1\nkind = \"rotate-certificate\"\nleader_of = 1\n\
        [[fault]]\nat = 6\nlasts = 2\nkind = \"rotate-authority\"\nnode = 1\n\
        [[fault]]\nat = 12\nlasts = 1\nkind = \"kill\"\nleader_of = 2\n\
        [[fault]]\nat = 18\nlasts = 3\nkind = \"membership\"\nnode = 1\n";
    let (code, report) = scheduled(schedule, "0.6", &["--seed", "1", "--tls"])?;
    let told = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{told:?}: {}", report["violations"]);
    let [one, all, killed, joined] = told[..] else { anyhow::bail!("{told:?}") };
    ensure!(one.contains("replaced the certificate of node"), "{one}");
    ensure!(all.contains("replaced the authority"), "{all}");
    ensure!(killed.contains("killed node"), "{killed}");
    ensure!(joined.contains("node 101 joined and was given replicas"), "{joined}");
    Ok(())
}

/// ENT-12: clients have a key, natively and over AMQP, and none of them is refused however often it is
/// rotated; in the end the first value is nobody's for long.
#[test]
fn ent_12_keys_that_are_rotated_under_load_refuse_no_client() -> anyhow::Result<()> {
    let schedule = "\
        [[fault]]\nat = 3\nlasts = 1\nkind = \"rotate-key\"\nnode = 1\n\
        [[fault]]\nat = 6\nlasts = 1\nkind = \"rotate-key\"\nnode = 1\n\
        [[fault]]\nat = 9\nlasts = 1\nkind = \"kill\"\nleader_of = 1\n\
        [[fault]]\nat = 14\nlasts = 1\nkind = \"rotate-key\"\nnode = 1\n";
    let (code, report) = scheduled(schedule, "0.4", &["--seed", "1", "--keys"])?;
    let told = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{told:?}: {}", report["violations"]);
    let [first, second, killed, third] = told[..] else { anyhow::bail!("{told:?}") };
    for rotated in [first, second, third] {
        assert_eq!(rotated, "rotated the key of all clients");
    }
    ensure!(killed.contains("killed node"), "{killed}");
    let command = report["command"].as_str().unwrap_or_default();
    ensure!(command.ends_with(" --keys"), "{command}");
    Ok(())
}

/// Whether network namespaces can be made here, and traffic in them shaped: root, iproute2, and a kernel
/// with both.
fn may_make_namespaces() -> anyhow::Result<()> {
    let name = format!("mayfly-test-{}", std::process::id());
    let words = |words: &str| -> anyhow::Result<()> {
        let mut words = words.split(' ');
        let done = Command::new(words.next().unwrap_or_default()).args(words).output()?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(())
    };
    words(&format!("ip netns add {name}"))?;
    let shaped = words(&format!("tc -n {name} qdisc add dev lo root handle 1: htb"));
    words(&format!("ip netns del {name}"))?;
    shaped
}

/// Packets that the kernel loses, for good, in one direction or both, and a narrow link; what needs proxies
/// is left out and said so.
#[test]
fn a_network_that_loses_packets_breaks_no_promise() -> anyhow::Result<()> {
    let schedule = "\
        [[fault]]\nat = 3\nlasts = 3\nkind = \"partition\"\nleader_of = 1\ndirection = \"out\"\n\
        [[fault]]\nat = 9\nlasts = 2\nkind = \"slow\"\nnode = 2\n\
        [[fault]]\nat = 13\nlasts = 2\nkind = \"partition\"\nleader_of = 2\nothers = \"clients\"\n\
        [[fault]]\nat = 17\nlasts = 1\nkind = \"damaged-snapshot\"\nnode = 3\n\
        [[fault]]\nat = 18\nlasts = 2\nkind = \"membership\"\nnode = 1\n";
    if let Err(why) = may_make_namespaces() {
        eprintln!("skipped: {why:#}");
        return Ok(());
    }
    let (code, report) = scheduled(schedule, "0.45", &["--seed", "1", "--namespaces"])?;
    let all = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{all:?}: {}", report["violations"]);
    let command = report["command"].as_str().unwrap_or_default();
    ensure!(command.ends_with(" --namespaces"), "{command}");
    let done = |index: usize, what: &str| {
        let fault = &report["faults"][index];
        let is_told = fault["told"].as_str().is_some_and(|told| told.contains(what));
        ensure!(is_told && fault["skipped"].is_null(), "{fault}");
        Ok(())
    };
    done(0, "cut node")?;
    done(1, "slowed node 2")?;
    done(2, "clients")?;
    done(4, "joined")?;
    let skipped = report["faults"][3]["skipped"].as_str().unwrap_or_default();
    ensure!(skipped.contains("leave --namespaces"), "{}", report["faults"][3]);
    Ok(())
}

/// A node joins under load, is given replicas, is drained and removed; then a leader dies.
#[test]
#[ignore = "takes a minute: tests/nightly.sh"]
fn a_node_that_comes_and_goes_breaks_no_promise() -> anyhow::Result<()> {
    let schedule = "\
        [[fault]]\nat = 3\nlasts = 2\nkind = \"membership\"\nnode = 1\n\
        [[fault]]\nat = 15\nlasts = 1\nkind = \"kill\"\nleader_of = 1\n";
    let (code, report) = scheduled(schedule, "0.4", &["--seed", "1"])?;
    let told = told(&report);
    ensure!(code == Some(0) && report["holds"] == true, "{told:?}: {}", report["violations"]);
    let [member, killed] = told[..] else { anyhow::bail!("{told:?}") };
    ensure!(member.contains("joined and was given replicas"), "{member}");
    ensure!(member.ends_with("it was drained and removed"), "{member}");
    ensure!(killed.contains("killed node"), "{killed}");
    Ok(())
}

/// The bug that a blackout is there to find: acknowledging before what is acknowledged is synced. It
/// need not be planted, for nodes can be asked for it.
#[test]
fn a_blackout_catches_acknowledgements_before_their_sync() -> anyhow::Result<()> {
    let schedule = "[[fault]]\nat = 8\nlasts = 1\nkind = \"blackout\"\n";
    let load = ["--workload", "queue,locks", "--rate", "400"];
    // With this seed no node is left the mark that would tell it of its loss: the cluster goes on.
    let unsynced = [&load[..], &["--seed", "26", "--durability", "replicated"]].concat();
    let (code, report) = scheduled(schedule, "0.3", &unsynced)?;
    ensure!(code == Some(1) && report["holds"] == false, "not caught: {:?}", told(&report));
    let broken = report["violations"].as_array().into_iter().flatten();
    let promises: Vec<&str> = broken.filter_map(|it| it["promise"].as_str()).collect();
    let of_loss = ["nothing-lost", "settled-once", "stored-once", "numbers-in-order"];
    ensure!(promises.iter().any(|promise| of_loss.contains(promise)), "{promises:?}");
    let (code, report) = scheduled(schedule, "0.3", &[&load[..], &["--seed", "26"]].concat())?;
    ensure!(code == Some(0), "{:?}: {}", told(&report), report["violations"]);
    Ok(())
}

/// An experiment that runs, as a terminal would start it: in a process group of its own.
struct Running {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(args: &[&str], files: &Path) -> anyhow::Result<Running> {
        let mut child = Command::new(mayfly()?)
            .arg("chaos")
            .args(args)
            .env("TMPDIR", files)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let said = BufReader::new(child.stderr.take().context("piped")?);
        Ok(Running { child, said })
    }

    /// Waits until it says so.
    fn wait_for(&mut self, words: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            ensure!(self.said.read_line(&mut line)? > 0, "it ended without '{words}'");
        }
        Ok(())
    }

    /// Its nodes.
    fn children(&self) -> anyhow::Result<Vec<u32>> {
        let id = self.child.id();
        let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
        Ok(list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    }

    /// Ctrl-C.
    fn interrupt(&self) -> anyhow::Result<()> {
        Ok(killpg(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGINT)?)
    }

    /// Its exit code; what else it says is of no interest.
    fn end(mut self) -> anyhow::Result<Option<i32>> {
        let copied = std::io::copy(&mut self.said, &mut std::io::sink());
        copied.and_then(|_| Ok(self.child.wait()?.code())).context("it does not end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless the test fails; its nodes end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn interrupted_report(dir: &Path) -> anyhow::Result<()> {
    let report: Value = serde_json::from_str(&fs::read_to_string(dir.join("report.json"))?)?;
    ensure!(report["interrupted"] == true && report["holds"] == true, "{}", report["violations"]);
    ensure!(dir.join("report.html").exists(), "no page");
    Ok(())
}

#[test]
fn an_interrupted_experiment_is_checked_and_leaves_nothing_running() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let (report, files) = (dir.path().join("report"), dir.path().join("files"));
    fs::create_dir(&files)?;
    let place = report.to_string_lossy();
    let args =
        ["--minutes", "10", "--seed", "5", "--fault", "pause,partition", "--report", &place[..]];
    let mut running = Running::start(&args, &files)?;
    // In the middle of its first fault, which is told when it is over.
    running.wait_for("starting 3 nodes")?;
    std::thread::sleep(Duration::from_secs(14));
    let nodes = running.children()?;
    ensure!(nodes.len() == 3, "{nodes:?}");
    running.interrupt()?;
    running.wait_for("interrupted")?;
    let code = running.end()?;
    interrupted_report(&report)?;
    ensure!(code == Some(130), "{code:?} is not the code of an interruption");
    for node in nodes {
        ensure!(!Path::new(&format!("/proc/{node}")).exists(), "node process {node} is left");
    }
    ensure!(fs::read_dir(&files)?.next().is_none(), "files are left");
    Ok(())
}

#[test]
fn a_second_interruption_ends_it_at_once() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut running = Running::start(&["--minutes", "10", "--seed", "5"], dir.path())?;
    running.wait_for("starting 3 nodes")?;
    std::thread::sleep(Duration::from_secs(6));
    let nodes = running.children()?;
    running.interrupt()?;
    running.wait_for("interrupted")?;
    let begun = Instant::now();
    running.interrupt()?;
    ensure!(running.end()? == Some(130), "not the code of an interruption");
    ensure!(begun.elapsed() < Duration::from_secs(10), "it took {:?}", begun.elapsed());
    ensure!(!nodes.is_empty(), "it had begun");
    for node in nodes {
        ensure!(!Path::new(&format!("/proc/{node}")).exists(), "node process {node} is left");
    }
    ensure!(fs::read_dir(dir.path())?.next().is_none(), "files are left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_cluster_is_left_as_it_was() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    let given: Vec<String> = cluster.ids().map(|id| cluster.addresses(id)[0].to_owned()).collect();
    let given = given.join(",");
    let done = chaos(&["--connect", &given, "--minutes", "0.3", "--seed", "2", "--json"])?;
    let said = String::from_utf8_lossy(&done.stderr);
    let report: Value = serde_json::from_slice(&done.stdout).with_context(|| said.into_owned())?;
    ensure!(done.status.success(), "{}", report["violations"]);
    let kinds = report["faults"].as_array().into_iter().flatten().map(|fault| &fault["kind"]);
    let kinds: Vec<&Value> = kinds.collect();
    ensure!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == "transfer"), "{kinds:?}");
    ensure!(client.list_queues("").await?.is_empty(), "queues are left");
    ensure!(client.list_topics("").await?.is_empty(), "topics are left");

    let dir = tempfile::tempdir()?;
    let place = dir.path().join("report");
    let report = place.to_string_lossy();
    let args = ["--connect", &given[..], "--minutes", "10", "--seed", "3", "--report", &report[..]];
    let mut running = Running::start(&args, dir.path())?;
    running.wait_for("handed group")?;
    running.interrupt()?;
    let code = running.end()?;
    interrupted_report(&place)?;
    ensure!(code == Some(130), "{code:?} is not the code of an interruption");
    ensure!(client.list_queues("").await?.is_empty(), "queues are left");
    Ok(())
}
