//! RULE-21, QUOTA-22: what is refused when a rule is created, where, and in which words.

use std::collections::BTreeMap;

use domain::{Action, Correlation, Filter, Properties, RULE_NESTING_MAX, RuleError, Value};

use crate::support::{parameters, refused};

#[test]
fn rule_21_an_error_names_its_place_what_was_found_and_what_was_expected() {
    refused(&[
        ("quantity    =", "line 1, column 14: expected a value after '=', found end of text"),
        ("", "line 1, column 1: expected a value, found end of text"),
        ("   ", "line 1, column 4: expected a value, found end of text"),
        ("a = 1 AND\n\n  b == 2", "line 3, column 6: expected a value after '=', found '='"),
        ("ä = 'é' AND = 1", "line 1, column 13: expected a value after the keyword AND, found '='"),
        (
            "a = AND",
            "line 1, column 5: expected a value after '=', found the keyword AND (a property of that name is [AND])",
        ),
        ("a NOT = 1", "line 1, column 7: expected IN or LIKE after NOT, found '='"),
        ("a IS 1", "line 1, column 6: expected NULL or NOT NULL after IS, found the number 1"),
        (
            "a IS NOT 'x'",
            "line 1, column 10: expected NULL or NOT NULL after IS, found the text 'x'",
        ),
        ("a IN 1", "line 1, column 6: expected '(' after IN, found the number 1"),
        ("a IN ()", "line 1, column 7: expected a value after '(', found ')'"),
        (
            "a IN (1 2)",
            "line 1, column 9: expected ',' or ')' in the list after IN, found the number 2",
        ),
        ("(a = 1", "line 1, column 7: expected an operator or ')', found end of text"),
        ("a = 1)", "line 1, column 6: expected AND, OR or the end of the filter, found ')'"),
        ("a b", "line 1, column 3: expected AND, OR or the end of the filter, found the name 'b'"),
        ("EXISTS a", "line 1, column 8: expected '(' after EXISTS, found the name 'a'"),
        ("EXISTS (a = 1)", "line 1, column 11: expected ')' after the property, found '='"),
        (
            "foo(1) = 1",
            "line 1, column 1: expected one of the functions newid(), property(x) and p(x), found the function 'foo'",
        ),
        (
            "newid(1) = 1",
            "line 1, column 7: expected ')': newid() takes nothing, found the number 1",
        ),
        ("p(1) = 1", "line 1, column 3: expected a text that names a property, found 1"),
        ("a LIKE 5", "line 1, column 8: expected a text as the pattern, found 5"),
        (
            "a LIKE 'x' ESCAPE '!!'",
            "line 1, column 19: expected a text of one character after ESCAPE, found '!!'",
        ),
        (
            "a LIKE 'x' ESCAPE ''",
            "line 1, column 19: expected a text of one character after ESCAPE, found ''",
        ),
        (
            "a = @",
            "line 1, column 6: expected the name of a parameter after '@', found end of text",
        ),
        ("a = @x", "line 1, column 5: expected a parameter that has a value, found @x"),
    ]);
}

#[test]
fn rule_21_an_unknown_system_property_is_refused_where_it_is_written() {
    let error = Filter::sql("sys.Colour = 'red'", &Properties::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("line 1, column 5: expected one of the system properties MessageId, ")
    );
    assert!(error.ends_with(", found 'Colour'"), "{error}");
    for name in ["LockToken", "LockedUntilUtc", "Body", "[Message Id]"] {
        assert!(Filter::sql(&format!("sys.{name} IS NULL"), &Properties::new()).is_err(), "{name}");
    }
}

