//! RULE-34: three-valued logic, written out.

use domain::Value;

use crate::support::{check, message};

/// T, F and U as three properties make them.
const TRUTHS: [(&str, &str); 3] = [("t", "T"), ("f", "F"), ("u", "U")];

fn tabled(operator: &str, table: [[&str; 3]; 3]) {
    let message = message().set("t", true).set("f", false);
    for ((left, _), row) in TRUTHS.iter().zip(table) {
        for ((right, _), expected) in TRUTHS.iter().zip(row) {
            for text in [
                format!("{left} {operator} {right}"),
                format!("{left} = TRUE {operator} {right} = TRUE"),
                format!("NOT {left} = FALSE {operator} NOT ({right} = FALSE)"),
            ] {
                check(&message, &[(&text, expected)]);
            }
        }
    }
}

#[test]
fn rule_34_and() {
    tabled("AND", [["T", "F", "U"], ["F", "F", "F"], ["U", "F", "U"]]);
}

#[test]
fn rule_34_or() {
    tabled("OR", [["T", "T", "T"], ["T", "F", "U"], ["T", "U", "U"]]);
}

#[test]
fn rule_34_not() {
    let message = message().set("t", true).set("f", false);
    check(&message, &[("NOT t", "F"), ("NOT f", "T"), ("NOT u", "U"), ("NOT NOT u", "U")]);
}

#[test]
fn rule_34_unknown_passes_through_operators() {
    let message = message().set("n", 1).set("s", "abc").set("none", Value::Null);
    for unknown in ["missing", "none", "NULL", "-missing", "(missing + 1)", "p('missing')"] {
        for row in [
            "? = 1",
            "1 = ?",
            "? <> 1",
            "? < 1",
            "? >= n",
            "? = ?",
            "? + 1 = 2",
            "1 - ? = 0",
            "? * 0 = 0",
            "n / ? = 1",
            "? % 2 = 0",
            "-? = 1",
            "? LIKE 'a%'",
            "? NOT LIKE 'a%'",
            "s LIKE ?",
            "s LIKE 'a%' ESCAPE ?",
            "? IN (1, 2)",
            "? NOT IN (1, 2)",
        ] {
            check(&message, &[(&row.replace('?', unknown), "U")]);
        }
    }
}

#[test]
fn rule_34_in() {
    let message = message().set("n", 2).set("s", "b").set("none", Value::Null);
    check(
        &message,
        &[
            ("n IN (1, 2, 3)", "T"),
            ("n IN (1, 3)", "F"),
            ("n NOT IN (1, 3)", "T"),
            ("n NOT IN (1, 2)", "F"),
            ("n IN (2.0)", "T"),
            ("n IN (1 + 1)", "T"),
            ("s IN ('a', 'b')", "T"),
            ("s IN ('B')", "F"),
            // A list is `=` joined by OR.
            ("n IN (2, missing)", "T"),
            ("n IN (1, missing)", "U"),
            ("n NOT IN (1, missing)", "U"),
            ("n IN (1, none)", "U"),
            ("n IN ('x', 2)", "T"),
            ("n IN ('x')", "U"),
            ("missing IN (missing)", "U"),
        ],
    );
}

#[test]
fn rule_34_what_is_decided_is_not_evaluated_further() {
    let message = message().set("n", 0);
    check(
        &message,
        &[
            ("n = 1 AND 1 / n = 1", "F"),
            ("n = 0 OR 1 / n = 1", "T"),
            ("n = 0 AND 1 / n = 1", "divides by zero"),
            ("missing = 0 AND 1 / n = 1", "divides by zero"),
            ("1 / n = 1 OR n = 0", "divides by zero"),
        ],
    );
}
