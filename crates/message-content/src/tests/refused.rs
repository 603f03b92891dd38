//! What is not taken from a producer (MSG-7, QUOTA-17, QUOTA-19, FORM-13).

use super::*;

/// Each row something of a message that is too large, and what the refusal says of it.
#[test]
fn quota_17_quota_19_a_property_too_large_is_named() {
    let text = "x".repeat(33 * 1024);
    let large = || Some(Value::from(text.as_str()));
    let with = |properties: Properties| build().composite(&properties);
    let map = |name: &str, value: &str| Map(vec![(Value::Symbol(name.into()), value.into())]);
    let user = |name: &str, value: &str| Map(vec![(name.into(), value.into())]);
    let size = "33805 bytes, the limit is 32768";
    for (message, told) in [
        (build().user(&user("k", &text)), "property 'k' takes 338"),
        (build().user(&user(&text, "v")), "property 'xxx"),
        (build().annotations(&map("k", &text)), "annotation 'k' takes 338"),
        (build().annotations(&map(&text, "v")), "annotation 'xxx"),
        (with(Properties { correlation_id: large(), ..id("x") }), size),
        (
            with(Properties {
                correlation_id: Some(Value::Binary(text.clone().into())),
                ..id("x")
            }),
            size,
        ),
        (with(Properties { subject: Some(text.as_str().into()), ..id("x") }), "Subject takes"),
        (with(Properties { to: large(), ..id("x") }), "To takes"),
        (with(Properties { reply_to: large(), ..id("x") }), "ReplyTo takes"),
        (with(Properties { content_type: Some(text.as_str().into()), ..id("x") }), "ContentType"),
        (with(Properties { content_encoding: Some(text.as_str().into()), ..id("x") }), "encoding"),
        (with(Properties { user_id: Some(text.clone().into()), ..id("x") }), "user-id takes"),
        (
            with(Properties { reply_to_group_id: Some("é".repeat(129).into()), ..id("x") }),
            "ReplyToSessionId: it has 129 characters, the limit is 128",
        ),
        (
            build().annotations(&map("x-opt-via-partition-key", &"x".repeat(129))),
            "TransactionPartitionKey: it has 129 characters",
        ),
    ] {
        let refusal = take(&message.build(), 0).unwrap_err().to_string();
        assert!(refusal.contains(told) && refusal.len() < 256, "{told}: {refusal}");
    }
    let fits = Properties { reply_to_group_id: Some("é".repeat(128).into()), ..id("x") };
    assert!(take(&with(fits).build(), 0).is_ok());
}

/// Each row an annotation's value, and whether a message with it is taken, at once or not.
#[test]
fn form_13_an_annotation_of_another_type_is_refused() {
    let time = |value: Value| ("x-opt-scheduled-enqueue-time", value);
    let delivery_time = |value: Value| ("x-opt-delivery-time", value);
    let key = |value: Value| ("x-opt-partition-key", value);
    let via = |value: Value| ("x-opt-via-partition-key", value);
    let at = |ms| Some(Some(Timestamp(ms)));
    for ((name, value), scheduled_at) in [
        (time(Value::Timestamp(7)), at(7)),
        (time(Value::Long(7)), at(7)),
        (time(Value::Timestamp(-7)), at(0)),
        (time(Value::Timestamp(i64::MAX)), at(i64::MAX.cast_unsigned())),
        (time(Value::Null), Some(None)),
        (time("2030-01-01T00:00:00Z".into()), None),
        (time(Value::Bool(true)), None),
        (time(Value::Double(7.0)), None),
        (time(Value::Ulong(u64::MAX)), None),
        (time(Value::Binary("7".into())), None),
        (delivery_time(Value::Timestamp(7)), at(7)),
        (delivery_time("soon".into()), None),
        (key("k".into()), Some(None)),
        (key(Value::Null), Some(None)),
        (key(Value::Int(7)), None),
        (via(Value::Null), Some(None)),
        (via(Value::Int(7)), None),
    ] {
        let map = Map(vec![(Value::Symbol(name.into()), value.clone())]);
        let taken = take(&build().annotations(&map).composite(&id("x")).build(), 0);
        let found = taken.as_ref().map(|messages| messages[0].scheduled_at);
        assert_eq!(found.ok(), scheduled_at, "{name} {value:?}");
        if let Err(refusal) = taken {
            assert!(matches!(&refusal, Refusal::Argument { what, .. } if *what == name));
        }
    }
}
