//! RULE-17 to RULE-19, RULE-30: what actions change.

use domain::{Change, Span, SystemProperty, Timestamp, Value};

use crate::support::{Given, Message, message, parameters, run, run_with};

const SECOND: i64 = 10_000_000;

/// What an action sets, by name.
fn set(message: &Message, text: &str) -> Vec<(String, Value)> {
    let change = run(message, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    change.overlay.set.into_iter().collect()
}

fn named(name: &str, value: impl Into<Given>) -> (String, Value) {
    (name.to_owned(), value.into().0)
}

#[test]
fn rule_24_separators_of_an_action_are_optional() {
    for text in [
        "SET a = 1 REMOVE b SET c = 'x'",
        "SET a = 1; REMOVE b; SET c = 'x';",
        "SET a = 1, REMOVE b, SET c = 'x'",
        "SET a = 1;, REMOVE b;,SET c = 'x';",
        "set A=1\nremove [B]\nset \"c\"='x'",
    ] {
        let change = run(&message().set("a", Value::Long(0)).set("b", 1), text).unwrap();
        assert_eq!(change.overlay.set.get("a"), Some(&Value::Long(1)), "{text}");
        assert_eq!(change.overlay.set.get("c"), Some(&Value::String("x".into())), "{text}");
        assert_eq!(change.overlay.removed, ["b"], "{text}");
    }
}

#[test]
fn rule_17_an_action_says_what_it_changes_and_leaves_the_message() {
    let message = message().set("color", "red").set("priority", 1);
    let before = message.properties.clone();
    let change = run(&message, "SET color = 'blue'; REMOVE priority; SET new = 1.5").unwrap();
    assert_eq!(message.properties, before);
    let expected = [named("color", "blue"), named("new", 1.5)];
    assert_eq!(change.overlay.set, expected.into_iter().collect());
    assert_eq!(change.overlay.removed, ["priority"]);
    assert_eq!(change, Change { overlay: change.overlay.clone(), ..Change::default() });
}

#[test]
fn rule_17_each_expression_sees_what_those_before_it_did() {
    let message = message().set("a", Value::Long(1)).set("b", Value::Long(2));
    assert_eq!(
        set(&message, "SET a = a + 1; SET c = a * 10; REMOVE b; SET d = b; SET e = p('c')"),
        [
            named("a", Value::Long(2)),
            named("c", Value::Long(20)),
            // RULE-19: b is gone, so d is not set.
            named("e", Value::Long(20)),
        ]
    );
    let change = run(&message, "REMOVE a; SET a = 'again'; SET x = 1; REMOVE x").unwrap();
    assert_eq!(change.overlay.set, [named("a", "again")].into_iter().collect());
    assert!(change.overlay.removed.is_empty(), "{:?}", change.overlay.removed);
    let change = run(&message, "SET sys.Label = 'x'; SET a = sys.Subject + 'y'").unwrap();
    assert_eq!(change.overlay.set["a"], Value::String("xy".into()));
}

#[test]
fn rule_19_set_takes_the_type_of_the_property_that_is_there() {
    let id = Value::Uuid([1; 16]);
    for (existing, expression, expected) in [
        // Numbers, where the type has that number.
        (Value::Int(10), "x / 2", Value::Int(5)),
        (Value::Byte(1), "200", Value::Byte(200)),
        (Value::Byte(1), "300", Value::Long(300)),
        (Value::SByte(1), "-128", Value::SByte(-128)),
        (Value::Short(1), "x - 2", Value::Short(-1)),
        (Value::UShort(1), "-1", Value::Long(-1)),
        (Value::UInt(1), "4294967295", Value::UInt(u32::MAX)),
        (Value::Long(1), "2.0", Value::Long(2)),
        (Value::Long(1), "2.5", Value::Double(2.5)),
        (Value::Long(1), "1e30", Value::Double(1e30)),
        (Value::ULong(1), "x + 1", Value::ULong(2)),
        (Value::Float(0.5), "0.1", Value::Float(0.1)),
        (Value::Float(0.5), "1e300", Value::Double(1e300)),
        (Value::Double(0.5), "3", Value::Double(3.0)),
        // Texts that are numbers, and numbers as texts.
        (Value::Int(1), "'42'", Value::Int(42)),
        (Value::Double(1.0), "'4.25'", Value::Double(4.25)),
        (Value::Int(1), "'many'", Value::String("many".into())),
        (Value::Double(1.0), "'inf'", Value::String("inf".into())),
        (Value::String("x".into()), "42", Value::String("42".into())),
        (Value::String("x".into()), "TRUE", Value::String("True".into())),
        (Value::Bool(true), "'FALSE'", Value::Bool(false)),
        (Value::Bool(true), "0", Value::Long(0)),
        (Value::Char('x'), "'y'", Value::Char('y')),
        (Value::Char('x'), "'yz'", Value::String("yz".into())),
        (Value::Uri("u".into()), "'v'", Value::Uri("v".into())),
        // Nothing to convert.
        (Value::Int(1), "NULL", Value::Null),
        (Value::Null, "1", Value::Long(1)),
        (id.clone(), "'x'", Value::String("x".into())),
        (Value::DateTime(1), "5", Value::Long(5)),
        (Value::String("x".into()), "at", Value::DateTime(7)),
    ] {
        let message = message().set("x", existing.clone()).set("at", Value::DateTime(7));
        let text = format!("SET x = {expression}");
        assert_eq!(set(&message, &text), [named("x", expected)], "{existing:?} {text}");
    }
    // With no property there, the value's own type; copies keep theirs.
    let message = message().set("id", id.clone()).set("at", Value::DateTimeOffset(7));
    assert_eq!(set(&message, "SET x = id"), [named("x", id)]);
    assert_eq!(set(&message, "SET x = at"), [named("x", Value::DateTimeOffset(7))]);
    assert_eq!(set(&message, "SET x = 1"), [named("x", Value::Long(1))]);
}

#[test]
fn rule_19_remove_of_what_is_not_there_is_no_error() {
    let change = run(&message(), "REMOVE missing; REMOVE missing").unwrap();
    assert_eq!(change, Change::default());
}

#[test]
fn rule_31_changes_go_under_the_name_the_message_has() {
    let message = message().set("Color", "red").set("twin", 1).set("TWIN", 2);
    assert_eq!(set(&message, "SET color = 'blue'"), [named("Color", "blue")]);
    let change = run(&message, "REMOVE COLOR; REMOVE Twin").unwrap();
    assert_eq!(change.overlay.removed, ["Color", "TWIN", "twin"]);
}

#[test]
fn rule_30_texts_among_system_properties_are_set_and_taken_off() {
    let message = message().set("n", 5).system(SystemProperty::To, "there");
    for (text, property, expected) in [
        ("SET sys.CorrelationId = 'low'", SystemProperty::CorrelationId, Some("low")),
        ("SET sys.ContentType = 'text/plain'", SystemProperty::ContentType, Some("text/plain")),
        ("SET sys.Label = 'a' + 'b'", SystemProperty::Subject, Some("ab")),
        ("SET sys.subject = ''", SystemProperty::Subject, Some("")),
        ("SET sys.MessageId = n", SystemProperty::MessageId, Some("5")),
        ("SET sys.ReplyTo = sys.To", SystemProperty::ReplyTo, Some("there")),
        ("SET sys.ReplyToSessionId = 's'", SystemProperty::ReplyToSessionId, Some("s")),
        ("SET sys.SessionId = 's'", SystemProperty::SessionId, Some("s")),
        ("SET sys.PartitionKey = 'k'", SystemProperty::PartitionKey, Some("k")),
        ("SET sys.To = NULL", SystemProperty::To, None),
    ] {
        let change = run(&message, text).unwrap();
        let texts = [(property, expected.map(str::to_owned))].into();
        assert_eq!(change, Change { texts, ..Change::default() }, "{text}");
    }
    let change = run(&message, "SET sys.To = NULL; SET gone = sys.To").unwrap();
    assert!(change.overlay.set.is_empty(), "what it does not have is set nowhere: {change:?}");
    for (text, why) in [
        ("SET sys.MessageId = NULL", "sys.MessageId takes a text, not NULL"),
        (
            "SET sys.MessageId = ''",
            "sys.MessageId takes a text of 1 to 128 characters, not an empty one",
        ),
        ("SET sys.SessionId = long", "SessionId: it has 129 characters, the limit is 128"),
        ("SET sys.To = at", "sys.To takes a text, not 1970-01-01T00:00:00.005Z (DateTime)"),
    ] {
        let message = message.clone().set("long", "é".repeat(129).as_str());
        let error = run(&message.set("at", Value::DateTime(5)), text).unwrap_err();
        assert_eq!(error, why, "{text}");
    }
}

#[test]
fn rule_30_time_to_live_and_schedule() {
    let mut message = message();
    message.ttl_ms = Some(60_000);
    let given = parameters(&[
        ("hour", Value::TimeSpan(3600 * SECOND)),
        ("tick", Value::TimeSpan(1)),
        ("none", Value::TimeSpan(0)),
        ("never", Value::TimeSpan(i64::MAX)),
        ("at", Value::DateTime(5000)),
        ("before", Value::DateTime(-1)),
    ]);
    let ttl = |text: &str| run_with(&message, text, &given).map(|change| change.ttl);
    assert_eq!(ttl("SET sys.TimeToLive = @hour"), Ok(Some(Some(Span(3_600_000)))));
    assert_eq!(ttl("SET sys.TimeToLive = sys.TimeToLive + @hour"), Ok(Some(Some(Span(3_660_000)))));
    assert_eq!(ttl("SET sys.TimeToLive = @tick"), Ok(Some(Some(Span(1)))));
    assert_eq!(ttl("SET sys.TimeToLive = @never"), Ok(Some(Some(Span::MAX))));
    assert_eq!(ttl("SET sys.TimeToLive = NULL"), Ok(Some(None)));
    assert_eq!(ttl("SET a = 1"), Ok(None));
    let refused = |value: &str| {
        let takes =
            "sys.TimeToLive takes a TimeSpan of more than 0, or one as text like '00:10:00' or";
        Err(format!("{takes} 'PT10M', not {value}"))
    };
    assert_eq!(ttl("SET sys.TimeToLive = @none"), refused("0 s (TimeSpan)"));
    assert_eq!(ttl("SET sys.TimeToLive = -@hour"), refused("-3600 s (TimeSpan)"));
    assert_eq!(ttl("SET sys.TimeToLive = 60"), refused("60 (Long)"));
    let change = run_with(&message, "SET sys.TimeToLive = @hour SET x = sys.TimeToLive", &given);
    assert_eq!(change.unwrap().overlay.set["x"], Value::TimeSpan(3600 * SECOND));

    let scheduled = |text: &str| run_with(&message, text, &given).map(|change| change.scheduled_at);
    let text = "SET sys.ScheduledEnqueueTimeUtc = ";
    assert_eq!(scheduled(&format!("{text}@at")), Ok(Some(Some(Timestamp(5000)))));
    assert_eq!(scheduled(&format!("{text}@at + @hour")), Ok(Some(Some(Timestamp(3_605_000)))));
    assert_eq!(scheduled(&format!("{text}NULL")), Ok(Some(None)));
    assert_eq!(
        scheduled(&format!("{text}@before")).unwrap_err(),
        "sys.ScheduledEnqueueTimeUtc takes a DateTime from 1970 on, or one as text like \
         '2030-01-01T00:00:00Z', not 1969-12-31T23:59:59.999Z (DateTime)"
    );
}

/// A literal, a parameter, or a text that the message brings: converted alike, and refused when the rule
/// is made where it is known then (azure-service-bus#180).
#[test]
fn rule_19_a_text_becomes_what_the_system_property_is() {
    const HOUR: Option<Option<Span>> = Some(Some(Span(3_600_000)));
    let at = Some(Some(Timestamp(1_893_456_000_000)));
    let cases = [
        ("TimeToLive", "01:00:00", Some((HOUR, None))),
        ("TimeToLive", "0.01:00:00.0000000", Some((HOUR, None))),
        ("TimeToLive", "PT1H", Some((HOUR, None))),
        ("timetolive", "P0DT60M", Some((HOUR, None))),
        ("TimeToLive", "10675199.02:48:05.4775807", Some((Some(Some(Span::MAX)), None))),
        ("TimeToLive", "00:00:00", None),
        ("TimeToLive", "-01:00:00", None),
        ("TimeToLive", "an hour", None),
        ("TimeToLive", "", None),
        ("ScheduledEnqueueTimeUtc", "2030-01-01", Some((None, at))),
        ("ScheduledEnqueueTimeUtc", "2030-01-01T00:00:00Z", Some((None, at))),
        ("ScheduledEnqueueTimeUtc", "2030-01-01 01:00:00+01:00", Some((None, at))),
        ("ScheduledEnqueueTimeUtc", "1969-12-31", None),
        ("ScheduledEnqueueTimeUtc", "tomorrow", None),
    ];
    for (property, text, expected) in cases {
        let message = message().set("brought", text);
        let given = parameters(&[("given", Value::String(text.to_owned()))]);
        for (value, is_known) in [
            (format!("'{text}'"), true),
            ("@given".to_owned(), true),
            ("brought".to_owned(), false),
        ] {
            let action = format!("SET sys.{property} = {value}");
            let change = run_with(&message, &action, &given);
            let found = change.ok().map(|change| (change.ttl, change.scheduled_at));
            assert_eq!(found, expected, "{action} of '{text}'");
            let is_made = domain::Action::sql(&action, &given).is_ok();
            assert_eq!(is_made, expected.is_some() || !is_known, "{action} of '{text}'");
        }
    }
}

/// Only NULL takes a property off: a value that is not there leaves what the sender set.
#[test]
fn rule_19_a_value_that_is_missing_changes_nothing() {
    let message = message().set("x", 1).set("nothing", Value::Null).system(SystemProperty::To, "t");
    for value in ["missing", "missing + 1", "'a' + missing", "sys.ReplyTo", "p('missing')"] {
        for target in ["x", "fresh", "sys.To", "sys.TimeToLive", "sys.MessageId"] {
            let change = run(&message, &format!("SET {target} = {value}"));
            assert_eq!(change, Ok(Change::default()), "{target} = {value}");
        }
    }
    for value in ["NULL", "nothing"] {
        let change = run(&message, &format!("SET sys.To = {value}")).unwrap();
        assert_eq!(change.texts, [(SystemProperty::To, None)].into(), "{value}");
        assert_eq!(set(&message, &format!("SET x = {value}")), [named("x", Value::Null)]);
    }
}

#[test]
fn rule_20_an_action_that_fails_changes_nothing() {
    let message = message().set("n", 0).set("big", "x".repeat(20_000).as_str());
    for (text, why) in [
        ("SET a = 1; SET b = 1 / n", "1 (Long) / 0 (Int) divides by zero"),
        ("SET a = p('sys.Colour')", "'sys.Colour' (String) names no system property"),
        ("SET a = TRUE + 1", "TRUE (Bool) + 1 (Long) cannot be computed: the types do not fit"),
    ] {
        assert_eq!(run(&message, text).unwrap_err(), why, "{text}");
    }
    // QUOTA-19.
    let message = message.set("long", "x".repeat(32 * 1024).as_str());
    let error = run(&message, "SET a = long").unwrap_err();
    assert_eq!(error, "property 'a' takes 32769 bytes, the limit is 32768");
}
