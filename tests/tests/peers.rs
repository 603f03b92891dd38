//! Nodes that know each other by certificates: who gets in, and what becomes of it when certificates are
//! replaced under load.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use client::Client;
use domain::FEATURE_LEVEL_KNOWN;
use mayfly_tests::{Cluster, Load, LoadOptions, Settings, cert, sign};
use nix::sys::signal::Signal;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, SanType};
use tokio::sync::Mutex;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic_prost::ProstCodec;

/// Two cores carry one cluster at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
/// How long a node may take to notice what was told to it by a signal.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);
const READ_AGAIN: &str = "the certificate for peers was read again";
const STAYS: &str = "the certificate for peers stays as it was";

/// A certificate and its key.
type Pair = (String, String);

/// How someone knocks at a peer port.
#[derive(Clone, Copy)]
enum Attempt<'a> {
    PlainText,
    /// With TLS, and no certificate.
    Unnamed,
    With(&'a Pair),
}

/// Asks node 1 for its clocks, as this node; what it is told otherwise.
async fn knock(
    cluster: &Cluster,
    attempt: Attempt<'_>,
    from: u64,
) -> anyhow::Result<Result<(), String>> {
    let port = cluster.addresses(1)[2].rsplit_once(':').context("a port")?.1;
    let authority = fs::read(cluster.certs().join("authority.pem"))?;
    let mut tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority))
        .domain_name("127.0.0.1");
    if let Attempt::With((certificate, key)) = attempt {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let endpoint = match attempt {
        Attempt::PlainText => Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?,
        Attempt::Unnamed | Attempt::With(_) => {
            Endpoint::from_shared(format!("https://127.0.0.1:{port}"))?.tls_config(tls)?
        }
    };
    let mut request = Request::new(());
    let id: String = cluster.id()?.bytes().map(|byte| format!("{byte:02x}")).collect();
    for (name, value) in [
        ("mayfly-protocol", "1".to_owned()),
        ("mayfly-cluster", id),
        ("mayfly-from", from.to_string()),
        ("mayfly-to", "1".to_owned()),
        ("mayfly-process", "00000007-0000000000000001".to_owned()),
    ] {
        request.metadata_mut().insert(name, value.parse()?);
    }
    let call = async {
        let channel = endpoint.connect().await.map_err(|error| causes(&error))?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| causes(&error))?;
        let path = PathAndQuery::from_static("/mayfly.peer.v1.Peer/Clocks");
        let answer = grpc.unary(request, path, ProstCodec::<(), ()>::default()).await;
        answer.map(drop).map_err(|status| causes(&status))
    };
    tokio::time::timeout(NOTICED_WITHIN, call).await.context("no answer")
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut told = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        told = format!("{told}: {cause}");
        source = cause.source();
    }
    told
}

/// A certificate of node 9, signed by the cluster's authority, that `change` has made something else.
fn signed(certs: &Path, change: impl Fn(&mut CertificateParams)) -> anyhow::Result<Pair> {
    sign(certs, |params| {
        params.subject_alt_names = vec![SanType::URI("mayfly://cluster/node/9".try_into()?)];
        change(params);
        Ok(())
    })
}

/// Refused in the handshake: by an alert, or, where the caller was still speaking as it came, by the end
/// of the connection.
const IN_THE_HANDSHAKE: &[&str] = &["alert", "connection closed", "reset", "broken pipe"];

