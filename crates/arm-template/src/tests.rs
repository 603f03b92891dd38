//! Tables: what expressions come to, what templates come to, and what is refused.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Context, Error, Evaluation, evaluate, parameter_file, placeholder, typed};

fn all(template: &Value, given: &Value) -> Result<Evaluation, Vec<Error>> {
    let given: BTreeMap<String, Value> = given
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, of)| (name.clone(), of.clone()))
        .collect();
    let is_ours = |kind: &str| kind.to_ascii_lowercase().starts_with("a.b/");
    evaluate(template, &given, &Context::nowhere(), &is_ours)
}

/// What an expression comes to in a property.
fn value(expression: &str) -> Result<Value, String> {
    let template = json!({
        "parameters": {
            "text": {"type": "string", "defaultValue": "one two"},
            "list": {"type": "array", "defaultValue": [{"n": "x", "deep": {"er": 5}}, {"n": "y"}]},
            "none": {"type": "string", "nullable": true},
            "late": {"type": "string", "defaultValue": "[concat(parameters('text'), '!')]"},
        },
        "variables": {
            "plain": {"a": [1, 2, 3]},
            "circle": "[variables('round')]",
            "round": "[variables('circle')]",
            "copy": [{"name": "looped", "count": 3, "input": "[mul(copyIndex('looped', 1), 10)]"}],
        },
        "resources": [
            {"type": "A.B/c", "name": "it", "sku": {"name": "Premium"}, "properties": {"size": 7}},
            {"type": "A.B/c", "name": "asked", "properties": {"v": expression}},
        ],
    });
    match all(&template, &json!({})) {
        Ok(found) => Ok(found.resources[1].properties()["v"].clone()),
        Err(errors) => Err(errors[0].to_string()),
    }
}

