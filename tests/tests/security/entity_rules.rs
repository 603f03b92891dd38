//! Authorization rules in the descriptions of entities (ENT-11, ENT-12).

use amqp_protocol::codec::DeliveryState;
use amqp_protocol::engine::Mechanism;
use anyhow::{Context, ensure};
use auth::sign;
use mayfly_tests::wire;
use mayfly_tests::{AmqpClient, Cluster, Settings};

use super::{SECRET, ask_with, condition, message, now_s, token};

/// A description with authorization rules, each its name, its rights and its two keys.
fn described(kind: &str, rules: &[(&str, &str, &str, &str)]) -> String {
    let rule = |(name, rights, primary, secondary): &(&str, &str, &str, &str)| {
        let key = |element: &str, key: &str| match key {
            "" => String::new(),
            key => format!("<{element}>{key}</{element}>"),
        };
        let rights = rights.split(' ').filter(|right| !right.is_empty());
        let rights: String =
            rights.map(|right| format!("<AccessRights>{right}</AccessRights>")).collect();
        format!(
            "<AuthorizationRule><Rights>{rights}</Rights><KeyName>{name}</KeyName>{}{}</AuthorizationRule>",
            key("PrimaryKey", primary),
            key("SecondaryKey", secondary)
        )
    };
    let rules: String = rules.iter().map(rule).collect();
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{kind}Description xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"><AuthorizationRules>{rules}</AuthorizationRules></{kind}Description></content></entry>"#
    )
}

/// The text of an element, of those after `after`.
fn element<'a>(text: &'a str, after: &str, name: &str) -> anyhow::Result<&'a str> {
    let (_, rest) = text.split_once(after).with_context(|| format!("no {after} in {text}"))?;
    let (_, rest) = rest.split_once(&format!("<{name}>")).context("no such element")?;
    rest.split_once('<').map(|(value, _)| value).context("no end")
}