/// Each row: what is shown at the peer port of a cluster with certificates, as which node, and a word of
/// the refusal, one of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_port_lets_in_whom_a_certificate_makes_that_node() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 1, data_groups: 1, peer_tls: true, ..Settings::default() };
    let cluster =
        Cluster::start(Settings { secret: Some("the secret of the cluster"), ..settings }).await?;
    let certs = cluster.certs();
    let elsewhere = cluster.dir().join("elsewhere");
    cert(&elsewhere, &["authority"])?;
    for dir in [&certs, &elsewhere] {
        cert(dir, &["node", "9", "127.0.0.1"])?;
        cert(dir, &["client", "orders"])?;
    }
    let id = cluster.id()?;
    cert(&certs, &["node", "8", "127.0.0.1", "--cluster", &id])?;
    cert(&certs, &["node", "7", "127.0.0.1", "--cluster", &"0".repeat(32)])?;
    let read = |dir: &Path, name: &str| -> anyhow::Result<Pair> {
        let text = |end: &str| fs::read_to_string(dir.join(format!("{name}.{end}")));
        Ok((text("pem")?, text("key")?))
    };
    let node = read(&certs, "node-9")?;
    let ours = read(&certs, "node-8")?;
    let other_cluster = read(&certs, "node-7")?;
    let client = read(&certs, "client-orders")?;
    let stranger = read(&elsewhere, "node-9")?;
    let expired = signed(&certs, |params| params.not_after = rcgen::date_time_ymd(2020, 1, 1))?;
    let early = signed(&certs, |params| params.not_before = rcgen::date_time_ymd(2200, 1, 1))?;
    let server_only = signed(&certs, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    })?;
    let control = signed(&certs, |_| ())?;
    let alone = KeyPair::generate()?;
    let mut own_word = CertificateParams::new(Vec::new())?;
    own_word.subject_alt_names = vec![SanType::URI("mayfly://cluster/node/9".try_into()?)];
    let own_word = (own_word.self_signed(&alone)?.pem(), alone.serialize_pem());

    use Attempt::{PlainText, Unnamed, With};
    for (what, attempt, from, refused) in [
        ("its own", With(&node), 9, None),
        ("its own, of this cluster", With(&ours), 8, None),
        ("signed as the refused are", With(&control), 9, None),
        ("none", Unnamed, 9, Some(IN_THE_HANDSHAKE)),
        ("plain text", PlainText, 9, Some(&["takes gRPC (HTTP/2) of other nodes over TLS"])),
        ("another authority's", With(&stranger), 9, Some(IN_THE_HANDSHAKE)),
        ("its own word", With(&own_word), 9, Some(IN_THE_HANDSHAKE)),
        ("another node's", With(&node), 6, Some(&["is node 9's, not node 6's"])),
        ("this node's", With(&node), 1, Some(&["is node 9's, not node 1's"])),
        ("another cluster's", With(&other_cluster), 7, Some(&["of a node of the cluster 0000"])),
        ("a client's", With(&client), 9, Some(&["is the client orders's, not node 9's"])),
        ("expired", With(&expired), 9, Some(IN_THE_HANDSHAKE)),
        ("not yet valid", With(&early), 9, Some(IN_THE_HANDSHAKE)),
        ("of a server", With(&server_only), 9, Some(IN_THE_HANDSHAKE)),
    ] {
        match (knock(&cluster, attempt, from).await?, refused) {
            (Ok(()), None) => (),
            (Err(told), Some(words)) => {
                ensure!(words.iter().any(|word| told.contains(word)), "{what}: {told}");
            }
            (answer, _) => anyhow::bail!("{what}: {answer:?}"),
        }
    }
    let log = cluster.node_log(1);
    ensure!(!log.contains("the secret of the cluster"), "the secret is in the log");
    Ok(())
}

