//! RULE-21 to RULE-27, as far as no message is needed to see it.

use domain::{Filter, Properties};

use crate::support::{check, message, refused};

/// Each row: a filter, and its canonical text.
fn shown(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let read = |text: &str| Filter::sql(text, &Properties::new()).expect(text);
        assert_eq!(read(text).to_string(), *expected, "{text}");
        assert_eq!(read(expected), read(text), "{text}");
    }
}

#[test]
fn rule_22_tokens_need_no_spaces_between_them() {
    shown(&[
        ("a=1", "a = 1"),
        ("a<>1", "a <> 1"),
        ("a!=1", "a <> 1"),
        ("a>=b AND\"c\"<=2", "a >= b AND c <= 2"),
        ("\r\n\ta\r\n>\t1 ", "a > 1"),
        ("a-1<b+-2", "a - 1 < b + -2"),
        ("a--1=+b", "a - -1 = +b"),
        ("[a]=b", "a = b"),
        ("a IN('x',1)", "a IN ('x', 1)"),
    ]);
    refused(&[
        (
            "a = 1AND",
            "line 1, column 6: expected a space or an operator after the number, found 'A'",
        ),
        ("a = #", "line 1, column 5: expected a name, a value or an operator, found '#'"),
        (
            "a\u{a0}= 1",
            "line 1, column 2: expected a name, a value or an operator, found the character U+00A0",
        ),
        (
            "a = ‘x’",
            "line 1, column 5: expected a name, a value or an operator, found the character U+2018",
        ),
        ("a = 1;", "line 1, column 6: expected AND, OR or the end of the filter, found ';'"),
    ]);
}

#[test]
fn rule_23_keywords_in_any_case_are_reserved_and_nothing_else_is() {
    shown(&[
        (
            "a is not null oR NoT b LiKe 'x' eScApE '!'",
            "a IS NOT NULL OR NOT b LIKE 'x' ESCAPE '!'",
        ),
        ("[and] = 1", "[and] = 1"),
        ("\"SET\" = 1", "[SET] = 1"),
        ("sys = 1 AND user = 2", "sys = 1 AND user = 2"),
        ("newid = 1 AND property = p", "newid = 1 AND property = p"),
    ]);
    for keyword in [
        "AND", "OR", "NOT", "IS", "NULL", "IN", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE", "SET",
        "REMOVE",
    ] {
        let text = format!("1 = user.{keyword}");
        assert!(Filter::sql(&text, &Properties::new()).is_err(), "{text}");
        let text = format!("1 = user.[{keyword}]");
        assert!(Filter::sql(&text, &Properties::new()).is_ok(), "{text}");
    }
}

#[test]
fn rule_24_conditions_are_no_values_and_values_no_conditions() {
    refused(&[
        ("(a = 1) = TRUE", "line 1, column 1: expected a value, found the condition a = 1"),
        ("a = (b = 1)", "line 1, column 5: expected a value, found the condition b = 1"),
        (
            "1 + (a IS NULL) = 2",
            "line 1, column 5: expected a value, found the condition a IS NULL",
        ),
        ("-(a = 1) = 2", "line 1, column 2: expected a value, found the condition a = 1"),
        ("a IN (EXISTS(b))", "line 1, column 7: expected a value, found the condition EXISTS (b)"),
        ("(a = 1) LIKE 'x'", "line 1, column 1: expected a value, found the condition a = 1"),
        ("a = b = c", "line 1, column 7: expected AND, OR or the end of the filter, found '='"),
        ("1", "line 1, column 1: expected a condition, found the value 1"),
        ("a = 1 AND 'x'", "line 1, column 11: expected a condition, found the value 'x'"),
        ("NOT a + 1", "line 1, column 5: expected a condition, found the value a + 1"),
        ("newid() OR TRUE", "line 1, column 1: expected a condition, found the value newid()"),
        ("EXISTS ('a')", "line 1, column 9: expected a property, found 'a'"),
        ("EXISTS (newid())", "line 1, column 9: expected a property, found newid()"),
    ]);
}

