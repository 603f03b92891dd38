//! RULE-32, RULE-37: LIKE.

use domain::Value;

use crate::support::{check, check_with, message, parameters};

#[test]
fn rule_32_wildcards() {
    let message = message().set("s", "service bus").set("empty", "").set("uni", "añ😀b");
    check(
        &message,
        &[
            ("s LIKE '%bus'", "T"),
            ("s LIKE '%bus%'", "T"),
            ("s LIKE 'service%'", "T"),
            ("s LIKE 's%s'", "T"),
            ("s LIKE '%'", "T"),
            ("s LIKE '%%'", "T"),
            ("s LIKE '%e%e%'", "T"),
            ("s LIKE '%e%e%e%'", "F"),
            ("s LIKE 'service_bus'", "T"),
            ("s LIKE '_ervice b_s'", "T"),
            ("s LIKE 'service__bus'", "F"),
            ("s LIKE 'bus'", "F"),
            ("s LIKE ''", "F"),
            ("s LIKE 'service bus'", "T"),
            ("s NOT LIKE '%bus'", "F"),
            ("s NOT LIKE 'x%'", "T"),
            ("empty LIKE ''", "T"),
            ("empty LIKE '%'", "T"),
            ("empty LIKE '_'", "F"),
            // `_` is one character, whatever its bytes.
            ("uni LIKE 'a__b'", "T"),
            ("uni LIKE 'a_😀_'", "T"),
            ("uni LIKE 'a___b'", "F"),
        ],
    );
}

#[test]
fn rule_32_escape() {
    let message = message()
        .set("percent", "ABC%")
        .set("longer", "ABCD")
        .set("under", "a_b")
        .set("slash", "a\\b")
        .set("bang", "!");
    check(
        &message,
        &[
            ("percent LIKE 'ABC\\%' ESCAPE '\\'", "T"),
            ("longer LIKE 'ABC\\%' ESCAPE '\\'", "F"),
            ("longer LIKE 'ABC\\%'", "F"),
            ("under LIKE 'a!_b' ESCAPE '!'", "T"),
            ("slash LIKE 'a!_b' ESCAPE '!'", "F"),
            ("slash LIKE 'a\\\\b' ESCAPE '\\'", "T"),
            ("slash LIKE 'a\\b'", "T"),
            // What needs no escape may have one, and one at the end stands for itself.
            ("longer LIKE '!A!B!C!D' ESCAPE '!'", "T"),
            ("bang LIKE '!' ESCAPE '!'", "T"),
            ("bang LIKE '!!' ESCAPE '!'", "T"),
            ("percent LIKE 'ABC%%' ESCAPE '%'", "T"),
            ("longer LIKE 'ABC_' ESCAPE '_'", "F"),
            ("under LIKE 'a!_b' ESCAPE bang", "T"),
        ],
    );
}

#[test]
fn rule_32_patterns_from_properties_and_parameters() {
    let message = message().set("s", "abc").set("p", "a%").set("n", 5).set("two", "!!");
    let given = parameters(&[("pattern", Value::String("_b_".into()))]);
    check_with(
        &message,
        &given,
        &[
            ("s LIKE p", "T"),
            ("s LIKE @pattern", "T"),
            ("s LIKE 'x' + p", "F"),
            ("p LIKE p", "T"),
            ("s LIKE n", "5 (Int) is no pattern for LIKE: it is no text"),
            ("s LIKE p ESCAPE n", "5 (Int) is no text of one character to ESCAPE with"),
            ("s LIKE p ESCAPE two", "'!!' (String) is no text of one character to ESCAPE with"),
            // What is no text does not compare with one.
            ("n LIKE '5'", "U"),
            ("n NOT LIKE '5'", "U"),
        ],
    );
    let long = message.set("long", "x".repeat(1025).as_str());
    check(
        &long,
        &[
            ("s LIKE long", "is longer than the 1024 characters of a pattern"),
            ("long LIKE '%x%x%x%x%x%x%'", "T"),
            ("long LIKE '%x%x%x%y'", "F"),
        ],
    );
}

#[test]
fn rule_37_texts_compare_by_case_and_code_point() {
    let message = message().set("s", "Red");
    check(
        &message,
        &[
            ("s = 'Red'", "T"),
            ("s = 'red'", "F"),
            ("s LIKE 'r%'", "F"),
            ("s IN ('RED')", "F"),
            ("'a' < 'b'", "T"),
            ("'B' < 'a'", "T"),
            ("'a' < 'ab'", "T"),
            ("'10' < '9'", "T"),
            ("'' < 'a'", "T"),
            ("'z' < 'é'", "T"),
            ("'é' = 'e\u{301}'", "F"),
        ],
    );
}
