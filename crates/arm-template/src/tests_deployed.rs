//! Templates where somebody answers: what they ask, in which order things are made, and what is refused before any is.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Context, Error, Evaluation, NodeKind, Question, evaluate, placeholder};

const GROUP: &str = "/subscriptions/s/resourceGroups/g";

fn context(answers: &[(Question, Value)]) -> Context {
    Context {
        subscription_id: "/subscriptions/s".to_owned(),
        group_name: "g".to_owned(),
        group: json!({"id": GROUP, "name": "g", "location": "north"}),
        subscription: json!({"subscriptionId": "s"}),
        tenant: json!({"tenantId": "t"}),
        environment: json!({"name": "here"}),
        deployment_name: "main".to_owned(),
        now: Some([2026, 3, 4, 5, 6, 7]),
        answers: Some(answers.iter().cloned().collect()),
    }
}

fn deployed(template: &Value, answers: &[(Question, Value)]) -> Result<Evaluation, Vec<Error>> {
    evaluate(template, &BTreeMap::new(), &context(answers), &|_| true)
}

/// What an output comes to.
fn told(value: Value) -> Result<Value, String> {
    let template = json!({
        "functions": [{"namespace": "own", "members": {
            "twice": {
                "parameters": [{"name": "it", "type": "string"}],
                "output": {"type": "string", "value": "[concat(parameters('it'), parameters('it'))]"},
            },
            "four": {
                "parameters": [{"name": "it", "type": "string"}],
                "output": {"type": "string", "value": "[own.twice(own.twice(parameters('it')))]"},
            },
            "reaches": {"parameters": [], "output": {"value": "[variables('v')]"}},
        }}],
        "variables": {"v": 1},
        "resources": [],
        "outputs": {"o": {"type": "string", "value": value}},
    });
    match deployed(&template, &[]) {
        Ok(found) => Ok(found.outputs["o"]["value"].clone()),
        Err(errors) => Err(errors[0].to_string()),
    }
}

#[test]
fn what_is_around_a_template_is_known_where_it_is_deployed() {
    for (expression, expected) in [
        ("[resourceGroup().location]", json!("north")),
        ("[resourceGroup().id]", json!(GROUP)),
        ("[subscription().subscriptionId]", json!("s")),
        ("[tenant().tenantId]", json!("t")),
        ("[environment().name]", json!("here")),
        ("[deployment().name]", json!("main")),
        ("[utcNow()]", json!("20260304T050607Z")),
        ("[utcNow('yyyy-MM-dd')]", json!("2026-03-04")),
        (
            "[resourceId('A.B/c', 'n')]",
            json!("/subscriptions/s/resourceGroups/g/providers/A.B/c/n"),
        ),
        (
            "[resourceId('other', 'A.B/c', 'n')]",
            json!("/subscriptions/s/resourceGroups/other/providers/A.B/c/n"),
        ),
        (
            "[resourceId('t', 'other', 'A.B/c', 'n')]",
            json!("/subscriptions/t/resourceGroups/other/providers/A.B/c/n"),
        ),
        ("[own.twice('ab')]", json!("abab")),
        ("[OWN.Four('x')]", json!("xxxx")),
    ] {
        assert_eq!(told(json!(expression)), Ok(expected), "{expression}");
    }
    for (expression, why) in [
        ("[own.twice()]", "own.twice(…): it takes 1 arguments, and 0 are given"),
        (
            "[own.twice(5)]",
            "own.twice(…): parameters.it: it is of type string, and a number is given",
        ),
        ("[own.reaches()]", "own.reaches(…): a function of a template knows no variables"),
        ("[own.gone()]", "function 'own.gone' is not known"),
    ] {
        assert_eq!(told(json!(expression)), Err(format!("outputs.o.value: {why}")), "{expression}");
    }
}

