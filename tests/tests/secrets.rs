//! No secret, key, token, body or property comes out anywhere: nodes that log all they can meet every kind
//! of proof, right and wrong, over each protocol, and then all that they wrote or answered is searched.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use amqp_protocol::engine::Mechanism;
use anyhow::ensure;
use auth::{authorization, sign};
use bytes::{Bytes, BytesMut};
use client::v1::{
    AccessRight, AuthorizationRule, AuthorizationRules, QueueProperties, ReceiveMode,
};
use client::{Client, ClientOptions, Message, QueuePath, value};
use mayfly_tests::{AmqpClient, Cluster, Settings, ask, mayfly, wire};
use message_content::{Body, Neutral};

const SECRET: &str = "hidden-secret-of-the-cluster";
const PRIMARY: &str = "hidden-first-key-of-sender";
const SECONDARY: &str = "hidden-second-key-of-sender";
const RULE: &str = "hidden-first-key-of-the-rule";
const RULE_SPARE: &str = "hidden-second-key-of-the-rule";
const GUESS: &str = "hidden-guess-of-a-stranger";
/// Where others write their key, people take the wrong field.
const GUESSED_NAME: &str = "hidden-guess-as-a-name";
const BODY: &str = "hidden-body-of-a-message";
const PROPERTY: &str = "hidden-property-of-a-message";

const CONFIG: &str = r#"
[[security.key]]
name = "sender"
key = "hidden-first-key-of-sender"
secondary_key = "hidden-second-key-of-sender"
rights = ["send", "listen"]
[log]
filter = "trace"
[audit]
log = true
file = "AUDIT"
"#;

/// What a search is for: its name, and how it may stand somewhere.
type Hidden = BTreeMap<&'static str, Vec<String>>;

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// As text, as bytes in a debug form, and as base64 has it.
fn forms(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let numbers = bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let basic = authorization(Some("sender"), text).into_owned();
    let basic = basic.trim_start_matches("Basic ").to_owned();
    vec![text.to_owned(), numbers, hexadecimal, basic]
}

/// Proofs made with each key, and with a guess: each as `Authorization` has it.
fn proofs(hidden: &mut Hidden) -> Vec<String> {
    let mut all = Vec::new();
    for (name, key) in [
        ("RootManageSharedAccessKey", SECRET),
        ("sender", PRIMARY),
        ("sender", SECONDARY),
        ("shop", RULE),
        ("shop", RULE_SPARE),
        ("sender", GUESS),
        ("shop", GUESS),
        ("nobody", GUESS),
        (GUESSED_NAME, GUESS),
    ] {
        let token = sign("sb%3A%2F%2Flocalhost%2Forders", name, key, now_s() + 60);
        let signature = token.split("sig=").nth(1).and_then(|rest| rest.split('&').next());
        let signature = signature.expect("a token is signed").to_owned();
        let decoded = signature.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
        hidden.entry("a token's signature").or_default().extend([signature, decoded]);
        let login = authorization(Some(name), key).into_owned();
        let basic = login.trim_start_matches("Basic ").to_owned();
        hidden.entry("a login").or_default().push(basic);
        all.extend([token, login, authorization(None, key).into_owned()]);
    }
    let expired = sign("sb%3A%2F%2Flocalhost%2Forders", "sender", PRIMARY, now_s() - 1);
    all.extend([
        expired,
        format!("Basic {GUESS}"),
        GUESS.to_owned(),
        format!("SharedAccessSignature sr=orders&sig={GUESS}&se=1&skn=sender"),
    ]);
    all
}

fn message() -> Bytes {
    let body = Body::Binary(Bytes::from_static(BODY.as_bytes()));
    let properties = [("p".into(), domain::Value::String(PROPERTY.into()))].into_iter().collect();
    Neutral { body, properties, ..Neutral::default() }.to_amqp(&mut BytesMut::new())
}

