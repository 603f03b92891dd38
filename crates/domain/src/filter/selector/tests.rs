//! The grammar of selectors as tables, and three-valued logic by its definition.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn message() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("text", Value::String("blue".into())),
        ("quote", Value::String("it's 100%_sure".into())),
        ("yes", Value::Bool(true)),
        ("no", Value::Bool(false)),
        ("byte", Value::SByte(-5)),
        ("short", Value::Short(300)),
        ("int", Value::Int(5)),
        ("long", Value::Long(9_007_199_254_740_993)),
        ("least", Value::Long(i64::MIN)),
        ("float", Value::Float(0.5)),
        ("double", Value::Double(2.5)),
        ("digits", Value::String("5".into())),
        ("void", Value::Null),
        ("_a$1", Value::Int(1)),
        ("größe", Value::Int(7)),
        ("a.b", Value::Int(2)),
        ("a-b", Value::Int(3)),
        ("Not", Value::Int(4)),
    ])
}

/// What a selector comes to for the one message.
fn truth(text: &str) -> Option<bool> {
    let message = message();
    let selector = Selector::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let lookup = |name: &str| message.get(name).cloned();
    let truth = selector.0.truth(&lookup);
    assert_eq!(selector.matches(&lookup), truth == Some(true), "{text}");
    truth
}

/// Each row a selector, and what it comes to: T, F or unknown. JMS 2.0, 3.8.1.1 to 3.8.1.3.
#[test]
fn sel_2_sel_3_each_construct_of_the_language_comes_to_what_jms_says() {
    const T: Option<bool> = Some(true);
    const F: Option<bool> = Some(false);
    const U: Option<bool> = None;
    for (text, expected) in [
        // Literals.
        ("text = 'blue'", T),
        ("text = 'Blue'", F),
        ("quote = 'it''s 100%_sure'", T),
        ("int = 5 and int = +5 AnD int = 5L and int = 0x5 and int = 05 and int = 0b101", T),
        ("short = 3_00", T),
        ("least = -9223372036854775808", T),
        ("byte = -5 and byte = - 5", T),
        ("double = 2.5 and double = 25e-1 and double = 2.5f and double = 2.5D and float = .5", T),
        ("int = 5. and int = 5.0 and int = 0.5E1", T),
        ("yes = TRUE and no = false and yes <> no", T),
        // Names.
        ("_a$1 = 1 and größe = 7 and a.b = 2 and \"a-b\" = 3 and \"Not\" = 4", T),
        ("TEXT = 'blue'", U),
        // Comparison: exact, and of like types only.
        ("long = 9007199254740993 and long <> 9007199254740992", T),
        ("long = 9007199254740992.0", F),
        ("int < 6 and int <= 5 and int > 4 and int >= 5 and int <> 4", T),
        ("int < 5.1 and double > 2 and float < double", T),
        ("digits = 5", F),
        ("digits <> 5", F),
        ("NOT digits = 5", T),
        ("int = '5'", F),
        ("yes = 'true'", F),
        ("yes = 1", F),
        ("text > digits", F),
        ("no < yes", F),
        ("1 = 1 and 'a' = 'a' and 1 <> 2", T),
        ("'a' = 1", F),
        ("text = text", T),
        // Unknown.
        ("missing = 1", U),
        ("missing <> 1", U),
        ("NOT missing = 1", U),
        ("void = 1", U),
        ("missing > 1 or yes", T),
        ("missing > 1 or no", U),
        ("missing > 1 and yes", U),
        ("missing > 1 and no", F),
        ("missing", U),
        ("NOT missing", U),
        // Conditions that stand alone.
        ("yes", T),
        ("no", F),
        ("TRUE", T),
        ("FALSE OR NOT no", T),
        ("text", F),
        ("NOT text", T),
        // Precedence.
        ("yes or yes and no", T),
        ("(yes or yes) and no", F),
        ("NOT no and no", F),
        ("NOT (no and no)", T),
        ("NOT NOT yes", T),
        ("2 + 3 * 2 = 8 and (2 + 3) * 2 = 10 and 7 - 2 - 1 = 4", T),
        ("int * 2 = 10 and int / 2 = 2 and int % 2 = 1 and -int = -5 and -(-int) = 5", T),
        ("double * 2 = 5 and int / 2.0 = 2.5", T),
        ("((int)) = (5)", T),
        // Arithmetic that has no result is null.
        ("int / 0 = 1", U),
        ("text + 1 = 1", U),
        ("missing + 1 = 1", U),
        ("long * long = 1", U),
        ("least - 1 < 0", U),
        // BETWEEN.
        ("int BETWEEN 5 AND 6 and int between 4 and 5 and int BETWEEN 1+1 AND int", T),
        ("int BETWEEN 6 AND 9", F),
        ("int NOT BETWEEN 6 AND 9", T),
        ("int NOT BETWEEN 5 AND 9", F),
        ("missing BETWEEN 1 AND 2", U),
        ("missing NOT BETWEEN 1 AND 2", U),
        ("int BETWEEN missing AND 4", F),
        ("text BETWEEN 1 AND 2", F),
        ("int BETWEEN 1 AND 9 AND yes", T),
        // IN.
        ("text IN ('red', 'blue')", T),
        ("text IN ('red')", F),
        ("text NOT IN ('red')", T),
        ("text NOT IN ('blue')", F),
        ("missing IN ('a')", U),
        ("missing NOT IN ('a')", U),
        ("int IN ('5')", F),
        ("int NOT IN ('5')", T),
        // LIKE.
        ("text LIKE 'b%' and text LIKE '%e' and text LIKE 'b__e' and text LIKE '%'", T),
        ("text LIKE 'b_'", F),
        ("text LIKE 'B%'", F),
        ("text NOT LIKE 'r%'", T),
        ("quote LIKE '%100\\%\\_s%' ESCAPE '\\'", T),
        ("quote LIKE '%100!_%' ESCAPE '!'", F),
        ("quote LIKE 'it''s%'", T),
        ("missing LIKE 'a'", U),
        ("missing NOT LIKE 'a'", U),
        ("int LIKE '5'", F),
        ("int NOT LIKE '5'", T),
        // IS NULL.
        ("missing IS NULL and void IS NULL and text IS NOT NULL", T),
        ("text IS NULL", F),
        ("void IS NOT NULL", F),
    ] {
        assert_eq!(truth(text), expected, "{text}");
    }
}

