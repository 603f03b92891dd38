//! Faults that clients are made to meet, on real clusters: rules are the cluster's, whoever leads and whoever is lost,
//! and nobody meets one who is not to. What each effect does to the SDKs is told by `tests/sdk/python/faults.py`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use client::v1::{FaultRule, QueueProperties};
use mayfly_tests::{Cluster, HttpAnswer, Settings, ask, mayfly};
use nix::sys::signal::Signal;
use serde_json::Value;

const SECRET: &str = "the-secret-of-the-tests";
const WITHIN: Duration = Duration::from_secs(20);

/// Sends a message through a node by plain HTTP; the status.
fn send(cluster: &Cluster, node: u64, queue: &str) -> anyhow::Result<u16> {
    let [_, http, _] = cluster.addresses(node);
    Ok(ask(http, &format!("POST /{queue}/messages"), "", "x")?.status)
}

async fn rule(cluster: &Cluster, node: u64, name: &str) -> anyhow::Result<Option<FaultRule>> {
    let listed = cluster.client_of(node)?.fault_rules().await?;
    ensure!(listed.silent.is_empty(), "{:?} do not answer", listed.silent);
    Ok(listed.rules.into_iter().find(|rule| rule.name == name))
}

fn counts(rule: Option<FaultRule>) -> Option<(u64, u64)> {
    rule.map(|rule| (rule.events, rule.hits))
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_8_fault_10_rules_are_the_clusters_whoever_leads_it() -> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings::default()).await?;
    let client = cluster.client()?;
    client.create_queue("orders", QueueProperties::default()).await?;
    client.create_queue("bills", QueueProperties::default()).await?;
    let busy = r#"{"operation":"send","entity":"orders","effect":"refuse","error":"ServiceBusy"}"#;
    let silent = client.put_fault_rule("busy", busy).await?;
    ensure!(silent.is_empty(), "{silent:?}");
    // Who was answered finds it at every node.
    for node in 1..=3 {
        ensure!(send(&cluster, node, "orders")? == 429, "node {node}");
        ensure!(send(&cluster, node, "bills")? == 201, "node {node}");
    }
    ensure!(counts(rule(&cluster, 2, "busy").await?) == Some((3, 3)));

    // Another rule leaves its counts alone, wherever it is put.
    let elsewhere = r#"{"operation":"send","entity":"bills","effect":"refuse","error":"ServiceBusy","every":2}"#;
    cluster.client_of(3)?.put_fault_rule("some", elsewhere).await?;
    ensure!(counts(rule(&cluster, 1, "busy").await?) == Some((3, 3)));
    let statuses = (0..4).map(|_| send(&cluster, 1, "bills")).collect::<Result<Vec<_>, _>>()?;
    ensure!(statuses == [201, 429, 201, 429], "{statuses:?}");

    // The catalog's leader is lost, and comes back with its disk.
    let leader =
        client.status(false).await?.groups.iter().find(|group| group.id == 0).map(|g| g.leader);
    let leader = leader.context("the catalog has a leader")?;
    let other = leader % 3 + 1;
    cluster.kill(leader)?;
    ensure!(send(&cluster, other, "orders")? == 429);
    let told = cluster.client_of(other)?.put_fault_rule("some", elsewhere).await?;
    ensure!(told == [leader], "a dead node goes by nothing: {told:?}");
    cluster.start_node(leader)?;
    cluster.wait_ready().await?;
    tokio::time::timeout(WITHIN, async {
        // It may not listen yet.
        while send(&cluster, leader, "orders").ok() != Some(429) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .context("a node that comes back goes by the rules")?;

    client.remove_fault_rules(Some("busy")).await?;
    for node in 1..=3 {
        ensure!(send(&cluster, node, "orders")? == 201, "node {node}");
    }
    let unknown = client.remove_fault_rules(Some("busy")).await.err().context("it is gone")?;
    ensure!(unknown.to_string().contains("there is none called 'busy'"), "{unknown}");

    // FAULT-7: by the cluster's clock.
    let until = r#"{"operation":"send","entity":"orders","effect":"refuse","error":"ServiceBusy","ends_after":"1h"}"#;
    client.put_fault_rule("busy", until).await?;
    ensure!(send(&cluster, 1, "orders")? == 429);
    client.advance_clock(Duration::from_secs(3600)).await?;
    for node in 1..=3 {
        ensure!(send(&cluster, node, "orders")? == 201, "node {node}");
    }
    Ok(())
}

fn answer(
    cluster: &Cluster,
    key: Option<(&str, &str)>,
    request: &str,
) -> anyhow::Result<HttpAnswer> {
    let [_, http, _] = cluster.addresses(1);
    let headers = key.map_or_else(String::new, |(name, key)| {
        format!("Authorization: {}\r\n", auth::authorization(Some(name), key))
    });
    let body = r#"{"operation":"send","effect":"reset"}"#;
    ask(http, request, &headers, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_9_only_who_may_has_clients_meet_faults() -> anyhow::Result<()> {
    const KEYS: &str = r#"
[[security.key]]
name = "manager"
key = "the-key-of-a-manager"
rights = ["manage", "operate"]
[[security.key]]
name = "tester"
key = "the-key-of-a-tester"
rights = ["inject-faults"]
"#;
    let settings = Settings { nodes: 1, secret: Some(SECRET), config: KEYS, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let manager = Some(("manager", "the-key-of-a-manager"));
    let tester = Some(("tester", "the-key-of-a-tester"));
    for (key, request, status) in [
        (None, "GET /$faults", 401),
        (manager, "GET /$faults", 401),
        (manager, "PUT /$faults/reset", 401),
        (tester, "GET /$faults", 200),
        (tester, "PUT /$faults/reset", 200),
        (tester, "POST /$faults/reset", 405),
        (tester, "DELETE /$faults/reset", 200),
        (tester, "DELETE /$faults/reset", 400),
        (tester, "DELETE /$faults", 200),
        (tester, "GET /$resources/queues", 401),
    ] {
        let answer = answer(&cluster, key, request)?;
        ensure!(answer.status == status, "{key:?} {request}: {} {}", answer.status, answer.body);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_9_outside_development_mode_the_configuration_has_to_allow_them() -> anyhow::Result<()>
{
    let settings = Settings { nodes: 1, development: false, ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let rule = r#"{"operation":"send","effect":"refuse","error":"ServiceBusy"}"#;
    let client = cluster.client()?;
    let told = client.put_fault_rule("busy", rule).await.err().context("it is not allowed")?;
    ensure!(told.to_string().contains("node.fault_rules"), "{told}");
    let refused = answer(&cluster, None, "PUT /$faults/busy")?;
    ensure!(refused.status == 400 && refused.body.contains("node.fault_rules"), "{}", refused.body);
    Ok(())
}

/// A command's exit code, and what it says.
fn run(cluster: &Cluster, words: &[&str]) -> anyhow::Result<(i32, String, String)> {
    let [grpc, ..] = cluster.addresses(1);
    let output = Command::new(mayfly()?).args(words).env("MAYFLY_CONNECT", grpc).output()?;
    let text = |bytes| String::from_utf8(bytes);
    let code = output.status.code().context("an exit code")?;
    Ok((code, text(output.stdout)?, text(output.stderr)?))
}

/// Each row: words, exit code, and what is said.
#[tokio::test(flavor = "multi_thread")]
async fn fault_5_commands_tell_what_is_wrong_and_what_is_met() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let dir = tempfile::tempdir()?;
    let file = |name: &str, text: &str| -> anyhow::Result<String> {
        let path = dir.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_str().context("a path in UTF-8")?.to_owned())
    };
    let good = file(
        "good.toml",
        "[[faults]]\nname = \"one\"\noperation = \"send\"\neffect = \"refuse\"\nerror = \"ServiceBusy\"\n\
         [[faults]]\nname = \"two\"\noperation = [\"complete\", \"abandon\"]\neffect = \"delay\"\ntime = \"1s\"\n",
    )?;
    let unknown = file(
        "unknown.toml",
        "[[faults]]\nname = \"one\"\noperation = \"send\"\nefect = \"reset\"\n",
    )?;
    let unfit = file(
        "unfit.toml",
        "[[faults]]\nname = \"one\"\noperation = \"send\"\neffect = \"lapse\"\n",
    )?;
    let add = |more: &[&'static str]| -> Vec<&str> { [&["fault", "add", "x"], more].concat() };
    for (words, code, said) in [
        (vec!["fault", "list"], 0, "no fault is met"),
        (
            add(&["--operation", "send", "--effect", "refuse", "--error", "ServiceBusy"]),
            0,
            "'x' is met from now on",
        ),
        (add(&["--operation", "send", "--effect", "reset", "--probability", "0.5"]), 0, ", seed "),
        (vec!["fault", "list"], 0, "\"effect\":\"reset\""),
        (
            add(&["--operation", "snd", "--effect", "reset"]),
            2,
            "--operation: allowed are the names",
        ),
        (
            add(&["--operation", "send", "--effect", "explode"]),
            2,
            "--effect: unknown variant `explode`",
        ),
        (add(&["--operation", "send", "--effect", "refuse"]), 2, "--error: this effect needs one"),
        (
            add(&["--operation", "send", "--effect", "refuse", "--error", "Nonsense"]),
            2,
            "--error: unknown variant `Nonsense`",
        ),
        (
            add(&["--operation", "send", "--effect", "delay", "--time", "5"]),
            2,
            "--time: '5' has no unit",
        ),
        (vec!["fault", "add", "--file", &unknown], 2, "unknown.toml:4: unknown key 'efect'"),
        (
            vec!["fault", "add", "--file", &unfit],
            2,
            "unfit.toml:4: effect: 'lapse' cannot be done to 'send'",
        ),
        (vec!["fault", "add", "--file", &good], 0, "'two' is met from now on"),
        (vec!["fault", "remove", "nobody"], 1, "there is none called 'nobody'"),
        (vec!["fault", "remove", "one"], 0, "'one' is met no more"),
        (vec!["fault", "clear"], 0, "no fault is met any more"),
    ] {
        let (found, out, err) = run(&cluster, &words)?;
        let told = if code == 0 { &out } else { &err };
        ensure!(found == code && told.contains(said), "{words:?}: {found} {out}{err}");
        ensure!(code == 0 || err.trim_end().lines().count() == 1, "{words:?}: {err}");
    }
    let (_, listed, _) = run(&cluster, &["fault", "list", "--json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    ensure!(listed == Value::Array(vec![]), "{listed}");
    let metrics = answer(&cluster, None, "GET /metrics")?.body;
    ensure!(metrics.contains("mayfly_fault_rules 0"), "{metrics}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_5_what_is_refused_over_http_is_not_done_and_what_is_not_answered_is()
-> anyhow::Result<()> {
    let mut cluster = Cluster::start(Settings { nodes: 1, ..Settings::default() }).await?;
    let client = cluster.client()?;
    client.create_queue("q", QueueProperties::default()).await?;
    let stored = async || -> anyhow::Result<u64> {
        Ok(client.get_queue("q").await?.counters.context("counters")?.active)
    };
    for (error, status) in
        [("QuotaExceeded", 403), ("MessagingEntityNotFound", 404), ("GeneralError", 500)]
    {
        let rule = format!(r#"{{"operation":"send","effect":"refuse","error":"{error}"}}"#);
        client.put_fault_rule("f", &rule).await?;
        let found = send(&cluster, 1, "q")?;
        ensure!(found == status, "{error}: {found}");
    }
    ensure!(stored().await? == 0);
    let (rule, [_, http, _]) =
        (r#"{"operation":"send","effect":"lose-answer"}"#, cluster.addresses(1));
    client.put_fault_rule("f", rule).await?;
    let http = http.to_owned();
    let unanswered = std::thread::spawn(move || ask(&http, "POST /q/messages", "", "x").is_err());
    tokio::time::timeout(WITHIN, async {
        while stored().await? == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    })
    .await
    .context("it is stored")??;
    ensure!(!unanswered.is_finished(), "it was answered");
    // Who waits for nothing holds up no end.
    cluster.signal(1, Signal::SIGTERM)?;
    ensure!(cluster.wait_ended(1).await? == Some(0), "{}", cluster.last_words(1));
    ensure!(unanswered.join().is_ok_and(|is_error| is_error), "its connection ends");
    Ok(())
}
