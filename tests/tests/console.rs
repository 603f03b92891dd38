//! The web console over HTTP: what its answers demand of browsers, and which key is shown and may do what.

use anyhow::Context;
use mayfly_tests::{Cluster, HttpAnswer, Settings, ask};

const KEYS: &str = "[[security.key]]\nname = \"listener\"\nkey = \"listener-key-of-the-test\"\nrights = [\"listen\"]\n\
    [[security.key]]\nname = \"sender\"\nkey = \"sender-key-of-the-test\"\nrights = [\"send\"]\n";
const SECRET: &str = "secret-of-the-console-test";

/// Somebody's browser, as far as forms take one.
struct Visitor {
    address: String,
    cookie: String,
}

impl Visitor {
    fn new(address: &str) -> anyhow::Result<Visitor> {
        let mut visitor = Visitor { address: address.to_owned(), cookie: String::new() };
        visitor.get("/console/sign-in")?;
        Ok(visitor)
    }

    fn get(&mut self, path: &str) -> anyhow::Result<HttpAnswer> {
        let cookie = format!("Cookie: {}\r\n", self.cookie);
        let answer = ask(&self.address, &format!("GET {path}"), &cookie, "")?;
        self.keep(&answer);
        Ok(answer)
    }

    fn keep(&mut self, answer: &HttpAnswer) {
        if let Some(set) = answer.header("set-cookie") {
            self.cookie = set.split(';').next().unwrap_or_default().to_owned();
        }
    }

    /// `page`: one with a form.
    fn token(&mut self, page: &str) -> anyhow::Result<String> {
        let body = self.get(page)?.body;
        let (_, rest) = body.split_once("name=\"form-token\" value=\"").context("no form")?;
        Ok(rest.split('"').next().unwrap_or_default().to_owned())
    }

    fn post(&mut self, path: &str, token: &str, fields: &str) -> anyhow::Result<HttpAnswer> {
        let headers = format!(
            "Cookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n",
            self.cookie
        );
        let body = format!("form-token={token}&{fields}");
        let answer = ask(&self.address, &format!("POST {path}"), &headers, &body)?;
        self.keep(&answer);
        Ok(answer)
    }

    fn sign_in(&mut self, name: &str, key: &str) -> anyhow::Result<HttpAnswer> {
        let token = self.token("/console/sign-in")?;
        self.post("/console/sign-in", &token, &format!("name={name}&key={key}"))
    }
}

/// Each row: a page, and what it is answered with to the root key, to one that listens and to one that sends.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_the_console_shows_and_does_what_a_key_may() -> anyhow::Result<()> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        secret: Some(SECRET),
        config: KEYS,
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    cluster.client()?.create_queue("q", Default::default()).await?;
    let address = cluster.addresses(1)[1].to_owned();

    let mut stranger = Visitor::new(&address)?;
    assert_eq!(stranger.get("/console")?.status, 303, "he is to sign in");
    let wrong = stranger.sign_in("listener", "a-guess")?;
    assert_eq!(wrong.status, 401);
    assert!(!wrong.body.contains("a-guess"), "what was typed as a key is not shown");

    let mut keys = Vec::new();
    for (name, key) in [
        ("RootManageSharedAccessKey", SECRET),
        ("listener", "listener-key-of-the-test"),
        ("sender", "sender-key-of-the-test"),
    ] {
        let mut visitor = Visitor::new(&address)?;
        let signed = visitor.sign_in(name, key)?;
        assert_eq!((signed.status, signed.header("location")), (303, Some("/console")), "{name}");
        let set = signed.header("set-cookie").context("a cookie")?;
        assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert!(!set.contains(key), "the key itself is not kept");
        keys.push(visitor);
    }
    for (path, answers) in [
        ("/console", [200, 200, 200]),
        ("/console/entity?queue=q", [200, 403, 403]),
        ("/console/messages?queue=q", [200, 200, 403]),
        ("/console/purge?queue=q", [200, 403, 403]),
        // Nothing is recorded here, which the page says.
        ("/console/history?queue=q&id=x", [200, 200, 403]),
        // The page stands; of what may not be told it says so.
        ("/console/connections", [200, 200, 200]),
        ("/console/nothing", [404, 404, 404]),
    ] {
        for (visitor, status) in keys.iter_mut().zip(answers) {
            assert_eq!(visitor.get(path)?.status, status, "{path}");
        }
    }
    // What changes something takes the same as over the other protocols.
    for (path, fields, answers) in [
        ("/console/send", "queue=q&body=hello", [303, 403, 303]),
        ("/console/new", "kind=queue&name=other", [303, 403, 403]),
        ("/console/purge", "queue=q&asked=1&typed=1", [200, 200, 403]),
        ("/console/delete", "queue=q&asked=q&typed=q", [303, 403, 403]),
        ("/console/connections/close", "id=1-000000-1", [404, 403, 403]),
    ] {
        for (visitor, status) in keys.iter_mut().zip(answers).rev() {
            let token = visitor.token("/console")?;
            let forged = visitor.post(path, "", fields)?;
            assert_eq!(forged.status, 403, "{path}: without the token of the session");
            let answer = visitor.post(path, &token, fields)?;
            assert_eq!(answer.status, status, "{path}: {}", answer.body);
        }
    }
    Ok(())
}

/// Every answer forbids what is not ours; an entity may be called as the console is.
#[tokio::test(flavor = "multi_thread")]
async fn http_21_pages_are_guarded_and_an_entity_may_be_called_console() -> anyhow::Result<()> {
    let cluster =
        Cluster::start(Settings { nodes: 1, data_groups: 1, ..Settings::default() }).await?;
    cluster.client()?.create_queue("console", Default::default()).await?;
    let address = cluster.addresses(1)[1].to_owned();
    for path in ["/console", "/console/style.css", "/console/script.js", "/console/none"] {
        let answer = ask(&address, &format!("GET {path}"), "", "")?;
        let policy = answer.header("content-security-policy").context("a policy")?;
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert!(!answer.body.contains("<script>") && !answer.body.contains(" style="), "{path}");
    }
    let sent = ask(&address, "POST /console/messages", "", "hello")?;
    assert_eq!(sent.status, 201, "it is the queue's");
    let read = ask(&address, "GET /console?api-version=2021-05", "", "")?;
    assert!(read.body.contains("QueueDescription"), "{}", read.body);
    let seen = ask(&address, "GET /console/messages?queue=console", "", "")?;
    assert!(seen.body.contains("hello"), "{}", seen.body);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_console_has_no_pages() -> anyhow::Result<()> {
    let settings = Settings {
        nodes: 1,
        data_groups: 1,
        config: "[http]\nconsole = false\n",
        ..Settings::default()
    };
    let cluster = Cluster::start(settings).await?;
    let answer = ask(cluster.addresses(1)[1], "GET /console", "", "")?;
    assert_eq!(answer.status, 404);
    assert!(answer.header("content-security-policy").is_none());
    Ok(())
}