#[test]
fn rule_21_an_action_is_refused_with_its_own_exception() {
    for (text, expected) in [
        ("", "line 1, column 1: expected SET or REMOVE, found end of text"),
        ("a = 1", "line 1, column 1: expected SET or REMOVE, found the name 'a'"),
        ("SET a", "line 1, column 6: expected '=' after the property to set, found end of text"),
        ("SET a = ", "line 1, column 9: expected a value after '=', found end of text"),
        ("SET 'a' = 1", "line 1, column 5: expected the name of a property, found the text 'a'"),
        (
            "SET set = 1",
            "line 1, column 5: expected the name of a property, found the keyword SET (a property of that name is [SET])",
        ),
        ("SET p('a') = 1", "line 1, column 6: expected '=' after the property to set, found '('"),
        ("SET a = (b = 1)", "line 1, column 9: expected a value, found the condition b = 1"),
        ("SET a = b = 1", "line 1, column 11: expected SET or REMOVE, found '='"),
        ("REMOVE", "line 1, column 7: expected the name of a property, found end of text"),
        (
            "REMOVE sys.Label",
            "line 1, column 8: expected a user property to remove, found sys.Subject",
        ),
        ("SET a = 1;; SET b = 2", "line 1, column 11: expected SET or REMOVE, found ';'"),
        ("SET a = 1,", "line 1, column 11: expected SET or REMOVE, found end of text"),
        ("SET a = @x", "line 1, column 9: expected a parameter that has a value, found @x"),
    ] {
        let error = Action::sql(text, &Properties::new()).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
        assert_eq!(error.name(), "RuleActionException");
    }
}

/// What is the same for every message is known when the rule is created. `None`: it is taken.
#[test]
fn rule_19_rule_21_a_value_that_never_fits_is_refused() {
    let ttl = Some("sys.TimeToLive takes a TimeSpan");
    let instant = Some("sys.ScheduledEnqueueTimeUtc takes a DateTime");
    for (text, refused) in [
        ("SET sys.TimeToLive = newid()", ttl),
        ("SET sys.TimeToLive = 1 + 2", ttl),
        ("SET sys.TimeToLive = '00:' + '10:00'", None),
        ("SET sys.TimeToLive = 'an ' + 'hour'", ttl),
        ("SET sys.TimeToLive = sys.EnqueuedTimeUtc", ttl),
        ("SET sys.TimeToLive = sys.SequenceNumber", ttl),
        ("SET sys.TimeToLive = sys.TimeToLive", None),
        ("SET sys.TimeToLive = sys.ExpiresAtUtc - sys.EnqueuedTimeUtc", None),
        ("SET sys.TimeToLive = sys.MessageId", None),
        ("SET sys.TimeToLive = a", None),
        ("SET sys.TimeToLive = p('a' + 'b')", None),
        ("SET sys.ScheduledEnqueueTimeUtc = newid()", instant),
        ("SET sys.ScheduledEnqueueTimeUtc = sys.TimeToLive", instant),
        ("SET sys.ScheduledEnqueueTimeUtc = sys.ExpiresAtUtc", None),
        ("SET sys.MessageId = newid()", None),
        ("SET sys.MessageId = sys.SequenceNumber", None),
        ("SET sys.To = 1 / 0", Some("zero")),
        ("SET a = 1 / 0", Some("zero")),
        ("SET a = -'x'", Some("")),
        ("SET a = 'x' + newid()", None),
        ("SET a = b / 0", None),
    ] {
        match (Action::sql(text, &Properties::new()), refused) {
            (Ok(_), None) => {}
            (Err(error), Some(told)) => {
                assert!(error.to_string().contains(told), "{text}: {error}");
                assert_eq!(error.name(), "RuleActionException", "{text}");
            }
            (seen, _) => panic!("{text}: {:?}", seen.map(|_| "taken")),
        }
    }
}

/// Each row a rule with a long name in it.
#[test]
fn err_31_a_rule_s_error_is_no_longer_for_what_a_client_wrote() {
    let name = || "x".repeat(60_000);
    let one = |value| Properties::from([(name(), value)]);
    let two = Properties::from([(name(), Value::Long(1)), (name().to_uppercase(), Value::Long(1))]);
    let none = Properties::new();
    let correlation =
        |properties: &Properties| Correlation::new(BTreeMap::new(), properties.clone());
    for error in [
        correlation(&one(Value::Null)).unwrap_err(),
        correlation(&one(Value::Long(1))).unwrap_err(),
        correlation(&two).unwrap_err(),
        Filter::sql("a = 1", &one(Value::Long(1))).unwrap_err(),
        Filter::sql("a = 1", &one(Value::Null)).unwrap_err(),
        Filter::sql(&format!("sys.{}", "x".repeat(1000)), &none).unwrap_err(),
        Filter::sql(&format!("{}.", "x".repeat(1000)), &none).unwrap_err(),
        Filter::sql(&format!("'{}", "x".repeat(1000)), &none).unwrap_err(),
    ] {
        assert!(error.to_string().len() < 600, "{error}");
    }
}