/// What a template asks is asked once, and what depends on it waits.
#[test]
fn questions_are_asked_and_their_answers_are_used() {
    let template = json!({
        "resources": [
            {"type": "A.B/c", "name": "n"},
            {"type": "A.B/c/d", "name": "n/x", "properties": {
                "v": "[reference(resourceId('A.B/c', 'n')).born]",
                "w": "[if(equals(listKeys('n', '1').key, 'k'), 'yes', 'no')]",
            }},
        ],
        "outputs": {"o": {"type": "string", "value": "[concat('=', listKeys('n', '1').key)]"}},
    });
    let first = deployed(&template, &[]).expect("it is evaluated");
    let id = format!("{}/providers/a.b/c/n", GROUP.to_lowercase());
    let resource = Question::Resource { id: id.clone() };
    let list = Question::List { function: "listkeys".to_owned(), id };
    assert_eq!(first.questions, [resource.clone(), list.clone()]);
    assert!(matches!(&first.nodes[1].is, NodeKind::Waits(error) if error.waits), "{first:?}");
    assert!(placeholder::unknown(&first.outputs["o"]).is_some());
    let answers = [
        (resource, json!({"name": "n", "properties": {"born": "today"}})),
        (list, json!({"key": "k"})),
    ];
    let second = deployed(&template, &answers).expect("it is evaluated");
    assert!(second.questions.is_empty());
    assert_eq!(*second.resources[1].properties(), json!({"v": "today", "w": "yes"}));
    assert_eq!(second.outputs["o"]["value"], "=k");
    // Children come after their parents, whatever is said.
    assert_eq!(second.nodes[1].after, [0]);
}

#[test]
fn modules_have_an_order_and_tell_what_others_take() {
    let module = |name: &str, more: Value| {
        let template = json!({
            "languageVersion": "2.0",
            "parameters": {"n": {"type": "string"}},
            "resources": {
                "base": {"existing": true, "type": "A.B/c", "name": "[parameters('n')]"},
                "made": {"type": "A.B/c/d", "name": "[concat(parameters('n'), '/y')]", "dependsOn": ["base"]},
            },
            "outputs": {
                "plain": {"type": "string", "value": "[toUpper(parameters('n'))]"},
                "born": {"type": "string", "value": "[reference('base').born]"},
            },
        });
        json!({
            "type": "Microsoft.Resources/deployments", "name": name,
            "properties": {
                "expressionEvaluationOptions": {"scope": "inner"},
                "parameters": {"n": more}, "template": template,
            },
        })
    };
    let template = json!({
        "resources": [
            module("second", json!({"value": "[reference('first').outputs.plain.value]"})),
            module("first", json!({"value": "n"})),
        ],
        "outputs": {"o": {"type": "string", "value": "[reference('second').outputs.plain.value]"}},
    });
    let found = deployed(&template, &[]).expect("it is evaluated");
    let shown: Vec<String> = found
        .nodes
        .iter()
        .map(|node| format!("{} {:?} {:?}", node.at, node.within, node.after))
        .collect();
    let expected = [
        "resources[0] None [3]",
        "resources[0].properties.template.resources.base Some(0) []",
        "resources[0].properties.template.resources.made Some(0) [1]",
        "resources[1] None []",
        "resources[1].properties.template.resources.base Some(3) []",
        "resources[1].properties.template.resources.made Some(3) [4]",
    ];
    assert_eq!(shown, expected);
    let names: Vec<&str> = found.resources.iter().map(|resource| &*resource.name).collect();
    assert_eq!(names, ["N", "N/y", "n", "n/y"]);
    assert_eq!(found.outputs["o"]["value"], "N");
    assert_eq!(found.modules[1].outputs["plain"]["value"], "n".to_uppercase());
    assert!(placeholder::unknown(&found.modules[1].outputs["born"]).is_some());
}

