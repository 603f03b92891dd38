//! Properties of the language over arbitrary input.

use domain::{
    Action, Correlation, CorrelationIndex, Filter, MatchCost, Properties, SystemProperty, Value,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use crate::support::{Message, counter, message, parameters, truth};

/// `PROPTEST_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(5000)
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: cases(),
        // A found case is kept as a row of a table, not as a seed.
        failure_persistence: None,
        // Limits that do not grow with the number of cases.
        max_global_rejects: u32::MAX,
        max_local_rejects: u32::MAX,
        ..ProptestConfig::default()
    }
}

/// A predicate too plain to be read wrongly, with an evaluator too plain to be wrong.
#[derive(Clone, Debug)]
enum Plain {
    Compare(Side, &'static str, Side),
    In(Side, Vec<Side>, bool),
    IsNull(&'static str, bool),
    Exists(&'static str),
    Not(Box<Plain>),
    And(Vec<Plain>),
    Or(Vec<Plain>),
}

#[derive(Clone, Debug)]
enum Side {
    Property(&'static str),
    Number(i64),
    Text(&'static str),
    Sum(i64, &'static str),
}

/// "n" is a number where it is there, "s" a text, "z" null, and "m" never there.
const NAMES: [&str; 4] = ["n", "s", "z", "m"];

fn side() -> impl Strategy<Value = Side> {
    let name = || proptest::sample::select(&NAMES[..]);
    prop_oneof![
        name().prop_map(Side::Property),
        (-2i64..3).prop_map(Side::Number),
        proptest::sample::select(vec!["a", "b", "it's"]).prop_map(Side::Text),
        (-2i64..3, proptest::sample::select(vec!["n", "m", "z"]))
            .prop_map(|(number, name)| Side::Sum(number, name)),
    ]
}

fn plain() -> impl Strategy<Value = Plain> {
    let name = || proptest::sample::select(&NAMES[..]);
    let comparison = proptest::sample::select(vec!["=", "<>", "<", ">", "<=", ">="]);
    let leaf = prop_oneof![
        4 => (side(), comparison, side()).prop_map(|(a, by, b)| Plain::Compare(a, by, b)),
        2 => (side(), vec(side(), 1..4), any::<bool>()).prop_map(|(a, list, n)| Plain::In(a, list, n)),
        1 => (name(), any::<bool>()).prop_map(|(name, negated)| Plain::IsNull(name, negated)),
        1 => name().prop_map(Plain::Exists),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| Plain::Not(Box::new(operand))),
            vec(inner.clone(), 2..4).prop_map(Plain::And),
            vec(inner, 2..4).prop_map(Plain::Or),
        ]
    })
}

impl Plain {
    fn text(&self) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        let joined = |parts: &[Plain], by: &str| {
            let parts: Vec<String> =
                parts.iter().map(|part| format!("({})", part.text())).collect();
            parts.join(by)
        };
        match self {
            Plain::Compare(a, by, b) => format!("{} {by} {}", a.text(), b.text()),
            Plain::In(a, list, negated) => {
                let list: Vec<String> = list.iter().map(Side::text).collect();
                format!("{} {}IN ({})", a.text(), not(*negated), list.join(", "))
            }
            Plain::IsNull(name, negated) => format!("{name} IS {}NULL", not(*negated)),
            Plain::Exists(name) => format!("EXISTS({name})"),
            Plain::Not(operand) => format!("NOT ({})", operand.text()),
            Plain::And(parts) => joined(parts, " AND "),
            Plain::Or(parts) => joined(parts, " OR "),
        }
    }

    fn holds(&self, message: &Message) -> Option<bool> {
        match self {
            Plain::Compare(a, by, b) => {
                let (a, b) = (a.value(message)?, b.value(message)?);
                let order = match (&a, &b) {
                    (Value::Long(a), Value::Long(b)) => a.cmp(b),
                    (Value::String(a), Value::String(b)) => a.cmp(b),
                    _ => return None,
                };
                Some(match *by {
                    "=" => order.is_eq(),
                    "<>" => order.is_ne(),
                    "<" => order.is_lt(),
                    ">" => order.is_gt(),
                    "<=" => order.is_le(),
                    _ => order.is_ge(),
                })
            }
            Plain::In(a, list, negated) => {
                let equals =
                    list.iter().map(|b| Plain::Compare(a.clone(), "=", b.clone())).collect();
                Plain::Or(equals).holds(message).map(|found| found != *negated)
            }
            Plain::IsNull(name, negated) => {
                Some(Side::Property(name).value(message).is_none() != *negated)
            }
            Plain::Exists(name) => Some(message.properties.contains_key(*name)),
            Plain::Not(operand) => operand.holds(message).map(|truth| !truth),
            Plain::And(parts) => {
                let truths: Vec<_> = parts.iter().map(|part| part.holds(message)).collect();
                match (truths.contains(&Some(false)), truths.contains(&None)) {
                    (true, _) => Some(false),
                    (false, true) => None,
                    (false, false) => Some(true),
                }
            }
            Plain::Or(parts) => {
                let truths: Vec<_> = parts.iter().map(|part| part.holds(message)).collect();
                match (truths.contains(&Some(true)), truths.contains(&None)) {
                    (true, _) => Some(true),
                    (false, true) => None,
                    (false, false) => Some(false),
                }
            }
        }
    }
}

impl Side {
    fn text(&self) -> String {
        match self {
            Side::Property(name) => (*name).to_owned(),
            Side::Number(number) => number.to_string(),
            Side::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Side::Sum(number, name) => format!("{number} + {name}"),
        }
    }

    fn value(&self, message: &Message) -> Option<Value> {
        match self {
            Side::Property(name) => {
                message.properties.get(*name).cloned().filter(|value| *value != Value::Null)
            }
            Side::Number(number) => Some(Value::Long(*number)),
            Side::Text(text) => Some(Value::String((*text).to_owned())),
            Side::Sum(number, name) => match Side::Property(name).value(message)? {
                Value::Long(other) => Some(Value::Long(number + other)),
                other => panic!("{other:?}"),
            },
        }
    }
}

fn plain_message() -> impl Strategy<Value = Message> {
    let number = proptest::option::of((-2i64..3).prop_map(Value::Long));
    let text = proptest::option::of(proptest::sample::select(vec!["a", "b", "it's"]));
    (number, text, any::<bool>()).prop_map(|(number, text, null)| {
        let mut message = message();
        if let Some(number) = number {
            message = message.set("n", number);
        }
        if let Some(text) = text {
            message = message.set("s", text);
        }
        if null { message.set("z", Value::Null) } else { message }
    })
}

/// Words of the language in any order: far more often a filter than characters are.
fn words() -> impl Strategy<Value = String> {
    let word = proptest::sample::select(vec![
        "a",
        "sys.Label",
        "user.",
        "sys.",
        ".",
        "NULL",
        "TRUE",
        "FALSE",
        "NOT",
        "AND",
        "OR",
        "IS",
        "IN",
        "LIKE",
        "ESCAPE",
        "EXISTS",
        "SET",
        "REMOVE",
        "(",
        ")",
        ",",
        ";",
        "=",
        "<>",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "1",
        "0",
        "2.5",
        "1e9",
        "9223372036854775807",
        "'x'",
        "'%'",
        "'",
        "\"",
        "[b c]",
        "[",
        "]",
        "@p",
        "@",
        "newid()",
        "p(",
        "property('a')",
        "p(a)",
        "n",
        "none",
        "é",
        "\u{a0}",
        "\n",
    ]);
    vec(word, 0..40).prop_map(|words| words.join(" "))
}

fn exercised(text: &str) {
    let given = parameters(&[("p", Value::String("a".into()))]);
    let message = message().set("a", "b c").set("b c", true).set("n", 5).set("none", Value::Null);
    if let Ok(filter) = Filter::sql(text, &given) {
        let verdict = filter.matches(&message, &mut counter());
        let lines = filter.explain(&message, &mut counter());
        let expected = match verdict {
            Ok(true) => "matches",
            Ok(false) => "does not match",
            Err(_) => "fails",
        };
        assert!(lines[0].starts_with(expected), "{text}: {lines:?}");
        assert_eq!(lines.len() > 1, expected != "matches", "{text}: {lines:?}");
        let shown = filter.to_string();
        if shown.chars().count() <= domain::RULE_TEXT_CHARS_MAX {
            assert_eq!(Filter::sql(&shown, &given).as_ref(), Ok(&filter), "{text}: {shown}");
        }
    }
    if let Ok(action) = Action::sql(text, &given) {
        // Most fail for their types: what counts is that they come back.
        let _ = action.run(&message, &mut counter(), &mut MatchCost::default());
        let shown = action.to_string();
        if shown.chars().count() <= domain::RULE_TEXT_CHARS_MAX {
            assert_eq!(Action::sql(&shown, &given).as_ref(), Ok(&action), "{text}: {shown}");
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0i32..3).prop_map(Value::Int),
        (0i64..3).prop_map(Value::Long),
        (0u64..3).prop_map(Value::ULong),
        (0u8..6).prop_map(|half| Value::Double(f64::from(half) / 2.0)),
        (0u8..3).prop_map(|half| Value::Float(f32::from(half) / 2.0)),
        // 0.0 to 2.5, with one digit or two.
        (0u128..6, any::<bool>()).prop_map(|(half, long)| {
            let (digits, exponent) = if long { (half * 50, 6174) } else { (half * 5, 6175) };
            Value::Decimal((exponent << 113 | digits).to_be_bytes())
        }),
        "[ab]".prop_map(Value::String),
        "[ab]".prop_map(Value::Uri),
        Just(Value::Char('a')),
        any::<bool>().prop_map(Value::Bool),
    ]
}

fn named_values(least: usize) -> impl Strategy<Value = Properties> {
    btree_map("[abcAB]", value(), least..4)
}

fn systems(least: usize) -> impl Strategy<Value = Vec<(SystemProperty, String)>> {
    let correlated: Vec<_> = SystemProperty::all().filter(|p| p.is_correlated()).collect();
    vec((proptest::sample::select(correlated[..3].to_vec()), "[xy]"), least..3)
}

fn correlation() -> impl Strategy<Value = Correlation> {
    (systems(0), named_values(0)).prop_filter_map("a sound filter", |(system, properties)| {
        Correlation::new(system.into_iter().collect(), properties).ok()
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn rule_34_agrees_with_a_plain_evaluator(predicate in plain(), message in plain_message()) {
        let text = predicate.text();
        prop_assume!(text.chars().count() < domain::RULE_TEXT_CHARS_MAX - 8);
        let expected = match predicate.holds(&message) {
            Some(true) => "T",
            Some(false) => "F",
            None => "U",
        };
        prop_assert_eq!(truth(&message, &text, &Properties::new()), expected, "{}", text);
    }

    #[test]
    fn rule_21_arbitrary_texts_are_read_or_refused(text in any::<String>()) {
        exercised(&text);
    }

    #[test]
    fn rule_21_arbitrary_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..1100)) {
        exercised(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn rule_21_arbitrary_words_are_read_or_refused(text in words()) {
        exercised(&text);
        exercised(&format!("SET a = {text}"));
    }

    /// Inserted, replaced and removed in any order, the index is the set of its filters.
    #[test]
    fn rule_12_the_index_agrees_with_trying_each_filter(
        filters in vec((0u8..20, correlation()), 0..40),
        removed in vec(0u8..20, 0..10),
        system in systems(0),
        properties in named_values(0),
    ) {
        let mut index = CorrelationIndex::default();
        let mut plain = std::collections::BTreeMap::new();
        for (id, filter) in filters {
            index.insert(id, filter.clone());
            plain.insert(id, filter);
        }
        for id in removed {
            prop_assert_eq!(index.remove(&id), plain.remove(&id).is_some());
        }
        let message = Message { texts: system.into_iter().collect(), properties, ..message() };
        let matching = plain.iter().filter(|(_, filter)| filter.matches(&message, &mut MatchCost::default()));
        let expected: Vec<u8> = matching.map(|(id, _)| *id).collect();
        prop_assert_eq!(index.matches(&message, &mut MatchCost::default()), expected);
        prop_assert_eq!(index.len(), plain.len());
    }

    /// RULE-12 against its equivalent in SQL.
    #[test]
    fn rule_12_a_correlation_filter_is_its_conditions_joined_by_and(
        system in systems(0),
        properties in btree_map("[abcAB]", (0i64..2).prop_map(Value::Long), 0..3),
        message_system in systems(0),
        message_properties in named_values(0),
    ) {
        let filter = Correlation::new(system.into_iter().collect(), properties);
        prop_assume!(filter.is_ok());
        let filter = Filter::Correlation(filter.unwrap());
        let texts = message_system.into_iter().collect();
        let message = Message { texts, properties: message_properties, ..message() };
        let sql = Filter::sql(&filter.to_string(), &Properties::new()).unwrap();
        prop_assert_eq!(
            filter.matches(&message, &mut counter()),
            sql.matches(&message, &mut counter())
        );
    }
}
