//! RULE-36: texts, instants, spans, and types that do not go together.

use domain::Value;

use crate::support::{check, check_with, message, parameters};

const SECOND: i64 = 10_000_000;
const EPOCH: i64 = 621_355_968_000_000_000;

#[test]
fn rule_36_texts_concatenate() {
    let message = message()
        .set("n", 5)
        .set("half", 0.5)
        .set("c", Value::Char('é'))
        .set("uri", Value::Uri("http://x".into()))
        .set("id", Value::Uuid([0x1f; 16]))
        .set("bytes", Value::Bytes(vec![1]))
        .set("huge", "x".repeat(20_000).as_str());
    check(
        &message,
        &[
            ("'a' + 'b' = 'ab'", "T"),
            ("'n' + n = 'n5' AND n + 'n' = '5n'", "T"),
            ("'' + half = '0.5' AND '' + TRUE = 'True'", "T"),
            ("'' + c = 'é' AND '' + uri = 'http://x'", "T"),
            ("'' + id = '1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f'", "T"),
            ("1 + 2 + 'x' = '3x' AND 'x' + 1 + 2 = 'x12'", "T"),
            (
                "'a' - 'b' = 'c'",
                "'a' (String) - 'b' (String) cannot be computed: the types do not fit",
            ),
            ("'a' * 2 = 'aa'", "cannot be computed"),
            ("'5' - 1 = 4", "cannot be computed"),
            ("'a' + bytes = 'a'", "'a' (String) + 1 bytes (Bytes) cannot be computed"),
            ("-'5' = 5", "-'5' (String) is no number"),
            ("huge + huge = 'x'", "is longer than a property may be"),
        ],
    );
}

#[test]
fn rule_36_instants_and_spans() {
    let message = message()
        .set("from", Value::DateTime(1_000))
        .set("to", Value::DateTime(61_000))
        .set("offset", Value::DateTimeOffset(EPOCH + 61 * SECOND))
        .set("minute", Value::TimeSpan(60 * SECOND))
        .set("last", Value::DateTime(i64::MAX));
    check(
        &message,
        &[
            ("from < to AND to >= from AND from <> to", "T"),
            ("to - from = minute", "T"),
            ("from - to = -minute", "T"),
            ("from + minute = to AND to - minute = from", "T"),
            ("offset = to AND offset - from = minute", "T"),
            ("offset - minute = from", "T"),
            ("minute + minute > minute AND +minute = minute", "T"),
            ("minute - minute < minute", "T"),
            ("from + to = to", "cannot be computed"),
            ("minute * 2 = minute", "cannot be computed"),
            ("from + 1 = to", "cannot be computed"),
            ("last + minute > last", "overflows"),
            ("last - from > minute", "overflows"),
        ],
    );
}

#[test]
fn rule_36_types_that_do_not_compare_are_unknown() {
    let message = message()
        .set("n", 5)
        .set("s", "5")
        .set("flag", true)
        .set("id", Value::Uuid([7; 16]))
        .set("same", Value::Uuid([7; 16]))
        .set("bytes", Value::Bytes(vec![1, 2]))
        .set("c", Value::Char('x'))
        .set("uri", Value::Uri("x".into()))
        .set("at", Value::DateTime(5));
    check(
        &message,
        &[
            ("n = s", "U"),
            ("n <> s", "U"),
            ("n < s", "U"),
            ("flag = 1", "U"),
            ("flag = 'True'", "U"),
            ("at = 5", "U"),
            ("id = s", "U"),
            // These know equality, and no order.
            ("flag = TRUE AND flag <> FALSE", "T"),
            ("flag > FALSE", "U"),
            ("id = same", "T"),
            ("id <> same", "F"),
            ("id < same", "U"),
            ("bytes = bytes", "T"),
            ("bytes <= bytes", "U"),
            // All that is text compares.
            ("c = 'x' AND uri = 'x' AND c = uri", "T"),
            ("c LIKE '_' AND uri LIKE 'x%'", "T"),
        ],
    );
}

#[test]
fn rule_29_parameters_are_bound_with_their_types() {
    let given = parameters(&[
        ("@text", Value::String("a".into())),
        ("int", Value::Int(1)),
        ("long", Value::Long(2)),
        ("flag", Value::Bool(true)),
        ("double", Value::Double(0.5)),
        ("at", Value::DateTime(1000)),
        ("span", Value::TimeSpan(SECOND)),
        ("spare", Value::Int(0)),
    ]);
    let message = message().set("now", Value::DateTime(1500)).set("a", 1);
    check_with(
        &message,
        &given,
        &[
            ("@text = 'a' AND @TEXT = 'a'", "T"),
            ("@int + @long = 3", "T"),
            ("@flag", "T"),
            ("@double < a", "T"),
            ("now > @at AND now - @at < @span", "T"),
            ("now IN (@at, @at + @span)", "F"),
            ("p(@text) = 1", "T"),
        ],
    );
    let error = domain::Filter::sql("@int OR TRUE", &given).unwrap_err().to_string();
    assert_eq!(error, "line 1, column 1: expected a condition, found the value @int");
    let error = domain::Filter::sql("a LIKE @int", &given).unwrap_err().to_string();
    assert_eq!(error, "line 1, column 8: expected a text as the pattern, found @int");
}
