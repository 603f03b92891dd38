//! RULE-28: newid(), property(x) and p(x).

use domain::{Action, Filter, Properties, SystemProperty, Value};

use crate::support::{check, counter, message, run};

#[test]
fn rule_28_property_reads_the_property_that_a_text_names() {
    let message = message()
        .system(SystemProperty::Subject, "x")
        .set("color", "red")
        .set("which", "color")
        .set("With Space", 1)
        .set("sys.odd", 2)
        .set("n", 5);
    check(
        &message,
        &[
            ("property('color') = 'red'", "T"),
            ("P('co' + 'lor') = 'red'", "T"),
            // A bare name is the name itself; what has a scope is looked up.
            ("p(color) = 'red'", "T"),
            ("p([With Space]) = 1", "T"),
            ("p(which) = 'color'", "T"),
            ("p(user.which) = 'red'", "T"),
            ("p(p('which')) = 'red'", "T"),
            ("p('user.color') = 'red'", "T"),
            ("p('sys.Label') = 'x' AND p('SYS.subject') = 'x'", "T"),
            ("[sys.odd] = 2", "T"),
            ("p('missing') = 1", "U"),
            ("p(user.missing) = 1", "U"),
            ("p(user.n) = 1", "5 (Int) names no property: it is no text"),
            ("p(NULL) IS NULL", "T"),
        ],
    );
}

#[test]
fn rule_28_newid_is_a_new_uuid_drawn_from_the_source_it_is_given() {
    check(
        &message(),
        &[("newid() = newid()", "F"), ("newid() IS NULL", "F"), ("NEWID() <> newid()", "T")],
    );
    let change = run(&message(), "SET a = newid(); SET b = newid()").unwrap();
    let again = run(&message(), "SET a = newid(); SET b = newid()").unwrap();
    assert_eq!(change, again, "the same draws, the same ids");
    let id = |name: &str| match change.overlay.set[name] {
        Value::Uuid(bytes) => u128::from_be_bytes(bytes),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(id("a"), 0x0000_0000_0000_4001_8000_0000_0000_0002);
    assert_eq!(id("b"), 0x0000_0000_0000_4003_8000_0000_0000_0004);
}

#[test]
fn rule_28_nothing_is_drawn_where_no_id_is_asked_for() {
    let mut drawn = 0;
    let mut draw = || {
        drawn += 1;
        counter()()
    };
    let none = Properties::new();
    for text in ["a = 1", "FALSE AND newid() = 1"] {
        assert_eq!(Filter::sql(text, &none).unwrap().matches(&message(), &mut draw), Ok(false));
    }
    Action::sql("SET a = 1", &none)
        .unwrap()
        .run(&message(), &mut draw, &mut domain::MatchCost::default())
        .unwrap();
    assert_eq!(drawn, 0);
}
