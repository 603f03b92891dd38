//! Join tokens, as an operator and a node that joins have them: one node for one token, and nothing said to
//! whom the token's authority does not vouch for.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::Client;
use client::v1::{CreateJoinTokenRequest, JoinRequest, NodeAddress, NodeRole};
use domain::FEATURE_LEVEL_KNOWN;
use mayfly_tests::{Cluster, Settings, ask, cert, mayfly};
use nix::sys::signal::Signal;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
const SECRET: &str = "the secret of the cluster";
const PATIENCE: Duration = Duration::from_secs(60);

fn settings(nodes: u64, config: &'static str) -> Settings {
    Settings {
        nodes,
        data_groups: 1,
        peer_tls: true,
        node_tls: true,
        secret: Some(SECRET),
        config,
        ..Settings::default()
    }
}

/// Runs `mayfly cluster token` at node 1; what it printed, or why not.
fn command(cluster: &Cluster, words: &[&str]) -> anyhow::Result<Result<String, String>> {
    let mut command = Command::new(mayfly()?);
    command.args(["cluster", "token"]).args(words).env("MAYFLY_SECRET", SECRET);
    let ran = command.args(["--connect", cluster.addresses(1)[0]]).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(match ran.status.success() {
        true => Ok(text(&ran.stdout)),
        false => Err(text(&ran.stderr)),
    })
}

/// Makes a token, in a file of its own.
fn token(cluster: &Cluster, name: &str, words: &[&str]) -> anyhow::Result<(String, PathBuf)> {
    let token = command(cluster, words)?.map_err(anyhow::Error::msg)?;
    let path = cluster.dir().join(name);
    fs::write(&path, format!("{token}\n"))?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok((token, path))
}

fn flags(path: &Path) -> [&str; 2] {
    ["--token-file", path.to_str().expect("letters")]
}

fn seed(cluster: &Cluster) -> String {
    format!("https://{}", cluster.addresses(1)[0])
}

async fn is_in(cluster: &Cluster, node: u64) -> anyhow::Result<()> {
    cluster
        .wait_for_status("the node that joins", |status| {
            let known = status.nodes.iter().find(|known| known.id == node);
            known.is_some_and(|known| known.reachable && known.role() == NodeRole::Active)
        })
        .await
}

/// A node that is refused ends, and its last line says why.
async fn is_refused(cluster: &mut Cluster, id: u64, why: &str) -> anyhow::Result<()> {
    let code = cluster.wait_ended(id).await?;
    let told = cluster.last_words(id);
    ensure!(code.is_some_and(|code| code != 0), "{code:?}: {told}");
    let line = told.lines().find(|line| line.contains(why));
    ensure!(line.is_some(), "'{why}' is not said: {told}");
    Ok(())
}