async fn over_grpc(cluster: &Cluster, told: &mut Vec<String>) -> anyhow::Result<()> {
    for (name, key) in [
        (None, SECRET),
        (Some("sender"), PRIMARY),
        (None, SECONDARY),
        (Some("shop"), RULE),
        (None, RULE_SPARE),
        (Some("sender"), GUESS),
        (None, GUESS),
        (Some(GUESSED_NAME), GUESS),
    ] {
        let options = ClientOptions {
            secret: Some(key.to_owned()),
            key_name: name.map(str::to_owned),
            ..ClientOptions::default()
        };
        let client = Client::with_options([cluster.addresses(1)[0]], options)?;
        let message = Message::new(BODY).property("p", value::string(PROPERTY));
        let sent = client.send("orders", vec![message]).await;
        let mode = ReceiveMode::ReceiveAndDelete;
        let path = QueuePath::main("orders");
        let received = client.receive(&path, mode, 1, std::time::Duration::ZERO).await;
        let deleted = client.delete_queue("nothing").await;
        let errors = [sent.err(), received.err(), deleted.err()].into_iter().flatten();
        told.extend(errors.map(|error| format!("{error} {error:?}")));
    }
    Ok(())
}

async fn over_amqp(
    cluster: &Cluster,
    proofs: &[String],
    told: &mut Vec<String>,
) -> anyhow::Result<()> {
    let mut client = AmqpClient::connect(cluster.amqp_address(1)).await?;
    told.push(format!("{:?}", client.sender("orders").await?.err()));
    let mut tokens = client.open_cbs().await?;
    for proof in proofs {
        let audience = "sb://localhost/orders";
        told.push(client.put_token_on(&mut tokens, proof, audience).await?.to_string());
    }
    let sender = client.sender("orders").await?.expect("a token was good");
    client.send(sender, 0, message()).await?;
    for (name, key) in [
        ("RootManageSharedAccessKey", SECRET),
        ("sender", SECONDARY),
        ("shop", RULE),
        ("sender", GUESS),
        ("shop", GUESS),
        (GUESSED_NAME, GUESS),
    ] {
        let stream = wire::tcp(cluster.amqp_address(1))?;
        match AmqpClient::over(stream, Mechanism::plain(name, key)).await {
            Err(error) => told.push(format!("{error:?}")),
            Ok(mut client) => match client.sender("orders").await? {
                Err(error) => told.push(format!("{error:?}")),
                Ok(sender) => drop(client.send(sender, 0, message()).await?),
            },
        }
    }
    Ok(())
}

fn over_http(cluster: &Cluster, proofs: &[String], told: &mut Vec<String>) -> anyhow::Result<()> {
    let address = cluster.addresses(1)[1];
    for proof in proofs {
        let headers = format!(
            "Authorization: {proof}\r\np: \"{PROPERTY}\"\r\nServiceBusSupplementaryAuthorization: {proof}\r\n"
        );
        for (request, body) in [
            ("POST /orders/messages", BODY),
            ("GET /orders?api-version=2021-05", ""),
            ("GET /metrics", ""),
            ("GET /health/details", ""),
            ("PUT /other?api-version=2021-05", BODY),
        ] {
            let answer = ask(address, request, &headers, body)?;
            // Whoever may manage an entity reads its keys.
            let is_description = request.starts_with("GET /orders") && answer.status == 200;
            if !is_description {
                told.push(format!("{request}: {} {} {}", answer.status, answer.head, answer.body));
            }
        }
    }
    Ok(())
}

