//! Entity management over HTTP, byte by byte as a client of the Azure SDKs sees it, against real
//! nodes: what one node creates, another lists.

use mayfly_tests::{Cluster, Settings, ask};

const NAMESPACE: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";
const UPDATE: &str = "If-Match: *\r\n";

/// An entry around a description.
fn entry(kind: &str, inner: &str) -> String {
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{kind}Description xmlns="{NAMESPACE}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">{inner}</{kind}Description></content></entry>"#
    )
}

fn queue(inner: &str) -> String {
    entry("Queue", inner)
}

/// Fails with the whole text unless it holds all parts.
#[track_caller]
fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn atom_1_to_atom_3_atom_22_atom_23_queues_are_managed_as_the_azure_sdks_do()
-> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let [one, two] = [1, 2].map(|id| cluster.addresses(id)[1].to_owned());
    let put = |address: &str, path: &str, headers: &str, body: &str| {
        ask(address, &format!("PUT {path}?api-version=2021-05"), headers, body)
    };

    // Created, and there it is, as the other node shows it.
    let made = put(
        &one,
        "/Sales/Orders",
        "x-ms-client-request-id: 42\r\n",
        &queue("<MaxDeliveryCount>3</MaxDeliveryCount>"),
    )?;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.header("content-type"), Some("application/atom+xml;type=entry;charset=utf-8"));
    assert_eq!(made.header("x-ms-client-request-id"), Some("42"));
    let shown = ask(&two, "GET /sales%2Forders/?enrich=false", "", "")?;
    assert_eq!(shown.status, 200);
    holds(
        &shown.body,
        &[
            &format!("<id>http://{two}/sales%2Forders/?enrich=false</id>"),
            r#"<title type="text">sales/orders</title>"#,
            "<MaxDeliveryCount>3</MaxDeliveryCount>",
            "<d2p1:ActiveMessageCount>0</d2p1:ActiveMessageCount>",
        ],
    );

    // ENT-4, ENT-5, ENT-6: refused with status and sub-code, and nothing is changed.
    for (path, headers, body, status, told) in [
        (
            "/sales/orders",
            "",
            queue(""),
            409,
            "SubCode=40900. the name 'sales/orders' is already used",
        ),
        ("/none", UPDATE, queue(""), 404, "SubCode=40400. entity 'none' does not exist"),
        ("/a*b", "", queue(""), 400, "SubCode=40000. "),
        ("/q/messages/head", "", queue(""), 400, "is its next message"),
        (
            "/sales/orders",
            UPDATE,
            queue("<LockDuration>PT1H</LockDuration>"),
            400,
            "LockDuration is 3600000 ms",
        ),
        (
            "/sales/orders",
            UPDATE,
            queue("<RequiresSession>true</RequiresSession>"),
            400,
            "SubCode=40000. ",
        ),
        ("/q", "", "<entry".to_owned(), 400, "the body is no XML"),
        ("/q", "", "x".repeat(300_000), 400, "a description may have no more"),
    ] {
        let refused = put(&two, path, headers, &body)?;
        let unescaped = refused.body.replace("&apos;", "'");
        assert_eq!(refused.status, status, "{path}: {unescaped}");
        assert!(unescaped.contains(&format!("<Code>{status}</Code>")), "{unescaped}");
        assert!(unescaped.contains(told), "{unescaped}");
    }
    let changed = put(&two, "/sales/orders", UPDATE, &queue("<UserMetadata>ours</UserMetadata>"))?;
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert!(changed.body.contains("<MaxDeliveryCount>3</MaxDeliveryCount>"), "{}", changed.body);
    assert!(changed.body.contains("<UserMetadata>ours</UserMetadata>"));

    // Pages: 100 entries, a second link if there are more, in order of names.
    for number in 0..105 {
        let made = put(&one, &format!("/page-{number:03}"), "", &queue(""))?;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    let first = ask(&one, "GET /$Resources/Queues?api-version=2021-05", "", "")?;
    assert!(first.head.contains("type=feed"), "{}", first.head);
    assert_eq!(first.body.matches("<entry").count(), 100);
    assert!(first.body.contains(r#"rel="next""#) && first.body.contains("$skip=100&amp;$top=100"));
    let second = ask(&one, "GET /$Resources/Queues?%24skip=100", "", "")?;
    assert_eq!(second.body.matches("<entry").count(), 6);
    assert!(!second.body.contains(r#"rel="next""#));
    assert!(second.body.contains(">sales/orders</title>"), "{}", second.body);
    let topics = ask(&one, "GET /$Resources/Topics", "", "")?;
    assert_eq!((topics.status, topics.body.matches("<entry").count()), (200, 0));

    // Pages of two, while topics go: the page behind the last one tells nothing again.
    let page = |from: &str| ask(&one, &format!("GET /$Resources/Topics?$top=2{from}"), "", "");
    for gone in [&["t-b"][..], &["t-a", "t-b"]] {
        for topic in ["t-a", "t-b", "t-c"] {
            let made = put(&one, &format!("/{topic}"), "", &entry("Topic", ""))?;
            assert!([201, 409].contains(&made.status), "{}", made.body);
        }
        assert!(page("")?.body.contains(r#"rel="next""#), "three topics are two pages");
        for topic in gone {
            assert_eq!(ask(&one, &format!("DELETE /{topic}"), "", "")?.status, 200);
        }
        let last = page("")?;
        assert_eq!(last.body.matches("<entry").count(), 3 - gone.len(), "{}", last.body);
        assert!(!last.body.contains(r#"rel="next""#), "{}", last.body);
        let beyond = page("&$skip=2")?;
        assert_eq!(beyond.body.matches("<entry").count(), 0, "{}", beyond.body);
    }
    let namespace = ask(&one, "GET /$namespaceinfo", "", "")?;
    assert!(namespace.body.contains("<MessagingSKU>Standard</MessagingSKU>"), "{}", namespace.body);

    // DELETE answers 200, and the second time 404.
    assert_eq!(ask(&two, "DELETE /sales/orders", "", "")?.status, 200);
    assert_eq!(ask(&one, "DELETE /sales/orders", "", "")?.status, 404);
    assert_eq!(ask(&one, "POST /page-001", "", "")?.status, 405);
    Ok(())
}

/// RULE-2, RULE-11: topics, subscriptions and rules as the SDKs manage them, each change at one node
/// and seen at the other.
#[tokio::test(flavor = "multi_thread")]
async fn atom_15_http_2_http_7_topics_are_managed_as_the_azure_sdks_do() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { data_groups: 1, ..Settings::default() }).await?;
    let [one, two] = [1, 2].map(|id| cluster.addresses(id)[1].to_owned());
    let put = |address: &str, path: &str, headers: &str, body: &str| {
        ask(address, &format!("PUT {path}?api-version=2024-05"), headers, body)
    };
    let get = |address: &str, path: &str| {
        ask(address, &format!("GET {path}?api-version=2024-05&enrich=False"), "", "")
    };

    // A topic: its name holds a slash, written either way.
    let made = put(
        &one,
        "/Sales%2FPrices",
        "",
        &entry("Topic", "<SupportOrdering>true</SupportOrdering>"),
    )?;
    assert_eq!(made.status, 201, "{}", made.body);
    let shown = get(&two, "/sales/prices/")?;
    holds(
        &shown.body,
        &[
            r#"<title type="text">Sales/Prices</title>"#,
            "<TopicDescription",
            "<SupportOrdering>true</SupportOrdering>",
            "<SubscriptionCount>0</SubscriptionCount><SqlFilterCount>0</SqlFilterCount>",
        ],
    );
    assert_eq!(put(&two, "/q", "", &entry("Queue", ""))?.status, 201);
    // ENT-2: one name space, and an update must be of the right kind.
    assert_eq!(put(&one, "/sales/prices", "", &entry("Queue", ""))?.status, 409);
    assert_eq!(put(&one, "/sales/prices", UPDATE, &entry("Queue", ""))?.status, 404);
    holds(&get(&one, "/q")?.body, &["<QueueDescription"]);

    // Subscriptions: one with the rule everyone has, one with its own.
    let made = put(&one, "/sales/prices/subscriptions/All", "", &entry("Subscription", ""))?;
    assert_eq!(made.status, 201, "{}", made.body);
    holds(&made.body, &[&format!("<id>http://{one}/sales/prices/subscriptions/All?")]);
    let first = r#"<DefaultRuleDescription><Filter i:type="SqlFilter"><SqlExpression>n = @p</SqlExpression><Parameters><KeyValueOfstringanyType><Key>@p</Key><Value i:type="x:double" xmlns:x="http://www.w3.org/2001/XMLSchema">5</Value></KeyValueOfstringanyType></Parameters></Filter><Action i:type="SqlRuleAction"><SqlExpression>SET m = 1</SqlExpression></Action><Name>first</Name></DefaultRuleDescription><ForwardTo>sb://localhost/q</ForwardTo>"#;
    let made = put(&two, "/sales%2fprices/Subscriptions/some", "", &entry("Subscription", first))?;
    assert_eq!(made.status, 201, "{}", made.body);
    holds(&made.body, &[&format!("<ForwardTo>sb://{two}/q</ForwardTo>")]);
    let listed = get(&one, "/sales/prices/Subscriptions/")?;
    assert_eq!(listed.body.matches("<entry").count(), 2, "{}", listed.body);
    holds(
        &listed.body,
        &[r#"<title type="text">All</title>"#, r#"<title type="text">some</title>"#],
    );
    // ATOM-10, ATOM-22: addresses are the client's own.
    let query = "api-version=2024-05&enrich=False";
    holds(
        &listed.body.replace("&amp;", "&"),
        &[
            &format!("<id>http://{one}/sales/prices/Subscriptions/?{query}</id>"),
            &format!("<id>http://{one}/sales/prices/Subscriptions/All?api-version=2024-05</id>"),
        ],
    );
    // ATOM-25: what a filter leaves out is skipped and counted nowhere.
    for (query, names) in [
        ("$filter=startswith(path,%20'S')%20eq%20true", &["some"][..]),
        ("$filter=startswith(path,%20'x')", &[]),
        ("$filter=messageCount%20eq%200&$top=1", &["All"]),
        ("$filter=messageCount%20eq%200&$skip=1", &["some"]),
    ] {
        let answer = ask(&two, &format!("GET /sales/prices/subscriptions?{query}"), "", "")?;
        assert_eq!(answer.body.matches("<entry").count(), names.len(), "{query}: {}", answer.body);
        for name in names {
            holds(&answer.body, &[&format!(r#"<title type="text">{name}</title>"#)]);
        }
        let has_next = query.contains("$top=1");
        assert_eq!(answer.body.contains(r#"rel="next""#), has_next, "{}", answer.body);
    }
    for query in ["$top=abc", "$skip=-1", "$filter=colour%20eq%20'red'", "$orderby=path"] {
        for path in ["/$Resources/Queues", "/sales/prices/subscriptions"] {
            let refused = ask(&two, &format!("GET {path}?{query}"), "", "")?;
            assert_eq!(refused.status, 400, "{path}?{query}: {}", refused.body);
        }
    }
    assert_eq!(get(&one, "/none/Subscriptions")?.status, 404);
    assert_eq!(get(&one, "/sales/prices/Subscriptions/none")?.status, 404);

    // Rules: created, replaced, listed in order of name, removed.
    let rules = "/sales/prices/subscriptions/all/rules";
    let correlation = r#"<Filter i:type="CorrelationFilter"><Label>x</Label></Filter><Action i:type="EmptyRuleAction"/><Name>r</Name>"#;
    let made = put(&one, &format!("{rules}/r"), "", &entry("Rule", correlation))?;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(put(&two, &format!("{rules}/R"), "", &entry("Rule", correlation))?.status, 409);
    let constant = r#"<Filter i:type="FalseFilter"/>"#;
    let changed = put(&two, &format!("{rules}/r"), UPDATE, &entry("Rule", constant))?;
    assert_eq!(changed.status, 200, "{}", changed.body);
    holds(&changed.body, &[r#"<Filter i:type="FalseFilter"><SqlExpression>1=0</SqlExpression>"#]);
    assert_eq!(put(&two, &format!("{rules}/none"), UPDATE, &entry("Rule", constant))?.status, 404);
    let listed = get(&one, &format!("{rules}/"))?;
    let default = listed.body.find(">$Default</title>").expect("the default rule");
    assert!(default < listed.body.find(">r</title>").expect("the other"), "{}", listed.body);
    let next = ask(&one, &format!("GET {rules}?$skip=0&$top=1"), "", "")?;
    holds(&next.body, &[r#"rel="next""#, "$skip=1&amp;$top=1"]);
    let shown = get(&two, "/sales/prices/subscriptions/some/rules/FIRST")?;
    holds(
        &shown.body,
        &[
            r#"<Value i:type="d6p1:double" xmlns:d6p1="http://www.w3.org/2001/XMLSchema">5</Value>"#,
            r#"<Action i:type="SqlRuleAction"><SqlExpression>SET m = 1</SqlExpression>"#,
            "<Name>first</Name>",
        ],
    );
    assert_eq!(ask(&two, &format!("DELETE {rules}/$Default"), "", "")?.status, 200);
    assert_eq!(get(&one, &format!("{rules}/$Default"))?.status, 404);

    // Refused with status and sub-code.
    for (path, headers, body, status, told) in [
        (
            format!("{rules}/x"),
            "",
            entry(
                "Rule",
                r#"<Filter i:type="SqlFilter"><SqlExpression>a =</SqlExpression></Filter>"#,
            ),
            400,
            "SubCode=40000. ",
        ),
        ("/none/subscriptions/s".to_owned(), "", entry("Subscription", ""), 404, "SubCode=40400. "),
        (
            "/sales/prices/subscriptions/all".to_owned(),
            "",
            entry("Subscription", ""),
            409,
            "SubCode=40900. ",
        ),
        (
            "/sales/prices/subscriptions/all".to_owned(),
            UPDATE,
            entry("Subscription", "<RequiresSession>true</RequiresSession>"),
            400,
            "SubCode=40000. ",
        ),
        (
            "/sales/prices/subscriptions/all".to_owned(),
            UPDATE,
            entry("Subscription", "<ForwardTo>nowhere</ForwardTo>"),
            404,
            "SubCode=40400. ",
        ),
        (
            "/sales/prices/subscriptions/all".to_owned(),
            "",
            entry("Topic", ""),
            400,
            "this path takes a SubscriptionDescription, not a TopicDescription",
        ),
        (
            "/bomb".to_owned(),
            "",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>".to_owned(),
            400,
            "refused at line 1, column 1",
        ),
        ("/deep".to_owned(), "", "<a>".repeat(50_000), 400, "elements may be 32 deep"),
    ] {
        let refused = put(&one, &path, headers, &body)?;
        assert_eq!(refused.status, status, "{path}: {}", refused.body);
        holds(&refused.body, &[told, "TrackingId:", "Timestamp:"]);
    }

    // SEND-8: the same call again is known, another is not.
    let request = "x-ms-client-request-id: 7618ad3c-5484-4be4-a12f-f8b1ee52b570\r\n";
    assert_eq!(put(&one, "/again", request, &entry("Topic", ""))?.status, 201);
    assert_eq!(put(&two, "/again", request, &entry("Topic", ""))?.status, 201);
    assert_eq!(put(&two, "/again", "", &entry("Topic", ""))?.status, 409);

    // ENT-7: with the topic go its subscriptions.
    assert_eq!(ask(&two, "DELETE /Sales/Prices/Subscriptions/some", "", "")?.status, 200);
    assert_eq!(ask(&two, "DELETE /sales%2Fprices", "", "")?.status, 200);
    assert_eq!(get(&one, "/sales/prices/Subscriptions/all")?.status, 404);
    // HTTP-21: queues may be called like the node's own paths.
    for name in ["metrics", "health", "health/live"] {
        assert_eq!(put(&one, &format!("/{name}"), "", &entry("Queue", ""))?.status, 201);
        holds(&get(&two, &format!("/{name}"))?.body, &["<QueueDescription"]);
        let deleted = ask(&two, &format!("DELETE /{name}?api-version=2024-05"), "", "")?;
        assert_eq!(deleted.status, 200, "{name}: {}", deleted.body);
        assert_eq!(get(&one, &format!("/{name}"))?.status, 404);
        assert_eq!(ask(&one, &format!("GET /{name}"), "", "")?.status, 200, "the probe stays");
    }
    assert_eq!(get(&one, "/q/$DeadLetterQueue")?.status, 400);
    let health = ask(&one, "GET /health", "", "")?;
    assert_eq!(
        (health.status, health.body.as_str()),
        (200, r#"{"status":"healthy","message":"Service is healthy."}"#)
    );
    Ok(())
}
