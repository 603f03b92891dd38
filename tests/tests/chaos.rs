//! `mayfly chaos` from end to end: it starts a cluster, hurts it, finds every promise kept, and leaves
//! a report that opens without a network.

use std::process::{Command, Output};

use anyhow::ensure;
use mayfly_tests::mayfly;

fn chaos(args: &[&str]) -> anyhow::Result<Output> {
    Ok(Command::new(mayfly()?).arg("chaos").args(args).output()?)
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
    let cases: [(&[&str], &str); 4] = [
        (&["--fault", "meteor"], "invalid value 'meteor'"),
        (&["--minutes", "0"], "allowed is more than 0"),
        (&["--nodes", "4"], "invalid value '4'"),
        (&["--schedule", "/nowhere.toml"], "cannot read '/nowhere.toml'"),
    ];
    for (args, told) in cases {
        let done = chaos(args)?;
        let said = String::from_utf8(done.stderr)?;
        ensure!(done.status.code() == Some(2) && said.contains(told), "{args:?}: {said}");
    }
    Ok(())
}
