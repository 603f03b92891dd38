//! Entity management over HTTP, byte by byte as a client of the Azure SDKs sees it, against real
//! nodes: what one node creates, another lists.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::Context;
use mayfly_tests::{Cluster, Settings};

const NAMESPACE: &str = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect";

struct Answer {
    status: u16,
    head: String,
    body: String,
}

/// One request on a connection of its own.
fn ask(address: &str, request: &str, headers: &str, body: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
}

fn queue(inner: &str) -> String {
    format!(
        r#"<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><QueueDescription xmlns="{NAMESPACE}">{inner}</QueueDescription></content></entry>"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_managed_as_the_azure_sdks_do() -> anyhow::Result<()> {
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
    assert!(made.head.contains("content-type: application/atom+xml;type=entry;charset=utf-8"));
    assert!(made.head.contains("x-ms-client-request-id: 42"));
    let shown = ask(&two, "GET /sales%2Forders/?enrich=false", "", "")?;
    assert_eq!(shown.status, 200);
    for part in [
        format!("<id>http://{two}/Sales/Orders?enrich=false</id>"),
        r#"<title type="text">Sales/Orders</title>"#.to_owned(),
        "<MaxDeliveryCount>3</MaxDeliveryCount>".to_owned(),
        "<d2p1:ActiveMessageCount>0</d2p1:ActiveMessageCount>".to_owned(),
    ] {
        assert!(shown.body.contains(&part), "{part} is not in {}", shown.body);
    }

    // ENT-4, ENT-5, ENT-6: refused with status and sub-code, and nothing is changed.
    let update = "If-Match: *\r\n";
    for (path, headers, body, status, told) in [
        (
            "/sales/orders",
            "",
            queue(""),
            409,
            "SubCode=40900. the name 'Sales/Orders' is already used",
        ),
        ("/none", update, queue(""), 404, "SubCode=40400. entity 'none' does not exist"),
        ("/a*b", "", queue(""), 400, "SubCode=40000. "),
        (
            "/sales/orders",
            update,
            queue("<LockDuration>PT1H</LockDuration>"),
            400,
            "LockDuration is 3600000 ms",
        ),
        (
            "/sales/orders",
            update,
            queue("<RequiresSession>true</RequiresSession>"),
            400,
            "SubCode=40000. ",
        ),
        ("/q", "", "<entry".to_owned(), 400, "the body is no XML"),
        ("/q", "", "x".repeat(300_000), 413, "a description may have 262144 bytes"),
    ] {
        let refused = put(&two, path, headers, &body)?;
        let unescaped = refused.body.replace("&apos;", "'");
        assert_eq!(refused.status, status, "{path}: {unescaped}");
        assert!(unescaped.contains(&format!("<Code>{status}</Code>")), "{unescaped}");
        assert!(unescaped.contains(told), "{unescaped}");
    }
    let changed = put(&two, "/sales/orders", update, &queue("<UserMetadata>ours</UserMetadata>"))?;
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
    assert!(second.body.contains(">Sales/Orders</title>"), "{}", second.body);
    let topics = ask(&one, "GET /$Resources/Topics", "", "")?;
    assert_eq!((topics.status, topics.body.matches("<entry").count()), (200, 0));
    let namespace = ask(&one, "GET /$namespaceinfo", "", "")?;
    assert!(namespace.body.contains("<MessagingSKU>Standard</MessagingSKU>"), "{}", namespace.body);

    // DELETE answers 200, and the second time 404.
    assert_eq!(ask(&two, "DELETE /sales/orders", "", "")?.status, 200);
    assert_eq!(ask(&one, "DELETE /sales/orders", "", "")?.status, 404);
    assert_eq!(ask(&one, "POST /page-001", "", "")?.status, 405);
    Ok(())
}