/// Each row: resources, and what is told of them.
#[test]
fn what_has_no_order_is_refused() {
    let one = |name: &str, on: &[&str]| json!({"type": "A.B/c", "name": name, "dependsOn": on});
    for (resources, told) in [
        (
            json!([one("a", &["b"]), one("b", &["a"])]),
            "circular dependency: resources[0], resources[1]",
        ),
        (
            json!([one("a", &["a"]), one("b", &["c"])]),
            "the resource 'c' is not defined in the template",
        ),
        (json!([one("a", &[]), one("A", &[])]), "the resource 'A.B/c/A' is defined multiple times"),
        (json!([{"type": "A.B/c", "name": "a", "dependsOn": "b"}]), "dependsOn: it is no list"),
        (
            json!([{"type": "A.B/c", "name": "[format('a{0}', copyIndex())]", "copy": {"name": "l", "count": 800}}, one("b", &["l"])]),
            "it comes to 801 resources and modules, allowed are 800",
        ),
        (
            json!([{"type": "Microsoft.Resources/deployments", "name": "m", "properties": {"template": {}}},
                   {"type": "Microsoft.Resources/deployments", "name": "m", "properties": {"template": {}}}]),
            "is defined multiple times",
        ),
    ] {
        let errors = deployed(&json!({"resources": resources}), &[]).expect_err(told);
        assert!(errors[0].to_string().contains(told), "{}", errors[0]);
    }
    for (resources, after) in [
        (json!([one("a", &["b"]), one("b", &[])]), vec![vec![1], vec![]]),
        // One that is left out may be named.
        (
            json!([one("a", &["b"]), {"type": "A.B/c", "name": "b", "condition": false}]),
            vec![vec![1], vec![]],
        ),
        (
            json!([{"type": "A.B/c", "name": "[format('a{0}', copyIndex())]", "copy": {"name": "l", "count": 2}}, one("b", &["l"])]),
            vec![vec![], vec![], vec![0, 1]],
        ),
        (json!([one("a", &["[resourceId('A.B/c', 'B')]"]), one("b", &[])]), vec![vec![1], vec![]]),
    ] {
        let found = deployed(&json!({"resources": resources}), &[]).expect("it has an order");
        let order: Vec<Vec<usize>> = found.nodes.into_iter().map(|node| node.after).collect();
        assert_eq!(order, after, "{resources}");
    }
}

/// Each row: a value of a type of the template's own, and what is told of it.
#[test]
fn types_of_a_template_hold_for_all_that_is_in_a_value() {
    let template = json!({
        "definitions": {
            "queue": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 5},
                    "size": {"type": "int", "nullable": true, "allowedValues": [1, 2]},
                },
                "additionalProperties": false,
            },
            "queues": {"type": "array", "items": {"$ref": "#/definitions/queue"}},
        },
        "parameters": {"all": {"$ref": "#/definitions/queues"}},
        "resources": [],
    });
    for (value, told) in [
        (json!([{"name": "a"}, {"name": "b", "size": 2}]), ""),
        (json!([{"name": "a", "size": null}]), ""),
        (json!([{"size": 1}]), "parameters.all[0]: it lacks 'name'"),
        (json!([{"name": "a", "colour": 1}]), "parameters.all[0]: its type has no 'colour'"),
        (
            json!([{"name": 5}]),
            "parameters.all[0].name: it is of type string, and a number is given",
        ),
        (json!([{"name": "abcdef"}]), "parameters.all[0].name: its length is 6, allowed is … to 5"),
        (
            json!([{"name": "a", "size": 3}]),
            "parameters.all[0].size: 3 is not allowed; allowed are 1, 2",
        ),
        (json!(["x"]), "parameters.all[0]: it is of type object, and a text is given"),
    ] {
        let given = BTreeMap::from([("all".to_owned(), value.clone())]);
        let found = evaluate(&template, &given, &context(&[]), &|_| true);
        let found = found.err().map(|errors| errors[0].to_string()).unwrap_or_default();
        assert_eq!(found, told, "{value}");
    }
}

#[test]
fn parameters_and_secrets_are_told_as_they_may_be() {
    let template = json!({
        "parameters": {
            "plain": {"type": "string", "defaultValue": "[deployment().name]"},
            "secret": {"type": "securestring", "defaultValue": "s"},
        },
        "resources": [],
    });
    let found = deployed(&template, &[]).expect("it is evaluated");
    let expected =
        json!({"plain": {"type": "String", "value": "main"}, "secret": {"type": "SecureString"}});
    assert_eq!(Value::Object(found.parameters), expected);
}