/// Waits until so many more settled.
async fn progress(load: &Load, count: u64) -> anyhow::Result<()> {
    let (goal, until) = (load.settled() + count, Instant::now() + Duration::from_secs(60));
    while load.settled() < goal {
        ensure!(Instant::now() < until, "{} of {goal} settled", load.settled());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Has every node read its files again, and waits until each has said what it made of them.
async fn reload(cluster: &mut Cluster, says: &str) -> anyhow::Result<()> {
    let count = |cluster: &Cluster, id| cluster.node_log(id).matches(says).count();
    let before: Vec<usize> = cluster.ids().map(|id| count(cluster, id)).collect();
    for id in cluster.ids() {
        cluster.signal(id, Signal::SIGHUP)?;
    }
    let until = Instant::now() + NOTICED_WITHIN;
    for (id, before) in cluster.ids().zip(before) {
        while count(cluster, id) == before {
            ensure!(Instant::now() < until, "node {id}: {}", cluster.last_words(id));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// A node that starts meets the others with what the files hold now.
async fn restart(cluster: &mut Cluster, id: u64) -> anyhow::Result<()> {
    cluster.kill(id)?;
    cluster.start_node(id)?;
    cluster.wait_caught_up().await
}

async fn whole(client: &Client) -> anyhow::Result<()> {
    let status = client.status(false).await?;
    ensure!(status.nodes.iter().all(|node| node.reachable), "{:?}", status.nodes);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_their_authority_are_replaced_under_load() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings {
        peer_tls: true,
        secret: Some("the secret of the cluster"),
        ..Settings::default()
    };
    let mut cluster = Cluster::start(settings).await?;
    let (client, certs) = (cluster.client()?, cluster.certs());
    let load = Load::start(&client, "orders", LoadOptions::default()).await?;
    progress(&load, 300).await?;

    // Each node another certificate of the same authority.
    let anew = |id: u64| cert(&certs, &["node", &id.to_string(), "127.0.0.1", "--overwrite"]);
    cluster.ids().try_for_each(anew)?;
    reload(&mut cluster, READ_AGAIN).await?;
    restart(&mut cluster, 1).await?;
    progress(&load, 300).await?;

    // Files that are not good are none: another node's, half a file, one of nobody who is trusted.
    let own = certs.join("node-2.pem");
    let (good, good_key) = (fs::read(&own)?, fs::read(certs.join("node-2.key"))?);
    let elsewhere = cluster.dir().join("elsewhere");
    cert(&elsewhere, &["authority"])?;
    cert(&elsewhere, &["node", "2", "127.0.0.1"])?;
    for (certificate, key, why) in [
        (
            fs::read(certs.join("node-3.pem"))?,
            fs::read(certs.join("node-3.key"))?,
            "is node 3's, not node 2's",
        ),
        (good[..good.len() / 2].to_vec(), good_key.clone(), "is no PEM file"),
        (good.clone(), fs::read(certs.join("node-3.key"))?, "is not the private key of"),
        (
            fs::read(elsewhere.join("node-2.pem"))?,
            fs::read(elsewhere.join("node-2.key"))?,
            "vouches for as a client",
        ),
    ] {
        fs::write(&own, certificate)?;
        fs::write(certs.join("node-2.key"), key)?;
        cluster.signal(2, Signal::SIGHUP)?;
        let until = Instant::now() + NOTICED_WITHIN;
        let told = |log: &str| log.lines().any(|line| line.contains(STAYS) && line.contains(why));
        while !told(&cluster.node_log(2)) {
            ensure!(Instant::now() < until, "{why}: {}", cluster.last_words(2));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // Others that start meet it as it was.
    restart(&mut cluster, 3).await?;
    whole(&client).await?;
    fs::write(&own, good)?;
    fs::write(certs.join("node-2.key"), good_key)?;

    // Another authority: trusted, then used, then alone.
    cert(&certs, &["authority", "--add"])?;
    reload(&mut cluster, READ_AGAIN).await?;
    cluster.ids().try_for_each(anew)?;
    reload(&mut cluster, READ_AGAIN).await?;
    cert(&certs, &["authority", "--retire"])?;
    reload(&mut cluster, READ_AGAIN).await?;
    for id in cluster.ids() {
        restart(&mut cluster, id).await?;
        progress(&load, 100).await?;
    }
    whole(&client).await?;

    let verdict = load.finish().await?;
    ensure!(verdict.holds() && verdict.settled > 500, "{verdict:?}");
    for id in cluster.ids() {
        let log = cluster.node_log(id);
        ensure!(log.contains("peers speak TLS both ways"), "node {id}");
        ensure!(!log.contains("the secret of the cluster"), "node {id} logs the secret");
    }
    Ok(())
}

/// What `cluster status` shows of each node comes from that node, and a certificate that ends soon is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn each_node_tells_its_version_its_age_and_its_certificate() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 2, data_groups: 1, peer_tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let client = cluster.client()?;
    let status = client.status(false).await?;
    for node in &status.nodes {
        ensure!(node.version.as_deref() == Some(env!("CARGO_PKG_VERSION")), "{node:?}");
        ensure!(node.up_ms.is_some_and(|ms| ms > 0), "{node:?}");
        ensure!(node.feature_level == Some(FEATURE_LEVEL_KNOWN), "{node:?}");
        let [end] = &node.certificates[..] else { anyhow::bail!("{node:?}") };
        ensure!(end.r#use == "peers", "{node:?}");
    }
    for group in &status.groups {
        ensure!(group.leader == 0 || group.led_ms.is_some(), "{group:?}");
    }
    ensure!(!status.wrong.iter().any(|wrong| wrong.contains("certificate")), "{status:?}");
    cluster
        .wait_for_status("the feature level to rise to what all nodes know", |status| {
            status.feature_level == FEATURE_LEVEL_KNOWN
        })
        .await?;

    let words = ["node", "2", "127.0.0.1", "--valid-for", "10days", "--overwrite"];
    cert(&cluster.certs(), &words)?;
    reload(&mut cluster, READ_AGAIN).await?;
    let told = "node 2: its certificate for peers ends in 9 days; replace its files";
    cluster
        .wait_for_status("node 2 to tell that its certificate ends", |status| {
            status.wrong.iter().any(|wrong| wrong == told)
        })
        .await?;
    // Whoever is away tells nothing, and nothing is made up.
    cluster.kill(2)?;
    let status = client.status(false).await?;
    let away = status.nodes.iter().find(|node| node.id == 2).context("node 2")?;
    ensure!(away.version.is_none() && away.up_ms.is_none() && away.certificates.is_empty());
    Ok(())
}

/// What would never be let in ends at its start, with one line that says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_another_ones_certificate_does_not_start() -> anyhow::Result<()> {
    let _guard = ONE_AT_A_TIME.lock().await;
    let settings = Settings { nodes: 2, data_groups: 1, peer_tls: true, ..Settings::default() };
    let mut cluster = Cluster::start(settings).await?;
    let certs = cluster.certs();
    cluster.stop(2)?;
    for end in ["pem", "key"] {
        fs::copy(certs.join(format!("node-1.{end}")), certs.join(format!("node-2.{end}")))?;
    }
    cluster.start_node(2)?;
    ensure!(cluster.wait_ended(2).await? == Some(2), "wrong configuration");
    let told = cluster.last_words(2);
    ensure!(told.contains("this is node 2: the certificate that was shown is node 1's"), "{told}");
    Ok(())
}