/// Each row a text, the column at fault, and what is expected there.
#[test]
fn sel_1_what_is_no_selector_says_where_and_why() {
    for (text, column, expected) in [
        ("", 1, "a name or a value"),
        ("a =", 4, "a name or a value"),
        ("a = 1 b", 7, "AND, OR or the end"),
        ("a = 1 AND", 10, "a name or a value"),
        ("5", 1, "a condition"),
        ("'text'", 1, "a condition"),
        ("a + 1", 1, "a condition"),
        ("NOT 5", 5, "a condition"),
        ("yes AND 5", 9, "a condition"),
        ("a = NULL", 5, "a name or a value"),
        ("NULL = a", 1, "a name or a value"),
        ("a < 'x'", 5, "a number"),
        ("'x' < a", 1, "a number"),
        ("a >= TRUE", 6, "a number"),
        ("a + 'x' = 1", 5, "a number"),
        ("-'x' = 1", 2, "a number"),
        ("a BETWEEN 'a' AND 'b'", 11, "a number"),
        ("a BETWEEN 1", 12, "AND between the bounds"),
        ("a IN ()", 7, "a text in the list"),
        ("a IN (1)", 7, "a text in the list"),
        ("a IN 'x'", 6, "'(' after IN"),
        ("a IN ('x'", 10, "',' or ')'"),
        ("5 IN ('x')", 1, "the name of a property"),
        ("a LIKE 5", 8, "a text as the pattern"),
        ("a LIKE b", 8, "a text as the pattern"),
        ("a LIKE 'x' ESCAPE 'yy'", 19, "a text of one character"),
        ("a LIKE 'x' ESCAPE ''", 19, "a text of one character"),
        ("'a' LIKE 'a'", 1, "the name of a property"),
        ("a IS 5", 6, "NULL or NOT NULL"),
        ("a + 1 IS NULL", 1, "the name of a property"),
        ("a NOT = 1", 7, "BETWEEN, IN or LIKE"),
        ("(a = 1", 7, "an operator or ')'"),
        ("a = 1)", 6, "AND, OR or the end"),
        ("(a = 1) + 1 = 2", 9, "a value before this"),
        ("a = 'x", 5, "a closing '"),
        ("\"a = 1", 1, "a closing \""),
        ("a = 9223372036854775808", 5, "an integer of 64 bits"),
        ("a = 08", 5, "an integer as Java writes it"),
        ("a = 0x", 5, "an integer as Java writes it"),
        ("a = 5abc", 6, "a space or an operator"),
        ("a = 1e", 7, "a digit of the exponent"),
        ("a = 1e999", 5, "a number of at most"),
        ("a != 1", 3, "a name, a value or an operator"),
        ("é = #", 5, "a name, a value or an operator"),
        ("JMSRedelivered = TRUE", 1, "a property or a header that selectors may name"),
        ("JMSDestination = 'q'", 1, "a property or a header that selectors may name"),
        ("JMSExpiration > 5", 1, "a property or a header that selectors may name"),
        ("JMSReplyTo IS NULL", 1, "a property or a header that selectors may name"),
        ("JMSDeliveryTime > 5", 1, "a property or a header that selectors may name"),
    ] {
        let Err(error) = Selector::new(text) else { panic!("{text} is a selector") };
        let SelectorError::Syntax { column: at, expected: said, .. } = &error else {
            panic!("{text}: {error}");
        };
        assert_eq!(*at, column, "{text}: {error}");
        assert!(said.starts_with(expected), "{text}: {error}");
    }
    let deep = format!("{}a = 1{}", "(".repeat(33), ")".repeat(33));
    assert!(matches!(Selector::new(&deep), Err(SelectorError::TooDeep { .. })));
    let long = format!("a = '{}'", "x".repeat(SELECTOR_CHARS_MAX));
    assert!(matches!(Selector::new(&long), Err(SelectorError::TooLong { .. })));
    // What a client wrote is told in part only.
    let said = Selector::new(&format!("a = {}", "x ".repeat(500))).unwrap_err().to_string();
    assert!(said.chars().count() < 200, "{said}");
}