/// ENT-11, ENT-12: the rules in an entity's description open it, on every node and every port, with
/// their rights and no others, and a change of them counts at once.
#[tokio::test(flavor = "multi_thread")]
async fn ent_11_ent_12_an_entitys_own_rules_open_it_on_every_node() -> anyhow::Result<()> {
    const UNAUTHORIZED: &str = "amqp:unauthorized-access";
    let cluster = Cluster::start(Settings { secret: Some(SECRET), ..Settings::default() }).await?;
    for queue in ["other", "orders/below"] {
        cluster.client()?.create_queue(queue, Default::default()).await?;
    }
    let ask = |node: u64, request: &str, (name, key): (&str, &str), body: &str| {
        let token = sign("https%3A%2F%2Flocalhost", name, key, now_s() + 60);
        let update = if request.starts_with("PUT") { "If-Match: *\r\n" } else { "" };
        let (request, update) = match request.strip_prefix("CREATE") {
            Some(path) => (format!("PUT{path}"), ""),
            None => (request.to_owned(), update),
        };
        let headers = format!("Authorization: {token}\r\n{update}");
        ask_with(wire::tcp(cluster.addresses(node)[1])?, &request, &headers, body)
    };
    let root = ("RootManageSharedAccessKey", SECRET);
    let rules = [
        ("worker", "Listen", "", ""),
        ("shop", "Send", "shop-first", "shop-second"),
        ("boss", "Manage Send Listen", "boss-first", "boss-second"),
    ];
    let (status, made) = ask(1, "CREATE /orders", root, &described("Queue", &rules))?;
    ensure!(status == 201, "{made}");
    let (status, told) = ask(1, "GET /orders", root, "")?;
    ensure!(status == 200, "{told}");
    let drawn = element(&told, "<KeyName>worker<", "PrimaryKey")?.to_owned();
    ensure!(drawn.len() == 44, "32 bytes as base64: {drawn}");
    assert_eq!(element(&told, "<KeyName>shop<", "SecondaryKey")?, "shop-second");
    ensure!(element(&told, "<AuthorizationRule ", "CreatedTime")?.starts_with("20"), "{told}");
    let topic = described("Topic", &[("reader", "Listen", "reader-first", "reader-second")]);
    assert_eq!(ask(2, "CREATE /news", root, &topic)?.0, 201);
    cluster.client()?.create_subscription("news", "s", Default::default(), None).await?;

    let connect = async |node| AmqpClient::connect(cluster.amqp_address(node)).await;
    let login = async |node: u64, name: &str, key: &str| {
        let stream = wire::tcp(cluster.amqp_address(node))?;
        AmqpClient::over(stream, Mechanism::plain(name, key)).await
    };
    for node in 1..=3 {
        for (entity, name, key, status, sends, listens) in [
            ("orders", "shop", "shop-first", 202, true, false),
            ("orders", "shop", "shop-second", 202, true, false),
            ("Orders", "boss", "boss-first", 202, true, true),
            ("orders", "worker", drawn.as_str(), 202, false, true),
            ("orders/$DeadLetterQueue", "worker", drawn.as_str(), 202, false, true),
            ("news/Subscriptions/s", "reader", "reader-first", 202, false, true),
            ("orders", "shop", "guess", 401, false, false),
            ("orders", "reader", "reader-first", 401, false, false),
            ("other", "shop", "shop-first", 401, false, false),
            ("orders/below", "boss", "boss-first", 401, false, false),
            ("nowhere", "boss", "boss-first", 401, false, false),
        ] {
            let mut amqp = connect(node).await?;
            let (token, audience) = token(entity, name, key, 60);
            assert_eq!(amqp.put_token(&token, &audience).await?, status, "{node} {entity} {name}");
            assert_eq!(amqp.sender(entity).await?.is_ok(), sends, "{node} {entity} {name}");
            assert_eq!(
                amqp.settled_receiver(entity).await?.is_ok(),
                listens,
                "{node} {entity} {name}"
            );
            for elsewhere in ["other", "orders/below"] {
                assert_eq!(condition(amqp.sender(elsewhere).await?)?, UNAUTHORIZED);
            }
            // SASL-5: the key itself as login, which says of no entity that it is for it.
            let mut amqp = login(node, name, key).await?;
            assert_eq!(amqp.sender(entity).await?.is_ok(), sends, "{node} {entity} {name}");
            assert_eq!(
                amqp.settled_receiver(entity).await?.is_ok(),
                listens,
                "{node} {entity} {name}"
            );
            assert_eq!(condition(amqp.sender("other").await?)?, UNAUTHORIZED);
        }
        for (request, name, key, status) in [
            ("POST /orders/messages", "shop", "shop-first", 201),
            ("POST /orders/messages", "worker", drawn.as_str(), 401),
            ("DELETE /orders/messages/head", "worker", drawn.as_str(), 200),
            ("DELETE /orders/messages/head", "shop", "shop-first", 401),
            ("POST /other/messages", "shop", "shop-first", 401),
            ("GET /orders", "boss", "boss-second", 200),
            ("GET /orders", "shop", "shop-first", 401),
            ("GET /other", "boss", "boss-first", 401),
            ("GET /$Resources/queues", "boss", "boss-first", 401),
            ("GET /news/subscriptions/s", "reader", "reader-first", 401),
        ] {
            let (found, body) = ask(node, request, (name, key), "")?;
            assert_eq!(found, status, "{node} {request} {name} {body}");
        }
    }

    // A change counts at once, and links end that were opened before, by a login or a token.
    let mut old = login(3, "shop", "shop-first").await?;
    let link = old.sender("orders").await?.expect("not changed yet");
    assert_eq!(old.send(link, 0, message()).await?, DeliveryState::ACCEPTED);
    let mut by_token = connect(2).await?;
    let (put, audience) = token("orders", "shop", "shop-second", 600);
    assert_eq!(by_token.put_token(&put, &audience).await?, 202);
    let of_token = by_token.sender("orders").await?.expect("not changed yet");
    let mut lasting = login(1, "worker", &drawn).await?;
    let listens = lasting.settled_receiver("orders").await?.expect("not changed yet");
    let mut by_root = login(1, root.0, root.1).await?;
    let of_root = by_root.sender("orders").await?.expect("the secret");
    let options = client::ClientOptions {
        secret: Some("shop-first".to_owned()),
        key_name: Some("shop".to_owned()),
        ..Default::default()
    };
    let native = client::Client::with_options([cluster.addresses(2)[0]], options)?;
    let stream = native.sender("orders", Default::default());
    stream.send(client::Message::new("not changed yet")).await?;
    let changed = [("worker", "Send", "", ""), ("shop", "Send", "shop-third", "shop-fourth")];
    let (status, told) =
        ask(2, "PUT /orders", ("boss", "boss-first"), &described("Queue", &changed))?;
    ensure!(status == 200, "{told}");
    let since = std::time::Instant::now();
    assert_eq!(old.detached(link).await?.condition.as_str(), UNAUTHORIZED);
    assert_eq!(by_token.detached(of_token).await?.condition.as_str(), UNAUTHORIZED);
    assert_eq!(lasting.detached(listens).await?.condition.as_str(), UNAUTHORIZED, "Send alone");
    // A second, and some for a busy machine.
    ensure!(since.elapsed() < std::time::Duration::from_secs(5), "after {:?}", since.elapsed());
    assert_eq!(by_root.send(of_root, 0, message()).await?, DeliveryState::ACCEPTED);
    let refused = stream.send(client::Message::new("no more")).await;
    ensure!(refused.is_err_and(|error| error.detail().rule == "ERR-17"), "the stream goes on");
    assert_eq!(element(&told, "<KeyName>worker<", "PrimaryKey")?, drawn, "it was not given anew");
    for node in 1..=3 {
        for (name, key, status, sends) in [
            ("shop", "shop-first", 401, false),
            ("shop", "shop-second", 401, false),
            ("boss", "boss-first", 401, false),
            ("shop", "shop-third", 202, true),
            ("worker", drawn.as_str(), 202, true),
        ] {
            let mut amqp = connect(node).await?;
            let (token, audience) = token("orders", name, key, 60);
            assert_eq!(amqp.put_token(&token, &audience).await?, status, "{node} {name} {key}");
            assert_eq!(amqp.sender("orders").await?.is_ok(), sends, "{node} {name} {key}");
            assert!(amqp.settled_receiver("orders").await?.is_err(), "{node} {name} {key}");
        }
    }
    assert_eq!(condition(old.settled_receiver("orders").await?)?, UNAUTHORIZED);

    // Each refusal says what is wrong, and changes nothing.
    let many: Vec<String> = (0..13).map(|n| format!("r{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), "Send", "", "")).collect();
    for (rules, status, why) in [
        (&many[..], 403, "the entity (authorization rules) holds 13, the limit is 12"),
        (&[("a", "Manage", "", "")][..], 400, "rule 'a' (number 1) has Manage alone"),
        (&[("a", "", "", "")][..], 400, "rule 'a' (number 1) has no rights"),
        (
            &[("a", "Send", "", ""), ("a", "Listen", "", "")][..],
            400,
            "rule 'a' (number 2) is there twice",
        ),
        (&[("a b", "Send", "", "")][..], 400, "rule 'a b' (number 1) has a name with characters"),
        (&[("a", "Send", "k k", "")][..], 400, "rule 'a' (number 1) has a primary key that is not"),
    ] {
        let (found, told) = ask(1, "PUT /orders", root, &described("Queue", rules))?;
        ensure!(found == status && told.contains(&why.replace('\'', "&apos;")), "{why}: {told}");
    }
    let (_, told) = ask(1, "GET /orders", root, "")?;
    assert_eq!(element(&told, "<KeyName>shop<", "PrimaryKey")?, "shop-third");

    for node in 1..=3 {
        let log = cluster.node_log(node);
        for hidden in [drawn.as_str(), "shop-first", "shop-third", "boss-first", "guess"] {
            ensure!(!log.contains(hidden), "{hidden} is in {log}");
        }
    }
    Ok(())
}
