//! What `explain` says: the verdict, then what is to blame and the values it met.

use domain::{Correlation, Filter, SystemProperty, Value};

use crate::support::{Message, counter, message, parameters};

fn explained(message: &Message, text: &str) -> Vec<String> {
    let given = parameters(&[("limit", Value::Long(9))]);
    Filter::sql(text, &given).unwrap().explain(message, &mut counter())
}

#[test]
fn rule_34_parts_of_and_that_are_not_true() {
    let message = message().set("color", "red").set("quantity", 5);
    assert_eq!(explained(&message, "color = 'red'"), ["matches"]);
    assert_eq!(
        explained(&message, "color = 'blue' AND quantity = 5 AND size > @limit"),
        [
            "does not match: the filter is false",
            "  color = 'blue'  is false: color is 'red' (String)",
            "  size > @limit  is unknown: size is missing, @limit is 9 (Long)",
        ]
    );
    assert_eq!(
        explained(&message, "size = 5 AND sys.Label LIKE '%bus%'"),
        [
            "does not match: the filter is unknown",
            "  size = 5  is unknown: size is missing",
            "  sys.Subject LIKE '%bus%'  is unknown: sys.Subject is not set",
        ]
    );
}

#[test]
fn rule_34_parts_of_or_are_all_to_blame() {
    let message = message().set("a", 1).set("b", "x").system(SystemProperty::To, "there");
    assert_eq!(
        explained(
            &message,
            "a = 1 AND (a = 2 OR b = 5 OR (sys.To IN ('x') AND b = 'x')) AND NOT b = 'x'"
        ),
        [
            "does not match: the filter is false",
            "  one of these must be true:",
            "    a = 2  is false: a is 1 (Int)",
            "    b = 5  is unknown: b is 'x' (String)",
            "    sys.To IN ('x')  is false: sys.To is 'there' (String)",
            "  NOT b = 'x'  is false: b is 'x' (String)",
        ]
    );
}

#[test]
fn rule_20_a_failure_is_told_with_its_cause() {
    let message = message().set("n", 0).set("s", "y".repeat(100).as_str());
    assert_eq!(
        explained(&message, "10 / n > 1 AND TRUE"),
        [
            "fails with FilterException: 10 (Long) / 0 (Int) divides by zero",
            "  10 / n > 1  fails: 10 (Long) / 0 (Int) divides by zero: n is 0 (Int)",
        ]
    );
    let cut = "y".repeat(63);
    assert_eq!(
        explained(&message, "s = 'x'")[1],
        format!("  s = 'x'  is false: s is '{cut}… (String)")
    );
}

#[test]
fn rule_11_other_kinds_explain_themselves() {
    let filter = Correlation::new(
        [(SystemProperty::Subject, "red".to_owned()), (SystemProperty::To, "x".to_owned())].into(),
        parameters(&[("Size", Value::Int(5)), ("ok", Value::Bool(true)), ("gone", Value::Int(1))]),
    );
    let filter = Filter::Correlation(filter.unwrap());
    let message = message().system(SystemProperty::Subject, "blue").set("size", 6).set("ok", true);
    assert_eq!(
        filter.explain(&message, &mut counter()),
        [
            "does not match: each condition must hold",
            "  sys.Subject = 'red'  is not so: sys.Subject is 'blue' (String)",
            "  sys.To = 'x'  is not so: sys.To is not set",
            "  Size = 5  is not so: Size is 6 (Int)",
            "  gone = 1  is not so: gone is missing",
        ]
    );
    assert_eq!(Filter::True.explain(&message, &mut counter()), ["matches"]);
    let never = ["does not match: the filter is always false"];
    assert_eq!(Filter::False.explain(&message, &mut counter()), never);
}