/// The same token shown by hand, as a node of that number.
async fn show(client: &Client, token_id: u64, secret: &[u8], node: u64) -> Result<u64, String> {
    let at = |port: u16| format!("127.0.0.1:{port}");
    let node = NodeAddress {
        id: node,
        peer_address: at(1000 + node as u16),
        grpc_address: at(1),
        http_address: at(2),
    };
    let (node, secret, request) = (Some(node), secret.to_vec().into(), rand::random());
    let feature_level = FEATURE_LEVEL_KNOWN;
    let joined = client.join(JoinRequest { node, token_id, secret, request, feature_level }).await;
    joined.map(|joined| joined.id).map_err(|error| error.detail().message.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fourth_node_joins_with_a_token_and_nobody_else_does() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let config = "[audit]\nlog = true\n[log]\nfilter = \"info,grpc=debug,h2=debug,tonic=debug,tower=debug\"\n";
    let mut cluster = Cluster::start(settings(3, config)).await?;
    let (client, certs, seed) = (cluster.client()?, cluster.certs(), seed(&cluster));
    let (text, path) = token(&cluster, "token", &["--node", "4"])?;
    ensure!(text.starts_with("mjt1_") && !text.contains('\n'), "{text}");

    // Not as another node, and not from a file that others can read.
    let fifth = cluster.join_certified(&seed, 5, &certs, &flags(&path))?;
    is_refused(&mut cluster, fifth, "the join token is for node 4, and this is node 5").await?;
    let open = cluster.dir().join("open");
    fs::copy(&path, &open)?;
    fs::set_permissions(&open, Permissions::from_mode(0o644))?;
    let other = cluster.join_certified(&seed, 4, &certs, &flags(&open))?;
    is_refused(&mut cluster, other, "is open to everyone (mode 644)").await?;
    let cut = text[..text.len() - 4].to_owned();
    let other = cluster.join_certified(&seed, 4, &certs, &["--token", &cut])?;
    is_refused(&mut cluster, other, "some of the join token is missing or changed").await?;

    let node = cluster.join_certified(&seed, 4, &certs, &flags(&path))?;
    is_in(&cluster, 4).await?;
    let list = command(&cluster, &["--list"])?.map_err(anyhow::Error::msg)?;
    ensure!(list.contains("used"), "{list}");
    // It is a member now, and starts again without the token's file, whatever it is started with.
    fs::remove_file(&path)?;
    cluster.kill(node)?;
    cluster.start_node(node)?;
    is_in(&cluster, 4).await?;
    cluster.kill(node)?;
    cluster.forget_join(node);
    cluster.start_node(node)?;
    is_in(&cluster, 4).await?;

    // The token is used up.
    fs::write(&path, &text)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    let other = cluster.join_certified(&seed, 4, &certs, &flags(&path))?;
    is_refused(&mut cluster, other, "the join token has admitted node 4 already").await?;

    // One that ended, and one that was revoked.
    let (_, ended) = token(&cluster, "ended", &["--expires", "10m"])?;
    client.advance_clock(Duration::from_secs(601)).await?;
    let other = cluster.join_certified(&seed, 6, &certs, &flags(&ended))?;
    is_refused(&mut cluster, other, "the join token ended").await?;
    let (text_of_revoked, revoked) = token(&cluster, "revoked", &[])?;
    let id = text_of_revoked.split('_').nth(1).context("an id")?;
    command(&cluster, &["--revoke", id])?.map_err(anyhow::Error::msg)?;
    let other = cluster.join_certified(&seed, 6, &certs, &flags(&revoked))?;
    is_refused(&mut cluster, other, "the join token is not known").await?;

    // Told of, and counted; and its secret stands nowhere.
    let proof = format!("Authorization: Bearer {SECRET}\r\n");
    let metrics = ask(cluster.addresses(1)[1], "GET /metrics", &proof, "")?.body;
    for reason in ["token-used", "token-expired", "token-unknown", "token-of-another-node"] {
        let row = format!("mayfly_refused_proofs_total{{protocol=\"grpc\",reason=\"{reason}\"}}");
        ensure!(metrics.contains(&row), "{reason} is not counted:\n{metrics}");
    }
    // Each by the node that was asked.
    let log: String = cluster.ids().map(|id| cluster.node_log(id)).collect();
    for told in [
        "audit: token.create",
        "audit: token.revoke",
        "principal=\"join-token\"",
        // Of one address the first is told at once, and the rest is gathered.
        "reason=\"token-of-another-node\"",
    ] {
        ensure!(log.contains(told), "the audit does not tell {told}");
    }
    let hidden = text.splitn(3, '_').nth(2).context("a secret")?;
    for id in cluster.ids() {
        ensure!(!cluster.node_log(id).contains(&hidden[..20]), "node {id} logs the token");
    }
    Ok(())
}

/// Whoever answers is known before he is told anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_to_nodes_of_its_authority_only() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let mut cluster = Cluster::start(settings(3, "")).await?;
    let certs = cluster.certs();
    let (text, path) = token(&cluster, "token", &[])?;
    let elsewhere = cluster.dir().join("elsewhere");
    cert(&elsewhere, &["authority"])?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    // With an authority that the token does not name nobody is even called.
    let stranger =
        cluster.join_certified(&format!("https://{address}"), 4, &elsewhere, &flags(&path))?;
    is_refused(&mut cluster, stranger, "has no authority that the join token names").await?;
    ensure!(listener.accept().is_err(), "somebody was called");
    // Nor in plain text.
    let plain = format!("http://{address}");
    let other = cluster.join_certified(&plain, 4, &certs, &flags(&path))?;
    is_refused(&mut cluster, other, "would send the join token to whoever answers").await?;
    ensure!(listener.accept().is_err(), "somebody was called");

    // Whoever answers in the place of a node gets the beginning of a handshake, and nothing of the token.
    let node = cluster.join_certified(&format!("https://{address}"), 4, &certs, &flags(&path))?;
    let until = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    let mut caller = loop {
        match listener.accept() {
            Ok((caller, _)) => break caller,
            Err(_) => ensure!(Instant::now() < until, "nobody calls"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    caller.set_nonblocking(false)?;
    caller.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut part = [0; 4096];
    while let Ok(count @ 1..) = caller.read(&mut part) {
        said.extend_from_slice(&part[..count]);
    }
    ensure!(said.first() == Some(&0x16), "it is no handshake: {said:?}");
    let hidden = text.splitn(3, '_').nth(2).context("a secret")?.as_bytes();
    ensure!(!said.windows(16).any(|part| part == &hidden[..16]), "it says the token");
    cluster.signal(node, Signal::SIGKILL)?;

    // An authority's own node is another matter.
    let seed = seed(&cluster);
    cluster.join_certified(&seed, 4, &certs, &flags(&path))?;
    is_in(&cluster, 4).await
}

/// However many show one token at once, one is let in; whoever shows it again with the same question is
/// answered again.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_show_one_token_at_once_one_is_let_in() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let config = "wrong_keys_per_minute = 0\n";
    let settings = Settings { config, data_groups: 1, secret: Some(SECRET), ..Settings::default() };
    let cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    for round in 0..5_u64 {
        let (id, secret) = (100 + round, [round as u8; 32]);
        let request = CreateJoinTokenRequest {
            id,
            secret_hash: auth::JoinSecret(secret).hash().to_vec().into(),
            lasts_ms: 60_000,
            node: 0,
        };
        let created = client.create_join_token(request.clone()).await?;
        let again = client.create_join_token(request).await?;
        ensure!(created == again, "a repeat answers the same");
        let first = 10 + 10 * round;
        let mut shown = JoinSet::new();
        for (node, at) in (first..first + 6).zip([1, 2, 3].into_iter().cycle()) {
            // It proves nothing else.
            let client = Client::connect([cluster.addresses(at)[0]])?;
            shown.spawn(async move { show(&client, id, &secret, node).await });
        }
        let answers = shown.join_all().await;
        let let_in: Vec<&u64> = answers.iter().flatten().collect();
        ensure!(let_in.len() == 1, "{answers:?}");
        let told = format!("the join token has admitted node {} already", let_in[0]);
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            ensure!(refused.starts_with(&told), "{refused}");
        }
        let status = client.status(false).await?;
        let known = status.nodes.iter().filter(|node| (first..first + 6).contains(&node.id));
        ensure!(known.count() == 1, "{:?}", status.nodes);
    }
    // A wrong secret, and one of another length, tell nothing of the token.
    for secret in [&[9; 32][..], &[], &[0; 33]] {
        let told = show(&client, 100, secret, 99).await.expect_err("it is wrong");
        ensure!(told.starts_with("the join token is not known"), "{told}");
    }
    Ok(())
}

/// Where tokens are required the secret does not let a node in, and what is in stays in.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_may_ask_every_node_for_a_token() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let cluster_config = "require_join_token = true\n";
    let mut cluster = Cluster::start(Settings { cluster_config, ..settings(3, "") }).await?;
    let (certs, seed) = (cluster.certs(), seed(&cluster));
    let other = cluster.join_certified(&seed, 4, &certs, &[])?;
    is_refused(&mut cluster, other, "this cluster takes nodes with a join token only").await?;
    let (_, path) = token(&cluster, "token", &[])?;
    cluster.join_certified(&seed, 4, &certs, &flags(&path))?;
    is_in(&cluster, 4).await?;
    Ok(())
}