#[test]
fn expressions_come_to_values() {
    for (expression, expected) in [
        ("plain", json!("plain")),
        ("[[escaped]", json!("[escaped]")),
        ("[parameters('TEXT')]", json!("one two")),
        ("[parameters('late')]", json!("one two!")),
        ("[parameters('none')]", json!(null)),
        ("[parameters('list')[0].deep.ER]", json!(5)),
        ("[variables('plain').a[2]]", json!(3)),
        ("[variables('looped')]", json!([10, 20, 30])),
        ("[format('{0}-{1:D3}{{}}', 'a', 7)]", json!("a-007{}")),
        ("[concat('a', 1, true())]", json!("a1True")),
        ("[concat(createArray(1), createArray(2, 3))]", json!([1, 2, 3])),
        ("[if(equals('a', 'A'), 'yes', 'no')]", json!("no")),
        ("[if(true(), 'yes', fail('never'))]", json!("yes")),
        ("[and(true(), not(false()))]", json!(true)),
        ("[or(false(), greater(2, 1), fail('never'))]", json!(true)),
        ("[empty('')]", json!(true)),
        ("[length(parameters('list'))]", json!(2)),
        ("[coalesce(null(), parameters('none'), 'x')]", json!("x")),
        ("[createObject('a', 1, 'b', null())]", json!({"a": 1, "b": null})),
        ("[tryGet(parameters('list')[0], 'deep', 'er')]", json!(5)),
        ("[tryGet(parameters('list')[0], 'no', 'er')]", json!(null)),
        ("[take('abc', 2)]", json!("ab")),
        ("[skip(createArray(1, 2), 1)]", json!([2])),
        ("[last(split('a/b,c', createArray('/', ',')))]", json!("c")),
        ("[first('é')]", json!("é")),
        ("[substring('abcd', 1, 2)]", json!("bc")),
        ("[replace(toLower('A-B'), '-', '')]", json!("ab")),
        ("[join(createArray('a', 'b'), '+')]", json!("a+b")),
        ("[contains(createArray('a'), 'a')]", json!(true)),
        (
            "[union(createObject('a', createObject('x', 1)), createObject('a', createObject('y', 2)))]",
            json!({"a": {"x": 1, "y": 2}}),
        ),
        ("[union(createArray(1, 2), createArray(2, 3))]", json!([1, 2, 3])),
        ("[range(3, 2)]", json!([3, 4])),
        ("[map(parameters('list'), lambda('it', lambdaVariables('it').n))]", json!(["x", "y"])),
        ("[filter(range(0, 5), lambda('n', less(lambdaVariables('n'), 2)))]", json!([0, 1])),
        (
            "[reduce(range(0, 4), 0, lambda('a', 'b', add(lambdaVariables('a'), lambdaVariables('b'))))]",
            json!(6),
        ),
        (
            "[toObject(parameters('list'), lambda('i', lambdaVariables('i').n), lambda('i', 1))]",
            json!({"x": 1, "y": 1}),
        ),
        ("[last(split(resourceId('A.B/c/d', 'n', 'm'), '/'))]", json!("m")),
        ("[resourceGroup().location]", json!("local")),
        ("[length(uniqueString('a'))]", json!(13)),
        ("[equals(uniqueString('a'), uniqueString('b'))]", json!(false)),
        ("[reference(resourceId('A.B/c', 'it'), '2022', 'full').sku.name]", json!("Premium")),
        ("[reference('it').size]", json!(7)),
        ("[int('5')]", json!(5)),
        ("[div(7, 2)]", json!(3)),
        ("[json('{\"a\": [1]}')]", json!({"a": [1]})),
        ("[padLeft(5, 3, '0')]", json!("005")),
    ] {
        assert_eq!(value(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn what_cannot_be_evaluated_is_told_with_its_place() {
    for (expression, told) in [
        ("[colour('x')]", "function 'colour' is not known"),
        ("[parameters('gone')]", "there is no parameter 'gone'"),
        ("[variables('gone')]", "there is no variable 'gone'"),
        (
            "[variables('circle')]",
            "variables.circle.variables.round: variable 'circle' depends on itself",
        ),
        ("[variables('plain').b]", "there is no member 'b'"),
        ("[variables('plain').a[9]]", "there is no item 9 in a list of 3"),
        ("[copyIndex()]", "copyIndex() is in no loop"),
        ("[fail('no')]", "fail(…): the template fails here: no"),
        ("[utcNow()]", "utcNow(…): it is another each time; give the value as a parameter"),
        ("[div(1, 0)]", "div(…): the result is no number of 64 bits"),
        ("[concat(", ""),
        ("[take('a')]", "take(…): it takes 2 arguments or more"),
        (
            "[if(equals(listKeys('x', 'y').primaryKey, ''), 1, 2)]",
            "equals(…): it depends on listkeys(…).primaryKey, which Azure alone knows",
        ),
        ("[range(0, 99999)]", "range(…): 99999 is no count from 0 to 10000"),
    ] {
        if told.is_empty() {
            assert_eq!(value(expression), Ok(json!("[concat(")), "not closed: a text");
            continue;
        }
        let error = value(expression).expect_err(expression);
        assert!(error.starts_with("resources[1].properties."), "{error}");
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn what_azure_alone_knows_is_marked_in_whatever_is_made_of_it() {
    for expression in [
        "[reference('elsewhere').endpoint]",
        "[reference('it').endpoint]",
        "[concat('a', listKeys('x', 'y').primaryKey, 'b')]",
        "[toLower(subscription().tenantId)]",
        "[first(split(deployment().name, '-'))]",
        "[createArray(environment().name)]",
    ] {
        let found = value(expression).expect(expression);
        assert!(placeholder::unknown(&found).is_some(), "{expression}: {found}");
    }
}

fn names(template: &Value, given: Value) -> Result<Vec<String>, Vec<String>> {
    match all(template, &given) {
        Ok(found) => {
            Ok(found.resources.iter().map(|one| format!("{} {}", one.kind, one.name)).collect())
        }
        Err(errors) => Err(errors.iter().map(Error::to_string).collect()),
    }
}

#[test]
fn loops_conditions_children_and_modules_come_to_a_flat_list() {
    let inner = json!({
        "languageVersion": "2.0",
        "parameters": {"prefix": {"type": "string"}},
        "resources": {
            "old": {"existing": true, "type": "A.B/c", "name": "n"},
            "q": {
                "type": "A.B/c/d",
                "copy": {"name": "q", "count": "[length(createArray(1, 2))]"},
                "name": "[format('n/{0}~{1}', parameters('prefix'), copyIndex())]",
            },
        },
    });
    let template = json!({
        "parameters": {"more": {"type": "bool", "defaultValue": false}},
        "variables": {"here": "outer"},
        "resources": [
            {
                "type": "A.B/c", "name": "n",
                "resources": [
                    {"type": "d", "name": "child", "resources": [{"type": "E", "name": "leaf"}]},
                    {"type": "d", "name": "gone", "condition": "[parameters('more')]",
                     "resources": [{"type": "e", "name": "x"}]},
                ],
            },
            {"type": "Other.Provider/things", "name": "[nonsense()]"},
            {"type": "Other.Provider/things", "name": "b"},
            {
                "type": "Microsoft.Resources/deployments", "name": "inner",
                "copy": {"name": "m", "count": 2},
                "properties": {
                    "expressionEvaluationOptions": {"scope": "Inner"},
                    "parameters": {"prefix": {"value": "[concat('m', copyIndex())]"}},
                    "template": inner,
                },
            },
            {
                "type": "Microsoft.Resources/deployments", "name": "outer",
                "properties": {"template": {"resources": [
                    {"type": "A.B/c/d", "name": "[concat('n/', variables('here'))]"},
                ]}},
            },
        ],
        "outputs": {"x": {"type": "string", "value": "[reference('gone').y]"}},
    });
    let expected = [
        "A.B/c n",
        "A.B/c/d n/child",
        "A.B/c/d/E n/child/leaf",
        "A.B/c n",
        "A.B/c/d n/m0~0",
        "A.B/c/d n/m0~1",
        "A.B/c n",
        "A.B/c/d n/m1~0",
        "A.B/c/d n/m1~1",
        "A.B/c/d n/outer",
    ];
    assert_eq!(names(&template, json!({})), Ok(expected.map(str::to_owned).to_vec()));
    let found = all(&template, &json!({"MORE": true})).expect("it is evaluated");
    assert_eq!(found.resources.len(), expected.len() + 2);
    assert!(found.resources[5].is_existing);
    assert_eq!(found.skipped, [("Other.Provider/things".to_owned(), 2)].into());
    assert_eq!(found.outputs.keys().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn a_loop_in_properties_makes_a_list() {
    let template = json!({"resources": [{
        "type": "A.B/c", "name": "n",
        "properties": {"copy": [{"name": "rights", "count": 2, "input": {"n": "[copyIndex('rights')]"}}]},
    }]});
    let found = all(&template, &json!({})).expect("it is evaluated");
    assert_eq!(*found.resources[0].properties(), json!({"rights": [{"n": 0}, {"n": 1}]}));
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let template = json!({
        "definitions": {"tier": {"type": "string", "allowedValues": ["a", "b"]}},
        "parameters": {
            "tier": {"$ref": "#/definitions/tier"},
            "count": {"type": "int", "minValue": 1, "maxValue": 3},
            "first": {"type": "string"},
            "second": {"type": "object"},
        },
        "resources": [],
    });
    let errors = names(&template, json!({"tier": "c", "count": 9, "other": 1})).expect_err("wrong");
    let expected = [
        "parameters.count: its value is 9, allowed is 1 to 3",
        "the template has no parameter 'other'; it has count, first, second, tier",
        "parameters.tier: \"c\" is not allowed; allowed are \"a\", \"b\"",
        "parameters: parameters without a value: first, second; give each of them one",
    ];
    assert_eq!(errors, expected);
    let template = json!({"resources": [
        {"type": "A.B/c/d", "name": "n"},
        {"name": "n"},
        {"type": "A.B/c", "name": "n", "condition": "maybe"},
        {"type": "A.B/c", "name": "n", "copy": {"name": "x", "count": 801}},
        {"type": "Microsoft.Resources/deployments", "name": "n", "properties": {"templateLink": {}}},
        {"type": "A.B/c", "name": "n", "properties": {"a": ["[gone()]"]}},
    ]});
    let errors = names(&template, json!({})).expect_err("wrong");
    let expected = [
        "resources[0].name: 'n' has 1 segments, its type A.B/c/d has 2",
        "resources[1]: it lacks a `type`",
        "resources[2].condition: \"maybe\" is neither true nor false",
        "resources[3].copy.count: 801 is no count of a loop: 0 to 800",
        "resources[4].properties: what it links to cannot be followed; put the template in its place, \
         as 'bicep build' does",
        "resources[5].properties.a[0]: function 'gone' is not known",
    ];
    assert_eq!(errors, expected);
}

/// No file decides how long it takes or how deep the stack gets.
#[test]
fn a_template_is_bounded() {
    let turns = |input: Value| json!([{"name": "x", "count": 800, "input": input}]);
    let nested = json!({"copy": turns(json!({"copy": turns(json!({"copy": turns(json!(1))}))}))});
    let template = json!({"resources": [{"type": "A.B/c", "name": "n", "properties": nested}]});
    let errors = names(&template, json!({})).expect_err("too much");
    assert!(errors[0].ends_with("the template comes to more than 1000000 values"), "{errors:?}");
    for double in ["concat({0}, {0})", "createObject('a', {0}, 'b', {0})"] {
        let mut variables = json!({"v0": "x"});
        for index in 1..29 {
            let before = format!("variables('v{}')", index - 1);
            variables[format!("v{index}")] = json!(format!("[{}]", double.replace("{0}", &before)));
        }
        let resource = json!({"type": "A.B/c", "name": "[string(variables('v28'))]"});
        let template = json!({"variables": variables, "resources": [resource]});
        let errors = names(&template, json!({})).expect_err("too large");
        assert!(errors[0].ends_with("the template's values are too large"), "{errors:?}");
    }
    let mut deep = json!({"type": "A.B/c", "name": "n"});
    for _ in 0..40 {
        deep = json!({"type": "Microsoft.Resources/deployments", "name": "m",
                      "properties": {"template": {"resources": [deep]}}});
    }
    let errors = names(&json!({"resources": [deep]}), json!({})).expect_err("too deep");
    assert!(errors[0].ends_with("nested more than 16 deep"), "{errors:?}");
}

#[test]
fn parameters_are_read_from_files_and_from_what_is_typed() {
    let file = json!({"parameters": {"a": {"value": [1]}, "b": {"value": null}}});
    let expected = BTreeMap::from([("a".to_owned(), json!([1])), ("b".to_owned(), json!(null))]);
    assert_eq!(parameter_file(&file), Ok(expected.clone()));
    let built = json!({"parametersJson": file.to_string(), "templateJson": "{}"});
    assert_eq!(parameter_file(&built), Ok(expected));
    let vault = json!({"parameters": {"a": {"reference": {"keyVault": {}}}, "b": {}}});
    let errors = parameter_file(&vault).expect_err("wrong");
    assert_eq!(errors.len(), 2, "{errors:?}");
    let template = json!({"parameters": {
        "s": {"type": "string"}, "n": {"type": "int"}, "l": {"type": "array"},
    }});
    for (name, text, expected) in [
        ("s", "5", Some(json!("5"))),
        ("N", "5", Some(json!(5))),
        ("l", "[\"a\"]", Some(json!(["a"]))),
        ("n", "five", None),
        ("gone", "x", Some(json!("x"))),
    ] {
        assert_eq!(typed(&template, name, text).ok(), expected, "{name}");
    }
}
