//! FAULT: rules that the catalog keeps.

use domain::{CatalogCommand, CatalogOutcome, FaultRuleRow, Key, Outcome, Row, Span, Timestamp};

use crate::catalog::{ask, catalog};
use crate::support::{EPOCH, Group};

fn put(name: &str, text: &str, lasts_ms: Option<u64>) -> CatalogCommand {
    let (name, text) = (name.to_owned(), text.to_owned());
    CatalogCommand::PutFaultRule { name, text, lasts: lasts_ms.map(Span) }
}

fn remove(name: Option<&str>) -> CatalogCommand {
    CatalogCommand::RemoveFaultRules { name: name.map(str::to_owned) }
}

fn at(ms: u64) -> Timestamp {
    EPOCH.plus(Span(ms))
}

fn told(group: &mut Group, ms: u64, command: CatalogCommand) -> String {
    group.now = at(ms);
    match ask(group, command) {
        Outcome::Catalog(CatalogOutcome::FaultRulesChanged { at: changed_at }) => {
            assert_eq!(changed_at, at(ms));
            "done".to_owned()
        }
        Outcome::Refused(refusal) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

fn rules(group: &Group) -> Vec<FaultRuleRow> {
    match group.rows.0.get(&Key::FaultRules) {
        Some(Row::FaultRules(rules)) => rules.clone(),
        None => Vec::new(),
        other => panic!("{other:?}"),
    }
}

fn names(group: &Group) -> Vec<String> {
    rules(group).into_iter().map(|rule| rule.name).collect()
}

/// Each row: when, what is asked, and the names that are there then, in their order.
#[test]
fn fault_1_fault_7_rules_keep_their_order_until_they_end_or_are_removed() {
    let mut group = catalog(1);
    for (ms, command, expected) in [
        (1, put("a", "1", Some(100)), vec!["a"]),
        (2, put("b", "2", None), vec!["a", "b"]),
        (3, put("c", "3", Some(1_000)), vec!["a", "b", "c"]),
        // In the place of another: it is the newest then.
        (4, put("a", "4", Some(100)), vec!["b", "c", "a"]),
        (5, remove(Some("of nobody")), vec!["b", "c", "a"]),
        (6, remove(Some("b")), vec!["c", "a"]),
        (7, remove(Some("b")), vec!["c", "a"]),
        // What has ended is forgotten with the next that comes.
        (104, put("d", "5", None), vec!["c", "d"]),
        (105, remove(None), vec![]),
        (106, remove(None), vec![]),
    ] {
        assert_eq!(told(&mut group, ms, command.clone()), "done", "{command:?}");
        assert_eq!(names(&group), expected, "{command:?}");
    }
}

#[test]
fn fault_7_a_rule_ends_by_the_clusters_clock() {
    let mut group = catalog(1);
    told(&mut group, 5, put("a", "text", Some(100)));
    told(&mut group, 6, put("b", "text", None));
    let row = |name: &str, added_ms, ends_ms: Option<u64>| FaultRuleRow {
        name: name.to_owned(),
        text: "text".to_owned(),
        added_at: at(added_ms),
        ends_at: ends_ms.map(at),
    };
    assert_eq!(rules(&group), [row("a", 5, Some(105)), row("b", 6, None)]);
}

#[test]
fn fault_1_rules_are_bounded() {
    let mut group = Group::empty();
    let refused = told(&mut group, 1, put("a", "text", None));
    assert!(!refused.is_empty() && refused != "done", "there is no cluster: {refused}");
    let mut group = catalog(1);
    for (command, expected) in [
        (put("", "text", None), "fault rule: its name has 0 bytes, allowed is 1 to 100"),
        (
            put(&"n".repeat(101), "text", None),
            "fault rule: its name has 101 bytes, allowed is 1 to 100",
        ),
        (put("a", &"x".repeat(8_193), None), "fault rule: 'a' has 8193 bytes, allowed is 8192"),
    ] {
        assert_eq!(told(&mut group, 1, command), expected);
    }
    for number in 0..100 {
        assert_eq!(told(&mut group, 1, put(&number.to_string(), "text", None)), "done");
    }
    assert_eq!(
        told(&mut group, 1, put("more", "text", None)),
        "the cluster (fault rules) holds 100, the limit is 100; free some first"
    );
    assert_eq!(told(&mut group, 1, put("7", "another", None)), "done", "in the place of one");
}
