//! Keys as files, for Prometheus and for commands (ERR-17).

use std::process::Command;

use anyhow::ensure;
use auth::sign;
use mayfly_tests::{mayfly, wire};

use super::attempts::{KEYS, start};
use super::{ask, now_s};

/// A key goes into a file for Prometheus, and into one for a command.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_monitors_read_metrics_and_commands_take_keys() -> anyhow::Result<()> {
    let cluster = start().await?;
    let get = |request: &str, key: &str| {
        let header = format!("Authorization: Bearer {key}\r\n");
        ask(wire::tcp(cluster.addresses(1)[1])?, request, &header).map(|(status, _)| status)
    };
    for (request, key, status) in [
        ("GET /metrics", "the-monitors-key", 200),
        ("GET /health/details", "the-monitors-key", 200),
        ("GET /metrics", "the-operators-key", 200),
        ("GET /metrics", "the-managers-key", 200),
        ("GET /metrics", "the-clerks-key", 401),
        ("GET /metrics", "the-senders-key-1", 401),
        ("GET /metrics", "the-key-of-the-shop", 401),
        ("GET /orders", "the-monitors-key", 401),
        ("GET /orders", "the-clerks-key", 200),
        ("POST /orders/messages", "the-senders-key-1", 201),
        ("POST /orders/messages", "the-key-of-the-shop", 201),
        ("POST /other/messages", "the-senders-key-1", 401),
    ] {
        assert_eq!(get(request, key)?, status, "{request} {key}");
    }
    let (_, body) = {
        let token = sign("https%3A%2F%2Flocalhost", "sender", "the-senders-key-1", now_s() + 60);
        ask(
            wire::tcp(cluster.addresses(1)[1])?,
            "GET /orders",
            &format!("Authorization: {token}\r\n"),
        )?
    };
    let body = body.replace("&apos;", "'");
    ensure!(body.contains("key 'sender' has no right 'Manage' on 'orders'"), "{body}");

    let file = cluster.dir().join("shop.key");
    std::fs::write(&file, "the-key-of-the-shop\n")?;
    let run = |arguments: &[&str]| {
        let program = mayfly()?;
        let ran = Command::new(program)
            .args(arguments)
            .args(["--connect", cluster.addresses(1)[0], "--key-name", "shop", "--secret-file"])
            .arg(&file)
            .env_remove("MAYFLY_SECRET")
            .output()?;
        anyhow::Ok((ran.status.code(), String::from_utf8(ran.stderr)?))
    };
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode));
    mode(0o644)?;
    let (code, told) = run(&["send", "orders", "hello"])?;
    ensure!(code == Some(2) && told.contains("is open to everyone"), "{code:?} {told}");
    mode(0o600)?;
    let (code, told) = run(&["send", "orders", "hello"])?;
    ensure!(code == Some(0), "{code:?} {told}");
    let (code, told) = run(&["peek", "orders"])?;
    ensure!(
        code == Some(1) && told.contains("has no right 'Listen' on 'orders'"),
        "{code:?} {told}"
    );
    let log = cluster.node_log(1);
    ensure!(log.contains("gRPC client refused"), "{log}");
    for line in KEYS.lines().filter_map(|line| line.split_once("key = ")) {
        let key = line.1.trim_matches('"');
        ensure!(!log.contains(key), "{key} is in {log}");
    }
    Ok(())
}
