//! RULE-10, RULE-12: correlation filters and their index.

use std::collections::BTreeMap;

use domain::{Correlation, CorrelationIndex, Filter, MatchCost, RuleError, SystemProperty, Value};

use crate::support::{Message, counter, message, parameters};

fn correlation(
    system: &[(SystemProperty, &str)],
    properties: &[(&str, Value)],
) -> Result<Correlation, RuleError> {
    let system = system.iter().map(|(property, text)| (*property, (*text).to_owned()));
    Correlation::new(system.collect(), parameters(properties))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

#[test]
fn rule_12_all_conditions_must_hold() {
    let filter = correlation(
        &[(SystemProperty::Subject, "Important"), (SystemProperty::ReplyTo, "johndoe@contoso.com")],
        &[("color", text("Red"))],
    )
    .unwrap();
    let matching = message()
        .system(SystemProperty::Subject, "Important")
        .system(SystemProperty::ReplyTo, "johndoe@contoso.com")
        .set("color", "Red");
    for (message, expected) in [
        (matching.clone(), true),
        (matching.clone().set("other", 1), true),
        (matching.clone().set("color", "red"), false),
        (matching.clone().set("color", Value::Null), false),
        (matching.clone().system(SystemProperty::Subject, "important"), false),
        (message().set("color", "Red"), false),
        (message(), false),
    ] {
        assert_eq!(filter.matches(&message, &mut MatchCost::default()), expected, "{message:?}");
    }
    let sql = "sys.Subject = 'Important' AND sys.ReplyTo = 'johndoe@contoso.com' AND color = 'Red'";
    assert_eq!(filter.to_string(), sql);
}

#[test]
fn rule_12_which_system_properties_correlate() {
    for property in SystemProperty::all() {
        let filter = correlation(&[(property, "x")], &[]);
        let expected = [
            "CorrelationId",
            "MessageId",
            "To",
            "ReplyTo",
            "Subject",
            "SessionId",
            "ReplyToSessionId",
            "ContentType",
        ]
        .contains(&property.name());
        assert_eq!(filter.is_ok(), expected, "{property}");
        if let Ok(filter) = filter {
            assert!(
                filter.matches(&message().system(property, "x"), &mut MatchCost::default()),
                "{property}"
            );
            assert!(
                !filter.matches(&message().system(property, "X"), &mut MatchCost::default()),
                "{property}"
            );
        }
    }
}

#[test]
fn rule_12_names_in_any_case_and_numbers_of_any_type() {
    for (value, other, expected) in [
        (Value::Int(5), Value::Long(5), true),
        (Value::Byte(5), Value::Double(5.0), true),
        (Value::ULong(u64::MAX), Value::Long(-1), false),
        (Value::Float(0.5), Value::Double(0.5), true),
        (Value::Double(0.0), Value::Double(-0.0), true),
        (Value::Double(f64::NAN), Value::Double(f64::NAN), false),
        (Value::Int(5), text("5"), false),
        (Value::Bool(true), text("True"), false),
        (Value::Uuid([1; 16]), Value::Uuid([1; 16]), true),
        (Value::Bytes(vec![1, 2]), Value::Bytes(vec![1, 2]), true),
        (Value::Bytes(vec![1, 2]), Value::Bytes(vec![1]), false),
        (Value::TimeSpan(1), Value::TimeSpan(1), true),
        (Value::DateTime(0), Value::DateTimeOffset(621_355_968_000_000_000), true),
        (Value::Uri("x".into()), text("x"), true),
    ] {
        let filter = correlation(&[], &[("Key", value.clone())]).unwrap();
        let message = message().set("kEY", other.clone());
        assert_eq!(
            filter.matches(&message, &mut MatchCost::default()),
            expected,
            "{value:?} {other:?}"
        );
        let mut index = CorrelationIndex::default();
        index.insert(1, filter);
        assert_eq!(
            !index.matches(&message, &mut MatchCost::default()).is_empty(),
            expected,
            "{value:?} {other:?}"
        );
    }
}

#[test]
fn rule_12_what_could_never_match_is_refused() {
    let huge = text(&"x".repeat(32 * 1024));
    let half = text(&"x".repeat(30 * 1024));
    for (filter, why) in [
        (
            correlation(&[], &[]),
            "the correlation filter has no condition; for every message use the true filter",
        ),
        (
            correlation(&[], &[("a", Value::Null)]),
            "the correlation filter has a condition on 'a' that is null: nothing equals it",
        ),
        (
            correlation(&[], &[("a", Value::Int(1)), ("A", Value::Int(1))]),
            "the correlation filter has two conditions on one property: 'A' and 'a'",
        ),
        (
            correlation(&[(SystemProperty::Size, "1")], &[]),
            "the correlation filter cannot have a condition on sys.Size",
        ),
        // QUOTA-19.
        (
            correlation(&[], &[("a", huge)]),
            "the correlation filter has a condition on 'a' of 32769 bytes, the limit is 32768",
        ),
        (
            correlation(&[], &[("a", half.clone()), ("b", half.clone()), ("c", half)]),
            "the correlation filter has conditions of 92163 bytes, the limit is 65536",
        ),
    ] {
        let error = filter.unwrap_err();
        assert_eq!(error.to_string(), why);
        assert_eq!(error.name(), "FilterException");
    }
}

#[test]
fn rule_12_an_index_keeps_order_and_forgets_what_is_removed() {
    let of = |value: i32| correlation(&[], &[("n", Value::Int(value))]).unwrap();
    let both = correlation(&[(SystemProperty::To, "x")], &[("N", Value::Long(1))]).unwrap();
    let mut index = CorrelationIndex::default();
    for (id, filter) in [(9, of(1)), (3, of(2)), (1, of(1)), (5, both), (7, of(1))] {
        index.insert(id, filter);
    }
    let message = message().set("n", 1).system(SystemProperty::To, "x");
    assert_eq!(index.matches(&message, &mut MatchCost::default()), [1, 5, 7, 9]);
    assert!(index.remove(&5));
    assert!(!index.remove(&5));
    index.insert(7, of(2));
    assert_eq!(index.matches(&message, &mut MatchCost::default()), [1, 9]);
    assert_eq!(index.matches(&message.set("n", 2), &mut MatchCost::default()), [3, 7]);
    for id in [9, 3, 1, 7] {
        assert!(index.remove(&id));
    }
    assert!(index.is_empty());
    assert_eq!(index.len(), 0);
}

/// RULE-11.
#[test]
fn rule_11_kinds_of_filters() {
    let select = |filter: &Filter, message: &Message| filter.matches(message, &mut counter());
    let none = BTreeMap::new();
    for (filter, text, expected) in [
        (Filter::True, "1=1", true),
        (Filter::False, "1=0", false),
        (Filter::sql("n=1", &none).unwrap(), "n = 1", true),
        (Filter::Correlation(correlation(&[], &[("n", Value::Int(1))]).unwrap()), "n = 1", true),
    ] {
        assert_eq!(select(&filter, &message().set("n", 1)), Ok(expected));
        assert_eq!(filter.to_string(), text);
        let sql = Filter::sql(text, &none).unwrap();
        assert_eq!(select(&sql, &message().set("n", 1)), Ok(expected), "{text}");
    }
}
