//! What matching costs (RULE-40): a number that follows from filter and message alone, and grows no faster
//! than what is matched.

use std::collections::BTreeMap;

use domain::{
    Action, Correlation, CorrelationIndex, Filter, MatchCost, Properties, RULE_TEXT_CHARS_MAX,
    Value,
};

use crate::support::{Message, counter, message};

const KB: usize = 1000;

/// What a filter costs on a message, and what comes of it.
fn cost(filter: &str, parameters: &Properties, message: &Message) -> (u64, Result<bool, String>) {
    let filter =
        Filter::sql(filter, parameters).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let mut cost = MatchCost::default();
    let matched = filter.matches_charged(message, &mut counter(), &mut cost);
    (cost.units(), matched.map_err(|error| error.text))
}

fn text(name: &str, text: String) -> Message {
    message().set(name, Value::String(text))
}

/// A row: what it is about, the filter, the message of a size, what is told of it, and the units at 30 kB.
type CostRow = (&'static str, String, fn(usize) -> Message, Result<bool, String>, u64);

fn rows() -> Vec<CostRow> {
    let a = |size: usize| text("p", "a".repeat(size));
    let b = |size: usize| text("p", "ab".repeat(size / 2));
    let patterned = |size: usize| {
        text("p", "ab".repeat(size / 2))
            .set("pattern", format!("%{}_c", "ab_%".repeat(200)).as_str())
    };
    let nested =
        |size: usize| text("p", "a".repeat(size)).set("n1", "n2").set("n2", "n3").set("n3", "p");
    let runs =
        |item: &str, times: usize, end: &str| format!("p LIKE '{}{end}'", item.repeat(times));
    let unequal = |times: usize| vec!["p LIKE '%x%'"; times].join(" OR ");
    let ors = unequal(60);
    assert!(ors.len() <= RULE_TEXT_CHARS_MAX, "{}", ors.len());
    vec![
        // Patterns.
        ("one literal", "p LIKE '%b%'".into(), a, Ok(false), 30_000),
        ("literals that fit nearly everywhere", runs("%a", 400, "%b%"), a, Ok(false), 30_000),
        ("the same, whose end is looked at first", runs("%a", 400, "b"), a, Ok(false), 0),
        ("the same, and all of it fits", runs("%a", 400, "%"), a, Ok(true), 0),
        (
            "a long literal that fits nearly",
            format!("p LIKE '%{}b%'", "a".repeat(900)),
            a,
            Ok(false),
            30_000,
        ),
        ("one place of any", "p LIKE '%a_b%'".into(), a, Ok(false), 30_000),
        ("places of any, many", runs("%_a", 300, "b"), a, Ok(false), 10 * 30_000),
        (
            "places of any, in a row",
            format!("p LIKE '%{}b'", "_".repeat(1000)),
            a,
            Ok(false),
            16 * 30_000,
        ),
        ("escapes", "p LIKE '%!_!%!!%' ESCAPE '!'".into(), b, Ok(false), 30_000),
        (
            "a pattern of the message's own",
            "p LIKE pattern".into(),
            patterned,
            Ok(false),
            10 * 30_000,
        ),
        ("many patterns", ors.clone(), a, Ok(false), 60 * 30_000),
        // Functions within each other, and what is computed.
        (
            "properties that name properties",
            "property(property(property(property(n1)))) LIKE '%b%'".into(),
            nested,
            Ok(false),
            30_000,
        ),
        ("texts joined, and compared", "p + 'x' = p + 'y'".into(), a, Ok(false), 3 * 30_000),
        (
            "lists of the message's own",
            format!("p IN ({})", vec!["p + 'x'"; 60].join(", ")),
            |size| text("p", "a".repeat(size / 2)),
            Ok(false),
            60 * 30_000,
        ),
        // Lists.
        (
            "a long list of numbers",
            format!(
                "p IN ({})",
                (0..190).map(|n| (1000 + n).to_string()).collect::<Vec<_>>().join(",")
            ),
            |_| message().set("p", 7),
            Ok(false),
            0,
        ),
        (
            "a long list of texts",
            format!(
                "p IN ({})",
                (0..150).map(|n| format!("'{n:02}'")).collect::<Vec<_>>().join(",")
            ),
            a,
            Ok(false),
            30_000,
        ),
        // Many names.
        (
            "a property among many",
            "Wanted = 1 OR sys.Subject = 'x'".into(),
            |size| {
                let named = |n: usize| (format!("n{n}"), Value::Long(1));
                Message { properties: (0..size / 10).map(named).collect(), ..message() }
            },
            Ok(false),
            0,
        ),
        ("an error", "p - 1 > 0".into(), a, Err("'aaaa".into()), 30_000),
    ]
}

/// Twice the text costs twice as much, and never more; what is looked up costs the same.
#[test]
fn rule_40_cost_is_linear_in_what_is_matched() {
    let mut wrong = Vec::new();
    for (name, filter, of, expected, stated) in rows() {
        let none = Properties::new();
        let (once, matched) = cost(&filter, &none, &of(15 * KB));
        let (twice, again) = cost(&filter, &none, &of(30 * KB));
        for matched in [matched, again] {
            match (matched, &expected) {
                (Err(text), Err(start)) => {
                    assert!(text.starts_with(start.as_str()), "{name}: {text}")
                }
                (matched, expected) => assert_eq!(matched, *expected, "{name}"),
            }
        }
        println!("{name}: {once} units at 15 kB, {twice} at 30 kB");
        // Operations, names and a pattern's compiling come on top, however long the text.
        let fixed = 16 * filter.len() as u64 + 4 * 16 * RULE_TEXT_CHARS_MAX as u64;
        if twice > 2 * once || twice + 100 < stated || twice > stated * 23 / 20 + fixed {
            wrong.push(format!("{name}: {once}, {twice}, stated {stated}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each rule costs as much as the one before it.
#[test]
fn rule_40_two_thousand_rules_on_thirty_kilobytes() {
    let message = text("p", "ab".repeat(15 * KB));
    let filters: Vec<Filter> = (0..2000)
        .map(|n| Filter::sql(&format!("p LIKE '%a_{n}%b'"), &Properties::new()).unwrap())
        .collect();
    let mut cost = MatchCost::default();
    for (n, filter) in filters.iter().enumerate() {
        assert_eq!(filter.matches_charged(&message, &mut counter(), &mut cost), Ok(false), "{n}");
        let each = cost.units() / (n as u64 + 1);
        assert!((30_000..30_100).contains(&each), "{each} units each after {n}");
    }
}

/// A value is looked up in a list, however long: and the list means what its comparisons would.
#[test]
fn rule_40_a_list_costs_one_look_up() {
    let list = |count: usize| {
        let values: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        format!("p IN ({})", values.join(","))
    };
    let none = Properties::new();
    let (short, _) = cost(&list(10), &none, &message().set("p", 500));
    let (long, _) = cost(&list(280), &none, &message().set("p", 500));
    assert_eq!(short, long);
}

/// A property is read once, whatever the number of filters on it; each shape is one look-up.
#[test]
fn rule_40_correlation_filters_are_looked_up() {
    let index = |count: usize| {
        let mut index = CorrelationIndex::default();
        for n in 0..count {
            let properties = Properties::from([
                ("big".to_owned(), Value::String("b".to_owned())),
                (format!("n{n}"), Value::Long(1)),
            ]);
            index.insert(n, Correlation::new(BTreeMap::new(), properties).unwrap());
        }
        index
    };
    let message = text("big", "a".repeat(30 * KB));
    let units = |count: usize| {
        let mut cost = MatchCost::default();
        assert_eq!(index(count).matches(&message, &mut cost), [0usize; 0]);
        cost.units()
    };
    let (one, thousand) = (units(1), units(1000));
    assert_eq!(one, 30_000 + 32);
    assert_eq!(thousand, 30_000 + 1000 * 32);
}

/// What an action copies and joins is charged as well.
#[test]
fn rule_40_actions_are_charged() {
    let action = |text: &str| Action::sql(text, &Properties::new()).unwrap();
    let message = text("p", "a".repeat(15 * KB));
    let units = |text: &str| {
        let mut cost = MatchCost::default();
        let _ = action(text).run(&message, &mut counter(), &mut cost);
        cost.units()
    };
    let (none, once, twice) =
        (units("REMOVE x"), units("SET a = p + p"), units("SET a = p + p; SET b = p + p"));
    assert!(none >= 15_000, "{none}");
    assert!(once >= none + 2 * 15_000 + 2 * 30_000, "{once}");
    assert!(twice - once >= 90_000 && twice - once < 91_000, "{once}, {twice}");
}
