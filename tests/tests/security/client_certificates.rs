//! Clients that prove with certificates who they are (SASL-9, HTTP-26): each kind of certificate at each port.

use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, bail, ensure};
use mayfly_tests::wire::{self, Wire};
use mayfly_tests::{AmqpClient, Cluster, Settings, authority, cert, mayfly, sign};
use nix::sys::signal::Signal;
use rcgen::{
    CertificateRevocationListParams, DnType, KeyIdMethod, RevokedCertParams, SanType, SerialNumber,
};

use super::{SECRET, ask_with, message};

const KEYS: &str = r#"
[[security.key]]
name = "sender"
key = "the-senders-key-1"
rights = ["send"]
scope = "orders"
[[security.key]]
name = "listener"
key = "the-listeners-key"
rights = ["listen"]
[[security.key]]
name = "manager"
key = "the-managers-key-1"
rights = ["manage", "operate"]
"#;

const MAP: &str = r#"
[[tls.clients.map]]
common_name = "Orders Shop"
key = "sender"
[[tls.clients.map]]
uri = "spiffe://example/shop"
key = "sender"
"#;

/// Of any step of a node on a busy machine.
const WITHIN: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A certificate and its key, as PEM.
type Pair = (String, String);

/// What becomes of a client that shows a certificate and wants to send to `orders`.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Sent,
    /// He is known, and may not: told by the name he is known by.
    NoRight(&'static str),
    /// The certificate is good and stands for nothing; in these words.
    Nobody(&'static str),
    /// There is no connection; the log has these words.
    Handshake(&'static str),
}

struct Ports<'a> {
    cluster: &'a Cluster,
    trusted: std::path::PathBuf,
}

impl Ports<'_> {
    /// The mechanisms that are offered; `None`: the connection ends before.
    fn offered(&self, mut stream: impl Wire) -> Option<String> {
        stream.write_all(b"AMQP\x03\x01\x00\x00").ok()?;
        stream.flush().ok()?;
        heard(stream, |heard| heard.windows(9).any(|word| word == b"ANONYMOUS"))
    }

    /// Asks for EXTERNAL, whether it is offered or not; whether it is taken.
    fn external(&self, pair: &Pair) -> Option<bool> {
        let address = self.cluster.amqps_address(1);
        let mut stream = wire::tls_showing(address, &self.trusted, Some(pair)).ok()?;
        let init = b"AMQP\x03\x01\x00\x00\x00\x00\x00\x18\x02\x01\x00\x00\x00\x53\x41\xc0\x0b\x01\xa3\x08EXTERNAL";
        stream.write_all(init).ok()?;
        stream.flush().ok()?;
        const OUTCOME: &[u8] = b"\x00\x53\x44\xc0";
        let at = |heard: &[u8]| heard.windows(4).position(|bytes| bytes == OUTCOME);
        let mut code = None;
        heard(stream, |heard| {
            let outcome =
                at(heard).and_then(|at| heard.get(at + 4..)).filter(|rest| rest.len() > 3);
            // A list of one small number: its size, its count, the number's kind, and itself.
            code = outcome.map(|rest| rest[2..4] == *b"\x50\x00");
            code.is_some()
        })?;
        code
    }

    async fn over_amqp(&self, pair: &Pair, through_websocket: bool) -> anyhow::Result<String> {
        let address = match through_websocket {
            true => self.cluster.addresses(1)[1],
            false => self.cluster.amqps_address(1),
        };
        let open = || -> anyhow::Result<Box<dyn Wire>> {
            Ok(match through_websocket {
                true => Box::new(wire::websocket_showing(
                    address,
                    &self.trusted,
                    "/$servicebus/websocket",
                    Some(pair),
                )?),
                false => Box::new(wire::tls_showing(address, &self.trusted, Some(pair))?),
            })
        };
        let Some(offered) = open().ok().and_then(|stream| self.offered(stream)) else {
            return Ok("handshake".to_owned());
        };
        let mut amqp = AmqpClient::over(open()?, Mechanism::External).await?;
        let told = match amqp.sender("orders").await? {
            Ok(sender) => {
                let outcome = amqp.send(sender, 0, message()).await?;
                ensure!(outcome == DeliveryState::ACCEPTED, "{outcome:?}");
                "sent".to_owned()
            }
            Err(error) => error.condition.to_string(),
        };
        let way = if offered.contains("EXTERNAL") { "EXTERNAL" } else { "no EXTERNAL" };
        Ok(format!("{way}, {told}"))
    }

    fn over_http(&self, pair: &Pair, request: &str, headers: &str) -> (u16, String) {
        let address = self.cluster.addresses(1)[1];
        let asked = wire::tls_showing(address, &self.trusted, Some(pair))
            .and_then(|stream| ask_with(stream, request, headers, "hello"));
        let (status, told) = asked.unwrap_or_default();
        (status, told.replace("&apos;", "'"))
    }

    fn command(&self, pair: &Pair, words: &[&str]) -> anyhow::Result<(i32, String)> {
        let dir = tempfile::tempdir()?;
        let paths = [dir.path().join("certificate.pem"), dir.path().join("key.pem")];
        fs::write(&paths[0], &pair.0)?;
        fs::write(&paths[1], &pair.1)?;
        let ran = Command::new(mayfly()?)
            .args(words)
            .args(["--timeout", "2s", "--connect", self.cluster.addresses(1)[0], "--tls-ca"])
            .arg(&self.trusted)
            .arg("--tls-cert")
            .arg(&paths[0])
            .arg("--tls-key")
            .arg(&paths[1])
            .env_remove("MAYFLY_SECRET")
            .output()?;
        let told = String::from_utf8(ran.stderr)? + &String::from_utf8(ran.stdout)?;
        Ok((ran.status.code().context("a code")?, told))
    }

    /// Has the log say it: of the refusals of a second one is told.
    fn logged(&self, word: &str, mut again: impl FnMut()) -> anyhow::Result<()> {
        let until = Instant::now() + WITHIN;
        while !self.cluster.node_log(1).contains(word) {
            ensure!(Instant::now() < until, "no '{word}' in {}", self.cluster.node_log(1));
            again();
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    async fn check(&self, what: &str, pair: &Pair, answer: Answer) -> anyhow::Result<()> {
        let of_amqp = match answer {
            Answer::Sent => "EXTERNAL, sent",
            Answer::NoRight(_) => "EXTERNAL, amqp:unauthorized-access",
            Answer::Nobody(_) => "no EXTERNAL, amqp:unauthorized-access",
            Answer::Handshake(_) => "handshake",
        };
        for through_websocket in [false, true] {
            let found = self.over_amqp(pair, through_websocket).await?;
            ensure!(found == of_amqp, "{what}, AMQP ({through_websocket}): {found}");
        }
        let taken = self.external(pair);
        let (http, told) = self.over_http(pair, "POST /orders/messages", "");
        let (code, said) = self.command(pair, &["send", "orders", "hello"])?;
        let logged = |word| {
            self.logged(word, || {
                self.external(pair);
            })
        };
        match answer {
            Answer::Sent => {
                ensure!(taken == Some(true), "{what}: EXTERNAL {taken:?}");
                ensure!(http == 201, "{what}: {http} {told}");
                ensure!(code == 0, "{what}: {code} {said}");
            }
            Answer::NoRight(name) => {
                ensure!(taken == Some(true), "{what}: EXTERNAL {taken:?}");
                let why = "has no right 'Send' on 'orders'";
                let is_told = |told: &str| told.contains(why) && told.contains(name);
                ensure!(http == 401 && is_told(&told), "{what}: {http} {told}");
                ensure!(code != 0 && is_told(&said), "{what}: {code} {said}");
            }
            Answer::Nobody(word) => {
                ensure!(taken == Some(false), "{what}: EXTERNAL {taken:?}");
                ensure!(http == 401 && told.contains(word), "{what}: {http} {told}");
                ensure!(code != 0 && said.contains(word), "{what}: {code} {said}");
                logged(word)?;
                // Another proof beside it is as good as ever.
                let secret = format!("Authorization: Bearer {SECRET}\r\n");
                let (http, told) = self.over_http(pair, "POST /orders/messages", &secret);
                ensure!(http == 201, "{what}: {http} {told}");
            }
            Answer::Handshake(word) => {
                ensure!(taken.is_none(), "{what}: EXTERNAL {taken:?}");
                ensure!(http == 0, "{what}: {http} {told}");
                ensure!(code != 0, "{what}: {code} {said}");
                logged(word)?;
            }
        }
        Ok(())
    }
}

/// What comes until it is enough, or the connection ends.
fn heard(mut stream: impl Wire, mut is_enough: impl FnMut(&[u8]) -> bool) -> Option<String> {
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    let until = Instant::now() + WITHIN;
    while !is_enough(&heard) {
        if Instant::now() > until {
            return None;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return None,
            Ok(count) => heard.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&heard).into_owned())
}

/// Changes a node's configuration and starts it with that.
/// `pair`: with this a command may ask how the cluster is.
fn restart(
    cluster: &mut Cluster,
    pair: &Pair,
    change: impl FnOnce(String) -> String,
) -> anyhow::Result<()> {
    cluster.stop(1)?;
    let path = cluster.config_path(1).to_owned();
    fs::write(&path, change(fs::read_to_string(&path)?))?;
    cluster.start_node(1)?;
    let ports = Ports { cluster, trusted: cluster.certificate() };
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let (code, told) = ports.command(pair, &["cluster", "status"])?;
        if code == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "not ready: {told}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each row: a certificate, and what becomes of whoever shows it and nothing else, over AMQP (with and
/// without a WebSocket), HTTP and gRPC.
#[tokio::test(flavor = "multi_thread")]
async fn sasl_9_http_26_each_certificate_at_each_port() -> anyhow::Result<()> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        tls: true,
        client_tls: Some(MAP),
        secret: Some(SECRET),
        config: KEYS,
        ..Settings::default()
    };
    let mut cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("orders", Default::default()).await?;
    let (certs, elsewhere) = (cluster.certs(), cluster.dir().join("elsewhere"));
    cert(&elsewhere, &["authority"])?;
    let id = cluster.id()?;
    for words in [
        &["client", "sender"][..],
        &["client", "listener"],
        &["client", "manager"],
        &["client", "nobody"],
        &["node", "1", "127.0.0.1"],
    ] {
        cert(&certs, words)?;
        cert(&elsewhere, words)?;
    }
    let read = |dir: &std::path::Path, name: &str| -> anyhow::Result<Pair> {
        let text = |end: &str| fs::read_to_string(dir.join(format!("{name}.{end}")));
        Ok((text("pem")?, text("key")?))
    };
    let named = |common_name: &'static str, uris: &'static [&'static str]| {
        sign(&certs, |params| {
            params.distinguished_name.push(DnType::CommonName, common_name);
            for uri in uris {
                params.subject_alt_names.push(SanType::URI((*uri).try_into()?));
            }
            params.serial_number = Some(SerialNumber::from(vec![1, 2, 3]));
            Ok(())
        })
    };
    const SENDER: &[&str] = &["mayfly://cluster/client/sender"];
    let aged = |from: SystemTime, until: SystemTime| {
        sign(&certs, |params| {
            params.subject_alt_names.push(SanType::URI(SENDER[0].try_into()?));
            (params.not_before, params.not_after) = (from.into(), until.into());
            Ok(())
        })
    };
    let now = SystemTime::now();
    let sender = read(&certs, "client-sender")?;
    let manager = read(&certs, "client-manager")?;
    let shop = named("Orders Shop", &[])?;
    cert(&certs, &["client", "sender", "--cluster", &id, "--overwrite"])?;
    let of_this = read(&certs, "client-sender")?;
    cert(&certs, &["client", "sender", "--cluster", &"0".repeat(32), "--overwrite"])?;
    let of_another = read(&certs, "client-sender")?;
    let server = sign(&certs, |params| {
        params.subject_alt_names.push(SanType::URI(SENDER[0].try_into()?));
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        Ok(())
    })?;
    use Answer::{Handshake, NoRight, Nobody, Sent};
    let trusted = cluster.certificate();
    {
        let ports = Ports { cluster: &cluster, trusted: trusted.clone() };
        for (what, pair, answer) in [
            ("a key's", &sender, Sent),
            ("a key's, of this cluster", &of_this, Sent),
            ("another authority's, mapped by its name", &shop, Sent),
            ("mapped by a URI", &named("x", &["spiffe://example/shop"])?, Sent),
            ("signed as the refused are", &aged(now - DAY, now + DAY)?, Sent),
            ("a listener's", &read(&certs, "client-listener")?, NoRight("client/listener")),
            ("of another cluster", &of_another, Nobody("is for another cluster, 0000")),
            ("of no key", &read(&certs, "client-nobody")?, Nobody("no [[security.key]] has that")),
            (
                "of a name in other letters",
                &named("orders shop", &[])?,
                Nobody("stands for no key"),
            ),
            ("of nothing", &named("", &[])?, Nobody("stands for no key")),
            ("a peer's", &read(&certs, "node-1")?, Nobody("is a node's, which opens no port")),
            (
                "a peer's, of a name that is mapped",
                &named("Orders Shop", &["mayfly://cluster/node/1"])?,
                Nobody("is a node's, which opens no port"),
            ),
            (
                "another authority's",
                &read(&elsewhere, "client-sender")?,
                Handshake("is of no authority that tls.clients.authority has"),
            ),
            (
                "another authority's peer's",
                &read(&elsewhere, "node-1")?,
                Handshake("is of no authority that tls.clients.authority has"),
            ),
            ("expired", &aged(now - 2 * DAY, now - DAY)?, Handshake("that was shown has expired")),
            ("early", &aged(now + DAY, now + 2 * DAY)?, Handshake("is not valid yet")),
            ("a server's", &server, Handshake("may not be used by a client")),
        ] {
            ports.check(what, &pair.clone(), answer).await?;
        }
        // What takes more than one kind of connection, and what is read only.
        for (words, code) in
            [(&["queue", "list"][..], 0), (&["cluster", "status"], 0), (&["clock", "show"], 0)]
        {
            let (found, told) = ports.command(&manager, words)?;
            ensure!(found == code, "{words:?}: {found} {told}");
        }
        let bench = ["bench", "lifecycle", "--seconds", "1", "--warm-up", "0"];
        let bench =
            [&bench[..], &["--protocol", "amqp", "--amqp", cluster.amqps_address(1)]].concat();
        let (found, told) = ports.command(&manager, &bench)?;
        ensure!(found == 0, "{found} {told}");
        for (pair, request, status) in [
            (&manager, "GET /orders", 200),
            (&manager, "GET /metrics", 200),
            (&sender, "GET /orders", 401),
            (&sender, "GET /metrics", 401),
            (&sender, "GET /health", 200),
        ] {
            let (found, told) = ports.over_http(pair, request, "");
            ensure!(found == status, "{request}: {found} {told}");
        }
        // Who shows none proves himself as ever.
        let header = format!("Authorization: Bearer {SECRET}\r\n");
        for (headers, status) in [(header.as_str(), 201), ("", 401)] {
            let stream = wire::tls(cluster.addresses(1)[1], &trusted)?;
            let (found, told) = ask_with(stream, "POST /orders/messages", headers, "hello")?;
            ensure!(found == status, "{found} {told}");
        }
    }
    // The node takes over other rows while it runs, and none that name a key which is not there.
    let path = cluster.config_path(1).to_owned();
    let written = fs::read_to_string(&path)?;
    for (from, to, told) in [
        ("Orders Shop", "Orders Store", "the keys that certificates stand for were read again"),
        (
            "common_name = \"Orders Shop\"\nkey = \"sender\"",
            "common_name = \"Orders Shop\"\nkey = \"sendr\"",
            "keys of certificates stay as they were: ",
        ),
    ] {
        ensure!(written.contains(from), "{written}");
        fs::write(&path, written.replace(from, to))?;
        cluster.signal(1, Signal::SIGHUP)?;
        let ports = Ports { cluster: &cluster, trusted: trusted.clone() };
        ports.logged(told, || ())?;
        ports.check("mapped before", &shop, Nobody("stands for no key")).await?;
        ports.check("mapped now", &named("Orders Store", &[])?, Sent).await?;
    }
    ensure!(cluster.node_log(1).contains("there is no key 'sendr'"), "{}", cluster.node_log(1));
    fs::write(&path, written)?;
    let list = CertificateRevocationListParams {
        this_update: (now - DAY).into(),
        next_update: (now + DAY).into(),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(vec![1, 2, 3]),
            revocation_time: (now - DAY).into(),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let revoked = cluster.dir().join("revoked.pem");
    fs::write(&revoked, list.signed_by(&authority(&certs)?)?.pem()?)?;
    // A certificate is required, one is revoked, and a key and a row are gone.
    restart(&mut cluster, &manager, |text| {
        let more = format!("[tls.clients]\nrequired = true\nrevoked = {revoked:?}\n");
        text.replace("[tls.clients]\n", &more)
            .replace("plain = true", "plain = false")
            .replace("spiffe://example/shop", "spiffe://example/other")
            .replace("name = \"listener\"", "name = \"other\"")
    })?;
    let ports = Ports { cluster: &cluster, trusted: trusted.clone() };
    for (what, pair, answer) in [
        ("a key's", &sender, Sent),
        ("revoked", &shop, Handshake("the certificate that was shown is revoked")),
        ("of a key that is gone", &read(&certs, "client-listener")?, Nobody("no [[security.key]]")),
    ] {
        ports.check(what, pair, answer).await?;
    }
    let none = || -> anyhow::Result<(u16, String)> {
        let stream = wire::tls(cluster.addresses(1)[1], &trusted)?;
        ask_with(stream, "GET /health", "", "")
    };
    if let Ok(answer) = none() {
        bail!("without a certificate: {answer:?}");
    }
    ports.logged("no certificate was shown, and one is required", || drop(none()))?;
    Ok(())
}

/// Each row: what a configuration says of clients' certificates, and what is told.
#[test]
fn what_is_wrong_with_the_settings_for_certificates_is_told() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let certs = dir.path().join("certs");
    cert(&certs, &["authority"])?;
    cert(&certs, &["node", "1", "localhost"])?;
    let path = |name: &str| certs.join(name).display().to_string();
    let (pem, key, authority) = (path("node-1.pem"), path("node-1.key"), path("authority.pem"));
    let secret = "[security]\nsecret = \"the-cluster-secret\"\n";
    let tls = format!("[tls]\ncertificate = \"{pem}\"\nkey = \"{key}\"\n");
    let clients = format!("[tls.clients]\nauthority = \"{authority}\"\n");
    let map =
        |rest: &str| format!("[[tls.clients.map]]\nkey = \"RootManageSharedAccessKey\"\n{rest}");
    for (text, told) in [
        (
            format!("{secret}{tls}[tls.clients]\nrequired = true\n"),
            "tls.clients.authority is missing",
        ),
        (format!("{secret}{clients}"), "tls.clients takes TLS; set tls.certificate"),
        (format!("{tls}{clients}"), "certificates stand for keys, and none is asked for"),
        (format!("{secret}{tls}{clients}{}", map("")), "set one of common_name and uri"),
        (
            format!("{secret}{tls}{clients}{}", map("common_name = \"a\"\nuri = \"b\"\n")),
            "set one of common_name and uri",
        ),
        (
            format!("{secret}{tls}{clients}{0}{0}", map("common_name = \"a\"\n")),
            "two [[tls.clients.map]] name 'CN=a'",
        ),
        (
            format!("{secret}{tls}{clients}[[tls.clients.map]]\nkey = \"x\"\nuri = \"b\"\n"),
            "[[tls.clients.map]] 'b': there is no key 'x'",
        ),
        (
            format!("{secret}{tls}plain = [\"http\"]\n{clients}required = true\n"),
            "take 'http' out of it, or leave required out",
        ),
        (
            format!("{secret}{tls}[tls.clients]\nauthority = \"{pem}\"\n"),
            "is no file of authorities: CN=node-1 in it may vouch for nobody",
        ),
        (
            format!("{secret}{tls}{clients}revoked = \"{authority}\"\n"),
            "is no list of revoked certificates (CRL) in PEM",
        ),
    ] {
        let config = dir.path().join("mayfly.toml");
        fs::write(&config, format!("[node]\ndata_dir = {:?}\n{text}", dir.path().join("data")))?;
        fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        let ran = Command::new(mayfly()?).args(["serve", "--config"]).arg(&config).output()?;
        let said = String::from_utf8(ran.stderr)?;
        ensure!(ran.status.code() == Some(2) && said.contains(told), "{told}: {said}");
    }
    Ok(())
}
