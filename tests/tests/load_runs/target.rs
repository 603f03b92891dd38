//! Targets that want a key or speak TLS, and those that are not there, refuse, or speak something else.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use anyhow::ensure;
use mayfly_tests::{Cluster, Settings, mayfly};

use super::{ONE_AT_A_TIME, ensure_nothing_left, load, number, written};

const SECRET: &str = "the cluster's own secret";

const FILE: &str = "thresholds = [\"lost == 0\", \"errors == 0\"]\n\
    [phases]\nwarm_up = \"0s\"\nmeasure = \"1s\"\n\
    [[queues]]\nname = \"load-target-{run}\"\n\
    [[producers]]\nto = \"load-target-{run}\"\nrate = 100\n\
    [[consumers]]\nfrom = \"load-target-{run}\"\n";

/// Over TLS and with a key, in each way to log in that takes one; tokens are for each entity by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_over_tls_in_every_way() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, tls: true, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let dir = tempfile::tempdir()?;
    let file = written(dir.path(), FILE)?;
    let authority = cluster.certificate().to_string_lossy().into_owned();
    let amqps = format!("amqps://{}", cluster.amqps_address(1));
    let amqp = ["--tls-ca", &authority, "--protocol", "amqp", "--amqp", &amqps];
    let grpc = format!("https://{}", cluster.addresses(1)[0]);
    let json = dir.path().join("report.json");
    for flags in [
        [&amqp[..], &["--sasl", "sas"]].concat(),
        [&amqp[..], &["--sasl", "plain"]].concat(),
        vec!["--tls-ca", &authority],
    ] {
        let mut command = Command::new(mayfly()?);
        command.args(["load", "run"]).arg(&file).arg("--json").arg(&json);
        command.args(["--connect", &grpc, "--secret", SECRET]);
        let done = command.args(&flags).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "{flags:?} {said}");
        let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json)?)?;
        ensure!(number(&report, "/account/delivered")? == 100, "{flags:?} {report}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}

/// A port that answers whatever it is asked with a line, and no TLS.
fn without_tls() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.write_all(b"220 mail.example ESMTP\r\n");
            // Until the other side goes.
            let _ = client.read_to_end(&mut Vec::new());
        }
    });
    Ok(address)
}

/// Whatever a target does in place of taking a load is told in one sentence, and nothing is left behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_takes_no_load_is_told_in_a_sentence() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, tls: true, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let dir = tempfile::tempdir()?;
    let file = written(dir.path(), FILE)?;
    let authority = cluster.certificate().to_string_lossy().into_owned();
    let (plain, encrypted) = (cluster.amqp_address(1), cluster.amqps_address(1));
    let [tls_to_plain, tls_to_tls, mute, nowhere] = [
        format!("amqps://{}", without_tls()?),
        format!("amqps://{encrypted}"),
        without_tls()?,
        "amqps://127.0.0.1:9".to_owned(),
    ];
    let trusted = ["--tls-ca", authority.as_str()];
    let key = ["--secret", SECRET];
    let wrong_key = ["--secret", "another"];
    let to = |address| ["--protocol", "amqp", "--amqp", address];
    let cases: [(Vec<&str>, &str); 8] = [
        ([&to(&nowhere)[..], &trusted, &key].concat(), "amqps://127.0.0.1:9: "),
        ([&to(&tls_to_plain)[..], &trusted, &key].concat(), "TLS fails: "),
        ([&to(&mute)[..], &key].concat(), &mute),
        ([&to(&tls_to_tls)[..], &key].concat(), &tls_to_tls),
        ([&to(plain)[..], &wrong_key].concat(), plain),
        ([&to(plain)[..], &wrong_key, &["--sasl", "sas"]].concat(), ""),
        ([&to(plain)[..], &["--sasl", "sas"]].concat(), "the key is missing"),
        (wrong_key.to_vec(), ""),
    ];
    for (flags, told) in cases {
        let done = load(&cluster, &file, &flags)?.output()?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        println!("{flags:?}: {said}");
        ensure!(done.status.code() == Some(2), "{flags:?}: {:?} {said}", done.status.code());
        ensure!(said.lines().count() == 1 && said.contains(told), "{flags:?}: {said}");
        ensure!(!said.contains("panicked") && !said.contains("Os {"), "{said}");
        ensure_nothing_left(&cluster).await?;
    }
    Ok(())
}
