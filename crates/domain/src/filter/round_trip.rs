//! Canonical text, read back, is the tree it was made of: over trees of every kind.

use proptest::collection::vec;
use proptest::prelude::*;

use super::ast::{Comparison, Expr, Operator, Property, Sign, Statement};
use super::parameters::Parameters;
use super::{RULE_TEXT_CHARS_MAX, parser};
use crate::{Action, Properties, RulePart, SystemProperty, Value};

fn given() -> Parameters {
    let given = [("text", Value::String("x".into())), ("@flag", Value::Bool(true))];
    let given = given.map(|(name, value)| (name.to_owned(), value)).into();
    Parameters::new(RulePart::Filter, &given).expect("both are allowed")
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9_]{0,4}",
        "[ -~é\u{a0}]{1,6}",
        proptest::sample::select(vec!["and", "IN", "sys", "user", "newid", "p", "property", "ß"])
            .prop_map(str::to_owned),
    ]
}

fn property() -> impl Strategy<Value = Property> {
    let system = SystemProperty::all().collect::<Vec<_>>();
    prop_oneof![
        3 => name().prop_map(Property::User),
        1 => proptest::sample::select(system).prop_map(Property::System),
    ]
}

fn text() -> impl Strategy<Value = Expr> {
    "['a-z%_\\\\\n]{0,5}".prop_map(|text| Expr::Constant(Value::String(text)))
}

fn constant() -> impl Strategy<Value = Expr> {
    prop_oneof![
        Just(Expr::Constant(Value::Null)),
        any::<bool>().prop_map(|value| Expr::Constant(Value::Bool(value))),
        prop_oneof![any::<i64>(), -9i64..9, Just(i64::MIN)]
            .prop_map(|value| Expr::Constant(Value::Long(value))),
        any::<f64>()
            .prop_filter("the language has no others", |value| value.is_finite())
            .prop_map(|value| Expr::Constant(Value::Double(value))),
        text(),
    ]
}

fn is_value_of_text(expr: &Expr) -> bool {
    match expr {
        Expr::Constant(value) => matches!(value, Value::String(_) | Value::Null),
        Expr::Parameter(name) => name == "text",
        _ => true,
    }
}

fn value() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        constant(),
        property().prop_map(Expr::Property),
        Just(Expr::NewId),
        Just(Expr::Parameter("text".into())),
        Just(Expr::Parameter("flag".into())),
    ];
    let sums = || prop_oneof![Just(Operator::Add), Just(Operator::Subtract)];
    let products =
        || prop_oneof![Just(Operator::Multiply), Just(Operator::Divide), Just(Operator::Remainder)];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let sign = prop_oneof![Just(Sign::Plus), Just(Sign::Minus)];
        prop_oneof![
            (boxed.clone(), vec((sums(), inner.clone()), 1..4))
                .prop_map(|(first, rest)| Expr::Arithmetic(first, rest)),
            (boxed.clone(), vec((products(), inner.clone()), 1..4))
                .prop_map(|(first, rest)| Expr::Arithmetic(first, rest)),
            (sign, boxed).prop_map(|(sign, operand)| Expr::Sign(sign, operand)),
            inner
                .prop_filter("names a property", is_value_of_text)
                .prop_map(|name| Expr::Named(name.into())),
        ]
    })
    .boxed()
}

fn relation() -> impl Strategy<Value = Expr> {
    let boxed = || value().prop_map(Box::new);
    let pattern = || value().prop_filter("is a pattern", is_value_of_text).prop_map(Box::new);
    let escape = "['a\\\\é]".prop_map(|text| Box::new(Expr::Constant(Value::String(text))));
    let comparison = proptest::sample::select(vec![
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
    ]);
    let named = pattern().prop_map(Expr::Named);
    prop_oneof![
        (boxed(), comparison, boxed()).prop_map(|(a, by, b)| Expr::Compare(a, by, b)),
        (boxed(), any::<bool>()).prop_map(|(value, negated)| Expr::IsNull { value, negated }),
        (boxed(), vec(value(), 1..4), any::<bool>()).prop_map(|(value, list, negated)| Expr::In {
            value,
            list,
            negated
        }),
        (boxed(), pattern(), proptest::option::of(escape), any::<bool>()).prop_map(
            |(value, pattern, escape, negated)| Expr::Like { value, pattern, escape, negated }
        ),
        prop_oneof![property().prop_map(Expr::Property), named.clone()]
            .prop_map(|property| Expr::Exists(property.into())),
        property().prop_map(Expr::Property),
        named,
        Just(Expr::Parameter("flag".into())),
        Just(Expr::Constant(Value::Null)),
        any::<bool>().prop_map(|value| Expr::Constant(Value::Bool(value))),
    ]
}

fn condition() -> BoxedStrategy<Expr> {
    relation()
        .prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|operand| Expr::Not(operand.into())),
                vec(inner.clone(), 2..4).prop_map(Expr::And),
                vec(inner, 2..4).prop_map(Expr::Or),
            ]
        })
        .boxed()
}

fn statement() -> impl Strategy<Value = Statement> {
    let target = property().prop_filter("can be set", |property| match property {
        Property::User(_) => true,
        Property::System(property) => property.is_settable(),
    });
    prop_oneof![
        (target, value()).prop_map(|(property, value)| Statement::Set(property, value)),
        name().prop_map(Statement::Remove),
    ]
}

/// `PROPTEST_CASES` sets another number.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        // Limits that do not grow with the number of cases.
        max_global_rejects: u32::MAX,
        max_local_rejects: u32::MAX,
        ..ProptestConfig::default()
    })]

    #[test]
    fn rule_24_a_shown_filter_reads_back_as_itself(predicate in condition()) {
        let shown = predicate.to_string();
        prop_assume!(shown.chars().count() <= RULE_TEXT_CHARS_MAX);
        prop_assert_eq!(parser::filter(&shown, &given()), Ok(predicate), "{}", shown);
    }

    #[test]
    fn rule_24_a_shown_action_reads_back_as_itself(statements in vec(statement(), 1..5)) {
        struct ShownStatements<'a>(&'a [Statement]);
        impl std::fmt::Display for ShownStatements<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                super::display::statements(f, self.0)
            }
        }
        let shown = ShownStatements(&statements).to_string();
        prop_assume!(shown.chars().count() <= RULE_TEXT_CHARS_MAX);
        prop_assert_eq!(parser::action(&shown, &given()), Ok(statements), "{}", shown);
    }
}

#[test]
fn rule_24_an_action_shows_what_it_was_read_from() {
    let action = Action::sql("set a=1 remove [b c],SET sys.label = 'x';", &Properties::new());
    let shown = action.expect("a sound action").to_string();
    assert_eq!(shown, "SET a = 1; REMOVE [b c]; SET sys.Subject = 'x'");
}