#[test]
fn rule_25_precedence_and_association() {
    shown(&[
        ("(((a))) = ((1))", "a = 1"),
        ("((a = 1) OR (b = 2)) AND (NOT (c = 3))", "(a = 1 OR b = 2) AND NOT c = 3"),
        ("(a = 1) OR ((b = 2) AND (c = 3))", "a = 1 OR b = 2 AND c = 3"),
        ("NOT (NOT (a = 1))", "NOT NOT a = 1"),
        ("NOT (a = 1 AND b = 2)", "NOT (a = 1 AND b = 2)"),
        ("((a + b) - (c * d)) = 1", "(a + b) - c * d = 1"),
        ("a - (b - c) = 1", "a - (b - c) = 1"),
        ("(a * b) % (c / d) = -(e)", "(a * b) % (c / d) = -e"),
        ("-(a + b) = -(1)", "-(a + b) = -(1)"),
    ]);
    let message = message().set("flag", true).set("off", false);
    check(
        &message,
        &[
            ("2 + 3 * 4 = 14", "T"),
            ("(2 + 3) * 4 = 20", "T"),
            ("10 - 4 - 3 = 3", "T"),
            ("24 / 4 / 2 = 3", "T"),
            ("24 / 4 * 2 = 12", "T"),
            ("-2 * -3 = 6", "T"),
            ("- -5 = 5", "T"),
            ("7 - -2 = 9", "T"),
            ("TRUE OR TRUE AND FALSE", "T"),
            ("(TRUE OR TRUE) AND FALSE", "F"),
            ("NOT FALSE AND FALSE", "F"),
            ("NOT (FALSE AND FALSE)", "T"),
            ("NOT 1 = 2", "T"),
            ("1 + 1 IN (2)", "T"),
            ("'a' + 'b' LIKE 'a' + '%'", "T"),
            // Bare values are conditions.
            ("TRUE", "T"),
            ("FALSE", "F"),
            ("NULL", "U"),
            ("flag", "T"),
            ("NOT off AND flag", "T"),
            ("off OR missing", "U"),
            ("(flag)", "T"),
            ("p('flag')", "T"),
        ],
    );
}

#[test]
fn rule_25_a_value_that_is_no_condition_fails() {
    let message = message().set("n", 5).set("s", "x").set("none", domain::Value::Null);
    check(
        &message,
        &[
            ("n", "5 (Int) is neither true nor false"),
            ("NOT s", "'x' (String) is neither true nor false"),
            ("none", "U"),
            // What is decided already is not asked.
            ("FALSE AND n", "F"),
            ("TRUE OR n", "T"),
        ],
    );
}

#[test]
fn rule_26_names_are_regular_delimited_or_quoted() {
    let message = message()
        .set("a_1", 1)
        .set("naïve", 1)
        .set("größe2", 1)
        .set("色", 1)
        .set("Property With Space", 1)
        .set("HR-EmployeeID", 1)
        .set("Contoso & Northwind", 1)
        .set("a]b", 1)
        .set("say \"hi\"", 1)
        .set("x.y", 1);
    check(
        &message,
        &[
            ("a_1 = 1", "T"),
            ("naïve = 1", "T"),
            ("größe2 = 1", "T"),
            ("色 = 1", "T"),
            ("[Property With Space] = 1", "T"),
            ("[HR-EmployeeID] = 1", "T"),
            ("\"Contoso & Northwind\" = 1", "T"),
            ("[a]]b] = 1", "T"),
            ("\"say \"\"hi\"\"\" = 1", "T"),
            ("[x.y] = 1", "T"),
            ("user.[x.y] = 1", "T"),
            ("user.\"x.y\" = 1", "T"),
        ],
    );
    refused(&[
        ("_a = 1", "line 1, column 1: expected a name, a value or an operator, found '_'"),
        (
            "[a = 1",
            "line 1, column 1: expected a closing ] of the name that begins here, found end of text",
        ),
        (
            "\"a = 1",
            "line 1, column 1: expected a closing \" of the name that begins here, found end of text",
        ),
        ("[] = 1", "line 1, column 1: expected a name between the delimiters, found none"),
        (
            "x.y = 1",
            "line 1, column 1: expected the scope sys or user before '.' (a name with a point is written [a.b]), found 'x'",
        ),
        ("user. = 1", "line 1, column 7: expected the name of a property after 'user.', found '='"),
    ]);
}

#[test]
fn rule_27_constants() {
    check(
        &message(),
        &[
            ("9223372036854775807 > 0", "T"),
            ("-9223372036854775808 < 0", "T"),
            ("1894.1204 > 1894.12", "T"),
            ("2.0 = 2", "T"),
            ("101.5E5 = 10150000", "T"),
            ("0.5E-2 = 0.005", "T"),
            ("1e3 = 1000", "T"),
            ("1E+3 = 1000", "T"),
            ("'it''s' = 'it' + '''' + 's'", "T"),
            ("'' = ''", "T"),
            ("'-- no comment' = '/* nor */'", "F"),
            ("'two\nlines' LIKE '%\n%'", "T"),
        ],
    );
    refused(&[
        (
            "a = 9223372036854775808",
            "line 1, column 5: expected an integer of 64 bits (a number with a point may be larger), found 9223372036854775808",
        ),
        ("a = 1.", "line 1, column 7: expected a digit after the point, found end of text"),
        ("a = 1e", "line 1, column 7: expected a digit of the exponent, found end of text"),
        (
            "a = 1e999",
            "line 1, column 5: expected a number of at most 1.7976931348623157E308, found 1e999",
        ),
        (
            "a = 5abc",
            "line 1, column 6: expected a space or an operator after the number, found 'a'",
        ),
        (
            "a = 'x",
            "line 1, column 5: expected a closing ' of the text that begins here, found end of text",
        ),
    ]);
}