/// A condition as text, and what it comes to, by definition.
#[derive(Clone, Debug)]
enum Sample {
    Known(bool),
    Unknown,
    Not(Box<Sample>),
    And(Box<Sample>, Box<Sample>),
    Or(Box<Sample>, Box<Sample>),
}

impl Sample {
    fn text(&self) -> String {
        match self {
            Sample::Known(true) => "int = 5".into(),
            Sample::Known(false) => "text LIKE 'r%'".into(),
            Sample::Unknown => "missing > 1".into(),
            Sample::Not(a) => format!("NOT ({})", a.text()),
            Sample::And(a, b) => format!("({}) AND ({})", a.text(), b.text()),
            Sample::Or(a, b) => format!("({}) OR ({})", a.text(), b.text()),
        }
    }

    /// 0 false, 1 unknown, 2 true: AND is the least of two, OR the greatest.
    fn rank(&self) -> u8 {
        match self {
            Sample::Known(truth) => 2 * u8::from(*truth),
            Sample::Unknown => 1,
            Sample::Not(a) => 2 - a.rank(),
            Sample::And(a, b) => a.rank().min(b.rank()),
            Sample::Or(a, b) => a.rank().max(b.rank()),
        }
    }
}

fn a_sample() -> impl Strategy<Value = Sample> {
    let leaf = prop_oneof![any::<bool>().prop_map(Sample::Known), Just(Sample::Unknown)];
    leaf.prop_recursive(5, 32, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Sample::Not(a.into())),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Sample::And(a.into(), b.into())),
            (inner.clone(), inner).prop_map(|(a, b)| Sample::Or(a.into(), b.into())),
        ]
    })
}

proptest! {
    #[test]
    fn sel_3_conditions_join_by_three_valued_logic(sample in a_sample()) {
        let rank = match truth(&sample.text()) {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        prop_assert_eq!(rank, sample.rank(), "{}", sample.text());
    }

    /// Whatever a client writes is answered, and an error points into the text.
    #[test]
    fn sel_1_any_text_is_read_or_refused(
        text in "([a-z$_]{1,3}|[0-9.]{1,3}|'[a-z%']{0,3}'|[ =<>()+*/,-]| AND | OR |NOT | LIKE | IN | IS NULL|é){0,12}"
    ) {
        if let Err(SelectorError::Syntax { column, .. }) = Selector::new(&text) {
            prop_assert!(column <= text.chars().count() + 1, "{text}: {column}");
        }
    }
}
