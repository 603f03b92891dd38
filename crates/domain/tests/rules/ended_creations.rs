//! ENT-2: creations that a network held up, and whose entity is gone when they come.

use domain::{CatalogCommand, NewRule, Outcome, Refusal, Row, Span, SubscriptionProperties};

use crate::catalog::{ask, catalog, created, deleted, entry};
use crate::support::Group;
use crate::table::queue;

/// The number of a request, and of the next; nobody draws it.
const LATE: u64 = 1 << 40;

/// ENT-2: each row: how long after the end of the entity its creation comes once more, and whether it makes another.
#[test]
fn ent_2_a_creation_that_comes_after_its_entity_is_gone_makes_none() {
    const MINUTE: u64 = 60_000;
    let topic = || CatalogCommand::CreateTopic {
        request: LATE,
        name: "t".to_owned(),
        properties: Box::default(),
    };
    let subscription = || CatalogCommand::CreateSubscription {
        request: LATE + 1,
        topic: "t".to_owned(),
        name: "s".to_owned(),
        properties: Box::new(SubscriptionProperties::default()),
        rule: Box::new(NewRule::default()),
    };
    let make = |group: &mut Group, create: CatalogCommand, name: &str| {
        let (row, _) = entry(ask(group, create));
        let command = CatalogCommand::Created { name: name.to_owned(), entity: row.entity };
        entry(ask(group, command));
    };
    for (after_ms, makes_another) in
        [(0, false), (14 * MINUTE, false), (15 * MINUTE - 1, false), (15 * MINUTE, true)]
    {
        let mut group = catalog(1);
        make(&mut group, topic(), "t");
        make(&mut group, subscription(), "t/subscriptions/s");
        // A repeat meets what the first has made.
        assert!(entry(ask(&mut group, topic())).1);
        deleted(&mut group, "t");
        group.now = group.now.plus(Span(after_ms));
        let refused = |outcome: &Outcome| matches!(outcome, Outcome::Refused(Refusal::InvalidOperation { why }) if why.contains("deleted since"));
        let again = ask(&mut group, topic());
        assert_eq!(refused(&again), !makes_another, "after {after_ms} ms: {again:?}");
        // Somebody else may have the name at once, and then what came late is told so.
        if !makes_another {
            created(&mut group, "t");
            let late = ask(&mut group, topic());
            assert!(
                matches!(late, Outcome::Refused(Refusal::EntityAlreadyExists { .. })),
                "{late:?}"
            );
            deleted(&mut group, "t");
        }
    }
}

#[test]
fn ent_2_the_creations_that_are_remembered_are_bounded() {
    let mut group = catalog(1);
    let make = |group: &mut Group, request: u64| {
        let properties = Box::new(queue());
        let name = "q".to_owned();
        let (row, _) = entry(ask(group, CatalogCommand::Create { request, name, properties }));
        let command = CatalogCommand::Created { name: "q".to_owned(), entity: row.entity };
        entry(ask(group, command));
        deleted(group, "q");
    };
    let rows = |group: &Group| -> Vec<usize> {
        let rows = group.rows.0.values().filter_map(|row| match row {
            Row::EndedCreations(rows) => Some(rows.len()),
            _ => None,
        });
        rows.collect()
    };
    // All of one part.
    (0..300).for_each(|count| make(&mut group, count * 1024));
    assert_eq!(rows(&group), [128]);
    let come = |group: &mut Group, request: u64| {
        let properties = Box::new(queue());
        ask(group, CatalogCommand::Create { request, name: "q".to_owned(), properties })
    };
    assert!(matches!(come(&mut group, 299 * 1024), Outcome::Refused(_)));
    // And what has ended for long enough goes with the next.
    group.now = group.now.plus(Span(15 * 60_000));
    make(&mut group, 400 * 1024);
    assert_eq!(rows(&group), [1]);
}