/// What a process shows to everybody on its machine.
fn process_title(cluster: &Cluster, node: u64) -> anyhow::Result<String> {
    let pid = cluster.pid(node).expect("it runs");
    let title = fs::read(format!("/proc/{pid}/cmdline"))?;
    Ok(String::from_utf8_lossy(&title).replace('\0', " "))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_comes_out_anywhere() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let audit = dir.path().join("audit.log");
    let config = CONFIG.replace("AUDIT", &audit.display().to_string());
    let settings = Settings {
        nodes: 2,
        data_groups: 1,
        secret: Some(SECRET),
        tls: true,
        config: Box::leak(config.into_boxed_str()),
        ..Settings::default()
    };
    let mut cluster = Cluster::start(settings).await?;
    let mut hidden = Hidden::new();
    for (name, text) in [
        ("the secret", SECRET),
        ("a key", PRIMARY),
        ("a second key", SECONDARY),
        ("a rule's key", RULE),
        ("a rule's second key", RULE_SPARE),
        ("a guess", GUESS),
        ("a guess as a name", GUESSED_NAME),
        ("a body", BODY),
        ("a property", PROPERTY),
    ] {
        hidden.insert(name, forms(text));
    }
    let key = fs::read_to_string(cluster.dir().join("key.pem"))?;
    let lines = key.lines().filter(|line| !line.starts_with("-----") && line.len() > 16);
    hidden.insert("the certificate's key", lines.map(str::to_owned).collect());
    let proofs = proofs(&mut hidden);

    let rights = vec![AccessRight::Send.into(), AccessRight::Listen.into()];
    let rule = AuthorizationRule {
        name: "shop".into(),
        rights,
        primary_key: RULE.into(),
        secondary_key: RULE_SPARE.into(),
        ..Default::default()
    };
    let authorization_rules = Some(AuthorizationRules { rules: vec![rule] });
    let properties = QueueProperties { authorization_rules, ..Default::default() };
    cluster.client()?.create_queue("orders", properties).await?;
    let mut told = Vec::new();
    over_grpc(&cluster, &mut told).await?;
    over_amqp(&cluster, &proofs, &mut told).await?;
    over_http(&cluster, &proofs, &mut told)?;
    // A node that starts reads all of it again.
    cluster.stop(2)?;
    cluster.start_node(2)?;
    cluster.wait_ready().await?;

    let mut places = vec![("the answers".to_owned(), told.join("\n"))];
    for node in [1, 2] {
        places.push((format!("the title of node {node}"), process_title(&cluster, node)?));
        for words in [["serve", "--print-config"], ["config", "show"]] {
            let printed = Command::new(mayfly()?)
                .args(words)
                .arg("--config")
                .arg(cluster.config_path(node))
                .output()?;
            ensure!(printed.status.success(), "{words:?}: {printed:?}");
            let printed = [printed.stdout, printed.stderr].concat();
            places.push((words.join(" "), String::from_utf8(printed)?));
        }
    }
    for node in [1, 2] {
        cluster.stop(node)?;
        places.push((format!("the log of node {node}"), cluster.node_log(node)));
    }
    let audited = fs::read_to_string(&audit)?;
    ensure!(audited.contains("proof.refuse") && audited.contains("entity.create"), "{audited}");
    places.push(("the audit".to_owned(), audited));
    ensure!(places.iter().any(|(_, text)| text.contains(" TRACE ")), "not all is logged");
    ensure!(places[0].1.contains("mayfly_refused_proofs_total"), "no metrics");

    let mut found = Vec::new();
    for (place, text) in &places {
        for (name, forms) in &hidden {
            for form in forms.iter().filter(|form| text.contains(form.as_str())) {
                let at = text.find(form.as_str()).expect("it is there");
                let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
                let line: String =
                    text[line..].lines().next().unwrap_or_default().chars().take(600).collect();
                found.push(format!("{name} ({form}) is in {place}: {line}"));
            }
        }
    }
    ensure!(found.is_empty(), "{} finds:\n{}", found.len(), found.join("\n"));
    Ok(())
}

/// Whoever lists processes sees no secret that was given as a flag, and the command goes on with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_given_as_a_flag_stands_in_no_title() -> anyhow::Result<()> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        odd: Some((1, &["--secret", SECRET])),
        secret: Some(SECRET),
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    let title = process_title(&cluster, 1)?;
    ensure!(title.contains("serve") && !title.contains(SECRET), "{title}");
    let ran = Command::new(mayfly()?)
        .args(["queue", "create", "orders", "--secret", SECRET, "--connect"])
        .arg(cluster.addresses(1)[0])
        .env_remove("MAYFLY_SECRET")
        .output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}
