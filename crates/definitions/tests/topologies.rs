//! Whole files of each form, and the entities they come to.

use std::collections::BTreeMap;

use definitions::{Definitions, Found, Options, Parameters, Parsed, Problem, document};
use serde_json::{Value, json};

fn input(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parsed(text: &str, parameters: &Parameters) -> Result<Parsed, Vec<Problem>> {
    definitions::read(text, "f", parameters)
}

fn all(text: &str, parameters: &Parameters) -> Result<Definitions, Vec<Problem>> {
    definitions::merged(vec![parsed(text, parameters)?])
}

/// As our own form says it, which leaves nothing out.
fn shown(definitions: &Definitions) -> Value {
    serde_json::to_value(document::write(definitions, true)).expect("JSON")
}

/// A plan for an empty cluster, which has no problems then.
fn steps(definitions: &Definitions) -> Vec<String> {
    match definitions::plan(definitions, &Found::default(), Options::default()) {
        Ok(plan) => plan.steps.iter().map(ToString::to_string).collect(),
        Err(problems) => panic!("{problems:?}"),
    }
}

fn named(name: &str, more: Value) -> Value {
    let mut members = json!({ "name": name });
    let own = members.as_object_mut().expect("an object");
    own.extend(more.as_object().expect("an object").clone());
    members
}

/// Loops over names and objects, an index into a loop's resource, conditions, nested children, a module
/// with an existing namespace and `~`, both kinds of filters, an action with quotes, `if`, an output.
#[test]
fn a_template_that_bicep_made_comes_to_its_entities() {
    let definitions = all(&input("webshop.json"), &Parameters::default()).expect("a template");
    let work = json!({
        "lock_duration": "45s", "max_size_megabytes": 2048, "max_delivery_count": 5,
        "default_ttl": "14days", "dead_letter_on_expiration": true, "requires_duplicate_detection": false,
        "duplicate_detection_window": "30m", "enable_batched_operations": true,
        "enable_partitioning": false, "enable_express": false, "status": "Active",
        "forward_dead_letters_to": "failed",
    });
    let mut invoice = work.clone();
    invoice["requires_duplicate_detection"] = json!(true);
    invoice["authorization_rules"] = json!([
        {"name": "worker", "rights": ["listen", "send"], "primary_key": "", "secondary_key": ""}
    ]);
    let session = json!({"requires_session": true, "lock_duration": "2m"});
    let region = |name: &str, sessions: bool, idle: &str, country: &str| {
        named(
            &format!("region-{name}"),
            json!({
                "requires_session": sessions, "max_delivery_count": 5, "dead_letter_on_expiration": true,
                "auto_delete_on_idle": idle,
                "rules": [{"name": "country", "filter": {
                    "subject": "order.placed", "properties": {"country": country},
                }}],
            }),
        )
    };
    let expected = json!({
        "version": 1,
        "queues": [
            named("failed", json!({"default_ttl": "never", "auto_delete_on_idle": "never"})),
            named("invoice-jobs", invoice),
            named("parcel-jobs", work.clone()),
            named("refund-jobs", work),
            named("billing/draft", session.clone()),
            named("billing/sent", session),
        ],
        "topics": [named("orders", json!({
            "default_ttl": "7days", "requires_duplicate_detection": true,
            "duplicate_detection_window": "10m", "support_ordering": true, "enable_partitioning": false,
            "subscriptions": [
                named("audit", json!({"forward_to": "failed", "max_delivery_count": 10})),
                named("big", json!({
                    "lock_duration": "5m", "dead_letter_on_filter_errors": false,
                    "rules": [{
                        "name": "amount",
                        "filter": "amount > 1000 AND sys.Label <> 'test'",
                        "action": "SET urgent = TRUE; SET sys.ContentType = 'application/json'",
                    }],
                })),
                region("north", true, "never", "NO"),
                region("south", false, "1day", "ES"),
            ],
        }))],
    });
    assert_eq!(shown(&definitions), expected);
    let notes = definitions.notes.join("\n");
    for told in [
        "outputs are not made: endpoint",
        "name = \"monitor\", rights = [\"listen\"]",
        "minimumTlsVersion",
    ] {
        assert!(notes.contains(told), "{notes}");
    }
    assert_eq!(steps(&definitions).first().map(String::as_str), Some("+ topic orders"));
}

#[test]
fn parameters_come_from_files_and_as_typed() {
    let mut parameters =
        Parameters { typed: vec![("withAudit".into(), "false".into())], ..Parameters::default() };
    parameters.read(&input("webshop.parameters.json"), "p").expect("parameters");
    let definitions = all(&input("webshop.json"), &parameters).expect("a template");
    let names: Vec<&str> = definitions.queues.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!(names, ["failed", "invoice-jobs", "billing/draft", "billing/sent"]);
    assert_eq!(definitions.queues[1].properties.created().max_delivery_count, 3);
    let names: Vec<&str> =
        definitions.subscriptions.iter().map(|one| one.entity.name.as_str()).collect();
    assert_eq!(names, ["big", "region-north", "region-south"]);
    for (name, value, told) in [
        (
            "sku",
            "Basic",
            "'f' line 23: parameters.sku: \"Basic\" is not allowed; allowed are \"Standard\", \"Premium\"",
        ),
        ("maxDelivery", "many", "'f': parameters.maxDelivery: 'many' is no int in JSON"),
        ("colour", "x", "'f': the template has no parameter 'colour'; it has "),
    ] {
        let typed = vec![(name.to_owned(), value.to_owned())];
        let problems = all(&input("webshop.json"), &Parameters { typed, ..Parameters::default() });
        let problems = problems.expect_err(name);
        assert!(problems[0].to_string().starts_with(told), "{}", problems[0]);
    }
}

/// The old way by hand: children inside parents, another case of types, numbers and truths as texts,
/// `filter.sqlExpression`, `path`; and a parameter that has to be given.
#[test]
fn a_template_of_the_old_kind_comes_to_its_entities() {
    let missing = all(&input("nested-strings.json"), &Parameters::default()).expect_err("no name");
    let told = "'f' line 4: parameters: parameters without a value: bus; give each of them one";
    assert_eq!(missing[0].to_string(), told);
    let given = BTreeMap::from([("bus".to_owned(), json!("b"))]);
    let parameters = Parameters { given, ..Parameters::default() };
    let definitions = all(&input("nested-strings.json"), &parameters).expect("a template");
    let expected = json!({
        "version": 1,
        "queues": [named("siren", json!({
            "lock_duration": "5m", "max_size_megabytes": 1024, "requires_session": false,
            "max_delivery_count": 10, "default_ttl": "never", "enable_partitioning": false,
            "authorization_rules": [
                {"name": "listener", "rights": ["listen"], "primary_key": "", "secondary_key": ""}
            ],
        }))],
        "topics": [named("alarms", json!({
            "subscriptions": [named("alarms-all", json!({
                "rules": [{"name": "loud", "filter": "level >= 3"}],
            }))],
        }))],
    });
    assert_eq!(shown(&definitions), expected);
}

#[test]
fn an_emulators_file_is_taken_as_the_emulator_would() {
    let definitions = all(&input("emulator-odd.json"), &Parameters::default()).expect("a file");
    let expected = json!({
        "version": 1,
        "queues": [named("siren", json!({
            "requires_duplicate_detection": true, "duplicate_detection_window": "20s",
        }))],
        "topics": [named("alarms", json!({
            "subscriptions": [named("loud", json!({
                "max_delivery_count": 3,
                "rules": [{"name": "level", "filter": {
                    "subject": "alarm", "properties": {"level": {"type": "int", "value": 3}},
                }}],
            }))],
        }))],
    });
    assert_eq!(shown(&definitions), expected);
    let notes = definitions.notes.join("\n");
    for told in ["Custom is not known", "DuplicateDetectionHistoryTimeWindow is taken as 20s"] {
        assert!(notes.contains(told), "{notes}");
    }
}

/// As two generations of `az` print: durations of Python or of ISO 8601, properties beside the id or in
/// `properties`; rules and keys in lists of their own.
#[test]
fn what_az_prints_comes_to_its_entities() {
    const NAMESPACE: &str =
        "/subscriptions/0/resourceGroups/rg/providers/Microsoft.ServiceBus/namespaces/ns";
    let id = |rest: &str| format!("{NAMESPACE}/{rest}");
    let queues = json!([{
        "accessedAt": "0001-01-01T00:00:00", "autoDeleteOnIdle": "10675199 days, 2:48:05.477581",
        "countDetails": {"activeMessageCount": 5}, "defaultMessageTimeToLive": "14 days, 0:00:00",
        "deadLetteringOnMessageExpiration": false, "enablePartitioning": true,
        "forwardDeadLetteredMessagesTo": null, "forwardTo": null, "id": id("queues/a~b"),
        "location": "West US", "lockDuration": "0:01:00", "maxSizeInMegabytes": 16384, "messageCount": 5,
        "name": "a~b", "resourceGroup": "rg", "sizeInBytes": 0, "status": "Active",
        "type": "Microsoft.ServiceBus/Namespaces/Queues",
    }]);
    let topics = json!([{"id": id("topics/t"), "name": "t", "properties": {
        "maxMessageSizeInKilobytes": 256, "subscriptionCount": 1, "supportOrdering": true,
    }}]);
    let subscriptions = json!([{
        "id": id("topics/t/subscriptions/s"), "name": "s", "isClientAffine": false,
        "clientAffineProperties": null, "maxDeliveryCount": 3, "lockDuration": "PT1M",
        "duplicateDetectionHistoryTimeWindow": "P10675199DT2H48M5.4775807S",
    }]);
    let rules = json!([
        {"id": id("topics/t/subscriptions/s/rules/eur"), "name": "eur", "filterType": "SqlFilter",
         "action": {}, "correlationFilter": null,
         "sqlFilter": {"compatibilityLevel": 20, "sqlExpression": "cur = 'EUR'"}},
    ]);
    let keys =
        json!([{"id": id("queues/a~b/authorizationRules/w"), "name": "w", "rights": ["Send"]}]);
    // Rules before what they belong to: the order of files is nobody's concern.
    let files = [&rules, &keys, &queues, &topics, &subscriptions].map(|file| {
        parsed(&file.to_string(), &Parameters::default())
            .unwrap_or_else(|error| panic!("{error:?}"))
    });
    let definitions = definitions::merged(files.into()).expect("lists");
    let expected = json!({
        "version": 1,
        "queues": [named("a/b", json!({
            "status": "Active", "lock_duration": "1m", "default_ttl": "14days",
            "dead_letter_on_expiration": false, "auto_delete_on_idle": "never",
            "max_size_megabytes": 16384, "enable_partitioning": true,
            "authorization_rules": [
                {"name": "w", "rights": ["send"], "primary_key": "", "secondary_key": ""}
            ],
        }))],
        "topics": [named("t", json!({
            "max_message_size_kilobytes": 256, "support_ordering": true,
            "subscriptions": [named("s", json!({
                "lock_duration": "1m", "max_delivery_count": 3,
                "rules": [{"name": "eur", "filter": "cur = 'EUR'"}],
            }))],
        }))],
    });
    assert_eq!(shown(&definitions), expected);
    assert!(definitions.notes.is_empty(), "{:?}", definitions.notes);
    let bare = all(&subscriptions.to_string(), &Parameters::default()).expect("a list");
    assert!(bare.notes[0].starts_with("no rules are listed of t/s: "), "{:?}", bare.notes);
}

/// Each row: a resource, and what is told of it.
#[test]
fn what_cannot_be_had_is_told_with_its_place() {
    let template = |resource: Value| {
        json!({"$schema": "https://x/deploymentTemplate.json#", "contentVersion": "1", "resources": [resource]})
            .to_string()
    };
    let queue = |properties: Value| json!({"type": "Microsoft.ServiceBus/namespaces/queues", "name": "n/q", "properties": properties});
    for (resource, told) in [
        (
            queue(json!({"lockDuration": "00:01"})),
            "resources[0].properties.lockDuration: '00:01' is no duration",
        ),
        (
            queue(json!({"maxDeliveryCount": "many"})),
            "resources[0].properties.maxDeliveryCount: \"many\" is no such number: 1 to",
        ),
        (
            queue(json!({"requiresSession": "perhaps"})),
            "resources[0].properties.requiresSession: \"perhaps\" is neither",
        ),
        (
            queue(json!({"colour": "red"})),
            "resources[0].properties.colour: a queue has no such property here",
        ),
        (
            queue(json!({"forwardTo": "[reference('x').name]"})),
            "resources[0].properties.forwardTo: it depends on reference('x').name, which Azure alone",
        ),
        (
            json!({"type": "Microsoft.ServiceBus/namespaces/topics/subscriptions", "name": "n/t/s",
                   "properties": {"isClientAffine": true}}),
            "resources[0].properties.isClientAffine: a subscription has no such property here",
        ),
        (
            json!({"type": "Microsoft.ServiceBus/namespaces/queues", "name": "[concat('n/', listKeys('x','y').k)]"}),
            "resources[0].name: it depends on listkeys(…).k",
        ),
        (
            json!({"type": "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules", "name": "n/t/s/r",
                   "properties": {"sqlFilter": {"sqlExpression": "a = 1"}, "correlationFilter": {"label": "x"}}}),
            "resources[0]: it has a sqlFilter and a correlationFilter; give one",
        ),
    ] {
        let problems = all(&template(resource.clone()), &Parameters::default());
        let problems = problems.expect_err(&resource.to_string());
        assert!(problems[0].to_string().starts_with(&format!("'f': {told}")), "{}", problems[0]);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
    // With its line, where there are several.
    let long = "{\n\"$schema\": \"https://x/deploymentTemplate.json#\",\n\"resources\": [\n{\"type\": \
                \"Microsoft.ServiceBus/namespaces/queues\", \"name\": \"n/q\",\n\"properties\": {\"lockDuration\": \
                \"[colour()]\"}}]}";
    let problems = all(long, &Parameters::default()).expect_err("a function that is not known");
    let told = "'f' line 5: resources[0].properties.lockDuration: function 'colour' is not known";
    assert_eq!(problems[0].to_string(), told);
    // What changes nothing is nothing.
    let said = queue(
        json!({"colour": false, "shape": null, "size": "", "enableExpress": "False", "path": "q"}),
    );
    all(&template(said), &Parameters::default()).expect("nothing is wrong");
}

/// What is exported as a template comes back as it was: the whole way, with a cluster in between left out.
#[test]
fn a_template_that_was_exported_asks_for_nothing() {
    let definitions = all(&input("webshop.json"), &Parameters::default()).expect("a template");
    let (template, notes) = definitions::write_template(&definitions);
    assert_eq!(notes, Vec::<String>::new());
    let text = serde_json::to_string(&template).expect("JSON");
    let given = BTreeMap::from([("namespaceName".to_owned(), json!("other"))]);
    let read = all(&text, &Parameters { given, ..Parameters::default() }).expect("a template");
    let found = Found { definitions, ..Found::default() };
    let plan = definitions::plan(&read, &found, Options { prune: true, ..Options::default() });
    let plan = plan.unwrap_or_else(|problems| panic!("{problems:?}"));
    assert_eq!(plan.steps, []);
}
