//! Azure's management API: who may ask what of it, with which token; and that it is not there where it is off.

use anyhow::{Context, ensure};
use mayfly_tests::wire;
use mayfly_tests::{Cluster, Settings};
use serde_json::Value;

use super::ask_with;

const SECRET: &str = "the-cluster-secret";
const ROOT: &str = "RootManageSharedAccessKey";
const IDS: &str = "[azure]
enabled = true
subscription = \"11111111-1111-1111-1111-111111111111\"
tenant = \"22222222-2222-2222-2222-222222222222\"
";
const KEYS: &str = "[azure]
enabled = true
subscription = \"11111111-1111-1111-1111-111111111111\"
tenant = \"22222222-2222-2222-2222-222222222222\"
[[security.key]]
name = \"operator\"
key = \"the-operators-key\"
rights = [\"operate\"]
[[security.key]]
name = \"manager\"
key = \"the-managers-key\"
rights = [\"manage\"]
[[security.key]]
name = \"of-q\"
key = \"the-key-of-q-alone\"
rights = [\"manage\"]
scope = \"q\"
[[security.key]]
name = \"listener\"
key = \"the-listeners-key\"
rights = [\"listen\"]
";
const SUBSCRIPTION: &str = "/subscriptions/11111111-1111-1111-1111-111111111111";
const TOKENS: &str = "/22222222-2222-2222-2222-222222222222/oauth2/v2.0/token";
const TEMPLATE: &str =
    "{\"properties\": {\"mode\": \"Incremental\", \"template\": {\"resources\": []}}}";
const VERSION: &str = "?api-version=2024-01-01";

struct Asked<'a> {
    cluster: &'a Cluster,
    node: u64,
}

impl Asked<'_> {
    /// Status and body of one request over TLS.
    fn ask(&self, request: &str, headers: &str, body: &str) -> anyhow::Result<(u16, Value)> {
        let stream = wire::tls(self.cluster.addresses(self.node)[1], &self.cluster.certificate())?;
        let (status, text) = ask_with(stream, request, headers, body)?;
        let (_, body) = text.split_once("\r\n\r\n").context("no end of the headers")?;
        let start = body.find('{').unwrap_or(body.len());
        let end = body.rfind('}').map_or(start, |end| end + 1);
        Ok((status, serde_json::from_str(&body[start..end.max(start)]).unwrap_or(Value::Null)))
    }

    fn token(&self, name: &str, key: &str) -> anyhow::Result<(u16, Value)> {
        let body = format!(
            "grant_type=client_credentials&client_id={name}&client_secret={}&scope=https%3A%2F%2Flocalhost%2F.default",
            key.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
        );
        self.ask(&format!("POST {TOKENS}"), FORM, &body)
    }

    fn good_token(&self, name: &str, key: &str) -> anyhow::Result<String> {
        let (status, told) = self.token(name, key)?;
        ensure!(status == 200, "{name}: {told}");
        Ok(told["access_token"].as_str().context("a token")?.to_owned())
    }

    fn manage(&self, request: &str, token: &str, body: &str) -> anyhow::Result<(u16, Value)> {
        let (method, path) = request.split_once(' ').context("a method")?;
        let request = format!("{method} {SUBSCRIPTION}{path}{VERSION}");
        self.ask(&request, &format!("Authorization: Bearer {token}\r\n"), body)
    }
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn settings(config: &'static str) -> Settings {
    let secret = Some(SECRET);
    Settings { nodes: 1, data_groups: 1, secret, tls: true, config, ..Settings::default() }
}

/// Where it is off, and in plain text where it is on, its paths are those of entities.
#[tokio::test(flavor = "multi_thread")]
async fn azures_management_answers_where_it_is_on_and_over_tls() -> anyhow::Result<()> {
    for (config, is_on) in [("", false), (IDS, true)] {
        let cluster = Cluster::start(settings(config)).await?;
        let asked = Asked { cluster: &cluster, node: 1 };
        for (request, member) in [
            ("GET /metadata/endpoints?api-version=2022-09-01", "authentication"),
            ("GET /common/discovery/instance?api-version=1.1", "metadata"),
            ("GET /common/v2.0/.well-known/openid-configuration", "token_endpoint"),
            ("GET /common/discovery/v2.0/keys", "keys"),
            ("POST /common/oauth2/v2.0/token", "error_codes"),
            ("GET /subscriptions?api-version=2022-12-01", "error"),
            (
                "PUT /subscriptions/1/resourcegroups/g/providers/Microsoft.Resources/deployments/d?api-version=2025-04-01",
                "error",
            ),
        ] {
            let (_, told) = asked.ask(request, "", "")?;
            ensure!(told.get(member).is_some() == is_on, "{request}: {told}");
            // Whatever a client writes of the way that it takes.
            for claimed in ["", "https://localhost"] {
                let plain = wire::tcp(cluster.addresses(1)[1])?;
                let request = request.replacen(' ', &format!(" {claimed}"), 1);
                let (status, text) = ask_with(plain, &request, "", "")?;
                let is_told = text.contains(&format!("\"{member}\""));
                ensure!(status >= 400 && !is_told, "{request}: {text}");
            }
        }
    }
    Ok(())
}

/// Each row: a request, and the status that each key's token gets.
#[tokio::test(flavor = "multi_thread")]
async fn err_17_azures_management_asks_for_manage_or_operate() -> anyhow::Result<()> {
    let cluster = Cluster::start(settings(KEYS)).await?;
    let client = cluster.client()?;
    client.create_queue("q", Default::default()).await?;
    client.create_queue("other", Default::default()).await?;
    let orders = client.create_namespace("orders", None).await?;
    let of_orders = orders.authorization_rules.context("rules")?.rules.remove(0).primary_key;
    let asked = Asked { cluster: &cluster, node: 1 };
    let keys = [
        (ROOT, SECRET),
        ("operator", "the-operators-key"),
        ("manager", "the-managers-key"),
        ("of-q", "the-key-of-q-alone"),
        ("listener", "the-listeners-key"),
        (ROOT, of_orders.as_str()),
    ];
    let tokens = keys.map(|(name, key)| asked.good_token(name, key));
    let tokens = tokens.into_iter().collect::<anyhow::Result<Vec<String>>>()?;
    const HERE: &str = "/resourceGroups/mayfly/providers/Microsoft.ServiceBus/namespaces/default";
    const THERE: &str = "/resourceGroups/mayfly/providers/Microsoft.ServiceBus/namespaces/orders";
    let at = |request: &str| {
        let named = request.replace("THERE", THERE).replace("HERE", HERE);
        named.replace("DEPLOYMENTS", "providers/Microsoft.Resources/deployments")
    };
    for (request, body, statuses) in [
        ("GET ", "", [200, 200, 200, 200, 200, 200]),
        ("GET /resourceGroups", "", [200, 200, 200, 200, 200, 200]),
        ("PUT /resourceGroups/g", "{}", [201, 200, 403, 403, 403, 403]),
        ("GET HERE", "", [200, 200, 200, 403, 403, 403]),
        ("GET HERE/queues", "", [200, 200, 200, 403, 403, 403]),
        ("GET HERE/queues/q", "", [200, 200, 200, 200, 403, 403]),
        ("PUT HERE/queues/q", "{}", [200, 200, 200, 200, 403, 403]),
        ("GET HERE/queues/other", "", [200, 200, 200, 403, 403, 403]),
        ("GET HERE/authorizationRules", "", [200, 200, 200, 403, 403, 403]),
        // Keys of the configuration may do more than who manages.
        ("POST HERE/authorizationRules/operator/listKeys", "", [404, 404, 403, 403, 403, 403]),
        ("POST HERE/authorizationRules/manager/listKeys", "", [200, 200, 403, 403, 403, 403]),
        ("PUT HERE/authorizationRules/x", "{}", [409, 409, 409, 403, 403, 403]),
        ("GET THERE", "", [200, 200, 403, 403, 403, 200]),
        ("PUT THERE/queues/q", "{}", [200, 200, 403, 403, 403, 200]),
        (
            "POST THERE/authorizationRules/RootManageSharedAccessKey/listKeys",
            "",
            [200, 200, 403, 403, 403, 200],
        ),
        ("PUT THERE", "{}", [200, 200, 403, 403, 403, 403]),
        ("DELETE THERE/queues/q", "", [200, 204, 403, 403, 403, 204]),
        // A deployment may make anything, and tell keys.
        ("GET /resourceGroups/mayfly/DEPLOYMENTS", "", [200, 200, 403, 403, 403, 403]),
        ("GET /resourceGroups/mayfly/DEPLOYMENTS/d", "", [404, 404, 403, 403, 403, 403]),
        ("PUT /resourceGroups/mayfly/DEPLOYMENTS/d", "{}", [400, 400, 403, 403, 403, 403]),
        (
            "POST /resourceGroups/mayfly/DEPLOYMENTS/d/validate",
            TEMPLATE,
            [200, 200, 403, 403, 403, 403],
        ),
        (
            "POST /resourceGroups/mayfly/DEPLOYMENTS/d/whatIf",
            TEMPLATE,
            [200, 200, 403, 403, 403, 403],
        ),
        ("GET /resourceGroups/mayfly/deployments/d/operations", "", [404, 404, 403, 403, 403, 403]),
        ("POST /resourceGroups/mayfly/DEPLOYMENTS/d/cancel", "", [404, 404, 403, 403, 403, 403]),
        ("DELETE /resourceGroups/mayfly/DEPLOYMENTS/d", "", [204, 204, 403, 403, 403, 403]),
        // What is not there takes as much as what is.
        (
            "GET /resourceGroups/mayfly/providers/Microsoft.ServiceBus/namespaces/nobody",
            "",
            [404, 404, 403, 403, 403, 403],
        ),
    ] {
        for ((token, expected), (name, _)) in tokens.iter().zip(statuses).zip(keys) {
            let (status, told) = asked.manage(&at(request), token, body)?;
            ensure!(status == expected, "{request} with the key {name}: {status} {told}");
        }
    }
    // In lists everybody finds what is his.
    for (token, names) in [(&tokens[0], vec!["default", "orders"]), (&tokens[5], vec!["orders"])] {
        let (_, told) =
            asked.manage("GET /providers/Microsoft.ServiceBus/namespaces", token, "")?;
        let found: Vec<&str> = told["value"]
            .as_array()
            .context("a list")?
            .iter()
            .filter_map(|it| it["name"].as_str())
            .collect();
        ensure!(found == names, "{told}");
    }
    // A key that is exchanged takes its tokens with it.
    let regenerate = format!("POST {THERE}/authorizationRules/{ROOT}/regenerateKeys");
    let (status, told) = asked.manage(&regenerate, &tokens[5], "{\"keyType\": \"PrimaryKey\"}")?;
    ensure!(status == 200, "{told}");
    let (status, told) = asked.manage(&format!("GET {THERE}"), &tokens[5], "")?;
    ensure!(status == 401 && told["error"]["code"] == "InvalidAuthenticationToken", "{told}");
    Ok(())
}

/// Each row: what is asked for, and the status and the code of the answer. No token is had, and none that is not ours is
/// taken.
#[tokio::test(flavor = "multi_thread")]
async fn azures_tools_are_told_what_is_wrong_in_azures_words() -> anyhow::Result<()> {
    let cluster = Cluster::start(Settings { nodes: 3, ..settings(KEYS) }).await?;
    let asked = Asked { cluster: &cluster, node: 1 };
    let credentials = format!("client_id={ROOT}&client_secret={SECRET}");
    let scope = "scope=https%3A%2F%2Fmanagement.azure.com%2F.default";
    let other = "POST /33333333-3333-3333-3333-333333333333/oauth2/v2.0/token".to_owned();
    for (request, body, status, code) in [
        ("", format!("grant_type=client_credentials&{credentials}&{scope}"), 200, 0),
        ("", format!("grant_type=password&{credentials}&{scope}"), 400, 70003),
        ("", format!("grant_type=client_credentials&client_id={ROOT}&{scope}"), 400, 900144),
        ("", format!("grant_type=client_credentials&{credentials}"), 400, 900144),
        (
            "",
            format!(
                "grant_type=client_credentials&{credentials}&scope=https%3A%2F%2Fgraph.microsoft.com%2F.default"
            ),
            400,
            500011,
        ),
        (
            "",
            format!("grant_type=client_credentials&client_id={ROOT}&client_secret=guess&{scope}"),
            401,
            7000215,
        ),
        (
            "",
            format!("grant_type=client_credentials&client_id=nobody&client_secret=guess&{scope}"),
            401,
            7000215,
        ),
        (&*other, format!("grant_type=client_credentials&{credentials}&{scope}"), 400, 90002),
        ("POST /common/oauth2/v2.0/devicecode", credentials.clone(), 400, 700016),
    ] {
        let default = format!("POST {TOKENS}");
        let request = if request.is_empty() { &*default } else { request };
        let (found, told) = asked.ask(request, FORM, &body)?;
        let told_code = told["error_codes"][0].as_u64().unwrap_or_default();
        ensure!((found, told_code) == (status, code), "{body}: {found} {told}");
    }
    let token = asked.good_token(ROOT, SECRET)?;
    let (signed, signature) = token.rsplit_once('.').context("a token")?;
    let (_, claims) = signed.split_once('.').context("a token")?;
    for (bad, code) in [
        (format!("{signed}."), "InvalidAuthenticationToken"),
        (format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{claims}."), "InvalidAuthenticationToken"),
        (format!("{signed}x.{signature}"), "InvalidAuthenticationToken"),
        (SECRET.to_owned(), "InvalidAuthenticationToken"),
    ] {
        let (status, told) = asked.manage("GET ", &bad, "")?;
        ensure!(status == 401 && told["error"]["code"] == code, "{bad}: {told}");
    }
    let (status, told) = asked.ask(&format!("GET {SUBSCRIPTION}{VERSION}"), "", "")?;
    ensure!(status == 401 && told["error"]["code"] == "AuthenticationFailed", "{told}");
    // Each node honours it.
    for node in [1, 2, 3] {
        let (status, told) = Asked { cluster: &cluster, node }.manage("GET ", &token, "")?;
        ensure!(status == 200, "node {node}: {told}");
    }
    const OF: &str = "/resourceGroups/mayfly/providers/Microsoft.ServiceBus/namespaces";
    let of = |rest: &str| format!("{OF}{rest}");
    for (request, body, status, code) in [
        ("PUT /default/queues/q", "{\"properties\": {\"requiresSession\": true}}", 200, ""),
        (
            "PUT /default/queues/q",
            "{\"properties\": {\"requiresSession\": false}}",
            400,
            "BadRequest",
        ),
        (
            "PUT /default/queues/q",
            "{\"properties\": {\"lockDuration\": \"1 minute\"}}",
            400,
            "BadRequest",
        ),
        ("PUT /default/queues/q", "{\"properties\": {\"colour\": \"red\"}}", 400, "BadRequest"),
        ("PUT /default/queues/q", "{\"colour\": \"red\"}", 400, "InvalidRequestContent"),
        ("PUT /default/queues/q", "{", 400, "InvalidRequestContent"),
        ("PUT /default/topics/q", "{}", 409, "Conflict"),
        ("GET /default/queues/nothing", "", 404, "NotFound"),
        ("DELETE /default/queues/nothing", "", 204, ""),
        ("POST /default/queues/q", "", 405, "MethodNotAllowed"),
        ("PUT /default/topics/t/subscriptions/s", "{}", 404, "NotFound"),
        ("PUT /ab", "{}", 400, "BadRequest"),
        (
            "PUT /orders",
            "{\"properties\": {\"disableLocalAuth\": true}}",
            400,
            "OperationNotSupported",
        ),
        (
            "PUT /orders",
            "{\"identity\": {\"type\": \"SystemAssigned\"}}",
            400,
            "OperationNotSupported",
        ),
        ("PUT /orders", "{\"sku\": {\"name\": \"Gold\"}}", 400, "InvalidRequestContent"),
        ("GET /orders", "", 404, "ResourceNotFound"),
        ("DELETE /default", "", 409, "Conflict"),
        ("PUT /default/privateEndpointConnections/x", "{}", 400, "OperationNotSupported"),
        (
            "PUT /default/networkRuleSets/default",
            "{\"properties\": {\"defaultAction\": \"Deny\"}}",
            400,
            "OperationNotSupported",
        ),
        ("PUT /default/queues/q/authorizationRules/r", "{\"properties\": {}}", 400, "BadRequest"),
    ] {
        let (method, rest) = request.split_once(' ').context("a method")?;
        let (found, told) = asked.manage(&format!("{method} {}", of(rest)), &token, body)?;
        let told_code = told["error"]["code"].as_str().unwrap_or_default();
        ensure!((found, told_code) == (status, code), "{request} {body}: {found} {told}");
    }
    for (path, status, code) in [
        (
            format!("/subscriptions/33333333-3333-3333-3333-333333333333{VERSION}"),
            404,
            "SubscriptionNotFound",
        ),
        (format!("{SUBSCRIPTION}{OF}?api-version=2014-09-01"), 400, "NoRegisteredProviderFound"),
        (format!("{SUBSCRIPTION}/resourceGroups/nobody{VERSION}"), 404, "ResourceGroupNotFound"),
        (
            format!("{SUBSCRIPTION}/providers/Microsoft.Web{VERSION}"),
            404,
            "InvalidResourceNamespace",
        ),
        (
            format!(
                "{SUBSCRIPTION}/resourceGroups/mayfly/providers/Microsoft.Web/sites/x{VERSION}"
            ),
            404,
            "InvalidResourceType",
        ),
    ] {
        let headers = format!("Authorization: Bearer {token}\r\n");
        let (found, told) = asked.ask(&format!("GET {path}"), &headers, "")?;
        ensure!(found == status && told["error"]["code"] == code, "{path}: {found} {told}");
    }
    Ok(())
}