/// RULE-30.
#[test]
fn rule_30_a_system_property_that_cannot_be_set_is_refused() {
    for name in [
        "SequenceNumber",
        "EnqueuedSequenceNumber",
        "EnqueuedTimeUtc",
        "ExpiresAtUtc",
        "DeliveryCount",
        "State",
        "Size",
        "DeadLetterSource",
        "ForcePersistence",
        "TransactionPartitionKey",
    ] {
        let error = Action::sql(&format!("SET sys.{name} = 1"), &Properties::new()).unwrap_err();
        assert_eq!(error.name(), "RuleActionException");
        let error = error.to_string();
        assert!(error.ends_with(&format!("found sys.{name}, which is read-only")), "{error}");
    }
}

#[test]
fn quota_22_texts_have_1024_characters_and_actions_32_expressions() {
    let none = Properties::new();
    let padded =
        |text: &str, chars: usize| format!("{text}{}", " ".repeat(chars - text.chars().count()));
    assert!(Filter::sql(&padded("a = 'é'", 1024), &none).is_ok());
    assert!(Action::sql(&padded("SET a = 'é'", 1024), &none).is_ok());
    let error = Filter::sql(&padded("a = 'é'", 1025), &none).unwrap_err();
    assert_eq!(error.to_string(), "the text of the filter has 1025 characters, the limit is 1024");
    assert_eq!(error.name(), "FilterException");
    let error = Action::sql(&padded("SET a = 'é'", 1025), &none).unwrap_err();
    assert_eq!(error.to_string(), "the text of the action has 1025 characters, the limit is 1024");
    assert_eq!(error.name(), "RuleActionException");

    assert!(Action::sql(&"REMOVE a ".repeat(32), &none).is_ok());
    let error = Action::sql(&"REMOVE a ".repeat(33), &none).unwrap_err();
    assert_eq!(error, RuleError::TooManyExpressions { max: 32 });
    assert_eq!(error.name(), "RuleActionException");
}

/// Whatever nests, the stack is bounded, and chains are not nesting.
#[test]
fn deep_nesting_is_refused_and_long_chains_are_not() {
    let none = Properties::new();
    let max = RULE_NESTING_MAX as usize;
    let parentheses = |depth: usize| format!("{}a = 1{}", "(".repeat(depth), ")".repeat(depth));
    let nots = |depth: usize| format!("{}a = 1", "NOT ".repeat(depth));
    let signs = |depth: usize| format!("{}a = 1", "- ".repeat(depth));
    let functions = |depth: usize| format!("{}'a'{} = 1", "p(".repeat(depth), ")".repeat(depth));
    for nested in [parentheses, nots, signs, functions] {
        assert!(Filter::sql(&nested(max), &none).is_ok(), "{}", nested(max));
        let error = Filter::sql(&nested(max + 1), &none).unwrap_err();
        assert!(matches!(error, RuleError::TooDeep { max: 32, line: 1, .. }), "{error}");
    }
    for chain in ["+1", "*1", "-1"] {
        let text = format!("1{} = 1", chain.repeat(500));
        assert!(Filter::sql(&text, &none).is_ok(), "{chain}");
    }
    let ors = vec!["a"; 200].join(" OR ");
    assert!(Filter::sql(&ors, &none).is_ok());
}

#[test]
fn rule_29_parameters_have_names_that_can_be_written_and_types_that_are_allowed() {
    for (name, value, why) in [
        (
            "@a b",
            Value::Int(1),
            "parameter @a b: its name is not a letter followed by letters, digits and '_'",
        ),
        (
            "",
            Value::Int(1),
            "parameter @: its name is not a letter followed by letters, digits and '_'",
        ),
        (
            "x",
            Value::Null,
            "parameter @x: its type is none of String, Int, Long, Bool, Double, DateTime and TimeSpan",
        ),
        (
            "x",
            Value::Bytes(vec![]),
            "parameter @x: its type is none of String, Int, Long, Bool, Double, DateTime and TimeSpan",
        ),
    ] {
        let given = parameters(&[(name, value)]);
        let error = Filter::sql("1 = 1", &given).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.name()), (why, "FilterException"));
        let error = Action::sql("SET a = 1", &given).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.name()), (why, "RuleActionException"));
    }
    let twice = parameters(&[("@x", Value::Int(1)), ("X", Value::Int(1))]);
    let error = Filter::sql("1 = 1", &twice).unwrap_err().to_string();
    assert_eq!(error, "parameter @X: it is given twice; case and '@' do not count");
}
